//! The replay of a trace: look up, store on a miss, count the hits.
//!
//! Owns that order and the check of hits. Must not time anything: the result is the hit ratio. Its
//! own memory has its full size before the first request, so that only the store grows.

use crate::allocator;
use crate::contract::{Result, Store};
use crate::protocol::{Replay, Replayed};
use crate::work::Work;

const NOWHERE: u32 = u32::MAX;

/// For each key the position of the request that stored it last.
pub(crate) struct Stored(Vec<u32>);

impl Stored {
    /// For an empty store. Returns free memory to the kernel, because the store could use it
    /// uncounted.
    pub(crate) fn nothing(work: &Work) -> Stored {
        let stored = Stored(vec![NOWHERE; work.keys.count()]);
        allocator::give_pages_back();
        stored
    }
}

/// Replays a slice. Only this process writes, so a hit must return the value stored last.
pub(crate) fn replay<S: Store>(
    store: &S,
    work: &Work,
    stored: &mut Stored,
    request: &Replay,
) -> Result<Replayed> {
    work.phases.require(request.phase)?;
    let own = work.phases.own(request.phase);
    let operations = &own.operations;
    let slice = operations.get(request.start..request.stop).ok_or_else(|| {
        let (start, stop) = (request.start, request.stop);
        format!("there is no slice {start}..{stop} of {} requests", operations.len())
    })?;
    let mut replayed = Replayed::default();
    for (position, operation) in (request.start..).zip(slice) {
        let key = operation.key;
        let text = work.keys.text(key);
        let last = &mut stored.0[key as usize];
        if let Some(answer) = store.get(text)? {
            replayed.hits += 1;
            let is_right = operations.get(*last as usize).is_some_and(|before| {
                let sequence = own.sequence(*last as usize);
                work.values.is(key.into(), sequence, before.size as usize, answer.as_ref())
            });
            if !is_right {
                replayed.verdict.wrong += 1;
                replayed
                    .verdict
                    .tell(|| format!("get({text:?}) did not return the value stored last"));
            }
        } else {
            let sequence = own.sequence(position);
            let bytes = work.values.derive(key.into(), sequence, operation.size as usize);
            if store.set(text, &S::value(bytes))? {
                *last = u32::try_from(position)?;
            } else {
                replayed.refused += 1;
            }
        }
    }
    Ok(replayed)
}
