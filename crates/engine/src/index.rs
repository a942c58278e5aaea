//! The index of a shard: linear hashing over buckets of one cache line, with two choices. Must not
//! know which entries to evict.
//!
//! An entry's slot is in the bucket of its first choice or, if that is full, of its second; a
//! lookup searches both. If both are full, entries are moved to their other choice. Buckets are
//! split one at a time as the number of entries grows. Index segments stay index segments forever.
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
//! * *Reader's hit and writer.* Readers add a hit by compare-and-swap of the whole slot. If a
//!   writer stores the slot meanwhile, the hit is lost, which is harmless.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::region::{LinePair, View, WORD};
use tuckbox_arena::segments::Owner;

use crate::cache::Cache;
use crate::hash::KeyHash;
use crate::layout::{
    bucket_of, shard, Slot, BUCKET_BYTES, BUCKET_WORD, GHOST_ROW_BYTES, SLOTS_PER_BUCKET,
};
use crate::shard::Shard;

/// Buckets are split when more than this share of all slots is in use, in 64ths.
const FILL_MOST_64THS: u64 = 57;
/// An index with more slots per entry than this is not split for keys with the same two buckets:
/// such keys were chosen on purpose, and splitting would not end. Fewer entries than
/// [`ENTRIES_MIN`] count as that many.
const SLOTS_PER_ENTRY_MAX: u64 = 4;
const ENTRIES_MIN: u64 = 64;
/// Words of a bucket.
const BUCKET_WORDS: usize = (BUCKET_BYTES / WORD) as usize;
/// The words of a bucket that are slots, one bit each.
const SLOT_PLACES: u32 = (1 << SLOTS_PER_BUCKET) - 1;
/// Every segment is a multiple of this.
const PAGE_BYTES: u64 = 4096;
const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;
/// Most splits for one insert, in addition to the one for the growing number of entries.
const SPLITS_PER_INSERT: u32 = 64;

/// The index of a bucket's own word.
const BUCKET_OWN: usize = (BUCKET_WORD / WORD) as usize;

/// A slot's offset, and its value when it was found.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Offset of the slot.
    pub at: u64,
    /// Its value.
    pub slot: Slot,
}

/// Slots of one bucket with their offsets, stored inline.
pub type Slots = SmallVec<[(u64, Slot); SLOTS_PER_BUCKET as usize]>;

/// The word [`shard::STATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexState(pub u64);

impl IndexState {
    /// Number of buckets as stored; a damaged word may say none, or more than exist.
    #[inline(always)]
    fn count(self) -> u32 {
        self.0 as u32
    }

    /// Number of buckets, at least one. Buckets that do not exist lead nowhere.
    #[inline(always)]
    pub fn buckets(self) -> u32 {
        self.count().max(1)
    }

    /// With one more bucket than [`IndexState::buckets`].
    fn with_split(self) -> IndexState {
        IndexState((self.0 | u64::from(self.count() == 0)).wrapping_add(1))
    }

    /// With one more move of an entry between its choices.
    pub fn with_move(self) -> IndexState {
        IndexState(self.0.wrapping_add(1 << 32))
    }
}

/// The two buckets that an entry may be in, in an index of `count` buckets; the first bucket if
/// there are none.
#[inline(always)]
pub fn choices_of(hash: KeyHash, count: u32) -> (u32, u32) {
    (bucket_of(hash.first(), count), bucket_of(hash.second(), count))
}

impl Cache {
    /// The segment in an entry of a shard's index directory, which need not exist. None behind the
    /// end of the directory.
    #[inline(always)]
    fn index_segment(&self, shard_at: u64, index: u64) -> Option<u64> {
        if index >= self.shape.directory_len {
            return None;
        }
        let entry = self.arena.region().get(shard_at + shard::DIRECTORY + index * 8);
        Some(entry.wrapping_sub(1))
    }

    /// A bucket of a shard; none if the directory does not lead to a segment.
    #[inline(always)]
    fn bucket_line(&self, shard_at: u64, bucket: u32) -> Option<View<'_, BUCKET_WORDS>> {
        let (index, byte) = self.shape.bucket_place(bucket);
        let segment = self.index_segment(shard_at, index)?;
        match self.arena.region().line_in_segment(segment, byte) {
            Some(line) => Some(line),
            None => self.line_after_growth(segment, byte),
        }
    }

    #[cold]
    #[inline(never)]
    fn line_after_growth(&self, segment: u64, byte: u64) -> Option<View<'_, BUCKET_WORDS>> {
        self.has_become_usable(segment)
            .then(|| self.arena.region().line_in_segment(segment, byte))?
    }

    /// The offset of a bucket; none if the directory does not lead to a segment.
    #[inline(always)]
    pub(crate) fn bucket_at(&self, shard_at: u64, bucket: u32) -> Option<u64> {
        Some(self.arena.region().offset_of(self.bucket_line(shard_at, bucket)?))
    }

    /// The offset of a bucket's ghosts; none if they have no segment.
    pub(crate) fn ghosts_at(&self, shard_at: u64, bucket: u32) -> Option<u64> {
        let (index, at) = self.shape.ghosts_place(bucket);
        let segment = self.index_segment(shard_at, index)?;
        self.is_usable(segment).then(|| self.arena.geometry().segment_at(segment as u32) + at)
    }

    /// Whether the whole segment can be accessed. Checks the file's length if necessary.
    #[inline(always)]
    pub(crate) fn is_usable(&self, segment: impl Into<u64>) -> bool {
        let segment = segment.into();
        segment < u64::from(self.arena.segments_present()) || self.has_become_usable(segment)
    }

    #[cold]
    fn has_become_usable(&self, segment: u64) -> bool {
        if segment >= self.arena.geometry().segment_count {
            return false;
        }
        self.arena.refresh_length();
        segment < u64::from(self.arena.segments_present())
    }
}

/// The non-empty slots with the key's tag in both of its buckets, those of the first choice first.
///
/// All tags of both buckets are compared before any slot is loaded: the place of the key is
/// unpredictable, and a mispredicted branch costs more. Each slot is then loaded once more, by
/// itself, so that its value is of one moment.
pub(crate) struct Tagged<'a> {
    pair: LinePair<'a>,
    tag: u64,
    places: u32,
}

/// A slot with the wanted tag.
pub(crate) struct TaggedSlot<'a> {
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

impl Cache {
    /// The slots that a hash can lead to, in an index of this state and epoch. None if the bucket
    /// of its first choice cannot be reached.
    #[inline(always)]
    pub(crate) fn tagged(
        &self,
        shard_at: u64,
        hash: KeyHash,
        state: IndexState,
        epoch: u64,
    ) -> Option<Tagged<'_>> {
        let (first, second) = choices_of(hash, state.count());
        let first = self.bucket_line(shard_at, first)?;
        let second = self.bucket_line(shard_at, second).unwrap_or(first);
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
}

impl Shard<'_> {
    /// The state of the index.
    #[inline(always)]
    pub fn index_state(&self) -> IndexState {
        IndexState(self.word(shard::STATE))
    }

    /// Number of buckets to walk over, bounded in case the state is damaged.
    pub fn bucket_count(&self) -> u32 {
        self.index_state().buckets().min(self.cache.shape.buckets_max())
    }

    fn set_index_state(&self, state: IndexState) {
        self.set_word(shard::STATE, state.0);
    }

    /// The numbers of the two buckets that an entry may be in.
    pub fn choices(&self, hash: KeyHash) -> (u32, u32) {
        choices_of(hash, self.index_state().buckets())
    }

    /// The offset of a bucket, which is wiped first if it is of an older epoch.
    #[inline(always)]
    fn bucket(&self, bucket: u32) -> Option<u64> {
        let at = self.cache.bucket_at(self.at, bucket)?;
        let epoch = self.word(shard::EPOCH);
        if self.region().get(at + BUCKET_WORD) != epoch {
            self.wipe_bucket(at, epoch);
        }
        Some(at)
    }

    /// Makes a bucket an empty one of this epoch.
    #[cold]
    fn wipe_bucket(&self, at: u64, epoch: u64) {
        for slot in 0..SLOTS_PER_BUCKET {
            self.region().set(at + slot * 8, 0);
        }
        self.region().store(at + BUCKET_WORD, epoch, Ordering::Release);
    }

    fn slots(&self, bucket_at: u64) -> impl Iterator<Item = (u64, Slot)> + '_ {
        (0..SLOTS_PER_BUCKET).map(move |slot| {
            let at = bucket_at + slot * 8;
            (at, Slot(self.region().get(at)))
        })
    }

    /// The non-empty slots of a bucket.
    pub fn taken_slots(&self, bucket: u32) -> Slots {
        match self.bucket(bucket) {
            Some(at) => self.slots(at).filter(|(_, slot)| !slot.is_empty()).collect(),
            None => Slots::new(),
        }
    }

    fn free_slot(&self, bucket_at: u64) -> Option<u64> {
        self.slots(bucket_at).find(|(_, slot)| slot.is_empty()).map(|(at, _)| at)
    }

    /// The slots that a hash can lead to, those of the first choice first. None if that bucket
    /// cannot be reached.
    #[inline(always)]
    pub(crate) fn slots_of(&self, hash: KeyHash) -> Option<impl Iterator<Item = Found> + '_> {
        let tagged = self.cache.tagged(self.at, hash, self.index_state(), self.word(shard::EPOCH));
        let region = self.region();
        Some(tagged?.map(|found| Found { at: region.offset_of(found.word), slot: found.slot }))
    }

    /// Publishes: one store makes the entry, or its new record, visible. The race: a reader loads
    /// the slot at this moment. It sees the old or the new record, and release order makes the new
    /// one complete.
    pub fn store_slot(&self, at: u64, slot: Slot) {
        let order = if tuckbox_arena::mutants::is_on("relaxed-slot") {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        self.region().store(at, slot.0, order);
    }

    /// Finds a free slot for a new entry, splitting and moving as needed. The caller stores the
    /// slot next. None if there is no slot: the index cannot grow, or many keys have the same two
    /// buckets.
    pub fn make_slot(&self, hash: KeyHash, entries: u64) -> Option<u64> {
        let slots = || u64::from(self.index_state().buckets()) * SLOTS_PER_BUCKET;
        if entries * 64 > slots() * FILL_MOST_64THS {
            self.split();
        }
        let slots_max = entries.max(ENTRIES_MIN) * SLOTS_PER_ENTRY_MAX;
        for _ in 0..SPLITS_PER_INSERT {
            let (first, second) = self.choices(hash);
            let first_at = self.bucket(first)?;
            if let Some(at) = self.free_slot(first_at) {
                return Some(at);
            }
            let second_at = self.bucket(second)?;
            if second != first {
                if let Some(at) = self.free_slot(second_at) {
                    return Some(at);
                }
            }
            if let Some(at) = self.move_one_away(&[first], 3) {
                return Some(at);
            }
            if second != first {
                if let Some(at) = self.move_one_away(&[second], 2) {
                    return Some(at);
                }
            }
            if slots() > slots_max || !self.split() {
                return None;
            }
        }
        None
    }

    /// Moves an entry of the full bucket at the end of `path` to its other choice, and returns the
    /// freed slot. If the other bucket is full too, frees a slot there first, `depth` buckets deep,
    /// but never in a bucket of the path, whose slots are being examined.
    fn move_one_away(&self, path: &[u32], depth: u32) -> Option<u64> {
        let bucket = *path.last()?;
        for (at, slot) in self.taken_slots(bucket) {
            let Some(hash) = self.hash_of(slot) else { continue };
            let (first, second) = self.choices(hash);
            let other = if bucket == first { second } else { first };
            if path.contains(&other) {
                continue;
            }
            let other_at = self.bucket(other)?;
            let free = match self.free_slot(other_at) {
                Some(free) => free,
                None if depth > 1 => {
                    let mut longer: SmallVec<[u32; 4]> = SmallVec::from_slice(path);
                    longer.push(other);
                    match self.move_one_away(&longer, depth - 1) {
                        Some(free) => free,
                        None => continue,
                    }
                }
                None => continue,
            };
            // Loaded again: a reader may have added a hit.
            let slot = Slot(self.region().get(at));
            self.store_slot(free, slot);
            hooks::reach(Point::MoveCopied);
            self.set_index_state(self.index_state().with_move());
            self.store_slot(at, Slot::EMPTY);
            return Some(at);
        }
        None
    }

    /// Splits the next bucket. False if the index cannot grow.
    pub fn split(&self) -> bool {
        let state = self.index_state();
        let count = state.buckets();
        let (new, old) = (count, count - (1 << count.ilog2()));
        if count >= self.cache.shape.buckets_max() || !self.has_segment_for(new) {
            return false;
        }
        let (Some(_), Some(new_at)) = (self.bucket(old), self.cache.bucket_at(self.at, new)) else {
            return false;
        };
        // No reader looks at the new bucket before the state includes it.
        self.wipe_bucket(new_at, self.word(shard::EPOCH));
        let mut moved: SmallVec<[u64; SLOTS_PER_BUCKET as usize]> = SmallVec::new();
        for (at, slot) in self.taken_slots(old) {
            let Some(hash) = self.hash_of(slot) else { continue };
            let first = bucket_of(hash.first(), count + 1);
            let second = bucket_of(hash.second(), count + 1);
            let was_first = bucket_of(hash.first(), count) == old;
            let target = if was_first { first } else { second };
            if target == new {
                self.region().set(new_at + moved.len() as u64 * 8, self.region().get(at));
                moved.push(at);
            }
        }
        if let (Some(from), Some(to)) =
            (self.cache.ghosts_at(self.at, old), self.cache.ghosts_at(self.at, new))
        {
            for word in 0..GHOST_ROW_BYTES / 8 {
                self.region().set(to + word * 8, self.region().get(from + word * 8));
            }
        }
        if tuckbox_arena::mutants::is_on("early-split-clear") {
            moved.iter().for_each(|at| self.store_slot(*at, Slot::EMPTY));
        }
        hooks::reach(Point::SplitCopied);
        self.set_index_state(state.with_split());
        hooks::reach(Point::SplitPublished);
        for at in moved {
            self.store_slot(at, Slot::EMPTY);
        }
        true
    }

    /// Makes sure that the index has a segment for this bucket.
    fn has_segment_for(&self, bucket: u32) -> bool {
        let (index, _) = self.cache.shape.bucket_place(bucket);
        if index >= self.cache.shape.directory_len {
            return false;
        }
        let at = shard::DIRECTORY + index * 8;
        if self.word(at) == 0 {
            let Some(segment) = self.take_for_index() else { return false };
            self.add_to_index(at, segment);
        }
        if self.has_ghosts_of(0) {
            self.open_ghosts(bucket);
        }
        true
    }

    fn add_to_index(&self, at: u64, segment: u32) {
        debug_assert_eq!(self.arena().segment_owner(segment), Owner::Shard(self.index as u32));
        self.add_word(shard::INDEX_SEGMENTS, 1);
        self.set_word(at, u64::from(segment) + 1);
    }

    /// Whether the ghosts of a bucket have a segment.
    pub fn has_ghosts_of(&self, bucket: u32) -> bool {
        let (index, _) = self.cache.shape.ghosts_place(bucket);
        index < self.cache.shape.directory_len && self.word(shard::DIRECTORY + index * 8) != 0
    }

    /// Gives the ghosts of a bucket a segment, if they have none and one is available. In a full
    /// file they come before the next segment of a log.
    pub fn open_ghosts(&self, bucket: u32) {
        let (index, _) = self.cache.shape.ghosts_place(bucket);
        if index >= self.cache.shape.directory_len || self.has_ghosts_of(bucket) {
            return;
        }
        if let Some(segment) = self.take_from_pool().or_else(|| self.pop_surplus_spare()) {
            self.wipe(segment);
            self.add_to_index(shard::DIRECTORY + index * 8, segment);
        }
    }

    /// As [`Shard::open_ghosts`], for all buckets.
    pub fn open_all_ghosts(&self) {
        let per_group = self.cache.shape.buckets_per_group() as usize;
        (0..self.bucket_count()).step_by(per_group).for_each(|bucket| self.open_ghosts(bucket));
    }

    /// Fills a segment with zeros. Nothing may refer to it.
    pub fn wipe(&self, segment: u32) {
        let at = self.arena().geometry().segment_at(segment);
        let zeros = [0; PAGE_WORDS];
        for page in 0..self.cache.shape.segment_bytes / PAGE_BYTES {
            self.region().copy_in(at + page * PAGE_BYTES, &zeros);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_counts_from_the_one_bucket_that_there_always_is() {
        let moves = 5 << 32;
        for (count, after) in [(0, 2), (1, 2), (2, 3), (0xffff_fffe, u32::MAX)] {
            let state = IndexState(moves | count).with_split();
            assert_eq!((state.buckets(), state.0 >> 32), (after, 5), "{count}");
        }
    }
}
