//! Times sets of new keys into full caches, in one thread, each in turn.
//!
//! Owns how caches are filled, and the check that they are full. Tuckbox has a file of a given
//! size. The others are limited to the bytes of keys and values that Tuckbox then holds.

use std::path::Path;
use std::time::Instant;

use serde_json::{json, Map, Value};

use crate::caches::{Contestant, Failure, Moka, QuickCache, Tuckbox};
use crate::inputs::{self, KEY_BYTES, VALUE_BYTES};

/// Sets of a sample.
const BATCH: usize = 20_000;
/// How many times over the keys and values would fill the file.
const FILLINGS: usize = 2;
/// The largest factor by which the numbers of entries of a peer and of Tuckbox may differ.
const ENTRIES_FACTOR: f64 = 1.1;

struct Batch {
    keys: Vec<String>,
    values: Vec<Vec<u8>>,
}

impl Batch {
    fn new(number: usize) -> Batch {
        let keys = inputs::keys(number * BATCH, BATCH);
        let values = keys.iter().map(|key| inputs::value_of(key)).collect();
        Batch { keys, values }
    }
}

trait Turns {
    /// Stores all of a batch; returns the nanoseconds of a set.
    fn store(&mut self, batch: &Batch) -> f64;
    /// Returns how many of a batch's keys are present; each must have its value.
    fn count(&mut self, batch: &Batch) -> Result<usize, Failure>;
}

impl<C: Contestant> Turns for C {
    fn store(&mut self, batch: &Batch) -> f64 {
        let began = Instant::now();
        for (key, value) in batch.keys.iter().zip(&batch.values) {
            self.set(key, value);
        }
        began.elapsed().as_nanos() as f64 / BATCH as f64
    }

    fn count(&mut self, batch: &Batch) -> Result<usize, Failure> {
        let mut found = 0;
        for (key, value) in batch.keys.iter().zip(&batch.values) {
            if let Some(answer) = self.get(key) {
                if answer != *value {
                    return Err(format!("the value of {key} is not the one stored").into());
                }
                found += 1;
            }
        }
        Ok(found)
    }
}

/// Fills a cache with the first batches; returns how many entries are left.
fn fill(cache: &mut dyn Turns, batches: usize) -> Result<usize, Failure> {
    for number in 0..batches {
        cache.store(&Batch::new(number));
    }
    (0..batches).map(|number| cache.count(&Batch::new(number))).sum()
}

/// Returns the number of entries, and the samples by cache.
pub(crate) fn measure(folder: &Path, size_bytes: u64, rounds: usize) -> Result<Value, Failure> {
    let payload_bytes = KEY_BYTES + VALUE_BYTES;
    let batches = (FILLINGS * size_bytes as usize / payload_bytes).div_ceil(BATCH);
    let mut tuckbox = Tuckbox::limited(folder, size_bytes)?;
    let entries = fill(&mut tuckbox, batches)?;
    if entries == 0 || entries >= batches * BATCH || tuckbox.entries() < entries as u64 {
        return Err(format!("tuckbox has {entries} of {} entries", batches * BATCH).into());
    }
    let limit = (entries * payload_bytes) as u64;
    let mut caches: Vec<(&str, Box<dyn Turns>)> = vec![
        ("tuckbox", Box::new(tuckbox)),
        ("moka", Box::new(Moka::limited(limit))),
        ("quick_cache", Box::new(QuickCache::limited(entries, limit))),
    ];
    for (name, cache) in caches.iter_mut().skip(1) {
        let found = fill(cache.as_mut(), batches).map_err(|error| format!("{name}: {error}"))?;
        let factor = found as f64 / entries as f64;
        if !(1.0 / ENTRIES_FACTOR..=ENTRIES_FACTOR).contains(&factor) {
            return Err(format!("{name} has {found} entries, tuckbox {entries}").into());
        }
    }
    let mut samples = vec![Vec::with_capacity(rounds); caches.len()];
    // The first round is a warm-up.
    for round in 0..=rounds {
        let batch = Batch::new(batches + round);
        for step in 0..caches.len() {
            let turn = (round + step) % caches.len();
            let (name, cache) = &mut caches[turn];
            let sample = cache.store(&batch);
            if round > 0 {
                samples[turn].push(sample);
            }
            cache.count(&batch).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    let by_cache: Map<String, Value> = caches
        .iter()
        .zip(samples)
        .map(|((name, _), samples)| ((*name).to_owned(), json!(samples)))
        .collect();
    Ok(json!({ "entries": entries, "samples": by_cache }))
}
