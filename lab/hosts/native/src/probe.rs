//! The probe: does the store keep what fits, give the latest, and forget what was deleted?
//!
//! Owns the probe keys, which are no part of the measured workload. Must not run while anything is
//! timed. They are far fewer than a store may hold, so what is missing was lost.

use crate::contract::{Result, Store};
use crate::protocol::{Probed, Verdict};
use crate::values::Values;
use crate::work::Work;

const KEYS_PER_WORKER: u64 = 64;
const VALUE_BYTES: usize = 160;
const ROUNDS: u64 = 3;

struct ProbeKey {
    text: String,
    number: u64,
    is_deleted: bool,
}

fn keys_of(worker: u64) -> impl Iterator<Item = ProbeKey> {
    (0..KEYS_PER_WORKER).map(move |i| ProbeKey {
        text: format!("probe-{worker}-{i}"),
        // No key of a stream has so high a number.
        number: (1 << 32) + worker * KEYS_PER_WORKER + i,
        is_deleted: i % 4 == 3,
    })
}

/// Stores each key of this worker three times over, and deletes every fourth.
pub(crate) fn write<S: Store>(store: &S, work: &Work) -> Result<Probed> {
    let mut refused = 0;
    for round in 0..ROUNDS {
        for key in keys_of(work.worker) {
            let bytes = work.values.derive(key.number, round, VALUE_BYTES);
            refused += u64::from(!store.set(&key.text, &S::value(bytes))?);
        }
    }
    for key in keys_of(work.worker).filter(|key| key.is_deleted) {
        store.delete(&key.text)?;
    }
    Ok(Probed { keys: KEYS_PER_WORKER, refused, verdict: Verdict::default() })
}

/// Reads the keys of `workers` and compares each with its last version.
pub(crate) fn read<S: Store>(store: &S, work: &Work, workers: &[u64]) -> Result<Probed> {
    let mut probed = Probed { keys: 0, refused: 0, verdict: Verdict::default() };
    for worker in workers {
        for key in keys_of(*worker) {
            let answer = store.get(&key.text)?;
            let bytes = answer.as_ref().map(S::Answer::as_ref);
            judge(&work.values, &key, bytes, &mut probed.verdict);
            probed.keys += 1;
        }
    }
    Ok(probed)
}

fn judge(values: &Values, key: &ProbeKey, answer: Option<&[u8]>, verdict: &mut Verdict) {
    let Some(bytes) = answer else {
        if !key.is_deleted {
            verdict.lost += 1;
            let text = &key.text;
            verdict.tell(|| format!("{text:?} was stored, the store was not full, and it is gone"));
        }
        return;
    };
    let round = (0..ROUNDS).find(|round| values.is(key.number, *round, VALUE_BYTES, bytes));
    let what = match round {
        Some(round) if round == ROUNDS - 1 && !key.is_deleted => return,
        Some(_) => {
            verdict.stale += 1;
            let what = if key.is_deleted { "deleted" } else { "overwritten" };
            format!("a value that was {what}")
        }
        None => {
            verdict.wrong += 1;
            "something that was never stored under it".to_owned()
        }
    };
    verdict.tell(|| format!("{:?} answered {what}", key.text));
}
