//! A stripped program that does only what no verified get from shared memory can avoid: it hashes
//! the key with a secret, compares the tags of two buckets, follows a slot to a record, compares
//! the key, copies the record, verifies the checksum, counts a hit, and copies the value. To notice
//! a writer, it loads the epoch, the slot, the generation of the record's segment, and the record's
//! first word before and after.
//!
//! It has one index, and knows no expiry, no eviction, no large values and no end of a process. Its
//! gets show what a get of these entries takes at least. Its sets must not be compared.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::Ordering;

use tuckbox_arena::region::{bytes_of, bytes_of_mut, fence, LinePair, Pool, Region, View, WORD};
use tuckbox_arena::sum;

use crate::caches::Contestant;
use crate::inputs::{KEY_BYTES, VALUE_BYTES};

/// Slots of a bucket; the last word of its line is not used.
const SLOTS: usize = 7;
/// The words of two buckets that are slots, one bit each.
const SLOT_PLACES: u32 = 0x7f7f;
const LINE_WORDS: usize = 8;
const LINE_BYTES: u64 = 64;
/// Where a tag begins in a slot; below it is the record's offset.
const TAG_SHIFT: u32 = 48;
const SEGMENT_SHIFT: u32 = 16;
const EPOCH_AT: u64 = 0;
/// A record: the sum of what follows; the lengths of its key and its value; these two.
const KEY_AT: usize = 12;
const KEY_BITS: u32 = 8;
const VALUE_BITS: u32 = 12;

/// The program, with memory for a number of entries.
pub(crate) struct StrippedGet {
    index: Index,
    /// The last record.
    words: Vec<u64>,
    hits: u64,
    /// Where the next record begins.
    end: u64,
}

/// The memory that others may change.
struct Index {
    memory: Region,
    secret: u64,
    bucket_count: u64,
}

#[inline(always)]
fn mixed(hash: u64, word: u64) -> u64 {
    let wide = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15_f39c_c061;
    wide as u64 ^ (wide >> 64) as u64
}

/// The lengths of a record's key and value.
#[inline(always)]
fn lengths(word: u64) -> [usize; 2] {
    let bits = |from: u32, count: u32| (word >> from & ((1 << count) - 1)) as usize;
    [bits(0, KEY_BITS), bits(KEY_BITS, VALUE_BITS)]
}

impl Index {
    #[inline(always)]
    fn hash(&self, key: &[u8]) -> u64 {
        let words = key.chunks_exact(8);
        let rest = words.remainder().iter().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
        let whole = words.fold(self.secret ^ key.len() as u64, |hash, word| {
            mixed(hash, u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        });
        mixed(whole, rest)
    }

    #[inline(always)]
    fn buckets(&self, hash: u64) -> [View<'_, LINE_WORDS>; 2] {
        [hash, hash.rotate_left(32)].map(|part| {
            let bucket = (u64::from(part as u32) * self.bucket_count) >> 32;
            self.memory.view((1 + bucket) * LINE_BYTES)
        })
    }

    /// What `read` finds in the record of the key.
    #[inline(always)]
    fn find<T>(&self, hash: u64, mut read: impl FnMut(View<'_, 1>) -> Option<T>) -> Option<T> {
        let [first, second] = self.buckets(hash);
        let pair = LinePair::new(first, second);
        let mut places = pair.words_with_top((hash >> TAG_SHIFT) as u16) & SLOT_PLACES;
        while places != 0 {
            if let Some(found) = read(pair.word(places.trailing_zeros() as usize)) {
                return Some(found);
            }
            places &= places - 1;
        }
        None
    }

    /// Copies the record that a slot leads to. The place of its value in the copy; none if the record
    /// is another key's, or changed meanwhile.
    #[inline(always)]
    fn read(
        &self,
        key: &[u8],
        epoch: u64,
        word: View<'_, 1>,
        words: &mut [u64],
    ) -> Option<Range<usize>> {
        let slot = word.load(0, Ordering::Acquire);
        let record = self.memory.segment_slice(slot & ((1 << TAG_SHIFT) - 1))?;
        let generation = record.segment_word().load(0, Ordering::Acquire);
        let start = record.view::<2>();
        let first = start.load(0, Ordering::Acquire);
        if word.load(0, Ordering::Acquire) != slot || self.epoch() != epoch {
            return None;
        }
        let [key_bytes, value_bytes] = lengths(start.get(1));
        let value_at = KEY_AT + key_bytes;
        let end = value_at + value_bytes;
        if key_bytes != key.len() || !record.holds(KEY_AT as u64, key) {
            return None;
        }
        let words = words.get_mut(..end.div_ceil(8))?;
        let sum = record.copy_out_summed(words, 1, 0)?;
        fence(Ordering::Acquire);
        let is_same =
            start.get(0) == first && record.segment_word().load(0, Ordering::Acquire) == generation;
        (is_same && sum == first).then_some(value_at..end)
    }

    #[inline(always)]
    fn epoch(&self) -> u64 {
        self.memory.load(EPOCH_AT, Ordering::Acquire)
    }
}

impl StrippedGet {
    pub(crate) fn new(entries: usize) -> StrippedGet {
        // At most three in five slots are taken, so that each key finds a place in one of two buckets.
        let bucket_count = (entries * 5).div_ceil(3 * SLOTS) as u64 + 1;
        let words_at = (1 + bucket_count) * LINE_BYTES;
        let record_bytes = (KEY_AT + KEY_BYTES + VALUE_BYTES).next_multiple_of(8);
        let in_a_segment = (1 << SEGMENT_SHIFT) / record_bytes;
        let segment_count = (entries / in_a_segment) as u64 + 1;
        let at = (words_at + segment_count * WORD).next_multiple_of(LINE_BYTES);
        let mut memory = Region::heap(at + (segment_count << SEGMENT_SHIFT));
        let segment_count = segment_count as u32;
        memory.set_pool(Pool { at, words_at, segment_shift: SEGMENT_SHIFT, segment_count });
        let secret = RandomState::new().hash_one(0);
        let words = vec![0; 1 << (VALUE_BITS + 1)];
        StrippedGet { index: Index { memory, secret, bucket_count }, words, hits: 0, end: at }
    }

    /// The offset of the key's record, a new one if it has none.
    fn place_of(&mut self, key: &[u8], record_bytes: u64) -> u64 {
        let Index { memory, .. } = &self.index;
        let hash = self.index.hash(key);
        let offset = |word: View<'_, 1>| word.get(0) & ((1 << TAG_SHIFT) - 1);
        let is_key = |at: u64| memory.holds(at + KEY_AT as u64, key);
        let present = self.index.find(hash, |word| Some(offset(word)).filter(|at| is_key(*at)));
        if let Some(present) = present {
            return present;
        }
        // No record crosses the end of a segment.
        let room = memory.segment_slice(self.end).map_or(0, |segment| segment.len_bytes());
        if room < record_bytes {
            self.end += room;
        }
        let slot = hash >> TAG_SHIFT << TAG_SHIFT | self.end;
        let buckets = self.index.buckets(hash);
        let free = |bucket: &View<'_, LINE_WORDS>| {
            (0..SLOTS).filter(|place| bucket.get(*place) == 0).count()
        };
        let [first, second] = &buckets;
        let bucket = if free(first) < free(second) { second } else { first };
        let place = (0..SLOTS).find(|place| bucket.get(*place) == 0);
        bucket.store(place.expect("a bucket with a free slot"), slot, Ordering::Release);
        self.end += record_bytes;
        self.end - record_bytes
    }
}

impl Contestant for StrippedGet {
    #[inline]
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let (index, key, words) = (&self.index, key.as_bytes(), &mut self.words);
        let (hash, epoch) = (index.hash(key), index.epoch());
        let range = index.find(hash, |word| index.read(key, epoch, word, words))?;
        self.hits += 1;
        Some(bytes_of(&self.words)[range].to_vec())
    }

    fn set(&mut self, key: &str, value: &[u8]) {
        let record_bytes = (KEY_AT + key.len() + value.len()).next_multiple_of(8);
        let mut words = vec![0; record_bytes / 8];
        let content = &mut bytes_of_mut(&mut words)[8..];
        let lengths = (value.len() << KEY_BITS | key.len()) as u32;
        content[..4].copy_from_slice(&lengths.to_ne_bytes());
        content[4..][..key.len()].copy_from_slice(key.as_bytes());
        content[4 + key.len()..][..value.len()].copy_from_slice(value);
        words[0] = sum::of(&words[1..]);
        let at = self.place_of(key.as_bytes(), record_bytes as u64);
        self.index.memory.copy_in(at, &words);
    }
}
