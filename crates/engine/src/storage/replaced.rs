//! The places of replaced records, for new records of the same or nearly the same length: storing values
//! of other lengths again and again then takes no further space, and leaves hardly anything to compact.
//! Must not know why an entry is replaced.
//!
//! Each open file remembers some places of its own, outside of the shared memory. They are used under the
//! shard's lock, only for the record that replaces another one, and only if nothing else has happened to
//! the place:
//! - *Its segments are in the same use.* Otherwise the generation has moved.
//! - *Its record is the one that was replaced.* No two records of a use have the same word 0. So a forked
//!   child that knows the same place finds it changed.
//! - *The log's tail has not passed it.* The tail skips what is before it, and frees the segment.
//! - *It is undamaged*: a damaged length would lead to what belongs to others.
//!
//! What may be evicted is evicted by its place. So an entry of the other logs only gets a place in its own
//! log, in a segment that is not older than its own, or in the younger half of the log, and where its
//! frequency reads the same.
//!
//! The races with readers are in `docs/explanation/concurrency.md`, "The lock-free read". If the writer
//! dies, the place is dead space of its log. A walk through the log still finds the next record, because
//! both records have the same flags, and the new one has the length of the old one, with slack if need be.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::Release;

use smallvec::SmallVec;
use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;
use tuckbox_arena::region::fence;

use super::places::{Fit, RememberedPlace};
use super::shard::Shard;
use crate::format::{flag, note, shard, LogKind, PolicyBits, Position, RecordHeader, Sequence};

/// The place of a replaced record.
pub struct ReplacedPlace {
    /// Where it begins.
    pub position: Position,
    /// Its length.
    pub log_bytes: u64,
    /// The further segments that it crosses.
    segments: Segments,
}

type Segments = SmallVec<[u32; 2]>;

/// The part of [`note::OPENED`] that is the clock.
const CLOCK_BITS: u32 = 48;

impl Shard<'_> {
    /// As [`Shard::vacate`], for a record that was replaced and is marked: also remembers its place, unless
    /// its segment is free now.
    #[inline]
    pub fn vacate_replaced(&self, kind: LogKind, at: Position, header: &RecordHeader) {
        if header.has(flag::LONG) || !self.uses_places(kind) {
            return self.vacate(at, header.log_bytes);
        }
        let (offset, log_bytes) = (self.cx.offset_of(at), header.log_bytes);
        let first = self.region().get(offset);
        let generation = self.arena().generation(at.segment);
        self.vacate(at, log_bytes);
        if self.arena().generation(at.segment) == generation {
            let place = RememberedPlace { offset, first, generation, log_bytes };
            self.cx.places.remember(self.index, place);
        }
    }

    /// Whether places in a log are worth a search. Not while all entries fit that may be evicted: then the
    /// log head is in memory that was used just before.
    #[inline(always)]
    pub fn uses_places(&self, kind: LogKind) -> bool {
        kind == LogKind::Pinned || self.word(shard::CLOCK) > 0
    }

    /// A place in a log for a record with this header and these policy bits, which replaces the one at
    /// `old`.
    #[inline]
    pub fn replaced_place(
        &self,
        kind: LogKind,
        old: Position,
        header: &RecordHeader,
        bits: PolicyBits,
    ) -> Option<ReplacedPlace> {
        if header.has(flag::LONG) || !self.uses_places(kind) {
            return None;
        }
        let tail = self.tail_cursor(kind)?;
        let most_bytes = match kind {
            // Its space is counted before the place is known.
            LogKind::Pinned => header.log_bytes,
            LogKind::Small | LogKind::Main => header.log_bytes_max(),
        };
        let flags = header.sequence.flags();
        let fit = |place: &RememberedPlace| {
            let Some(at) = self.cx.position_of(place.offset) else { return Fit::Never };
            if self.arena().generation(at.segment) != place.generation {
                return Fit::Never;
            }
            // What the segment's notes tell comes first: the record may be far. So a place that was used by
            // others may be kept until its turn.
            if self.log_of(at.segment) != kind || Sequence(place.first).flags() != flags {
                return Fit::NotHere;
            }
            if kind != LogKind::Pinned && !self.may_move(old, at, tail, bits.frequency()) {
                return Fit::NotHere;
            }
            let is_same = self.region().get(place.offset) == place.first
                || mutants::is_on("place-of-another");
            let is_ahead = tail.segment != at.segment
                || tail.byte <= at.byte
                || mutants::is_on("place-behind-tail");
            let is_free = is_same && is_ahead && self.owns(at.segment);
            if !is_free || self.further_segments(at, place.log_bytes).is_none() {
                return Fit::Never;
            }
            // A damaged length or trailer may lead to what belongs to others; a damaged slot to the place
            // itself.
            match at != old && self.was_valid(place.offset, place.log_bytes) {
                true => Fit::Good,
                false => Fit::Never,
            }
        };
        let place = self.cx.places.recall(self.index, header.log_bytes, most_bytes, fit)?;
        let position = self.cx.position_of(place.offset)?;
        let segments = self.further_segments(position, place.log_bytes)?;
        Some(ReplacedPlace { position, log_bytes: place.log_bytes, segments })
    }

    /// Whether an entry may move from one place to another: it gets no older than a segment, or has at
    /// least half of its log's way to the tail ahead; and it keeps its frequency, which is read as having
    /// been written since the segment was opened. The age is the number of evictions since then. If the
    /// ages are the same, only the segment that is examined next is refused.
    fn may_move(&self, old: Position, new: Position, tail: Position, frequency: u64) -> bool {
        let opened = |at: Position| self.arena().note(at.segment, note::OPENED);
        let now = self.word(shard::CLOCK);
        let age = |at: Position| now.wrapping_sub(opened(at)) & ((1 << CLOCK_BITS) - 1);
        let halvings = opened(new) >> CLOCK_BITS;
        let is_young = match age(new).cmp(&age(old)) {
            Ordering::Less => true,
            Ordering::Equal => new.segment == old.segment || new.segment != tail.segment,
            Ordering::Greater => age(new) <= age(tail) / 2 || mutants::is_on("older-places"),
        };
        is_young
            && (frequency == 0
                || halvings << CLOCK_BITS == self.word(shard::HALVINGS) << CLOCK_BITS)
    }

    /// Writes a record into the place of a replaced one. No slot leads to it yet. Word 0, which is busy
    /// until then, comes last. The words from `present` on are there already.
    pub fn write_over(&self, place: &ReplacedPlace, words: &[u64], present: usize) {
        debug_assert_eq!(place.log_bytes, words.len() as u64 * 8);
        let offset = self.cx.offset_of(place.position);
        fence(Release);
        let Position { segment, byte } = place.position;
        let mut at = Position { segment, byte: byte + 8 };
        let mut left = &words[1..present];
        let mut segments = place.segments.iter();
        loop {
            let here_words = ((self.cx.shape.log_bytes - at.byte) / 8) as usize;
            let (here, further) = left.split_at(here_words.min(left.len()));
            self.region().copy_in(self.cx.offset_of(at), here);
            self.count_live(at.segment);
            let Some(next) = segments.next() else { break };
            (at, left) = (Position { segment: *next, byte: 0 }, further);
        }
        hooks::reach(Point::RecordWritten);
        self.region().store(offset, words[0], Release);
        hooks::reach(Point::CursorMoved);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Buffer, Cache, Config, Pass, Place, Ttl, Value};

    fn replace(cache: &Cache, key: &[u8], byte: u8) {
        let pass = Pass { gate: cache.gate(), version: Pass::ANY, delta: 0 };
        assert!(cache.store_passing(key, Value::bytes(&[byte; 100]), &pass).unwrap().is_some());
    }

    fn byte_of(cache: &Cache, key: &[u8]) -> Option<u8> {
        match cache.get(key, &mut Buffer::new()).unwrap()?.value {
            Value::Bytes { bytes, .. } => Some(bytes[0]),
            Value::Int(_) => None,
        }
    }

    #[test]
    fn two_that_know_the_same_place_do_not_both_use_it() {
        let config = Config { size_bytes: 1 << 20, evicts: false, ..Config::default() };
        let twins = Cache::twins(&config, 2).unwrap();
        let keys = [b"one", b"two", b"six"];
        keys.iter().for_each(|key| replace(&twins[0], *key, 1));
        for round in 2..50 {
            replace(&twins[0], keys[0], round);
            // As in a forked child.
            twins[1].cx.places.copy_from(&twins[0].cx.places);
            replace(&twins[0], keys[1], round);
            replace(&twins[1], keys[2], round);
            for key in keys {
                assert_eq!(byte_of(&twins[0], key), Some(round), "{key:?}");
            }
        }
        assert!(twins[1].check().unwrap().is_sound());
    }

    /// A full cache of entries with records of one length, in one shard.
    fn full_cache(keys: u64) -> Cache {
        let config = Config { size_bytes: 1 << 20, ..Config::default() };
        let cache = Cache::open(&Place::Private, &config).unwrap();
        (0..keys).for_each(|key| set(&cache, key, 800));
        assert!(cache.stats().evictions > 0);
        cache
    }

    fn set(cache: &Cache, key: u64, len: usize) {
        cache.set(&key.to_le_bytes(), Value::bytes(&vec![7; len]), Ttl::Never).unwrap();
    }

    /// The place of an entry and the length of its record.
    fn place_of(cache: &Cache, key: u64) -> Option<(Position, u64)> {
        let key = key.to_le_bytes();
        let live = cache.writes().lock(0).unwrap().find_kept(&key, cache.cx.hasher.key(&key));
        live.map(|live| (live.position, live.header.log_bytes))
    }

    /// What is stored again with other lengths takes the places of what was replaced, whether or not
    /// they cross the end of a segment. No entry gets a place where it would be evicted much sooner.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn values_of_other_lengths_get_places_that_are_young_enough() {
        let keys = 1_500;
        let cache = full_cache(keys);
        let opened =
            |at: Position| cache.cx.arena.note(at.segment, note::OPENED) & 0xffff_ffff_ffff;
        // The clock when the younger half of a log was begun. That moves on during a set, never back.
        let half = |kind| {
            let shard = cache.writes().lock(0).unwrap();
            let tail = shard.tail_cursor(kind).map_or(0, opened);
            (tail + shard.word(shard::CLOCK)).div_ceil(2)
        };
        let heads = || LogKind::BOTH.map(|kind| cache.writes().lock(0).unwrap().head_cursor(kind));
        let (mut reused, mut with_slack, mut crossing, mut stored, mut older) = (0, 0, 0, 0, 0);
        let mut left = std::collections::BTreeSet::new();
        let mut state = 1u64;
        for _ in 0..6_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (state >> 33) % keys;
            let Some((old, old_bytes)) = place_of(&cache, key) else { continue };
            let len = 600 + (state >> 20) as usize % 400;
            let (heads_before, halves) = (heads(), LogKind::BOTH.map(half));
            set(&cache, key, len);
            stored += 1;
            let (new, new_bytes) = place_of(&cache, key).unwrap();
            let is_reused = left.remove(&(new.segment, new.byte, new_bytes));
            // If a log's head moved, it may be there.
            let stayed = (new, new_bytes) == (old, old_bytes);
            if stayed || !is_reused || heads() != heads_before {
                left.insert((old.segment, old.byte, old_bytes));
                continue;
            }
            left.insert((old.segment, old.byte, old_bytes));
            if opened(new) < opened(old) {
                older += 1;
                let kind = cache.writes().lock(0).unwrap().log_of(new.segment);
                let half = halves[kind as usize];
                assert!(opened(new) >= half, "{key} moved from {old:?} to {new:?}");
            }
            reused += 1;
            with_slack += u32::from(new_bytes > (12 + 8 + len as u64).next_multiple_of(8));
            crossing += u32::from(new.byte + new_bytes > cache.cx.shape.log_bytes);
        }
        assert!(reused > stored / 8, "{reused} of {stored}");
        assert!(
            with_slack > 50 && crossing > 50 && older > 20,
            "{with_slack}, {crossing}, {older}"
        );
        assert!(cache.check().unwrap().is_sound());
    }

    /// The frequency of an entry is that of the time when its segment was opened.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn an_entry_with_a_frequency_gets_no_place_from_before_a_halving() {
        let cache = full_cache(1_500);
        let shard = cache.writes().lock(0).unwrap();
        let tail = shard.tail(LogKind::Main).unwrap();
        assert!(shard.may_move(tail, tail, tail, 3));
        shard.add_word(shard::HALVINGS, 1);
        assert!(shard.may_move(tail, tail, tail, 0));
        assert!(!shard.may_move(tail, tail, tail, 3));
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_value_that_is_a_little_shorter_or_longer_again_stays_in_its_place() {
        let config = Config { size_bytes: 1 << 20, ..Config::default() };
        let cache = Cache::open(&Place::Private, &config).unwrap();
        // As if an entry had been evicted.
        cache.writes().lock(0).unwrap().add_word(shard::CLOCK, 1);
        for (key, len) in [(1, 40), (2, 800), (3, 2_000)] {
            set(&cache, key, len);
            let first = place_of(&cache, key);
            for shorter in [len - len / 6, len - 1, len - 8, len] {
                set(&cache, key, shorter);
                assert_eq!(place_of(&cache, key), first, "{shorter} of {len}");
                let mut buffer = Buffer::new();
                let entry = cache.get(&key.to_le_bytes(), &mut buffer).unwrap().unwrap();
                assert_eq!(entry.value, Value::bytes(&vec![7; shorter]));
            }
            set(&cache, key, len / 2);
            assert_ne!(place_of(&cache, key), first, "half of {len}");
        }
        assert!(cache.check().unwrap().is_sound());
    }

    /// A damaged length claims that a record reaches into the next one.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_damaged_length_costs_one_entry() {
        let (keys, len) = (120, 1_000);
        let config = Config { size_bytes: 1 << 20, ..Config::default() };
        for (victim, bit) in (10..16).flat_map(|key| (0..32).map(move |bit| (key, bit))) {
            let cache = Cache::open(&Place::Private, &config).unwrap();
            (0..keys).for_each(|key| set(&cache, key, len));
            // As if an entry had been evicted.
            cache.writes().lock(0).unwrap().add_word(shard::CLOCK, 1);
            let (at, _) = place_of(&cache, victim).unwrap();
            let form_at = cache.cx.offset_of(at) + 8;
            let region = cache.cx.arena.region();
            region.set(form_at, region.get(form_at) ^ 1 << bit);
            let mut buffer = Buffer::new();
            let mut verify = |key: u64, len: usize| {
                let entry = cache.get(&key.to_le_bytes(), &mut buffer).unwrap();
                let value = entry.expect("only the damaged one may be lost").value;
                assert_eq!(value, Value::bytes(&vec![7; len]), "{key}, bit {bit} of {victim}");
            };
            // In its place, elsewhere, and then others in what it left.
            let other = keys - 1;
            for (key, new_len) in
                [(victim, len), (victim, len / 4), (other, len + 100), (other, len + 60)]
            {
                set(&cache, key, new_len);
                (0..keys).filter(|it| ![victim, other].contains(it)).for_each(|it| verify(it, len));
                verify(key, new_len);
            }
        }
    }
}
