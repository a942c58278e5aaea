//! The replay of a trace: look up, store on a miss, count the hits.
//!
//! Owns the order of those two and what a hit must answer. Must not time anything: the hit ratio is
//! the result.

use std::collections::HashMap;
use std::path::Path;

use crate::contract::{Result, Store};
use crate::disk::bytes_occupied;
use crate::protocol::Replayed;
use crate::work::Work;

const REQUESTS_BETWEEN_WEIGHINGS: usize = 1_000;

/// Replays the worker's own stream of a phase on an empty store that lives in `folder`.
///
/// This process alone writes, so a hit must answer exactly the value stored last: anything else is
/// wrong.
pub(crate) fn replay<S: Store>(
    store: &S,
    work: &Work,
    phase: usize,
    folder: &Path,
) -> Result<Replayed> {
    work.phases.require(phase)?;
    let own = work.phases.own(phase);
    let mut replayed = Replayed::default();
    let mut stored: HashMap<u32, (u64, usize)> = HashMap::new();
    for (position, operation) in own.operations.iter().enumerate() {
        let (key, length) = (operation.key, operation.size as usize);
        let text = work.keys.text(key);
        if let Some(answer) = store.get(text)? {
            replayed.hits += 1;
            let is_last = stored.get(&key).is_some_and(|(sequence, length)| {
                work.values.is(key.into(), *sequence, *length, answer.as_ref())
            });
            if !is_last {
                let verdict = &mut replayed.verdict;
                verdict.wrong += 1;
                verdict.tell(|| format!("get({text:?}) answered not what was stored last"));
            }
        } else {
            let sequence = own.sequence(position);
            let bytes = work.values.derive(key.into(), sequence, length);
            if store.set(text, &S::value(bytes))? {
                stored.insert(key, (sequence, length));
            } else {
                replayed.refused += 1;
            }
        }
        replayed.requests += 1;
        if position % REQUESTS_BETWEEN_WEIGHINGS == 0 {
            replayed.bytes_peak = replayed.bytes_peak.max(bytes_occupied(folder));
        }
    }
    replayed.bytes_peak = replayed.bytes_peak.max(bytes_occupied(folder));
    Ok(replayed)
}
