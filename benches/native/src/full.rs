//! Times sets of new keys into full caches, overwrites of keys that are present, and sets into empty
//! caches, in one thread, each cache in turn.
//!
//! Owns how caches are filled, and the check that they are full. Tuckbox has a file of a given size
//! or a limit of entries. The others are limited to the bytes of keys and values, or to the entries,
//! that Tuckbox then holds.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{json, Map, Value};

use crate::caches::{Contestant, Failure, Moka, QuickCache, Tuckbox};
use crate::inputs::{self, KEY_BYTES};
use crate::stripped_set::Stripped;

/// Sets of a sample, at most.
const BATCH_MAX: usize = 20_000;
/// Bytes of the keys and values of a sample, at most.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// How many times over the keys and values would fill the file.
const FILLINGS: usize = 2;
/// The largest factor by which the numbers of entries of a peer and of Tuckbox may differ.
const ENTRIES_FACTOR: f64 = 1.1;
/// The share of the entries that is stored into an empty cache, in tenths.
const EMPTY_TENTHS: usize = 6;

/// The names of the files.
const FULL: &str = "full.tuck";
const EMPTY: &str = "empty.tuck";

struct Batch {
    keys: Vec<String>,
    values: Vec<Vec<u8>>,
}

impl Batch {
    fn new(numbers: impl Iterator<Item = usize>, value_bytes: usize) -> Batch {
        let keys: Vec<String> = numbers.map(inputs::key).collect();
        let values = keys.iter().map(|key| inputs::value_of_len(key, value_bytes)).collect();
        Batch { keys, values }
    }
}

trait Turns {
    /// Stores all of a batch; returns the nanoseconds of a set.
    fn store(&mut self, batch: &Batch) -> f64;
    /// Returns the part of a batch that is present; each key must have its value.
    fn present(&mut self, batch: &Batch) -> Result<Batch, Failure>;
}

impl<C: Contestant> Turns for C {
    fn store(&mut self, batch: &Batch) -> f64 {
        let began = Instant::now();
        for (key, value) in batch.keys.iter().zip(&batch.values) {
            self.set(key, value);
        }
        began.elapsed().as_nanos() as f64 / batch.keys.len() as f64
    }

    fn present(&mut self, batch: &Batch) -> Result<Batch, Failure> {
        let mut found = Batch { keys: Vec::new(), values: Vec::new() };
        for (key, value) in batch.keys.iter().zip(&batch.values) {
            if let Some(answer) = self.get(key) {
                if answer != *value {
                    return Err(format!("the value of {key} is not the one stored").into());
                }
                found.keys.push(key.clone());
                found.values.push(answer);
            }
        }
        Ok(found)
    }
}

/// The caches to fill, and with what.
pub(crate) struct Filled {
    pub(crate) folder: PathBuf,
    pub(crate) size_bytes: u64,
    pub(crate) max_entries: u64,
    pub(crate) value_bytes: usize,
    pub(crate) half_known: bool,
}

/// A new cache of this number of entries.
type Opens<'a> = Box<dyn Fn() -> Result<Box<dyn Turns>, Failure> + 'a>;

impl Filled {
    fn tuckbox(&self, name: &str) -> Result<Tuckbox, Failure> {
        Tuckbox::limited(&self.folder, name, self.size_bytes, self.max_entries)
    }

    fn payload_bytes(&self) -> usize {
        KEY_BYTES + self.value_bytes
    }

    fn batch_len(&self) -> usize {
        BATCH_MAX.min(BATCH_BYTES_MAX / self.payload_bytes()).max(1)
    }

    /// How many batches fill a cache.
    fn batches(&self) -> usize {
        let entries = match self.max_entries {
            0 => self.size_bytes as usize / self.payload_bytes(),
            most => most as usize,
        };
        (FILLINGS * entries).div_ceil(self.batch_len())
    }

    fn batch(&self, number: usize) -> Batch {
        let len = self.batch_len();
        Batch::new(number * len..(number + 1) * len, self.value_bytes)
    }

    /// The keys of a sample: those of a batch, or every second one stored long ago.
    fn sample(&self, number: usize, entries: usize) -> Batch {
        let (len, first) = (self.batch_len(), number * self.batch_len());
        let known = |key: usize| key.saturating_sub(entries * FILLINGS * 3 / 4);
        let numbers = (first..first + len).map(|key| match self.half_known && key % 2 == 1 {
            true => known(key),
            false => key,
        });
        Batch::new(numbers, self.value_bytes)
    }

    /// Fills a cache with the first batches; returns how many entries are left, and those of the
    /// batch that has most of them.
    fn fill(&self, cache: &mut dyn Turns) -> Result<(usize, Batch), Failure> {
        for number in 0..self.batches() {
            cache.store(&self.batch(number));
        }
        let (mut entries, mut most) = (0, Batch::new(0..0, 0));
        for number in 0..self.batches() {
            let present = cache.present(&self.batch(number))?;
            entries += present.keys.len();
            if present.keys.len() >= most.keys.len() {
                most = present;
            }
        }
        Ok((entries, most))
    }

    fn opens(&self, entries: usize) -> Vec<(&'static str, Opens<'_>)> {
        let limit = (entries * self.payload_bytes()) as u64;
        let by_entries = self.max_entries > 0;
        vec![
            (
                "tuckbox",
                Box::new(|| {
                    // There is none the first time.
                    let _ = std::fs::remove_file(self.folder.join(EMPTY));
                    Ok(Box::new(self.tuckbox(EMPTY)?))
                }),
            ),
            (
                "moka",
                Box::new(move || match by_entries {
                    true => Ok(Box::new(Moka::new(entries))),
                    false => Ok(Box::new(Moka::limited(limit))),
                }),
            ),
            (
                "quick_cache",
                Box::new(move || match by_entries {
                    true => Ok(Box::new(QuickCache::new(entries))),
                    false => Ok(Box::new(QuickCache::limited(entries, limit))),
                }),
            ),
            (
                "stripped",
                Box::new(move || Ok(Box::new(Stripped::new(entries, KEY_BYTES, self.value_bytes)))),
            ),
        ]
    }

    /// Returns the number of entries, and the samples by operation and cache.
    pub(crate) fn measure(&self, rounds: usize) -> Result<Value, Failure> {
        let mut tuckbox = self.tuckbox(FULL)?;
        let (entries, held) = self.fill(&mut tuckbox)?;
        let stored = self.batches() * self.batch_len();
        if entries == 0 || entries >= stored || tuckbox.entries() < entries as u64 {
            return Err(format!("tuckbox has {entries} of {stored} entries").into());
        }
        let opens = self.opens(entries);
        let mut caches: Vec<(&str, Box<dyn Turns>, Batch)> =
            vec![("tuckbox", Box::new(tuckbox), held)];
        for (name, open) in &opens[1..] {
            let mut cache = open()?;
            let (found, held) =
                self.fill(cache.as_mut()).map_err(|error| format!("{name}: {error}"))?;
            let factor = found as f64 / entries as f64;
            // The stripped program loses entries whose buckets are full.
            if *name != "stripped" && !(1.0 / ENTRIES_FACTOR..=ENTRIES_FACTOR).contains(&factor) {
                return Err(format!("{name} has {found} entries, tuckbox {entries}").into());
            }
            caches.push((*name, cache, held));
        }
        // New keys alone again: what was read meanwhile would make the next sets slower.
        let settled = 2 * self.batches();
        for number in self.batches()..settled {
            let batch = self.batch(number);
            caches.iter_mut().for_each(|(_, cache, _)| _ = cache.store(&batch));
        }
        let mut samples = vec![[const { Vec::new() }; 3]; caches.len()];
        let into_empty = (entries * EMPTY_TENTHS / 10).clamp(1, self.batch_len());
        let first = Batch::new(0..into_empty, self.value_bytes);
        // The first round is a warm-up.
        for round in 0..=rounds {
            let batch = self.sample(settled + round, entries);
            for step in 0..caches.len() {
                let turn = (round + step) % caches.len();
                let (name, cache, _) = &mut caches[turn];
                let into_full = cache.store(&batch);
                let mut empty = opens[turn].1()?;
                let into = empty.store(&first);
                if empty.present(&first)?.keys.len() != first.keys.len() && *name != "stripped" {
                    return Err(format!("{name} lost entries before it was full").into());
                }
                if round > 0 {
                    samples[turn][0].push(into_full);
                    samples[turn][2].push(into);
                }
            }
        }
        let last = self.sample(settled + rounds, entries);
        for (name, cache, held) in &mut caches {
            // Some caches refuse most new keys, others soon evict the old ones.
            let mut present =
                |batch: &Batch| cache.present(batch).map_err(|error| format!("{name}: {error}"));
            let (new, old) = (present(&last)?, present(held)?);
            *held = if new.keys.len() > old.keys.len() { new } else { old };
            // A small cache may have neither.
            let mut number = settled + rounds;
            while held.keys.is_empty() {
                let Some(before) = number.checked_sub(1) else {
                    return Err(format!("{name} has nothing left to overwrite").into());
                };
                number = before;
                *held = present(&self.sample(number, entries))?;
            }
        }
        for round in 0..=rounds {
            for step in 0..caches.len() {
                let turn = (round + step) % caches.len();
                let (name, cache, held) = &mut caches[turn];
                let again = cache.store(held);
                cache.present(held).map_err(|error| format!("{name}: {error}"))?;
                if round > 0 {
                    samples[turn][1].push(again);
                }
            }
        }
        let by = |operation: usize| -> Map<String, Value> {
            let of = caches.iter().zip(&samples);
            of.map(|((name, ..), of)| ((*name).to_owned(), json!(of[operation]))).collect()
        };
        Ok(json!({ "entries": entries, "samples": by(0), "again": by(1), "empty": by(2) }))
    }
}
