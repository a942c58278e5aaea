//! Storing a value: attempts under its shard's lock and, between them, evictions that free space
//! for the next one, in this shard or in others.
//!
//! Owns what a write remembers from one attempt to the next, and when it gives up. Must not know
//! what an attempt stores, and in which order; that is in [`super::write`].

use std::cell::Cell;
use std::time::{Duration, Instant};

use tuckbox_arena::{Error as ArenaError, OperationGuard};

use super::bodies;
use super::write::{InPlace, Writer};
use crate::error::{would_block, Error, Result};
use crate::eviction::{IfStuck, EVICTION_BATCH};
use crate::format::{expiry, shard, Body, Draft, Extras, KeyHash, NewAttributes, POSITION_OPEN};
use crate::index::Lookup;
use crate::invalidation::rows;
use crate::reading::{Live, Reader};
use crate::repair::{lock, Audit};
use crate::storage::{Context, Need};
use crate::value::{Attributes, Condition, Terms, Ttl, Value};

/// Eviction batches in other shards before a write gives up, if its own shard has nothing to evict.
pub(super) const BATCHES_WITHOUT_GAIN: u64 = 1_000;

/// Eviction batches that a write asks of the largest shard before its own shard evicts, if its own
/// shard is under its quota.
const DONOR_TRIES_MAX: u32 = 64;

/// The time that a write which locks its shard repeatedly may wait: the configured limit for the
/// first lock, and the same again for all others together.
#[derive(Default)]
pub(super) struct LockBudget {
    asked: bool,
    // Set at the second lock: most writes take one lock and need no clock.
    again: Option<Instant>,
}

impl LockBudget {
    #[inline(always)]
    pub(super) fn remaining(&mut self, limit: Duration) -> Duration {
        if !std::mem::replace(&mut self.asked, true) {
            return limit;
        }
        let began = *self.again.get_or_insert_with(Instant::now);
        limit.saturating_sub(began.elapsed())
    }
}

/// Buckets that [`Store::expire`] visits under one lock.
const EXPIRE_BUCKETS: u32 = 64;

/// What the attempts so far have used up.
#[derive(Default)]
pub(super) struct Tries {
    pub(super) lock_budget: LockBudget,
    /// Whether the shard was repaired already because its logs were damaged.
    was_repaired: bool,
    /// How often a larger shard was asked to evict.
    donor: u32,
    /// How often nothing could be evicted.
    pub(super) stuck: u64,
}

/// A value that is being stored.
pub(super) struct Storing<'a> {
    pub(super) key: &'a [u8],
    pub(super) draft: Draft<'a>,
    pub(super) condition: Condition<'a>,
    pub(super) tries: Tries,
}

thread_local! {
    /// Memory for the drafts of this thread.
    pub(super) static DRAFT_WORDS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

layer! {
    /// The writes of a cache.
    #[derive(Clone, Copy)]
    Store(&'a Context)
}

impl<'a> Store<'a> {
    /// Locks a shard, waiting at most `limit`.
    #[inline(always)]
    pub(super) fn lock_for(self, index: u64, limit: Duration) -> Result<Writer<'a>> {
        let taken = lock::acquire(self.0, index, limit)?;
        Ok(Writer::from(lock::locked(self.0, index, taken)))
    }

    /// Locks a shard.
    pub(crate) fn lock(self, index: u64) -> Result<Writer<'a>> {
        lock::lock(self.0, index).map(Writer::from)
    }

    /// Locks a shard if its lock is free.
    pub(super) fn try_lock(self, index: u64) -> Result<Option<Writer<'a>>> {
        Ok(lock::try_lock(self.0, index)?.map(Writer::from))
    }

    /// Locks the shard of a key and finds its entry.
    #[inline(always)]
    pub(crate) fn lock_key(self, key: &[u8]) -> Result<(Writer<'a>, KeyHash, Option<Live>)> {
        let (shard, hash, live) = self.lock_kept(key)?;
        Ok((shard, hash, live.filter(|live| !live.is_stale)))
    }

    /// As [`Store::lock_key`]; also finds a stale entry.
    // Inline: the result is long, and would be copied in memory.
    #[inline(always)]
    pub(crate) fn lock_kept(self, key: &[u8]) -> Result<(Writer<'a>, KeyHash, Option<Live>)> {
        self.check_lengths(key, None)?;
        let hash = self.hasher.key(key);
        let index = hash.shard(self.shape.shard_count);
        let taken = lock::acquire(self.0, index, self.lock_limit)?;
        // Not by `lock`, whose result holds the guard: see `Shard::acquire`.
        let shard = Writer::from(lock::locked(self.0, index, taken));
        let live = shard.find_kept(key, hash);
        Ok((shard, hash, live))
    }

    /// Stores a value without attributes of its own if the condition holds. Whether it was stored.
    pub(crate) fn store(
        self,
        key: &[u8],
        value: Value<'_>,
        ttl: Ttl,
        condition: Condition<'_>,
    ) -> Result<bool> {
        if !self.shape.is_plain {
            return self.store_with_extras(key, &value, ttl, condition);
        }
        self.check_lengths(key, Some(value))?;
        let hash = self.hasher.key(key);
        Reader(Lookup(self.0)).ask_for_place(hash);
        let extras = Extras { expiry_us: self.expiry_of(ttl), ..Extras::default() };
        let mut spare = DRAFT_WORDS.take();
        let draft = Draft::new(key, hash, value, extras, &self.shape, &mut spare)?;
        self.store_draft(key, draft, condition)
    }

    /// As [`Store::store`], in a cache whose settings give each record more than its key and value.
    // By reference: copies would cost the other path instructions.
    #[cold]
    #[inline(never)]
    fn store_with_extras(
        self,
        key: &[u8],
        value: &Value<'_>,
        ttl: Ttl,
        condition: Condition<'_>,
    ) -> Result<bool> {
        self.store_on(key, *value, &Terms { condition, ..Terms::plain(ttl) })
    }

    /// What a record has besides its key and its value.
    pub(super) fn extras<'e>(
        self,
        expiry_us: Option<u64>,
        attributes: Option<&'e NewAttributes<'e>>,
    ) -> Extras<'e> {
        let is_pinned = attributes.is_some_and(|attributes| attributes.is_pinned);
        Extras { expiry_us, attributes, stays: is_pinned || !self.shape.evicts }
    }

    /// As [`Store::store`], on any terms.
    #[inline(never)]
    pub(crate) fn store_on(self, key: &[u8], value: Value<'_>, terms: &Terms<'_>) -> Result<bool> {
        let attributes = self.new_attributes(terms.ttl, &terms.attributes)?;
        let (expiry_us, attributes) = match &attributes {
            Some((expiry_us, attributes)) => (*expiry_us, Some(attributes)),
            None => (self.expiry_of(terms.ttl), None),
        };
        let expiry_us = match terms.keeps_ttl {
            true => Some(expiry_us.unwrap_or(expiry::NEVER_US)),
            false => expiry_us,
        };
        self.store_copy(key, value, expiry_us, attributes, terms.keeps_ttl, terms.condition)
    }

    /// Stores a value with this expiry and these attributes.
    pub(crate) fn store_copy(
        self,
        key: &[u8],
        value: Value<'_>,
        expiry_us: Option<u64>,
        attributes: Option<&NewAttributes<'_>>,
        keeps_expiry: bool,
        condition: Condition<'_>,
    ) -> Result<bool> {
        self.check_lengths(key, Some(value))?;
        let hash = self.hasher.key(key);
        Reader(Lookup(self.0)).ask_for_place(hash);
        let extras = self.extras(expiry_us, attributes);
        let mut spare = DRAFT_WORDS.take();
        let mut draft = Draft::new(key, hash, value, extras, &self.shape, &mut spare)?;
        draft.takes_over.expiry = keeps_expiry;
        self.store_draft(key, draft, condition)
    }

    /// When an entry with attributes expires, and what its record says of them. None if there are no
    /// attributes.
    ///
    /// # Errors
    /// A tag is too long, or there are too many.
    pub(super) fn new_attributes<'t>(
        self,
        ttl: Ttl,
        attributes: &Attributes<'t>,
    ) -> Result<Option<(Option<u64>, NewAttributes<'t>)>> {
        if attributes.are_none() && !self.shape.is_ordered {
            return Ok(None);
        }
        self.check_tags(attributes.tags)?;
        let end_us = self.expiry_of(ttl);
        let longer_us = match attributes.stale {
            None => 0,
            Some(Ttl::Never) => crate::EXPIRY_US_MAX,
            Some(Ttl::Us(us)) => us,
        };
        // An entry that never expires stays fresh; a later ttl may end that.
        let expiry_us = end_us.map(|us| us.saturating_add(longer_us).min(crate::EXPIRY_US_MAX));
        let stale_us = end_us.zip(expiry_us).map_or(longer_us, |(end_us, us)| us - end_us);
        // At least 1: the clock shows 0 only if the file's memory was replaced by zeros.
        let stamp = attributes.stamp.unwrap_or_else(|| rows(self.0).stamp()).max(1);
        let Attributes { tags, made_us, is_pinned, .. } = *attributes;
        let position = self.shape.is_ordered.then_some(POSITION_OPEN);
        Ok(Some((expiry_us, NewAttributes { tags, stale_us, made_us, is_pinned, position, stamp })))
    }

    #[inline(always)]
    fn store_draft(self, key: &[u8], draft: Draft<'_>, condition: Condition<'_>) -> Result<bool> {
        let mut storing = Storing { key, draft, condition, tries: Tries::default() };
        // Nearly always the first attempt succeeds. Everything else is in functions of its own.
        let stored = match storing.draft.header().body_count {
            0 => self.attempt(&mut storing, &[]),
            _ => Ok(None),
        };
        let Ok(Some(stored)) = stored else {
            return self.finish_store(storing, stored);
        };
        DRAFT_WORDS.set(storing.draft.into_spare());
        self.arena.check_not_lost()?;
        Ok(stored)
    }

    /// Finishes what the first attempt did not.
    // Passed by value: a reference would force it onto the stack in the common case, too.
    #[inline(never)]
    pub(super) fn finish_store(
        self,
        mut storing: Storing<'_>,
        first: Result<Option<bool>>,
    ) -> Result<bool> {
        let stored = first.and_then(|_| self.store_or_repair(&mut storing));
        DRAFT_WORDS.set(storing.draft.into_spare());
        self.arena.check_not_lost()?;
        stored
    }

    fn store_or_repair(self, storing: &mut Storing<'_>) -> Result<bool> {
        match self.store_with_bodies(storing) {
            Err(Error::Full { wanted_bytes }) if self.has_only_pinned() => {
                self.collect_or_refuse(wanted_bytes)?;
                storing.tries.stuck = 0;
                self.store_or_repair(storing)
            }
            // Nothing can be evicted: the file is damaged, or really full. One repair of the shard
            // tells which, and fixes damage.
            Err(Error::Full { .. }) => {
                let index = storing.draft.hash.shard(self.shape.shard_count);
                let limit = storing.tries.lock_budget.remaining(self.lock_limit);
                let shard = self.lock_for(index, limit)?;
                Audit(&shard).repair_damage();
                drop(shard);
                storing.tries.stuck = 0;
                let result = self.store_with_bodies(storing);
                if matches!(result, Err(Error::Full { .. })) {
                    // Or the file was truncated, and the missing segments look taken.
                    self.arena.check_not_truncated()?;
                }
                result
            }
            result => result,
        }
    }

    /// Builds the whole segments of a large value first.
    fn store_with_bodies(self, storing: &mut Storing<'_>) -> Result<bool> {
        if storing.draft.header().body_count == 0 {
            return self.attempt_again(storing, &[]);
        }
        loop {
            // Held from the first segment until a slot leads there: if another thread closed the
            // handle meanwhile, others would take these segments for a dead owner's.
            let operation = self.arena.guard_operation()?;
            match self.build_and_store(storing, &operation) {
                // The segments that were built are the parent's.
                Err(Error::Arena(ArenaError::Forked)) if operation.is_of_parent() => {}
                result => return result,
            }
        }
    }

    fn build_and_store(
        self,
        storing: &mut Storing<'_>,
        operation: &OperationGuard<'_>,
    ) -> Result<bool> {
        let home = storing.draft.hash.shard(self.shape.shard_count);
        let bodies = match storing.draft.value() {
            Value::Bytes { bytes, .. } => bodies::build(self.0, operation, home, bytes)?,
            Value::Int(_) => Vec::new(),
        };
        storing.draft.set_bodies(&bodies);
        let result = self.attempt_again(storing, &bodies);
        if !matches!(result, Ok(true)) {
            bodies::drop_all(self.0, &bodies);
        }
        result
    }

    fn attempt_again(self, storing: &mut Storing<'_>, bodies: &[Body]) -> Result<bool> {
        for _ in 0..self.shape.batches_max {
            if let Some(stored) = self.attempt(storing, bodies)? {
                return Ok(stored);
            }
            if storing.tries.stuck > BATCHES_WITHOUT_GAIN {
                break;
            }
        }
        Err(Error::Full { wanted_bytes: storing.draft.header().total_bytes(&self.shape) })
    }

    /// One attempt to store, under the lock. Whether the condition held; none if entries had to be
    /// evicted first, so that another attempt may succeed.
    #[inline(always)]
    fn attempt(self, storing: &mut Storing<'_>, bodies: &[Body]) -> Result<Option<bool>> {
        let index = storing.draft.hash.shard(self.shape.shard_count);
        let limit = storing.tries.lock_budget.remaining(self.lock_limit);
        // Not by `lock_for`, whose result holds the guard: see `Shard::acquire`.
        let taken = lock::acquire(self.0, index, limit)?;
        let shard = Writer::from(lock::locked(self.0, index, taken));
        match shard.put_in_place(storing.key, &mut storing.draft, storing.condition) {
            InPlace::Done(stored) => Ok(Some(stored)),
            InPlace::NotEnough(live) => self.evict_and_put(shard, storing, live, bodies),
        }
    }

    /// As [`Store::attempt`], for a value that needs a new record.
    #[inline(never)]
    pub(super) fn evict_and_put(
        self,
        shard: Writer<'_>,
        storing: &mut Storing<'_>,
        live: Option<Live>,
        bodies: &[Body],
    ) -> Result<Option<bool>> {
        let Storing { draft, tries, .. } = &mut *storing;
        let wanted_bytes = draft.header().total_bytes(&self.shape);
        if live.is_none() && !shard.evict_to_limit() {
            let (index, has_none) = (shard.index, shard.evictable_entries() == 0);
            drop(shard);
            if has_none {
                self.evict_to_limit_elsewhere(index)?;
                if self.entry_count() >= self.shape.max_entries {
                    self.collect_or_refuse(wanted_bytes)?;
                }
            }
            return Ok(None);
        }
        let stays = draft.stays;
        // What stays leaves the space that moves need: nothing could be evicted to get it back.
        let need = match tries.stuck == 0 || stays {
            true => Need::NewRecord,
            false => Need::NewRecordAnyway,
        };
        if shard.put(draft, live.as_ref(), bodies, need).is_some() {
            shard.add_word(shard::SETS, 1);
            shard.tidy();
            return Ok(Some(true));
        }
        self.make_room(shard, storing)?;
        Ok(None)
    }

    /// Frees space for a draft that found none, and releases the lock.
    pub(super) fn make_room(self, shard: Writer<'_>, storing: &mut Storing<'_>) -> Result<()> {
        let Storing { draft, tries, .. } = storing;
        let wanted_bytes = draft.header().total_bytes(&self.shape);
        let index = shard.index;
        // Evicting elsewhere does not help a damaged log.
        if shard.has_damaged_log() && !std::mem::replace(&mut tries.was_repaired, true) {
            Audit(&shard).repair_damage();
            return Ok(());
        }
        let donor = self.donor_for(index);
        if donor != index && tries.donor < DONOR_TRIES_MAX {
            drop(shard);
            tries.donor =
                if self.free_space_in(donor)? { tries.donor + 1 } else { DONOR_TRIES_MAX };
            return Ok(());
        }
        let if_stuck = IfStuck::after(tries.stuck);
        let more = shard.free_space(EVICTION_BATCH, if_stuck, wanted_bytes);
        drop(shard);
        if !more {
            self.free_space_elsewhere(index, if_stuck, wanted_bytes)?;
            tries.stuck += 1;
        }
        Ok(())
    }

    /// Where no entry may be evicted, collects those that have expired or are invalid. In a cache that
    /// evicts, repairs all shards before it refuses: damaged counts can hide entries.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there were none.
    #[cold]
    fn collect_or_refuse(self, wanted_bytes: u64) -> Result<()> {
        if !self.has_only_pinned() {
            return Ok(());
        }
        let stamp = rows(self.0).stamp();
        let may_find_some = |index: &u64| self.may_find_some(*index, stamp);
        if !(0..self.shape.shard_count).any(|index| may_find_some(&index)) {
            self.arena.check_not_truncated()?;
            return Err(self.no_room(wanted_bytes, false));
        }
        if self.arena.waiter().brief().is_some() {
            return Err(would_block());
        }
        if self.expire_some(may_find_some)? > 0 {
            return Ok(());
        }
        self.arena.check_not_truncated()?;
        if self.shape.evicts {
            for index in 0..self.shape.shard_count {
                Audit(&*self.lock(index)?).repair_damage();
            }
            if !self.has_only_pinned() {
                return Ok(());
            }
        }
        Err(self.no_room(wanted_bytes, true))
    }

    /// The error of a write into a cache without room.
    fn no_room(self, wanted_bytes: u64, was_searched: bool) -> Error {
        Error::NoRoom {
            path: self.arena.path().into(),
            wanted_bytes,
            size_bytes: self.arena.geometry().plan.size_bytes,
            max_entries: self.shape.max_entries,
            evicts: self.shape.evicts,
            was_searched,
        }
    }

    /// Removes expired and invalid entries; how many.
    pub(crate) fn expire(self) -> Result<u64> {
        self.expire_some(|_| true)
    }

    /// As [`Store::expire`], in some shards.
    fn expire_some(self, is_wanted: impl Fn(&u64) -> bool) -> Result<u64> {
        let stamp = rows(self.0).stamp();
        // An eviction of a tag that has moved the clock before holds a lock until its row has moved.
        for index in 0..self.shape.shard_count {
            drop(self.lock(index)?);
        }
        let mut count = 0;
        for index in (0..self.shape.shard_count).filter(is_wanted) {
            count += self.expire_shard(index, stamp)?;
        }
        Ok(count)
    }

    fn expire_shard(self, index: u64, stamp: u64) -> Result<u64> {
        let mut shard = self.lock(index)?;
        let search = shard.begin_search(stamp);
        let (mut count, mut soonest_us) = (0, expiry::NEVER_US);
        for first in (0..).step_by(EXPIRE_BUCKETS as usize) {
            let expired = shard.expire_buckets(first, EXPIRE_BUCKETS);
            count += expired.count;
            soonest_us = soonest_us.min(expired.soonest_us);
            if !expired.has_more {
                shard.end_search(&search, soonest_us);
                break;
            }
            drop(shard);
            shard = self.lock(index)?;
        }
        Ok(count)
    }

    /// Lets another shard evict a batch for this one, if its lock is free. Whether it did: if
    /// segments hold many entries, it takes several batches to free one.
    #[cold]
    fn free_space_in(self, donor: u64) -> Result<bool> {
        let Some(shard) = self.try_lock(donor)? else { return Ok(false) };
        let more = shard.free_space(EVICTION_BATCH, IfStuck::Stop, 0);
        Ok(shard.free_surplus_spare() || more)
    }

    /// Lets other shards evict an entry: the limit is reached, and this shard has none.
    #[cold]
    fn evict_to_limit_elsewhere(self, home: u64) -> Result<()> {
        self.try_others(home, |shard| shard.evict_to_limit()).map(|_| ())
    }

    /// Lets other shards free space: this one has nothing to evict.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if none of them has.
    #[cold]
    pub(crate) fn free_space_elsewhere(
        self,
        home: u64,
        if_stuck: IfStuck,
        wanted_bytes: u64,
    ) -> Result<()> {
        self.arena.free_abandoned_segments();
        let gains = Cell::new(false);
        let are_free = self.try_others(home, |shard| {
            let gained = shard.free_space(EVICTION_BATCH, if_stuck, 0);
            gains.set(gains.get() || gained);
            false
        })?;
        match are_free && !gains.get() {
            true => self.collect_or_refuse(wanted_bytes),
            false => Ok(()),
        }
    }

    /// Locks the other shards in turn, those whose locks are free, until the work is done in one.
    /// Whether all locks were free.
    fn try_others(self, home: u64, work: impl Fn(&Writer<'_>) -> bool) -> Result<bool> {
        let mut are_free = true;
        for step in 1..self.shape.shard_count {
            let shard = self.try_lock((home + step) % self.shape.shard_count)?;
            are_free &= shard.is_some();
            if shard.is_some_and(|shard| work(&shard)) {
                break;
            }
        }
        Ok(are_free)
    }
}
