//! Where a shard's segments come from, and where they go.
//!
//! First what the file has free, then growth, and only then eviction. When the pool runs out, a
//! shard keeps a few spare segments, so that moving what is to stay never needs to evict first.
//!
//! Which shard evicts: the one that needs room, unless it has less than its share of the file; then
//! the one that has most. An entry of many segments that goes frees more of them than were asked for,
//! and the rest is for whoever comes next. By that chance alone a few shards would have all of the file
//! in the end, and the others nothing.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::region::fence;
use tuckbox_arena::segments::Owner;
use tuckbox_arena::Stay;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::eviction::{IfStuck, SLICE};
use crate::layout::{log, shard};
use crate::log::LogKind;
use crate::record::{Body, Head};
use crate::shard::Shard;

/// What a segment is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A new record: the spare segments are not for it, nor what moving needs of the head.
    NewRecord,
    /// A new record for which no room could be made: it takes what the head has.
    NewRecordAnyway,
    /// A record that moves to the head of a log, so that its old segment becomes free.
    Move,
}

/// The pool counts as scarce when a shard could take less than this from it on average.
const SCARCE_PER_SHARD: u64 = 4;
/// Below this much, whoever builds bodies sees to the spare segments first. More than the above:
/// several may build at the same time.
const BUILDERS_LEAVE_PER_SHARD: u64 = 12;
/// A shard is poor that lacks such a part of its share. A larger lack than none, because each segment
/// that a poor one needs costs an asking across shards.
const POOR_PART: u64 = 8;

impl Shard<'_> {
    fn spare_words(&self) -> impl Iterator<Item = u64> {
        (0..shard::SPARE_COUNT).map(|index| shard::SPARES + index * 8)
    }

    /// Spare segments that the shard keeps for moving: two, because a record of nearly a segment
    /// may follow another before the first one's old segment is free. A cache of few segments
    /// cannot spare as many.
    pub fn spares_kept(&self) -> u64 {
        let segments_each = self.arena().geometry().segment_count / self.cache.shape.shard_count;
        if segments_each < 32 {
            1
        } else {
            2
        }
    }

    /// The spare segments.
    pub fn spares(&self) -> SmallVec<[u32; shard::SPARE_COUNT as usize]> {
        self.spare_words()
            .filter_map(|at| u32::try_from(self.word(at).checked_sub(1)?).ok())
            .collect()
    }

    fn pop_spare(&self) -> Option<u32> {
        let mut words = self.spare_words().map(|at| (at, self.word(at)));
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        let segment = u32::try_from(word - 1).ok();
        self.set_word(at, 0);
        self.arena().begin_use();
        // A damaged word may name a segment that is in use, or none at all.
        segment.filter(|segment| self.owns(*segment))
    }

    /// Whether a segment is there, and this shard's.
    pub fn owns(&self, segment: u32) -> bool {
        self.cache.is_usable(segment)
            && self.arena().segment_owner(segment) == Owner::Shard(self.index as u32)
    }

    /// Sets a segment aside that was just taken. None if all places are taken; the segment is free
    /// again then.
    fn keep_spare(&self, segment: u32) -> Option<()> {
        if !self.push_spare(segment) {
            self.arena().release_segment(segment);
            return None;
        }
        Some(())
    }

    fn push_spare(&self, segment: u32) -> bool {
        // Or one that names no segment of ours: damage shall not take the places away.
        let is_free = |at: &u64| {
            let named = self.word(*at).checked_sub(1).and_then(|named| u32::try_from(named).ok());
            !named.is_some_and(|named| self.owns(named))
        };
        match self.spare_words().find(is_free) {
            Some(at) => {
                self.set_word(at, u64::from(segment) + 1);
                true
            }
            None => false,
        }
    }

    pub(crate) fn take_from_pool(&self) -> Option<u32> {
        self.cache.take_or_grow(Owner::Shard(self.index as u32))
    }

    /// Whether nearly all segments that the file may have are in use.
    pub fn pool_is_scarce(&self) -> bool {
        self.cache.may_grow_by_less_than(SCARCE_PER_SHARD)
    }

    /// Sets the spare segments aside, as far as the pool has them.
    fn keep_spares(&self) -> Option<()> {
        while (self.spares().len() as u64) < self.spares_kept() {
            self.keep_spare(self.take_from_pool()?)?;
        }
        Some(())
    }

    /// A segment for a log.
    pub fn take_for_log(&self, need: Need) -> Option<u32> {
        if need == Need::Move {
            return self.pop_spare().or_else(|| self.take_from_pool());
        }
        if self.pool_is_scarce() {
            self.keep_spares()?;
            // From now on entries are evicted, and remembered.
            self.open_all_ghosts();
            if let Some(segment) = self.pop_surplus_spare() {
                return Some(segment);
            }
        }
        self.take_from_pool()
    }

    /// A spare segment, if there are more than are kept.
    pub fn pop_surplus_spare(&self) -> Option<u32> {
        if self.spares().len() as u64 > self.spares_kept() {
            return self.pop_spare();
        }
        None
    }

    /// A segment for the index, which keeps it.
    pub fn take_for_index(&self) -> Option<u32> {
        self.take_from_pool().or_else(|| self.pop_spare())
    }

    /// Gives the spare segment to the pool that there is more than are kept. Whether there was one.
    pub fn give_surplus_spare(&self) -> bool {
        let surplus = self.pop_surplus_spare();
        surplus.inspect(|segment| self.arena().release_segment(*segment)).is_some()
    }

    /// Gives all spare segments to the pool. Whether there were any.
    pub fn give_up_spares(&self) -> bool {
        let mut gave = false;
        while let Some(segment) = self.pop_spare() {
            self.arena().release_segment(segment);
            gave = true;
        }
        gave
    }

    /// Whether the next segment that a new record needs is at hand, or could be taken now.
    pub fn has_segment_ready(&self) -> bool {
        if !self.pool_is_scarce() || self.spares().len() as u64 > self.spares_kept() {
            return true;
        }
        while self.spares().len() as u64 <= self.spares_kept() {
            if self.take_from_pool().and_then(|segment| self.keep_spare(segment)).is_none() {
                return false;
            }
        }
        true
    }

    /// Whether a record of this length at the head of a log, in whose segment there are so many
    /// bytes of room, would leave too little to move what may live in the log's oldest segment. Then
    /// dead space could not be had without dropping entries.
    pub fn would_stop_moves(&self, kind: LogKind, log_bytes: u64, room_bytes: u64) -> bool {
        if !self.pool_is_scarce() {
            return false;
        }
        let spares = self.spare_words().filter(|at| self.word(*at) != 0).count() as u64;
        if spares >= self.spares_kept() || self.keep_spares().is_some() {
            return false;
        }
        let (Some(tail), Some(head)) = (self.tail(kind), self.head_cursor(kind)) else {
            return false;
        };
        let segment_bytes = self.cache.shape.log_bytes;
        // The last record of the segment may cross its end.
        let most =
            segment_bytes.saturating_sub(tail.byte) + (self.spares_kept() - 1) * segment_bytes;
        let left = room_bytes.saturating_sub(log_bytes) + spares * segment_bytes;
        tail.segment != head.segment && left < most
    }

    /// Gives back a segment that was taken and never used.
    pub fn put_back(&self, segment: u32) {
        // One more than are kept: the one that the next record opens.
        let wanted = self.pool_is_scarce() && self.spares().len() as u64 <= self.spares_kept();
        if !(wanted && self.push_spare(segment)) {
            self.arena().release_segment(segment);
        }
    }

    /// Gives back a segment to which nothing refers any more.
    pub fn end_and_put_back(&self, segment: u32) {
        // A damaged link can lead to a segment that somebody else uses.
        if self.owns(segment) {
            self.arena().end_use(segment);
            self.put_back(segment);
        }
    }

    /// Frees the bodies of a record to which no slot leads any more. `words` is a copy of it.
    pub fn free_bodies(&self, head: &Head, words: &[u64]) {
        for body in head.bodies(words) {
            let Ok(segment) = u32::try_from(body.segment) else { continue };
            let is_ours = self.owns(segment) && self.arena().generation(segment) == body.generation;
            if is_ours {
                self.end_and_put_back(segment);
                self.subtract_word(shard::BODY_SEGMENTS, 1);
            }
        }
    }

    /// Makes bodies that this process built the shard's own, before a slot leads to them.
    pub fn adopt_bodies(&self, bodies: &[Body]) {
        for body in bodies {
            self.arena().give_segment(body.segment as u32, Owner::Shard(self.index as u32));
        }
        self.add_word(shard::BODY_SEGMENTS, bodies.len() as u64);
        if !bodies.is_empty() {
            hooks::reach(Point::BodyAdopted);
        }
    }
}

impl Cache {
    /// Whether others have to give way to a shard, because it has less than its share.
    pub(crate) fn is_poor(&self, shard: u64) -> bool {
        // Of what the file has: a file system that is full may keep it from what it was to have.
        let share = u64::from(self.arena.segments_present()) / self.shape.shard_count;
        self.shape.shard_count > 1 && self.segments_of(shard) < share - share / POOR_PART
    }

    /// The shard that evicts when this one needs room, and the pool has none.
    pub(crate) fn giver_for(&self, home: u64) -> u64 {
        let richest = || (0..self.shape.shard_count).max_by_key(|one| self.segments_of(*one));
        Some(home).filter(|home| !self.is_poor(*home)).or_else(richest).unwrap_or(home)
    }

    /// How many segments a shard has for its index and its entries. Asked without its lock.
    fn segments_of(&self, shard: u64) -> u64 {
        let at = self.arena.geometry().shard_at(shard);
        let words = [
            shard::INDEX_SEGMENTS,
            shard::BODY_SEGMENTS,
            shard::SMALL + log::SEGMENTS,
            shard::MAIN + log::SEGMENTS,
        ];
        let counts = words.iter().map(|word| self.arena.region().get(at + word));
        counts.fold(0, u64::saturating_add)
    }

    /// How many segments a shard keeps for moving. Asked without its lock.
    pub(crate) fn spares_of(&self, shard: u64) -> u64 {
        let at = self.arena.geometry().shard_at(shard) + shard::SPARES;
        let words = (0..shard::SPARE_COUNT).map(|index| self.arena.region().get(at + index * 8));
        words.filter(|word| *word != 0).count() as u64
    }

    /// Whether the file may grow by fewer segments than so many for each shard.
    fn may_grow_by_less_than(&self, segments_per_shard: u64) -> bool {
        let present = u64::from(self.arena.segments_present());
        let ungrown = self.arena.geometry().segment_count.saturating_sub(present);
        ungrown < segments_per_shard * self.shape.shard_count
    }

    /// A segment that is free, or that the file grows by. None if it may not grow any more.
    fn take_or_grow(&self, owner: Owner) -> Option<u32> {
        loop {
            if let Some(segment) = self.arena.take_segment(owner) {
                hooks::reach(Point::SegmentTaken);
                return Some(segment);
            }
            // True also when others made the file longer, and they may have taken all of that
            // already: as long as it can still grow, nothing has to be evicted. A file system that
            // is full is no error here: the shard evicts instead.
            if !self.arena.grow().unwrap_or(false) {
                return None;
            }
        }
    }

    /// Copies the whole segments of a large value into segments of this process's own, without any
    /// lock. Whoever gets them publishes them in a record or calls [`Cache::drop_bodies`], and stays until
    /// then.
    pub(crate) fn build_bodies(
        &self,
        stay: &Stay<'_>,
        home: u64,
        value: &[u8],
    ) -> Result<Vec<Body>> {
        let mut bodies: Vec<Body> = Vec::new();
        let parts = value.chunks_exact(self.shape.segment_bytes as usize);
        let count = parts.len() as u64;
        let wanted_bytes = parts.len() * std::mem::size_of::<Body>();
        bodies.try_reserve_exact(parts.len()).map_err(|_| Error::OutOfMemory { wanted_bytes })?;
        for part in parts {
            let segment = match self.take_for_building(home, count) {
                Ok(segment) => segment,
                Err(error) => {
                    self.drop_bodies(&bodies);
                    return Err(error);
                }
            };
            let mut hash = 0;
            let mut copy = || {
                self.arena.region().copy_in_bytes(self.arena.geometry().segment_at(segment), part);
                hash = self.hasher.bytes(part);
            };
            let ran = self.arena.waiter().run(&mut copy);
            if ran.is_err() || stay.is_parents() {
                self.arena.free_own_segment(segment);
                self.drop_bodies(&bodies);
                return Err(match ran {
                    Err(_) => tuckbox_arena::Error::Interrupted.into(),
                    Ok(()) => tuckbox_arena::Error::Forked.into(),
                });
            }
            let generation = self.arena.generation(segment);
            bodies.push(Body { segment: u64::from(segment), generation, hash });
        }
        if !bodies.is_empty() {
            hooks::reach(Point::BodyBuilt);
        }
        Ok(bodies)
    }

    /// Frees bodies that no record names.
    pub(crate) fn drop_bodies(&self, bodies: &[Body]) {
        bodies.iter().for_each(|body| self.arena.free_own_segment(body.segment as u32));
    }

    /// A segment to be filled by this process, one of `count` that a value needs.
    fn take_for_building(&self, home: u64, count: u64) -> Result<u32> {
        let owner = Owner::Builder(self.arena.owner()?);
        // If the last of the pool became bodies, the shard could move nothing, and its dead space
        // would cost entries.
        if self.may_grow_by_less_than(BUILDERS_LEAVE_PER_SHARD) {
            self.lock_shard(home)?.keep_spares();
        }
        let take = || self.take_or_grow(owner);
        if let Some(segment) = take() {
            return Ok(segment);
        }
        if self.arena.reveal_free_segments() + self.arena.free_abandoned_segments() > 0 {
            if let Some(segment) = take() {
                return Ok(segment);
            }
        }
        // A file system that is full keeps the file shorter than it was to become. What would be
        // too large for a cache of that size is refused before anything has to go for it.
        let present = u64::from(self.arena.segments_present());
        if present < self.arena.geometry().segment_count && count > present / 4 {
            return Err(Error::Full { wanted_bytes: count * self.shape.segment_bytes });
        }
        // Every shard gives a slice in turn, until a segment is free. Only the home shard may be
        // waited for.
        for round in 0..self.shape.slices_most {
            let first = self.giver_for(home);
            for step in 0..self.shape.shard_count {
                let index = (first + step) % self.shape.shard_count;
                let if_stuck = IfStuck::after(round);
                let shard = match index == home {
                    true => Some(self.lock_shard(index)?),
                    false if if_stuck == IfStuck::Stop && self.is_poor(index) => None,
                    false => self.try_lock_shard(index)?,
                };
                if let Some(shard) = shard {
                    let wanted_bytes = count * self.shape.segment_bytes;
                    shard.make_room(SLICE, if_stuck, wanted_bytes);
                    shard.give_surplus_spare();
                }
                if let Some(segment) = take() {
                    return Ok(segment);
                }
            }
            if round > 100 {
                std::thread::yield_now();
            }
        }
        Err(Error::Full { wanted_bytes: self.shape.segment_bytes })
    }

    /// Whether all bodies of a large value are what its record says.
    pub(crate) fn has_bodies(&self, head: &Head, record: &[u64]) -> bool {
        let is_there = |body: Body| {
            u32::try_from(body.segment).is_ok_and(|segment| {
                self.is_usable(segment) && self.arena.generation(segment) == body.generation
            })
        };
        head.bodies(record).all(is_there)
            && head.body_count <= u64::from(self.arena.segments_present())
    }

    /// Copies a large value together, from its bodies, which were there, and the tail in its record,
    /// into the first bytes of `value`. False if a body is no longer what the record says.
    pub(crate) fn load_bodies(&self, head: &Head, record: &[u64], value: &mut [u8]) -> bool {
        let segment_bytes = self.shape.segment_bytes as usize;
        let (bodies, rest) = value.split_at_mut(segment_bytes * head.body_count as usize);
        let mut is_whole = true;
        let mut copy = || {
            for (body, target) in head.bodies(record).zip(bodies.chunks_exact_mut(segment_bytes)) {
                let segment = body.segment as u32;
                let segment_at = self.arena.geometry().segment_at(segment);
                self.arena.region().copy_out_bytes(segment_at, target);
                fence(Ordering::Acquire);
                if self.arena.generation(segment) != body.generation
                    || self.hasher.bytes(target) != body.hash
                {
                    is_whole = false;
                    return;
                }
            }
        };
        self.arena.waiter().finish(&mut copy);
        if is_whole {
            let tail = head.tail(record, &self.shape);
            rest[..tail.len()].copy_from_slice(tail);
        }
        is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Place, Ttl, Value};

    fn open() -> Cache {
        let config = Config { size_bytes: 64 << 20, ..Config::default() };
        let cache = Cache::open(&Place::Private, &config).unwrap();
        assert_eq!(cache.shape.shard_count, 4);
        cache
    }

    /// What the shards have, if not all have at least so many per cent of their share.
    fn poor_ones(cache: &Cache, percent: u64) -> Option<Vec<u64>> {
        let share = cache.arena.geometry().segment_count / 4;
        let held: Vec<u64> = (0..4).map(|shard| cache.segments_of(shard)).collect();
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
            // 32 KiB to 4 MiB, as many of each order of magnitude.
            let len = (32usize << 10) << (state >> 61);
            cache.set(&key.to_le_bytes(), Value::bytes(&value[..len]), Ttl::Never).unwrap();
            if key > 1_000 {
                // Not closer: one value may be a quarter of a share.
                assert_eq!(poor_ones(&cache, 50), None, "after {key} sets");
            }
        }
    }

    /// Values of fewer bytes than a segment, of which many entries have to go before one is free.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_shard_that_has_all_of_the_file_gives_way_to_the_others() {
        for len in [100, 1_000] {
            let (cache, value) = (open(), vec![7; len]);
            let set = |key: u64| {
                cache.set(&key.to_le_bytes(), Value::bytes(&value), Ttl::Never).unwrap();
            };
            let is_of_first = |key: &u64| cache.hasher.key(&key.to_le_bytes()).shard(4) == 0;
            (0..u64::MAX).filter(is_of_first).take((80 << 20) / (len + 30)).for_each(set);
            assert!(poor_ones(&cache, 2).is_some_and(|held| held[0] > 900), "not the first's yet");
            (0..(64 << 20) / (len as u64 + 30)).for_each(|key| set(1 << 40 | key));
            assert_eq!(poor_ones(&cache, 80), None, "values of {len} bytes");
            // What the first one lost the others have.
            assert!(cache.stats().entry_bytes > 50_000_000, "{} bytes", cache.stats().entry_bytes);
        }
    }

    /// In a full file, where a write has to make room sooner or later.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_damaged_log_of_one_shard_costs_the_others_nothing() {
        let foreign = |cache: &Cache| {
            let at = cache.arena.geometry().shard_at(1) + LogKind::Main.at() + log::HEAD;
            cache.arena.region().get(at)
        };
        // None is a place of another shard.
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
            let held = |cache: &Cache| (1..4).map(|shard| cache.segments_of(shard)).sum::<u64>();
            let (before, value) = (held(&cache), value.unwrap_or_else(|| foreign(&cache)));
            let shard_at = cache.arena.geometry().shard_at(0);
            cache.arena.region().set(shard_at + kind.at() + word, value);
            (25_000..25_400).for_each(set);
            // But for what a shard that was emptied may take until it has its share again.
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
        let shard = cache.lock_shard(0).unwrap();
        let before = shard.entries();
        shard.spare_words().for_each(|at| shard.set_word(at, u64::MAX));
        drop(shard);
        (100_000..101_000).for_each(set);
        let after = cache.lock_shard(0).unwrap().entries();
        // What its lost spares held, and what came.
        assert!(after + 300 > before, "{before} entries became {after}");
    }
}
