//! The buckets of a locked shard, and the slots in them. Must not know how a bucket is split. The
//! races with readers are described in [`super::lookup`].

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tuckbox_arena::region::{LinePair, View, WORD};
use tuckbox_arena::Region;

use super::lookup::{Lookup, BUCKET_WORDS, SLOT_PLACES};
use crate::format::{choices_of, shard, IndexState, KeyHash, Slot, BUCKET_WORD, SLOTS_PER_BUCKET};
use crate::storage::Shard;

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

/// The slots of a bucket that may be free, one bit each: the tag of a free slot is 0.
pub(super) struct FreeSlots<'a> {
    line: View<'a, BUCKET_WORDS>,
    places: u32,
}

impl<'a> FreeSlots<'a> {
    #[inline(always)]
    fn new(line: View<'a, BUCKET_WORDS>, places: u32) -> FreeSlots<'a> {
        FreeSlots { line, places }
    }

    /// How many there are.
    #[inline(always)]
    pub(super) fn count(&self) -> u32 {
        self.places.count_ones()
    }

    /// The offset of the first one that is free.
    #[inline(always)]
    pub(super) fn first(&self, region: &Region) -> Option<u64> {
        let mut places = self.places;
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            if Slot(self.line.get(place)).is_empty() {
                return Some(region.offset_of(self.line) + place as u64 * WORD);
            }
            places &= places - 1;
        }
        None
    }
}

layer! {
    /// A locked shard with its index.
    Index(Shard<'a>)
}

impl<'a> Index<'a> {
    /// The lock-free view of the index.
    pub(super) fn lookup(&self) -> Lookup<'a> {
        Lookup(self.cx)
    }

    /// Sets the state of the index.
    pub fn set_index_state(&self, state: IndexState) {
        self.set_word(shard::STATE, state.0);
    }

    /// The numbers of the two buckets that an entry may be in.
    pub fn choices(&self, hash: KeyHash) -> (u32, u32) {
        choices_of(hash, self.index_state().buckets())
    }

    /// The offset of a bucket, which is wiped first if it is of an older epoch.
    #[inline(always)]
    pub(super) fn bucket(&self, bucket: u32) -> Option<u64> {
        let at = self.lookup().bucket_at(self.at, bucket)?;
        let epoch = self.word(shard::EPOCH);
        if self.region().get(at + BUCKET_WORD) != epoch {
            self.wipe_bucket(at, epoch);
        }
        Some(at)
    }

    /// Makes a bucket an empty one of this epoch.
    #[cold]
    pub(super) fn wipe_bucket(&self, at: u64, epoch: u64) {
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

    /// The free slots of two buckets, which may be the same.
    #[inline(always)]
    pub(super) fn free_slots(&self, bucket_at: [u64; 2]) -> [FreeSlots<'a>; 2] {
        let [first, second] = bucket_at.map(|at| self.region().view(at));
        let places = LinePair::new(first, second).words_with_top(0);
        let second_places = places >> BUCKET_WORDS & SLOT_PLACES;
        [FreeSlots::new(first, places & SLOT_PLACES), FreeSlots::new(second, second_places)]
    }

    /// A free slot of a bucket.
    pub(super) fn free_slot(&self, bucket_at: u64) -> Option<u64> {
        let [free, _] = self.free_slots([bucket_at; 2]);
        free.first(self.region())
    }

    /// The slots that a hash can lead to, those of the first choice first. None if that bucket
    /// cannot be reached.
    #[inline(always)]
    pub(crate) fn slots_of(&self, hash: KeyHash) -> Option<impl Iterator<Item = Found> + '_> {
        let tagged =
            self.lookup().tagged(self.at, hash, self.index_state(), self.word(shard::EPOCH));
        let region = self.region();
        Some(tagged?.map(|found| Found { at: region.offset_of(found.word), slot: found.slot }))
    }

    /// Prefetches the buckets that a hash can lead to.
    #[inline(always)]
    pub fn ask_for_slots(&self, hash: KeyHash) {
        let (first, second) = self.choices(hash);
        for bucket in [first, second] {
            if let Some(at) = self.lookup().bucket_at(self.at, bucket) {
                self.region().prefetch(at, 1);
            }
        }
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

    /// Empties every bucket, including those that a power cut left with a later epoch: the epochs
    /// of two boots differ.
    pub fn advance_epoch(&self) {
        let count = self.word(shard::EPOCH).wrapping_add(1) & u64::from(u32::MAX);
        let boot = self.arena().boot() & !u64::from(u32::MAX);
        self.set_word(shard::EPOCH, boot | count);
    }

    /// Hides all entries from readers, until [`Index::reveal`].
    pub fn hide(&self) {
        self.set_word(shard::FORMER_EPOCH, self.word(shard::EPOCH));
        // So that the next owner of the lock looks whether the shard is hidden.
        self.set_word(shard::BOOT, 0);
        self.set_word(shard::EPOCH, shard::HIDDEN);
    }

    /// Whether the entries are hidden.
    pub fn is_hidden(&self) -> bool {
        self.word(shard::EPOCH) == shard::HIDDEN
    }

    /// Ends [`Index::hide`]. Nothing may have changed meanwhile.
    pub fn reveal(&self) {
        if self.is_hidden() {
            let former = self.word(shard::FORMER_EPOCH);
            // A damaged file may say so; then the entries are lost.
            self.set_word(shard::EPOCH, if former == shard::HIDDEN { 0 } else { former });
        }
    }
}
