//! A stripped program that does only what no verified get can avoid: it hashes the key, compares the
//! tags of two buckets, compares the key in the record, verifies the record's checksum, and copies
//! the value. It knows no other process, no expiry, no statistics, and one length of keys and values.
//!
//! Its gets show what a get of these entries takes at least. Its sets must not be compared.

use tuckbox_arena::region::{bytes_of, bytes_of_mut};
use tuckbox_arena::sum;

use crate::caches::Contestant;
use crate::inputs::{KEY_BYTES, VALUE_BYTES};

/// Slots of a bucket; the last word of its line is not used.
const SLOTS: usize = 7;
const LINE_WORDS: usize = 8;
const KEY_WORDS: usize = KEY_BYTES.div_ceil(8);
const KEY_AT: usize = 1;
const VALUE_AT: usize = KEY_AT + KEY_WORDS;
/// A record: its checksum, its key and its value.
const RECORD_WORDS: usize = VALUE_AT + VALUE_BYTES.div_ceil(8);
/// Where a tag begins in a slot; below it is the record's number, counted from one.
const TAG_SHIFT: u32 = 48;

type Key = [u64; KEY_WORDS];

/// The program, with memory for a number of entries.
pub(crate) struct StrippedGet {
    buckets: Vec<[u64; LINE_WORDS]>,
    records: Vec<[u64; RECORD_WORDS]>,
}

/// The words of a key; the last one overlaps the one before.
#[inline(always)]
fn words_of(key: &str) -> Key {
    let word = |at: usize| key.as_bytes()[at..].first_chunk().map(|word| u64::from_ne_bytes(*word));
    std::array::from_fn(|index| word((8 * index).min(KEY_BYTES - 8)).expect("a whole key"))
}

#[inline(always)]
fn hash(key: &Key) -> u64 {
    key.iter().fold(KEY_BYTES as u64, |hash, word| {
        let wide = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15_f39c_c061;
        wide as u64 ^ (wide >> 64) as u64
    })
}

impl StrippedGet {
    pub(crate) fn new(entries: usize) -> StrippedGet {
        // At most three in five slots are taken, so that each key finds a place in one of two buckets.
        let buckets = (entries * 5).div_ceil(3 * SLOTS) + 1;
        StrippedGet {
            buckets: vec![[0; LINE_WORDS]; buckets],
            records: Vec::with_capacity(entries),
        }
    }

    #[inline(always)]
    fn choices(&self, hash: u64) -> [usize; 2] {
        [hash, hash.rotate_left(32)]
            .map(|part| ((u64::from(part as u32) * self.buckets.len() as u64) >> 32) as usize)
    }

    /// The number of the key's record.
    #[inline(always)]
    fn find(&self, key: &Key, hash: u64) -> Option<usize> {
        let [first, second] = self.choices(hash);
        let lines = [&self.buckets[first], &self.buckets[second]];
        let mut places = (0..2 * SLOTS).fold(0u32, |places, place| {
            let slot = lines[place / SLOTS][place % SLOTS];
            places | u32::from(slot >> TAG_SHIFT == hash >> TAG_SHIFT) << place
        });
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            // Without a branch, which would be mispredicted for half of the keys.
            let is_second = usize::from(place >= SLOTS);
            let bucket = first ^ (first ^ second) & is_second.wrapping_neg();
            let slot = self.buckets[bucket][place - SLOTS * is_second];
            let number = (slot & ((1 << TAG_SHIFT) - 1)) as usize;
            if number != 0 && self.records[number - 1][KEY_AT..VALUE_AT] == *key {
                return Some(number - 1);
            }
        }
        None
    }

    fn add(&mut self, hash: u64) -> usize {
        self.records.push([0; RECORD_WORDS]);
        let slot = hash >> TAG_SHIFT << TAG_SHIFT | self.records.len() as u64;
        let [first, second] = self.choices(hash);
        let free = |bucket: usize| self.buckets[bucket][..SLOTS].iter().filter(|slot| **slot == 0);
        let bucket = if free(first).count() < free(second).count() { second } else { first };
        let place = self.buckets[bucket][..SLOTS].iter().position(|slot| *slot == 0);
        self.buckets[bucket][place.expect("a bucket with a free slot")] = slot;
        self.records.len() - 1
    }
}

impl Contestant for StrippedGet {
    #[inline]
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let key = words_of(key);
        let record = &self.records[self.find(&key, hash(&key))?];
        (record[0] == sum::of(&record[1..])).then(|| bytes_of(&record[VALUE_AT..]).to_vec())
    }

    fn set(&mut self, key: &str, value: &[u8]) {
        let key = words_of(key);
        let hash = hash(&key);
        let number = self.find(&key, hash).unwrap_or_else(|| self.add(hash));
        let record = &mut self.records[number];
        record[KEY_AT..VALUE_AT].copy_from_slice(&key);
        bytes_of_mut(&mut record[VALUE_AT..]).copy_from_slice(value);
        record[0] = sum::of(&record[1..]);
    }
}
