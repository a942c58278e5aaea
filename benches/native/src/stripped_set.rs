//! A stripped program that touches the cache lines of a set of a new key in a full cache, and does
//! nothing else: no lock, no checksum, no expiry, no policy.
//!
//! A ring of records replaces the oldest one; each key has two buckets of seven slots, and a row of
//! ghosts. Must not be compared by what it keeps.

use crate::caches::Contestant;

/// Slots of a bucket; its last word is not used.
const SLOTS: usize = 7;
const LINE_WORDS: usize = 8;
const GHOST_WORDS: usize = 4;

/// The program, with memory for a number of entries of one size.
pub(crate) struct Stripped {
    buckets: Vec<[u64; LINE_WORDS]>,
    ghosts: Vec<[u64; GHOST_WORDS]>,
    /// Each record: key and value, in whole words.
    records: Vec<u8>,
    record_bytes: usize,
    key_bytes: usize,
    value_bytes: usize,
    next: usize,
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let wide = u128::from(hash ^ u64::from_le_bytes(word)) * 0x9e37_79b9_7f4a_7c15_f39c_c061;
        wide as u64 ^ (wide >> 64) as u64
    })
}

impl Stripped {
    pub(crate) fn new(entries: usize, key_bytes: usize, value_bytes: usize) -> Stripped {
        // As full as Tuckbox's index may be.
        let buckets = (entries * 64).div_ceil(57 * SLOTS) + 1;
        let record_bytes = (key_bytes + value_bytes).next_multiple_of(8);
        Stripped {
            buckets: vec![[0; LINE_WORDS]; buckets],
            ghosts: vec![[0; GHOST_WORDS]; buckets],
            records: vec![0; entries * record_bytes],
            record_bytes,
            key_bytes,
            value_bytes,
            next: 0,
        }
    }

    fn choices(&self, hash: u64) -> [usize; 2] {
        [hash, hash.rotate_left(32)]
            .map(|part| ((u64::from(part as u32) * self.buckets.len() as u64) >> 32) as usize)
    }

    fn record(&self, number: usize) -> &[u8] {
        let at = number * self.record_bytes;
        &self.records[at..at + self.key_bytes + self.value_bytes]
    }

    /// A record's slot: the number after it, and a tag.
    fn slot(number: usize, hash: u64) -> u64 {
        hash >> 48 << 48 | (number as u64 + 1)
    }

    fn remember(&mut self, bucket: usize, hash: u64) {
        let row = &mut self.ghosts[bucket];
        row.rotate_right(1);
        row[0] = hash;
    }
}

impl Contestant for Stripped {
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let hash = hash(key.as_bytes());
        let slots = self.choices(hash).into_iter().flat_map(|bucket| self.buckets[bucket]);
        let number = slots
            .filter(|slot| *slot != 0 && slot >> 48 == hash >> 48)
            .map(|slot| (slot & 0xffff_ffff_ffff) as usize - 1)
            .find(|number| self.record(*number).starts_with(key.as_bytes()))?;
        Some(self.record(number)[self.key_bytes..].to_vec())
    }

    fn set(&mut self, key: &str, value: &[u8]) {
        let hash_of_new = hash(key.as_bytes());
        let number = self.next;
        self.next = (self.next + 1) % (self.records.len() / self.record_bytes);
        let at = number * self.record_bytes;
        // The oldest record: its key leads to its slot and ghosts.
        let hash_of_old = hash(&self.records[at..at + self.key_bytes]);
        let leaving = Stripped::slot(number, hash_of_old);
        for bucket in self.choices(hash_of_old) {
            if let Some(slot) = self.buckets[bucket].iter_mut().find(|slot| **slot == leaving) {
                *slot = 0;
            }
        }
        self.remember(self.choices(hash_of_old)[0], hash_of_old);
        // The new record, its ghosts and its slot.
        self.remember(self.choices(hash_of_new)[0], hash_of_new);
        let (key_at, value_at) = (at, at + self.key_bytes);
        self.records[key_at..value_at].copy_from_slice(key.as_bytes());
        self.records[value_at..value_at + value.len()].copy_from_slice(value);
        let slot = Stripped::slot(number, hash_of_new);
        let [first, second] = self.choices(hash_of_new);
        let free = |bucket: &[u64; LINE_WORDS]| bucket[..SLOTS].iter().position(|slot| *slot == 0);
        match (free(&self.buckets[first]), free(&self.buckets[second])) {
            (Some(place), _) => self.buckets[first][place] = slot,
            (None, Some(place)) => self.buckets[second][place] = slot,
            (None, None) => self.buckets[first][number % SLOTS] = slot,
        }
    }
}
