//! Finding the slots of a key without a lock, in an index of linear hashing over buckets of one cache
//! line, with two choices. Must not know what a slot leads to, nor change one.
//!
//! An entry's slot is in one of its two buckets, the emptier one when it was stored; a lookup
//! searches both. If both are full, entries are moved to their other choice. Buckets are split one
//! at a time as the number of entries grows. Index segments stay index segments while there are
//! entries.
//!
//! Readers take no lock. The races, and why they are harmless:
//!
//! * *Reader and publisher.* A slot is one word, stored (release) after its record is complete, so
//!   a reader sees the old record, the new one, or none.
//! * *Reader and splitter, or mover.* The slot is copied to its new bucket, the index state (the
//!   count of buckets or of moves) advances, and only then the old slot is cleared. A reader that
//!   saw neither slot finds the state changed before it reports a miss, and looks again.
//! * *Reader and clear.* The epoch advances first; a bucket of an older epoch is empty. A reader
//!   that loaded the older epoch finds it changed at the second slot load or at the end.
//! * *Reader and shrinker.* The epoch advances before the segments of an empty index are freed. A
//!   reader that finds other content in such a segment finds the epoch changed, as above.
//! * *Reader's hit and writer.* Readers add a hit by compare-and-swap of the whole slot. If a
//!   writer stores the slot meanwhile, the hit is lost, which is harmless.

use std::sync::atomic::Ordering;

use tuckbox_arena::region::{LinePair, View, WORD};

use crate::format::{
    choices_of, shard, IndexState, KeyHash, Slot, BUCKET_BYTES, BUCKET_WORD, SLOTS_PER_BUCKET,
};
use crate::storage::{Context, Directory};

/// Words of a bucket.
pub(super) const BUCKET_WORDS: usize = (BUCKET_BYTES / WORD) as usize;
/// The words of a bucket that are slots, one bit each.
pub(super) const SLOT_PLACES: u32 = (1 << SLOTS_PER_BUCKET) - 1;
/// The index of a bucket's own word.
const BUCKET_OWN: usize = (BUCKET_WORD / WORD) as usize;

/// The cache line of a shard that readers use.
pub type ReadersLine<'a> = View<'a, { shard::READERS_WORDS }>;

/// The non-empty slots with the key's tag in both of its buckets, those of the first choice first.
///
/// All tags of both buckets are compared before any slot is loaded: the place of the key is
/// unpredictable, and a mispredicted branch costs more. Each slot is then loaded once more, by
/// itself, so that its value is of one moment.
pub struct Tagged<'a> {
    pair: LinePair<'a>,
    tag: u64,
    places: u32,
}

/// A slot with the wanted tag.
pub struct TaggedSlot<'a> {
    /// Its word in the file.
    pub word: View<'a, 1>,
    /// The value of the word.
    pub slot: Slot,
}

impl<'a> Iterator for Tagged<'a> {
    type Item = TaggedSlot<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<TaggedSlot<'a>> {
        while self.places != 0 {
            let place = self.places.trailing_zeros() as usize;
            self.places &= self.places - 1;
            let word = self.pair.word(place);
            let slot = Slot(word.load(0, Ordering::Acquire));
            if slot.tag() == self.tag && !slot.is_empty() {
                return Some(TaggedSlot { word, slot });
            }
        }
        None
    }
}

/// The slots of two buckets, without those of a bucket of an older epoch, which is empty. Takes the
/// difference of each bucket's epoch.
#[cold]
#[inline(never)]
fn places_of_epoch(differences: [u64; 2]) -> u32 {
    let of = |bucket: usize| if differences[bucket] == 0 { SLOT_PLACES } else { 0 };
    of(0) | of(1) << BUCKET_WORDS
}

layer! {
    /// The lock-free view of all indexes of a cache.
    #[derive(Clone, Copy)]
    Lookup(&'a Context)
}

impl<'a> Lookup<'a> {
    /// A bucket of a shard; none if the directory does not lead to a segment.
    #[inline(always)]
    fn bucket_line(&self, directory: Directory<'_>, bucket: u32) -> Option<View<'a, BUCKET_WORDS>> {
        let (index, byte) = self.shape.bucket_place(bucket);
        let segment = directory.segment(index)?;
        match self.0.arena.region().line_in_segment(segment, byte) {
            Some(line) => Some(line),
            None => self.line_after_growth(segment, byte),
        }
    }

    #[cold]
    #[inline(never)]
    fn line_after_growth(&self, segment: u64, byte: u64) -> Option<View<'a, BUCKET_WORDS>> {
        self.has_become_usable(segment)
            .then(|| self.0.arena.region().line_in_segment(segment, byte))?
    }

    /// The offset of a bucket; none if the directory does not lead to a segment.
    #[inline(always)]
    pub(crate) fn bucket_at(&self, shard_at: u64, bucket: u32) -> Option<u64> {
        Some(self.0.arena.region().offset_of(self.bucket_line(self.directory(shard_at), bucket)?))
    }

    /// The slots that a hash can lead to, in an index of this state and epoch. None if the bucket
    /// of its first choice cannot be reached.
    #[inline(always)]
    pub(crate) fn tagged(
        &self,
        shard_at: u64,
        hash: KeyHash,
        state: IndexState,
        epoch: u64,
    ) -> Option<Tagged<'a>> {
        let (first, second) = choices_of(hash, state.count());
        let directory = self.directory(shard_at);
        let first = self.bucket_line(directory, first)?;
        let second = self.bucket_line(directory, second).unwrap_or(first);
        let pair = LinePair::new(first, second);
        let mut places = pair.words_with_top(hash.tag() as u16);
        // Once only, if both buckets are the same.
        let in_second = if second.is_at(first) { 0 } else { SLOT_PLACES << BUCKET_WORDS };
        places &= SLOT_PLACES | in_second;
        let own = [BUCKET_OWN, BUCKET_WORDS + BUCKET_OWN]
            .map(|place| pair.load(place, Ordering::Acquire) ^ epoch);
        if own[0] | own[1] != 0 {
            places &= places_of_epoch(own);
        }
        Some(Tagged { pair, tag: hash.tag(), places })
    }

    /// A shard's cache line for readers, with the index state and epoch in it.
    #[inline(always)]
    pub(crate) fn readers_line(&self, shard_at: u64) -> (ReadersLine<'a>, u64, u64) {
        let line: ReadersLine<'a> = self.0.arena.region().view(shard_at + shard::STATE);
        let state = line.load(shard::readers_word(shard::STATE), Ordering::Acquire);
        let epoch = line.load(shard::readers_word(shard::EPOCH), Ordering::Acquire);
        (line, state, epoch)
    }
}
