//! The replay of a trace: look up, store on a miss, count the hits.
//!
//! Owns the order of those two. Must not time anything: the hit ratio is the result.

use std::path::Path;

use crate::contract::{Result, Store};
use crate::disk::bytes_occupied;
use crate::ledger::Ledger;
use crate::protocol::Replayed;
use crate::work::{Phase, Work};

const REQUESTS_BETWEEN_WEIGHINGS: usize = 1_000;

/// Replays a phase on an empty store that lives in `folder`.
pub(crate) fn replay<S: Store>(
    store: &S,
    work: &Work,
    phase: &Phase,
    ledger: &mut Ledger,
    folder: &Path,
) -> Result<Replayed> {
    let mut replayed = Replayed::default();
    for (position, operation) in phase.operations.iter().enumerate() {
        let (key, size) = (operation.key, operation.size);
        let text = work.keys.text(key);
        if let Some(answer) = store.get(text)? {
            replayed.hits += 1;
            ledger.judge(&work.keys, &work.values, key, answer.as_ref(), &mut replayed.verdict);
        } else {
            let sequence = phase.sequence(position);
            let bytes = work.values.derive(key.into(), sequence, size as usize);
            let accepted = store.set(text, &S::value(bytes))?;
            replayed.refused += u64::from(!accepted);
            ledger.stored(key, sequence, size, accepted);
        }
        replayed.requests += 1;
        if position % REQUESTS_BETWEEN_WEIGHINGS == 0 {
            replayed.bytes_peak = replayed.bytes_peak.max(bytes_occupied(folder));
        }
    }
    replayed.bytes_peak = replayed.bytes_peak.max(bytes_occupied(folder));
    Ok(replayed)
}
