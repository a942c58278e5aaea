//! Slots for new entries: splitting buckets as the number of entries grows, and moving entries
//! between their two buckets. The index shrinks only when it is empty. Must not know which entries
//! to evict. The races with readers are
//! described in [`super::lookup`].

use smallvec::SmallVec;
use tuckbox_arena::hooks::{self, Point};

use super::buckets::Index;
use crate::format::{
    bucket_of, other_choices, segment_of, shard, KeyHash, Slot, BUCKETS_AT_FIRST, GHOST_ROW_BYTES,
    SLOTS_PER_BUCKET,
};
use crate::storage::RECORD_START_WORDS;

/// Buckets are split when more than this share of all slots is in use, in 64ths.
const FILL_MOST_64THS: u64 = 57;
/// An index with more slots per entry than this is not split for keys with the same two buckets:
/// such keys were chosen on purpose, and splitting would not end. Fewer entries than
/// [`ENTRIES_MIN`] count as that many.
const SLOTS_PER_ENTRY_MAX: u64 = 4;
const ENTRIES_MIN: u64 = 64;
/// Most entries that move so that one finds a slot.
const MOVES_MAX: u32 = 3;
/// Most splits for one insert, in addition to the one for the growing number of entries.
const SPLITS_PER_INSERT: u32 = 64;

/// Moves of the entries of a bucket: two of each at most.
const MOVES_FROM_MAX: usize = 2 * SLOTS_PER_BUCKET as usize;

/// A move of an entry to another bucket.
struct Move {
    /// The entry's slot, and its value.
    at: u64,
    slot: Slot,
    to: u32,
    /// Whether the entry's tag tells that it may be there.
    is_sure: bool,
}

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
            let [one, other] = self.free_slots([self.bucket(first)?, self.bucket(second)?]);
            // The emptier bucket first: lookups read both anyway.
            let (one, other) =
                if one.count() >= other.count() { (one, other) } else { (other, one) };
            let free = one.first(self.region()).or_else(|| other.first(self.region()));
            if let Some(at) = free.or_else(|| self.free_in_full(first, second)) {
                return Some(at);
            }
            if slots() > slots_max || !self.split() {
                return None;
            }
        }
        None
    }

    /// Frees a slot in one of two full buckets by moving entries to their other choices.
    #[inline(never)]
    fn free_in_full(&self, first: u32, second: u32) -> Option<u64> {
        [1, MOVES_MAX].iter().find_map(|depth| {
            let free = self.move_one_away(&[first], *depth);
            free.or_else(|| self.move_one_away(&[second], (*depth - 1).max(1)))
        })
    }

    /// Moves an entry of the full bucket at the end of `path` to its other choice, and returns the
    /// freed slot. If all other choices are full, too, frees a slot in one, `depth` buckets deep,
    /// but never in a bucket of the path, whose slots are being examined.
    fn move_one_away(&self, path: &[u32], depth: u32) -> Option<u64> {
        let bucket = *path.last()?;
        let moves = self.moves_from(bucket, path);
        let sure = moves.iter().filter(|one| one.is_sure);
        for one in sure.chain(moves.iter().filter(|one| !one.is_sure)) {
            let Some(free) = self.free_slot(self.bucket(one.to)?) else { continue };
            if self.may_move(bucket, one) {
                self.move_slot(one.at, free);
                return Some(one.at);
            }
        }
        if depth <= 1 {
            return None;
        }
        for one in moves.iter().filter(|one| self.may_move(bucket, one)) {
            let mut longer: SmallVec<[u32; 4]> = SmallVec::from_slice(path);
            longer.push(one.to);
            if let Some(free) = self.move_one_away(&longer, depth - 1) {
                self.move_slot(one.at, free);
                return Some(one.at);
            }
        }
        None
    }

    /// Where the entries of a bucket may move to, buckets of `path` aside. Prefetches these.
    fn moves_from(&self, bucket: u32, path: &[u32]) -> SmallVec<[Move; MOVES_FROM_MAX]> {
        let count = self.index_state().buckets();
        let mut moves = SmallVec::new();
        for (at, slot) in self.taken_slots(bucket) {
            let (one, other) = other_choices(bucket, slot.tag(), count);
            let is_sure = other.is_none();
            for to in std::iter::once(one).chain(other).filter(|to| !path.contains(to)) {
                if let Some(to_at) = self.lookup().bucket_at(self.at, to) {
                    self.region().prefetch(to_at, 1);
                }
                moves.push(Move { at, slot, to, is_sure });
            }
        }
        moves
    }

    /// Whether an entry may move from its bucket. Its key is looked at only if its tag does not
    /// tell.
    fn may_move(&self, from: u32, one: &Move) -> bool {
        one.is_sure
            || self.hash_of(one.slot).is_some_and(|hash| {
                let (first, second) = self.choices(hash);
                (first, second) == (from, one.to) || (first, second) == (one.to, from)
            })
    }

    /// Moves an entry to a free slot of its other bucket.
    fn move_slot(&self, from: u64, to: u64) {
        // Loaded again: a reader may have added a hit.
        self.store_slot(to, Slot(self.region().get(from)));
        hooks::reach(Point::MoveCopied);
        self.set_index_state(self.index_state().with_move());
        self.store_slot(from, Slot::EMPTY);
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
        self.ask_for_keys(old);
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
        // For the next split, some inserts later.
        self.ask_for_keys(old + 1);
        true
    }

    /// Prefetches the keys of a bucket's entries.
    fn ask_for_keys(&self, bucket: u32) {
        for (_, slot) in self.taken_slots(bucket) {
            self.region().prefetch(slot.offset(), RECORD_START_WORDS as u64 * 8);
        }
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
