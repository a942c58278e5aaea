//! Where a shard's segments come from, and where they go. Owns the spare segments and the quota.
//! Must not know what a segment holds, nor how one is freed by eviction.
//!
//! Segments come first from the file's free ones, then from growth, and only then from eviction.
//! Once the pool runs out, a shard keeps a few spare segments, so that it can always move an entry
//! without evicting first.
//!
//! The shard that needs space evicts, unless it is under its quota; then the largest shard does.
//! Otherwise shard sizes would drift: evicting an entry of many segments frees more than was asked
//! for, and the rest goes to whichever shard comes next.

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::segments::Owner;

use super::context::Context;
use super::shard::Shard;
use crate::format::{log, segment_of, shard, LogKind};

/// The pool is scarce when there are fewer segments than this per shard.
const SCARCE_PER_SHARD: u64 = 4;
/// With fewer segments than this per shard, a builder of bodies fills the spare segments first.
/// More than the above, because several may build at once.
pub const BUILDERS_LEAVE_PER_SHARD: u64 = 12;
/// A shard that lacks more than one part in this of its share is under its quota. Not any lack,
/// because each segment from another shard costs a request.
const UNDER_QUOTA_PART: u64 = 8;

impl Shard<'_> {
    /// Where the spare segments' words are.
    pub fn spare_words(&self) -> impl Iterator<Item = u64> {
        (0..shard::SPARE_COUNT).map(|index| shard::SPARES + index * 8)
    }

    /// Number of spare segments.
    #[inline(always)]
    pub fn spare_count(&self) -> u64 {
        let is_spare = |at: u64| segment_of(self.word(at)).is_some();
        self.spare_words().map(|at| u64::from(is_spare(at))).sum()
    }

    /// The spare segments.
    #[cfg(all(test, loom))]
    pub fn spares(&self) -> Vec<u32> {
        self.spare_words().filter_map(|at| segment_of(self.word(at))).collect()
    }

    pub(super) fn pop_spare(&self) -> Option<u32> {
        let mut words = self.spare_words().map(|at| (at, self.word(at)));
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        self.set_word(at, 0);
        self.arena().begin_use();
        // A damaged word may name a segment that is in use, or none.
        segment_of(word).filter(|segment| self.owns(*segment))
    }

    /// Whether a segment exists and belongs to this shard.
    pub fn owns(&self, segment: u32) -> bool {
        self.cx.is_usable(segment)
            && self.arena().segment_owner(segment) == Owner::Shard(self.index as u32)
    }

    /// Keeps a segment that was just taken as a spare. None if there are enough; the segment is
    /// free again then.
    fn keep_spare(&self, segment: u32) -> Option<()> {
        // Empty, or naming a segment that is not ours: damage must not use up the places.
        let is_free = |at: &u64| !segment_of(self.word(*at)).is_some_and(|named| self.owns(named));
        let place = self.spare_words().find(is_free);
        match place {
            Some(at) => self.set_word(at, u64::from(segment) + 1),
            None => self.arena().release_segment(segment),
        }
        place.map(|_| ())
    }

    pub(crate) fn take_from_pool(&self) -> Option<u32> {
        self.cx.take_or_grow(Owner::Shard(self.index as u32))
    }

    /// Whether nearly all segments that the file may have are in use.
    pub fn pool_is_scarce(&self) -> bool {
        self.cx.may_grow_by_less_than(SCARCE_PER_SHARD)
    }

    /// Takes the spare segments from the pool. None if it does not have them all.
    pub fn keep_spares(&self) -> Option<()> {
        self.keep_at_least(self.cx.shape.spares_kept)
    }

    #[inline(always)]
    pub(super) fn keep_at_least(&self, count: u64) -> Option<()> {
        while self.spare_count() < count {
            self.keep_spare(self.take_from_pool()?)?;
        }
        Some(())
    }

    /// A spare segment, if there are more than are kept.
    pub fn pop_surplus_spare(&self) -> Option<u32> {
        let has_surplus = self.spare_count() > self.cx.shape.spares_kept;
        has_surplus.then(|| self.pop_spare())?
    }

    /// Frees all spare segments. Whether there were any.
    pub fn free_spares(&self) -> bool {
        let mut freed = false;
        while let Some(segment) = self.pop_spare() {
            self.arena().release_segment(segment);
            freed = true;
        }
        freed
    }

    /// Whether the segment for the next new record is available.
    #[inline(always)]
    pub fn has_segment_ready(&self) -> bool {
        !self.pool_is_scarce() || self.spare_count() > self.cx.shape.spares_kept
    }

    /// Takes the segment for the next new record from the pool, if it has one. Whether it is
    /// available.
    pub fn make_segment_ready(&self) -> bool {
        self.keep_at_least(self.cx.shape.spares_kept + 1).is_some()
    }

    /// Frees a segment that was taken and not used.
    pub fn put_back(&self, segment: u32) {
        // One more than are kept, for the next segment of a log.
        let wanted = self.pool_is_scarce() && self.spare_count() <= self.cx.shape.spares_kept;
        if wanted {
            self.keep_spare(segment);
        } else {
            self.arena().release_segment(segment);
        }
    }

    /// Frees a segment to which nothing refers any more.
    pub fn end_and_put_back(&self, segment: u32) {
        // A damaged link may lead to a segment in other use.
        if self.owns(segment) {
            self.arena().end_use(segment);
            self.put_back(segment);
        }
    }
}

impl Context {
    /// Whether a shard is under its quota, so that others must evict for it.
    pub(crate) fn is_under_quota(&self, shard: u64) -> bool {
        // Of the present segments: a full file system may keep the file short.
        let share = u64::from(self.arena.segments_present()) / self.shape.shard_count;
        self.shape.shard_count > 1 && self.segments_of(shard) < share - share / UNDER_QUOTA_PART
    }

    /// The shard that evicts when this one needs space and the pool has none.
    pub(crate) fn donor_for(&self, home: u64) -> u64 {
        let largest = || (0..self.shape.shard_count).max_by_key(|one| self.segments_of(*one));
        Some(home).filter(|home| !self.is_under_quota(*home)).or_else(largest).unwrap_or(home)
    }

    /// Number of segments of a shard's index and entries. Read without its lock.
    pub(super) fn segments_of(&self, shard: u64) -> u64 {
        let at = self.arena.geometry().shard_at(shard);
        let [small, main, pinned] = LogKind::ALL.map(|kind| kind.at() + log::SEGMENTS);
        let words = [shard::INDEX_SEGMENTS, shard::BODY_SEGMENTS, small, main, pinned];
        let counts = words.iter().map(|word| self.arena.region().get(at + word));
        counts.fold(0, u64::saturating_add)
    }

    /// Number of free segments, and of those that a process is filling.
    pub(crate) fn segments_of_no_shard(&self) -> (u64, u64) {
        let (mut free, mut building) = (0, 0);
        for segment in 0..self.arena.segments_present() {
            match self.arena.segment_owner(segment) {
                Owner::Free => free += 1,
                Owner::Builder(_) => building += 1,
                Owner::Shard(_) | Owner::Unknown(_) => {}
            }
        }
        (free, building)
    }

    /// Number of a shard's spare segments. Read without its lock.
    pub(crate) fn spares_of(&self, shard: u64) -> u64 {
        let at = self.arena.geometry().shard_at(shard) + shard::SPARES;
        let words = (0..shard::SPARE_COUNT).map(|index| self.arena.region().get(at + index * 8));
        words.filter(|word| *word != 0).count() as u64
    }

    /// Whether the file may grow by fewer segments than this for each shard.
    pub fn may_grow_by_less_than(&self, segments_per_shard: u64) -> bool {
        let present = u64::from(self.arena.segments_present());
        let ungrown = self.arena.geometry().segment_count.saturating_sub(present);
        ungrown < segments_per_shard * self.shape.shard_count
    }

    /// A free segment, by growth if necessary. None if the file cannot grow.
    pub fn take_or_grow(&self, owner: Owner) -> Option<u32> {
        loop {
            if let Some(segment) = self.arena.take_segment(owner) {
                hooks::reach(Point::SegmentTaken);
                return Some(segment);
            }
            // True also after growth by others, who may have taken all of it: nothing is evicted as
            // long as the file can grow. A full file system is no error here: the shard evicts
            // instead.
            if !self.arena.grow().unwrap_or(false) {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Config, Place, Ttl, Value};

    fn open() -> Cache {
        let config = Config { size_bytes: 64 << 20, ..Config::default() };
        let cache = Cache::open(&Place::Private, &config).unwrap();
        assert_eq!(cache.cx.shape.shard_count, 4);
        cache
    }

    /// The segments of each shard, if one has less than this percentage of its share.
    fn held_if_below(cache: &Cache, percent: u64) -> Option<Vec<u64>> {
        let share = cache.cx.arena.geometry().segment_count / 4;
        let held: Vec<u64> = (0..4).map(|shard| cache.cx.segments_of(shard)).collect();
        held.iter().any(|held| held * 100 < share * percent).then_some(held)
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_full_file_is_shared_out_evenly() {
        let cache = open();
        let value = vec![7; 4 << 20];
        let mut state = 1u64;
        for key in 0..3_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // 32 KiB to 4 MiB, each power of two equally often.
            let len = (32usize << 10) << (state >> 61);
            cache.set(&key.to_le_bytes(), Value::bytes(&value[..len]), Ttl::Never).unwrap();
            if key > 1_000 {
                // A value may take a quarter of a share.
                assert_eq!(held_if_below(&cache, 50), None, "after {key} sets");
            }
        }
    }

    /// Values shorter than a segment: many entries must be evicted before a segment is free.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_shard_that_holds_the_whole_file_evicts_for_the_others() {
        for len in [100, 1_000] {
            let (cache, value) = (open(), vec![7; len]);
            let set = |key: u64| {
                cache.set(&key.to_le_bytes(), Value::bytes(&value), Ttl::Never).unwrap();
            };
            let is_of_first = |key: &u64| cache.cx.hasher.key(&key.to_le_bytes()).shard(4) == 0;
            (0..u64::MAX).filter(is_of_first).take((80 << 20) / (len + 30)).for_each(set);
            assert!(
                held_if_below(&cache, 2).is_some_and(|held| held[0] > 900),
                "not the first's yet"
            );
            (0..(64 << 20) / (len as u64 + 30)).for_each(|key| set(1 << 40 | key));
            assert_eq!(held_if_below(&cache, 80), None, "values of {len} bytes");
            // The others have what the first shard lost.
            assert!(cache.stats().entry_bytes > 50_000_000, "{} bytes", cache.stats().entry_bytes);
        }
    }

    /// In a full file every write has to evict sooner or later.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_damaged_log_of_one_shard_costs_the_others_nothing() {
        let foreign = |cache: &Cache| {
            let at = cache.cx.arena.geometry().shard_at(1) + LogKind::Main.at() + log::HEAD;
            cache.cx.arena.region().get(at)
        };
        // No value here names a place of another shard.
        let damages = [
            (log::HEAD, Some(u64::MAX)),
            (log::TAIL, Some(u64::MAX)),
            (log::HEAD, Some(0)),
            (log::TAIL, None),
        ];
        for (kind, (word, value)) in LogKind::BOTH.into_iter().flat_map(|k| damages.map(|d| (k, d)))
        {
            let cache = open();
            let set = |key: u64| {
                cache.set(&key.to_le_bytes(), Value::bytes(&[7; 4_000]), Ttl::Never).unwrap();
            };
            (0..25_000).for_each(set);
            let held = |cache: &Cache| (1..4).map(|shard| cache.cx.segments_of(shard)).sum::<u64>();
            let (before, value) = (held(&cache), value.unwrap_or_else(|| foreign(&cache)));
            let shard_at = cache.cx.arena.geometry().shard_at(0);
            cache.cx.arena.region().set(shard_at + kind.at() + word, value);
            (25_000..25_400).for_each(set);
            // A shard that was emptied may take some until it has its share again.
            let left = held(&cache);
            assert!(
                left + 16 > before,
                "{before} segments became {left}: {kind:?}, {word} = {value}"
            );
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn spares_that_are_none_cost_no_entry() {
        let cache = open();
        let set = |key: u64| {
            cache.set(&key.to_le_bytes(), Value::bytes(&[7; 1_000]), Ttl::Never).unwrap();
        };
        (0..100_000).for_each(set);
        let shard = cache.writes().lock(0).unwrap();
        let before = shard.entries();
        shard.spare_words().for_each(|at| shard.set_word(at, u64::MAX));
        drop(shard);
        (100_000..101_000).for_each(set);
        let after = cache.writes().lock(0).unwrap().entries();
        // What its lost spare segments held, and the new entries.
        assert!(after + 300 > before, "{before} entries became {after}");
    }
}
