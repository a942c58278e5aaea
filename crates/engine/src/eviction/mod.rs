//! Which entries stay. The whole policy is in this module. The rest of the engine asks it with which
//! bits an entry enters or stays ([`Shard::admit`], [`Shard::keep`]), to make way for one entry
//! ([`Shard::make_way`]), room in the logs ([`Shard::make_room`]) or in a bucket
//! ([`Shard::displace`]), to do a little of that after each write ([`Shard::tidy`]), and tells it
//! what is removed ([`Shard::let_go`]).
//!
//! Two first-in-first-out logs: a *small* one, where newcomers wait, and a *main* one. A read only
//! adds a hit to its slot (two bits, so a hot entry stops being written to). An entry is judged
//! when it comes to the tail of its log:
//!
//! * **Duel** (the idea of TinyLFU, Einziger, Friedman and Manes 2017): who leaves the small log
//!   enters the main log only if its frequency beats that of the main log's oldest entry by more
//!   than one. The margin keeps loops from churning the main log.
//! * **Frequency** is collected from the hits when an entry is looked at, halves as time goes by,
//!   and outlives the entry in a ghost. It counts "was hit since it was last looked at", which
//!   filters bursts, and it needs no shared counter that reads would have to write.
//! * **Reuse distance** (the idea of LIRS, Jiang and Zhang 2002, read off log positions): a
//!   newcomer whose ghost was dropped from the small log a shorter time ago than 0.7 times what
//!   the main log's oldest entry has gone without being touched, is the better one whatever the
//!   counts say. A ghost from the main log has no such distance: it would start at its eviction.
//! * **Second chance** (CLOCK): the main log's oldest entry, if it was hit, goes to the log's head
//!   with one hit less instead of duelling.
//!
//! * **Tournament**: the small log's share and which of these rules hold is a setting, and each
//!   shard chooses between five of them by what they would hit on a sample of its keys.
//!
//! Sizes: when the limit of entries binds, every entry counts one; when bytes are short, its bytes,
//! and the newcomer has to beat the frequency per byte of those that it displaces.
//!
//! The method as a whole, its sources and figures are in `docs/eviction.md`. Everything that is read
//! from the file bounds nothing by itself: each loop has a budget.
//!
//! While a log's segments hold much dead space (overwritten, deleted, expired), what lives is
//! moved to the head and nothing is dropped: dead space shall not cost an entry.

mod age;
mod duel;
mod ghosts;
mod setting;
mod shadow;
mod tail;
mod tournament;

use self::setting::{Setting, SETTINGS};
use self::tail::{Candidate, Reason};
use crate::hash::KeyHash;
use crate::index::Found;
use crate::layout::{log, shard, PolicyBits, Slot};
use crate::log::LogKind;
use crate::record::Head;
use crate::shard::Shard;

/// Entries that are looked at before the lock is let go.
pub const SLICE: u32 = 64;
/// Attempts without gain before entries are dropped that should have been moved.
const PATIENCE: u64 = 16;
/// Entries that are looked at after a write, at the most,
const TIDY_STEPS: u32 = 8;
/// and of these, to have a segment ready for the next one.
const EVICT_STEPS: u32 = 4;
/// Frequencies halve after this many increments for each entry.
const HALVE_AFTER: u64 = 5;
/// The reuse-distance rule, in tenths.
const REUSE_TENTHS: u64 = 7;
/// Dead space beyond one part in this many of the logs is compacted before anything is dropped.
const DEAD_PART: u64 = 8;

/// By how much a frequency must be beaten.
const MARGIN: u64 = 1;
/// Duels that a victim may win in a row before it is moved to the head. Without this a dead key
/// whose frequency came from another's ghost would block the main log for ever.
const WINS_MOST: u64 = 64;
/// Of so many entries looked at, one may move to the main log without a duel.
const FREE_MOVE_EACH: u32 = 8;

/// What the policy reckons in: that of which there is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Entries,
    Bytes,
}

/// The sizes that the policy reckons with.
struct Capacity {
    unit: Unit,
    /// The small log's share.
    small: u64,
    /// What the small log keeps before the main log has to give.
    small_least: u64,
    /// The main log's share.
    main: u64,
    small_used: u64,
    main_used: u64,
}

/// What to do about an entry that is to be moved, so that its segment becomes free, when there is no
/// room to move it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfStuck {
    /// Leave it: others may give a segment.
    Stop,
    /// Drop it: they did not.
    Drop,
}

impl IfStuck {
    /// After so many attempts that gained nothing.
    pub fn after(attempts: u64) -> IfStuck {
        if attempts < PATIENCE {
            IfStuck::Stop
        } else {
            IfStuck::Drop
        }
    }
}

/// Counts what a slice may still do.
struct Budget {
    steps: u32,
    if_stuck: IfStuck,
    unit: Unit,
    /// Moves to the main log, without a duel, while that has room: after the setting has changed it
    /// can have much, and no write shall do all of it.
    free_moves: u32,
    /// What the newcomer takes, in the small log. The main log does not give way to one that is
    /// larger than the small log's share before that is empty.
    wanted_bytes: u64,
}

impl Budget {
    fn new(steps: u32, if_stuck: IfStuck, unit: Unit) -> Budget {
        Budget { steps, if_stuck, unit, free_moves: 1 + steps / FREE_MOVE_EACH, wanted_bytes: 0 }
    }

    fn spend(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }
}

impl Shard<'_> {
    fn setting(&self) -> &'static Setting {
        &SETTINGS[self.setting_in_force()]
    }

    /// The number of the setting in force; the first if the word is damaged.
    fn setting_in_force(&self) -> usize {
        let word = self.word(shard::SETTING) as usize;
        if word < SETTINGS.len() {
            word
        } else {
            0
        }
    }

    fn cost(&self, head: &Head, unit: Unit) -> u64 {
        match unit {
            Unit::Entries => 1,
            Unit::Bytes => head.total_bytes(&self.cache.shape),
        }
    }

    fn used(&self, kind: LogKind, unit: Unit) -> u64 {
        match unit {
            Unit::Entries => self.log_count(kind, log::ENTRIES),
            Unit::Bytes => self.log_count(kind, log::BYTES) + self.log_count(kind, log::BODY_BYTES),
        }
    }

    /// The logs' shares of what the shard has, or, while it fills, of the entries it may have.
    fn capacity(&self, unit: Unit, filling: bool) -> Capacity {
        let (small_used, main_used) =
            (self.used(LogKind::Small, unit), self.used(LogKind::Main, unit));
        if unit == Unit::Entries {
            // The limit is the whole cache's, and this shard has what it had when that was reached.
            // If it reckoned with more, it would always find room in the main log, and drop from
            // there, without one duel.
            let all = if filling {
                self.cache.shape.max_entries.div_ceil(self.cache.shape.shard_count)
            } else {
                small_used + main_used
            };
            let small = (all * self.setting().small_percent / 100).max(1);
            let main = all.saturating_sub(small);
            return Capacity { unit, small, small_least: small, main, small_used, main_used };
        }
        let log_bytes = self.cache.shape.log_bytes;
        let sum = |word| LogKind::BOTH.iter().map(|kind| self.log_count(*kind, word)).sum::<u64>();
        let segments = sum(log::SEGMENTS) + self.spares().len() as u64;
        let all = segments * log_bytes + sum(log::BODY_BYTES);
        let small = all * self.setting().small_percent / 100;
        // Whole segments are freed. What is spare, and what is dead or not yet written at the ends
        // of the logs, is no room for the main log: if it were, every slice would find room there,
        // admit without a duel, and then drop from the main log without one. And the small log may
        // fall short of its share by as much as it takes to free a segment, for the same reason.
        let slack = (self.spares_kept() + 2) * log_bytes;
        Capacity {
            unit,
            small,
            small_least: small.saturating_sub(2 * log_bytes).max(small / 4),
            main: all.saturating_sub(slack + small),
            small_used,
            main_used,
        }
    }

    fn count_increments(&self, amount: u64) {
        let increments = self.word(shard::INCREMENTS).saturating_add(amount);
        if increments >= HALVE_AFTER * self.entries().max(1) && self.word(shard::CLOCK) > 0 {
            self.set_word(shard::INCREMENTS, 0);
            self.add_word(shard::HALVINGS, 1);
        } else {
            self.set_word(shard::INCREMENTS, increments);
        }
    }

    /// The bits with which a newcomer enters the small log.
    pub fn admit(&self, hash: KeyHash, head: &Head) -> PolicyBits {
        self.measure_sample();
        self.sample_insert(hash, head);
        let (mut frequency, mut is_admitted) = (0, false);
        if let Some(ghost) = self.take_ghost(hash) {
            frequency = ghost.frequency;
            if self.setting().reuse_distance && !ghost.from_main {
                if let Some(idle) = self.idle_at_main_tail() {
                    is_admitted = self.reuse_distance(ghost.age).saturating_mul(10)
                        < idle.saturating_mul(REUSE_TENTHS);
                }
            }
        }
        self.count_increments(1);
        self.bits(0, frequency + 1, is_admitted)
    }

    /// The bits with which an entry stays that is overwritten.
    pub fn keep(&self, slot: Slot) -> PolicyBits {
        let position = self.cache.position_of(slot.offset());
        let frequency = position.map_or(0, |at| self.halved(slot, at));
        self.bits(slot.policy().hits(), frequency, slot.policy().is_admitted())
    }

    /// What stays of an entry that was removed, or had expired: a key that is stored again soon is
    /// as popular as before. Its ghost has no distance. That of one from the main log passes for
    /// one that has a short one, so that it goes back there.
    pub fn let_go(&self, hash: KeyHash, found: &Found, head: &Head) {
        let is_main = self
            .cache
            .position_of(found.slot.offset())
            .is_some_and(|at| self.log_of(at.segment) == LogKind::Main);
        let bits = self.keep(found.slot);
        self.put_ghost(hash, bits.frequency() + bits.hits(), !is_main);
        self.sample_remove(hash, head);
    }

    /// Segments that hold entries of this shard.
    fn segments_held(&self) -> u64 {
        let logs: u64 = LogKind::BOTH.iter().map(|kind| self.log_count(*kind, log::SEGMENTS)).sum();
        logs.saturating_add(self.word(shard::BODY_SEGMENTS))
    }

    /// Makes room for an entry of `wanted_bytes` by looking at `steps` entries at most, until a
    /// segment is gained. False if there is nothing to look at, or nothing that could be done.
    pub fn make_room(&self, steps: u32, if_stuck: IfStuck, wanted_bytes: u64) -> bool {
        let mut budget = Budget { wanted_bytes, ..Budget::new(steps, if_stuck, Unit::Bytes) };
        let evictions = self.word(shard::EVICTIONS);
        let held = self.segments_held();
        // Not more than one segment: where entries are large, a whole slice of them may be all that
        // the shard has. Whoever needs more asks again.
        while budget.steps > 0 && self.segments_held() >= held {
            let more = match self.log_to_compact() {
                Some(kind) => self.compact_one(kind, &mut budget),
                None => self.evict_one(&mut budget),
            };
            if !more && if_stuck == IfStuck::Drop && self.give_up_empty_logs() {
                return true;
            }
            if !more {
                return budget.steps < steps || self.word(shard::EVICTIONS) != evictions;
            }
        }
        true
    }

    /// Evicts as many entries as must go before one more may come. False if the slice did not
    /// suffice, or this shard has nothing to evict.
    pub fn make_way(&self) -> bool {
        let most = self.cache.shape.max_entries;
        let mut budget = Budget::new(SLICE, IfStuck::Drop, Unit::Entries);
        while most != 0 && self.cache.len() >= most {
            if budget.steps == 0 || !self.evict_one(&mut budget) {
                return false;
            }
        }
        true
    }

    /// Drops the entry that was hit least in the first bucket of a hash, and returns its slot. For
    /// an index that can make room for a slot in no other way.
    pub fn displace(&self, hash: KeyHash) -> Option<u64> {
        let bucket = self.choices(hash).0;
        let hits = |slot: &Slot| (slot.policy().hits(), slot.policy().frequency());
        let (at, slot) = self.taken_slots(bucket).into_iter().min_by_key(|(_, slot)| hits(slot))?;
        match (self.load_head(slot.offset()), self.hash_of(slot)) {
            (Some(head), Some(hash)) => {
                let overflowed = self.choices(hash).0 != bucket;
                self.remove(hash, &Found { at, slot, overflowed }, &head);
                self.add_word(shard::EVICTIONS, 1);
            }
            _ => {
                self.store_slot(at, Slot::EMPTY);
                self.add_word(shard::LOST, 1);
            }
        }
        Some(at)
    }

    /// Does a little of what will have to be done, after each write, so that no write has to do
    /// much of it.
    pub fn tidy(&self) {
        let mut steps = TIDY_STEPS;
        let geometry = self.arena().geometry();
        let segments_each = geometry.segment_count / self.cache.shape.shard_count;
        let share_bytes = segments_each * self.cache.shape.log_bytes;
        let entries = self.cache.shape.max_entries.div_ceil(self.cache.shape.shard_count);
        // Once segments are short, the share in bytes goes up by one with each that is opened, and
        // down with each that is freed: that is no room which is there to be filled.
        let has_segments = !self.pool_is_scarce();
        for (unit, share) in [(Unit::Entries, entries), (Unit::Bytes, share_bytes)] {
            if share > 0 && (unit == Unit::Entries || has_segments) {
                self.fill_main(unit, share, &mut steps);
            }
        }
        // Not the entry that was just written, though it may be all that the small log holds.
        let older = self.used(LogKind::Small, Unit::Entries).saturating_sub(1) as u32;
        let steps = steps.min(EVICT_STEPS).min(older);
        if steps > 0 && !self.has_segment_ready() {
            self.make_room(steps, IfStuck::Stop, 0);
        }
    }

    /// While the cache fills, everything is in the small log. Before it is full, the oldest move to
    /// the main log, as long as that has room, without a duel.
    fn fill_main(&self, unit: Unit, share: u64, steps: &mut u32) {
        let mut budget = Budget::new(*steps, IfStuck::Stop, unit);
        let capacity = self.capacity(unit, true);
        let is_filling = (capacity.small_used + capacity.main_used) * 4 > share * 3;
        while is_filling
            && budget.steps > 0
            && self.used(LogKind::Small, unit) > capacity.small
            && self.used(LogKind::Main, unit) < capacity.main
        {
            let Some(candidate) = self.candidate(LogKind::Small, &mut budget) else { break };
            let slot = Slot(self.region().get(candidate.found.at));
            let bits = self.bits(slot.policy().hits(), candidate.frequency, false);
            if self.try_move_entry(&candidate, LogKind::Main, bits).is_none() {
                break;
            }
            budget.spend();
        }
        *steps = budget.steps;
    }

    /// A log with much dead space in it.
    fn log_to_compact(&self) -> Option<LogKind> {
        let log_bytes = self.cache.shape.log_bytes;
        let (mut all, mut dead_all, mut worst) = (0, 0, None);
        for kind in LogKind::BOTH {
            let segments = self.log_count(kind, log::SEGMENTS);
            let head = self.head_cursor(kind);
            let unwritten = head.map_or(0, |head| log_bytes.saturating_sub(head.byte));
            let written = (segments * log_bytes).saturating_sub(unwritten);
            let dead = written.saturating_sub(self.log_count(kind, log::BYTES));
            all += written;
            dead_all += dead;
            if segments >= 2 && worst.is_none_or(|(most, _)| dead > most) {
                worst = Some((dead, kind));
            }
        }
        let is_much = dead_all * DEAD_PART >= all && dead_all >= 2 * log_bytes;
        worst.filter(|(dead, _)| is_much && *dead >= log_bytes).map(|(_, kind)| kind)
    }

    /// Moves the oldest live entry of a log to the log's head. False if there is none.
    fn compact_one(&self, kind: LogKind, budget: &mut Budget) -> bool {
        let Some(candidate) = self.candidate(kind, budget) else { return budget.steps == 0 };
        let bits = self.keep(Slot(self.region().get(candidate.found.at)));
        if budget.if_stuck == IfStuck::Drop {
            self.move_entry(&candidate, kind, bits);
        } else if self.try_move_entry(&candidate, kind, bits).is_none() {
            return false;
        }
        budget.spend();
        true
    }

    /// Whether an entry that would go without a duel, for bytes, is small and often asked for. It
    /// goes round then, for one of its frequency.
    fn is_worth_its_bytes(&self, victim: &Candidate, budget: &Budget) -> bool {
        let mean_bytes =
            self.used(LogKind::Main, Unit::Bytes) / self.used(LogKind::Main, Unit::Entries).max(1);
        budget.unit == Unit::Bytes
            && victim.frequency > 1
            && self.cost(&victim.head, Unit::Bytes) < mean_bytes * victim.frequency / 2
    }

    /// Evicts an entry, or moves one on its way to that. False if there is none.
    fn evict_one(&self, budget: &mut Budget) -> bool {
        let capacity = self.capacity(budget.unit, false);
        let least = match budget.wanted_bytes > capacity.small && budget.unit == Unit::Bytes {
            true => 0,
            false => capacity.small_least,
        };
        let small_first = capacity.small_used + 1 > least || capacity.main_used == 0;
        if small_first {
            if let Some(candidate) = self.candidate(LogKind::Small, budget) {
                self.leave_small(candidate, &capacity, budget);
                budget.spend();
                return true;
            }
        }
        match self.victim(budget) {
            Some(victim) if self.is_worth_its_bytes(&victim, budget) => {
                let bits = self.bits(0, victim.frequency - 1, false);
                self.move_entry(&victim, LogKind::Main, bits);
                budget.spend();
                true
            }
            Some(victim) => {
                self.drop_entry(&victim, Reason::Evicted);
                self.pass(&victim);
                budget.spend();
                true
            }
            None if small_first || budget.steps == 0 => budget.steps == 0,
            None => match self.candidate(LogKind::Small, budget) {
                Some(candidate) => {
                    self.drop_entry(&candidate, Reason::Evicted);
                    self.pass(&candidate);
                    budget.spend();
                    true
                }
                None => false,
            },
        }
    }
}
