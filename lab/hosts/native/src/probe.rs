//! The probe: does the store keep what fits, return the latest value, and delete?
//!
//! Owns the probe keys, which are not part of the measured workload. Must not run while anything is
//! timed. All workers write their own keys at the same time, far fewer than the store may hold.
//! They read after all have finished. The store must not evict anything yet, so a missing key was
//! lost.

use std::collections::HashSet;

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

fn keys_of(worker: usize) -> impl Iterator<Item = ProbeKey> {
    (0..KEYS_PER_WORKER).map(move |i| ProbeKey {
        text: format!("probe-{worker}-{i}"),
        // Above all key numbers of streams.
        number: (1 << 32) + worker as u64 * KEYS_PER_WORKER + i,
        is_deleted: i % 4 == 3,
    })
}

/// One worker's probe of one store: the numbers of its own keys with a refused set.
#[derive(Default)]
pub(crate) struct Prober {
    refused: HashSet<u64>,
}

impl Prober {
    /// Stores each of this worker's keys three times, and deletes every fourth key.
    pub(crate) fn write<S: Store>(&mut self, store: &S, work: &Work) -> Result<Probed> {
        let mut refused = 0;
        for round in 0..ROUNDS {
            for key in keys_of(work.worker) {
                let bytes = work.values.derive(key.number, round, VALUE_BYTES);
                if !store.set(&key.text, &S::value(bytes))? {
                    refused += 1;
                    self.refused.insert(key.number);
                }
            }
        }
        for key in keys_of(work.worker).filter(|key| key.is_deleted) {
            store.delete(&key.text)?;
        }
        Ok(Probed { keys: KEYS_PER_WORKER, refused, verdict: Verdict::default() })
    }

    /// Reads the keys of `workers` and compares each with its last value.
    pub(crate) fn read<S: Store>(
        &self,
        store: &S,
        work: &Work,
        workers: &[usize],
    ) -> Result<Probed> {
        let mut probed = Probed { keys: 0, refused: 0, verdict: Verdict::default() };
        for key in workers.iter().copied().flat_map(keys_of) {
            let answer = store.get(&key.text)?;
            let bytes = answer.as_ref().map(S::Answer::as_ref);
            self.judge(&work.values, &key, bytes, &mut probed.verdict);
            probed.keys += 1;
        }
        Ok(probed)
    }

    /// If a set of this worker's key was refused, only another key's value is a fault. Refusals of
    /// other workers' keys are unknown here.
    fn judge(&self, values: &Values, key: &ProbeKey, answer: Option<&[u8]>, verdict: &mut Verdict) {
        let ProbeKey { text, number, is_deleted } = key;
        let refused = self.refused.contains(number);
        let Some(bytes) = answer else {
            if !is_deleted && !refused {
                verdict.lost += 1;
                verdict.tell(|| {
                    format!("{text:?} was stored and is missing, though the store was not full")
                });
            }
            return;
        };
        let round = (0..ROUNDS).find(|round| values.is(*number, *round, VALUE_BYTES, bytes));
        let what = match round {
            Some(_) if refused => return,
            Some(round) if round == ROUNDS - 1 && !is_deleted => return,
            Some(_) => {
                verdict.stale += 1;
                let what = if *is_deleted { "deleted" } else { "overwritten" };
                format!("a value that was {what}")
            }
            None => {
                verdict.wrong += 1;
                "something that was never stored under it".to_owned()
            }
        };
        verdict.tell(|| format!("{text:?} returned {what}"));
    }
}
