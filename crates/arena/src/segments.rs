//! Who owns each segment of the pool, and how often it was used. Must not know what is in a
//! segment.
//!
//! There is no list of free segments and no lock over them. A segment has an owner word, taken by
//! compare-and-swap from [`Owner::Free`], and a 64-bit generation that moves when the segment is
//! freed. The map of free segments says which owner words to try ([`crate::free_map`]).
//!
//! The race: a reader still copies from a segment that is freed and taken again. The order makes it
//! harmless: nothing refers to the segment any more, then the generation moves, then the owner word
//! says free; only a later owner writes its first byte, after a release fence. A reader that sees a
//! new byte therefore sees the moved generation (`docs/explanation/concurrency.md`, "The lock-free
//! read").

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::arena::Arena;
use crate::hooks::{self, Point};
use crate::layout::segment;
use crate::process::OwnerId;
use crate::region::fence;

/// The owner of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// No owner.
    Free,
    /// A shard: reachable from its logs or index, or leaked by a death and found by repair.
    Shard(u32),
    /// A process that fills the segment before a shard takes it over.
    Builder(OwnerId),
    /// Bits that no version of Tuckbox writes.
    Unknown(u64),
}

const KIND_SHARD: u64 = 1 << 56;
const KIND_BUILDER: u64 = 2 << 56;

impl Owner {
    fn from_word(word: u64) -> Owner {
        let low = word as u32;
        match word & !0xffff_ffff {
            0 if low == 0 => Owner::Free,
            KIND_SHARD => Owner::Shard(low),
            KIND_BUILDER => OwnerId::from_bits(low).map_or(Owner::Unknown(word), Owner::Builder),
            _ => Owner::Unknown(word),
        }
    }

    fn word(self) -> u64 {
        match self {
            Owner::Free => 0,
            Owner::Shard(shard) => KIND_SHARD | u64::from(shard),
            Owner::Builder(owner) => KIND_BUILDER | u64::from(owner.bits()),
            Owner::Unknown(word) => word,
        }
    }
}

impl Arena {
    /// The generation of a segment. Later loads are not moved before it.
    #[inline(always)]
    pub fn generation(&self, segment: u32) -> u64 {
        let at = self.geometry().segment_word_at(segment::GENERATION, segment);
        self.region().load(at, Ordering::Acquire)
    }

    /// The owner of a segment.
    pub fn segment_owner(&self, segment: u32) -> Owner {
        let at = self.geometry().segment_word_at(segment::OWNER, segment);
        Owner::from_word(self.region().load(at, Ordering::Acquire))
    }

    /// All segments that the file can ever have. Their words are in tables of fixed length, so they
    /// can be read however long the file is.
    fn all_segments(&self) -> Range<u32> {
        0..self.geometry().segment_count as u32
    }

    /// The segments of an owner, including those behind the file's end as this handle knows it.
    pub fn segments_of(&self, owner: Owner) -> impl Iterator<Item = u32> + '_ {
        self.all_segments().filter(move |segment| self.segment_owner(*segment) == owner)
    }

    /// Takes a free segment among those that this handle knows. Costs the same in any file.
    pub fn take_segment(&self, owner: Owner) -> Option<u32> {
        let (region, map) = (self.region(), &self.geometry().free_map);
        let present = self.segments_present();
        let mut from = 0;
        while let Some(segment) = map.next(region, from).filter(|segment| *segment < present) {
            let at = self.geometry().segment_word_at(segment::OWNER, segment);
            if region.get(at) == 0 && region.replace(at, 0, owner.word()) {
                hooks::reach(Point::SegmentTakenUnmarked);
                map.set_taken(region, segment);
                self.begin_use();
                return Some(segment);
            }
            from = segment + 1;
        }
        None
    }

    /// Gives a segment to another owner. The caller owns it, or holds the lock of the owning shard.
    pub fn transfer_segment(&self, segment: u32, owner: Owner) {
        let at = self.geometry().segment_word_at(segment::OWNER, segment);
        self.region().store(at, owner.word(), Ordering::Release);
    }

    /// Frees a segment that was taken and not used.
    pub fn release_segment(&self, segment: u32) {
        self.geometry().free_map.set_free(self.region(), segment);
        hooks::reach(Point::SegmentMarkedFree);
        self.transfer_segment(segment, Owner::Free);
    }

    /// Marks a segment as taken in the free map, which damage may have changed. The caller holds
    /// the lock of the shard that owns it.
    pub fn mark_taken(&self, segment: u32) {
        self.geometry().free_map.set_taken(self.region(), segment);
    }

    /// Corrects the free map where it hides free segments. Returns how many were marked as taken.
    pub fn reveal_free_segments(&self) -> u32 {
        let (region, map) = (self.region(), &self.geometry().free_map);
        let is_free = |segment: u32| self.segment_owner(segment) == Owner::Free;
        let mut count = 0;
        for segment in self.all_segments() {
            if is_free(segment) && map.hides(region, segment) {
                // Not counted if it was taken meanwhile.
                count += u32::from(map.says_taken(region, segment) && is_free(segment));
                map.set_free(region, segment);
            }
        }
        count
    }

    /// Must precede the first byte of a segment's new use: a reader that sees such a byte and then
    /// issues an acquire fence sees the moved generation. The new owner must issue this fence: a
    /// fence orders only its own thread's writes.
    #[inline]
    pub fn begin_use(&self) {
        if !crate::mutants::is_on("no-taker-fence") {
            fence(Ordering::Release);
        }
    }

    /// Ends the segment's present use but keeps the segment. Nothing may refer to it any more.
    pub fn end_use(&self, segment: u32) {
        let at = self.geometry().segment_word_at(segment::GENERATION, segment);
        let generation = self.region().get(at);
        let moved = u64::from(!crate::mutants::is_on("no-generation"));
        self.region().store(at, generation.wrapping_add(moved), Ordering::Release);
        hooks::reach(Point::GenerationBumped);
    }

    /// Frees a segment. Nothing may refer to it any more.
    pub fn free_segment(&self, segment: u32) {
        if crate::mutants::is_on("late-generation") {
            self.release_segment(segment);
            return self.end_use(segment);
        }
        self.end_use(segment);
        self.release_segment(segment);
    }

    /// Frees a segment that this thread was filling, within a [`Arena::guard_operation`], also if
    /// the handle was closed meanwhile. Does nothing in a forked child: the segment is the parent's.
    pub fn free_own_segment(&self, segment: u32) {
        let ours = self.slot_owner().map(Owner::Builder);
        if ours == Some(self.segment_owner(segment)) {
            self.free_segment(segment);
        }
    }

    /// Frees segments that dead builders left, and those whose owner words name nobody. Returns how
    /// many.
    pub fn free_abandoned_segments(&self) -> u32 {
        let mut count = 0;
        for segment in self.all_segments() {
            let at = self.geometry().segment_word_at(segment::OWNER, segment);
            let seen = self.region().get(at);
            let abandoned = match Owner::from_word(seen) {
                Owner::Builder(owner) => self.is_dead(owner),
                // A shard that does not exist, or no known owner: the word is damaged.
                Owner::Shard(shard) => u64::from(shard) >= self.geometry().plan.shard_count,
                Owner::Unknown(_) => true,
                Owner::Free => false,
            };
            if abandoned {
                // Two processes may get here at once: the one whose compare-and-swap succeeds frees
                // the segment.
                let Ok(operation) = self.guard_operation() else { return count };
                if self.region().replace(at, seen, Owner::Builder(operation.owner()).word())
                    || crate::mutants::is_on("rescue-by-store")
                {
                    self.free_segment(segment);
                    count += 1;
                }
            }
        }
        count
    }

    /// One of the four words for the layer above.
    #[inline(always)]
    pub fn note(&self, segment: u32, index: u64) -> u64 {
        self.region().get(self.geometry().segment_word_at(segment::NOTES + index, segment))
    }

    /// Sets one of the four words for the layer above.
    #[inline(always)]
    pub fn set_note(&self, segment: u32, index: u64, value: u64) {
        let at = self.geometry().segment_word_at(segment::NOTES + index, segment);
        self.region().store(at, value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::Clock;
    use crate::layout::{AfterPowerCut, Plan};
    use crate::waiter::NativeWaiter;

    fn twins() -> Vec<Arena> {
        let plan = Plan {
            size_bytes: 1 << 20,
            max_entries: 0,
            features_optional: 0,
            after_power_cut: AfterPowerCut::Keep,
            segment_bytes: 4096,
            shard_count: 1,
            shard_bytes: 2048,
            table_bytes: 0,
            first_segments: 2,
        };
        Arena::twins(&plan, 0, Clock::System, Arc::new(NativeWaiter), 2).unwrap()
    }

    #[test]
    fn a_handle_learns_of_growth_when_it_looks() {
        let [one, other] = &twins()[..] else { panic!("two were asked for") };
        assert!(one.grow().unwrap());
        assert!(one.segments_present() > 2);
        assert_eq!(other.segments_present(), 2);
        other.refresh_length();
        assert_eq!(other.segments_present(), one.segments_present());
    }

    #[test]
    fn segments_that_a_dead_builder_took_after_growth_are_freed() {
        let [dead, other] = &twins()[..] else { panic!("two were asked for") };
        assert!(dead.grow().unwrap());
        let builder = Owner::Builder(dead.owner().unwrap());
        let taken: Vec<u32> = (0..4).map(|_| dead.take_segment(builder).unwrap()).collect();
        assert!(taken.iter().any(|segment| *segment >= other.segments_present()));
        assert_eq!(other.free_abandoned_segments(), 0);
        other.declare_dead(0);
        assert_eq!(other.free_abandoned_segments(), 4);
        assert_eq!(other.segments_of(builder).count(), 0);
    }

    /// A power cut can leave a page of the map full of ones, which hides all segments.
    #[test]
    fn hidden_segments_are_found_again() {
        let [one, other] = &twins()[..] else { panic!("two were asked for") };
        while one.grow().unwrap() {}
        let map = one.geometry().free_map;
        one.all_segments().for_each(|segment| map.set_taken(one.region(), segment));
        let builder = Owner::Builder(one.owner().unwrap());
        assert_eq!(one.take_segment(builder), None);
        assert_eq!(other.reveal_free_segments(), one.geometry().segment_count as u32);
        let taken = std::iter::from_fn(|| one.take_segment(builder)).count();
        assert_eq!(taken as u32, one.segments_present());
        assert_eq!(other.reveal_free_segments(), 0);
    }
}
