//! The probe: does the store keep what fits, give the latest, and forget what was deleted?
//!
//! Owns the probe keys, which are no part of the measured workload. Must not run while anything is
//! timed. All workers write at once, each its own keys, far fewer than the store may hold; after all
//! have finished they read. In a store that may evict nothing yet, what is missing was lost.

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
        // No key of a stream has so high a number.
        number: (1 << 32) + worker as u64 * KEYS_PER_WORKER + i,
        is_deleted: i % 4 == 3,
    })
}

/// One worker's probe of one store: the numbers of its own keys of which a set was refused.
#[derive(Default)]
pub(crate) struct Prober {
    refused: HashSet<u64>,
}

impl Prober {
    /// Stores each key of this worker three times over, and deletes every fourth.
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

    /// An own key whose set was refused must only not have another key's value. Whether another
    /// worker's key was refused is not known here.
    fn judge(&self, values: &Values, key: &ProbeKey, answer: Option<&[u8]>, verdict: &mut Verdict) {
        let ProbeKey { text, number, is_deleted } = key;
        let refused = self.refused.contains(number);
        let Some(bytes) = answer else {
            if !is_deleted && !refused {
                verdict.lost += 1;
                verdict.tell(|| {
                    format!("{text:?} was stored, the store was not full, and it is gone")
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
        verdict.tell(|| format!("{text:?} answered {what}"));
    }
}
