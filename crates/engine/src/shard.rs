//! A shard under its lock. Owns locking a shard, repair after a takeover, and access to its words:
//! a [`Shard`] from [`Cache::lock_shard`] is whole even if its last writer died. Must not know what
//! a shard does; `index`, `log`, `eviction`, `write` and `audit` add that.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tuckbox_arena::{Acquired, Arena, PathStatus, Region};

use crate::cache::Cache;
use crate::error::Result;
use crate::layout::shard;
use crate::log::reserve_scratch;

/// The longest wait for a lock of a removed file.
const LAST_LOCK_LIMIT: Duration = Duration::from_millis(5);

/// A locked shard. Dropping it releases the lock.
pub struct Shard<'a> {
    /// The cache it belongs to.
    pub cache: &'a Cache,
    /// Its number.
    pub index: u64,
    /// Where it begins in the file.
    pub at: u64,
}

impl Drop for Shard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let at = self.at + shard::LOCK;
        // A panic may have left anything half done, as a death does: the next owner repairs.
        if std::thread::panicking() {
            self.cache.arena.abandon(at);
        } else {
            self.cache.arena.unlock(at);
        }
    }
}

impl Cache {
    /// Locks a shard, waiting as long as the configuration allows. Repairs it if its last writer
    /// died.
    #[inline(never)]
    pub(crate) fn lock_shard(&self, index: u64) -> Result<Shard<'_>> {
        self.lock_shard_for(index, self.lock_limit)
    }

    /// As [`Cache::lock_shard`], waiting at most `limit`.
    #[inline(always)]
    pub(crate) fn lock_shard_for(&self, index: u64, limit: Duration) -> Result<Shard<'_>> {
        self.arena.check_not_lost()?;
        match self.arena.check_path() {
            PathStatus::InPlace => self.take_shard(index, limit),
            PathStatus::Replaced => Err(self.arena.mark_lost().into()),
            PathStatus::Removed => {
                self.empty_removed_file();
                Err(self.arena.mark_lost().into())
            }
        }
    }

    #[inline(always)]
    fn take_shard(&self, index: u64, limit: Duration) -> Result<Shard<'_>> {
        reserve_scratch(&self.shape)?;
        let at = self.arena.geometry().shard_at(index);
        let acquired = self.arena.lock(at + shard::LOCK, limit)?;
        if acquired == Acquired::TakenOver {
            self.repair_after_takeover(index, at);
        }
        Ok(self.locked(index, at))
    }

    /// The shard whose lock was just acquired from a writer that released it.
    #[inline(always)]
    fn locked(&self, index: u64, at: u64) -> Shard<'_> {
        let shard = Shard { cache: self, index, at };
        if shard.word(shard::BOOT) != self.arena.boot() {
            shard.check_tables();
        }
        shard
    }

    /// Repairs a shard whose lock was taken over. It stays locked, unless that panics.
    #[cold]
    fn repair_after_takeover(&self, index: u64, at: u64) {
        let shard = Shard { cache: self, index, at };
        if !tuckbox_arena::mutants::is_on("no-repair") {
            shard.repair();
            self.arena.free_abandoned_segments();
        }
        std::mem::forget(shard);
    }

    /// Empties a file that has no name any more, as far as its locks are free. Processes that only
    /// read make no system call and cannot notice the removal; after this they miss and have
    /// something to write.
    #[cold]
    fn empty_removed_file(&self) {
        for index in 0..self.shape.shard_count {
            if let Ok(shard) = self.take_shard(index, LAST_LOCK_LIMIT.min(self.lock_limit)) {
                shard.clear();
            }
        }
    }

    /// Locks a shard if its lock is free. For a second shard, which must not be waited for.
    pub(crate) fn try_lock_shard(&self, index: u64) -> Result<Option<Shard<'_>>> {
        reserve_scratch(&self.shape)?;
        let at = self.arena.geometry().shard_at(index);
        let taken = self.arena.try_lock(at + shard::LOCK)?;
        if tuckbox_arena::mutants::is_on("eager-unlock") {
            return Ok(Some(Shard { cache: self, index, at }).filter(|_| taken));
        }
        // Created only if the lock was taken: dropping a `Shard` releases the lock, whoever holds
        // it.
        Ok(taken.then(|| self.locked(index, at)))
    }
}

impl<'a> Shard<'a> {
    pub(crate) fn arena(&self) -> &'a Arena {
        &self.cache.arena
    }

    pub(crate) fn region(&self) -> &'a Region {
        self.cache.arena.region()
    }

    /// A word of the shard.
    #[inline]
    pub fn word(&self, offset: u64) -> u64 {
        self.region().get(self.at + offset)
    }

    /// Sets a word of the shard. A thread that sees it also sees what was written before.
    #[inline]
    pub fn set_word(&self, offset: u64, value: u64) {
        self.region().store(self.at + offset, value, Ordering::Release);
    }

    /// Adds to a word of the shard.
    #[inline(always)]
    pub fn add_word(&self, offset: u64, amount: u64) {
        self.set_word(offset, self.word(offset).wrapping_add(amount));
    }

    /// Subtracts from a word of the shard, down to zero.
    #[inline]
    pub fn subtract_word(&self, offset: u64, amount: u64) {
        self.set_word(offset, self.word(offset).saturating_sub(amount));
    }

    /// A version that no record of this shard has had. It is used up even if its writer dies. A
    /// record keeps its low bits.
    #[inline(always)]
    pub fn next_version(&self) -> u64 {
        let version = self.word(shard::SEQUENCE).wrapping_add(1);
        self.set_word(shard::SEQUENCE, version);
        version
    }
}
