//! Slots for new entries: splitting buckets as the number of entries grows, and moving entries
//! between their two buckets. The index shrinks only when it is empty. Must not know which entries
//! to evict. The races with readers are
//! described in [`super::lookup`].

use smallvec::SmallVec;
use tuckbox_arena::hooks::{self, Point};

use super::buckets::Index;
use crate::format::{
    bucket_of, segment_of, shard, KeyHash, Slot, BUCKETS_AT_FIRST, GHOST_ROW_BYTES,
    SLOTS_PER_BUCKET,
};

/// Buckets are split when more than this share of all slots is in use, in 64ths.
const FILL_MOST_64THS: u64 = 57;
/// An index with more slots per entry than this is not split for keys with the same two buckets:
/// such keys were chosen on purpose, and splitting would not end. Fewer entries than
/// [`ENTRIES_MIN`] count as that many.
const SLOTS_PER_ENTRY_MAX: u64 = 4;
const ENTRIES_MIN: u64 = 64;
/// Most splits for one insert, in addition to the one for the growing number of entries.
const SPLITS_PER_INSERT: u32 = 64;

impl Index<'_> {
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
            if let Some(at) = self.free_slot(self.bucket(first)?) {
                return Some(at);
            }
            let free = self.free_slot(self.bucket(second)?);
            let free = free.or_else(|| self.move_one_away(&[first], 3));
            if let Some(at) = free.or_else(|| self.move_one_away(&[second], 2)) {
                return Some(at);
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
                None if depth > 1 => {
                    let mut longer: SmallVec<[u32; 4]> = SmallVec::from_slice(path);
                    longer.push(other);
                    self.move_one_away(&longer, depth - 1)
                }
                free => free,
            };
            let Some(free) = free else { continue };
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
        if count >= self.cx.shape.buckets_max() || !self.has_segment_for(new) {
            return false;
        }
        let (Some(_), Some(new_at)) = (self.bucket(old), self.lookup().bucket_at(self.at, new))
        else {
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
            (self.cx.ghosts_at(self.at, old), self.cx.ghosts_at(self.at, new))
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
        let (index, _) = self.cx.shape.bucket_place(bucket);
        if index >= self.cx.shape.directory_len {
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

    /// Frees the segments of an empty index, except the first. Whether there were any.
    ///
    /// The race: a reader looks at a bucket in a segment that is freed and used again. The epoch
    /// advances before the segment is freed, so a reader that sees a byte of its next use finds the
    /// epoch changed before it returns anything.
    pub fn shrink_if_empty(&self) -> bool {
        if self.entries() > 0 || self.word(shard::INDEX_SEGMENTS) <= 1 {
            return false;
        }
        self.advance_epoch();
        // Before the directory, so that a death leaves no bucket without a segment.
        self.set_index_state(self.index_state().with_buckets(BUCKETS_AT_FIRST));
        hooks::reach(Point::IndexReset);
        for at in (1..self.cx.shape.directory_len).map(|index| shard::DIRECTORY + index * 8) {
            if let Some(segment) = segment_of(self.word(at)) {
                self.set_word(at, 0);
                self.subtract_word(shard::INDEX_SEGMENTS, 1);
                self.end_and_put_back(segment);
            }
        }
        true
    }

    /// Gives an empty shard its first index segment.
    pub fn lay_out_index(&self) -> bool {
        let Some(segment) = self.take_for_index() else { return false };
        // The segment's previous content must not look like buckets of this epoch.
        self.wipe(segment);
        self.set_word(shard::DIRECTORY, u64::from(segment) + 1);
        self.set_word(shard::INDEX_SEGMENTS, 1);
        self.set_word(shard::STATE, u64::from(BUCKETS_AT_FIRST));
        true
    }
}
