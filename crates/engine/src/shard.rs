//! A shard under its lock: the words that a writer may change, and the promise that they are
//! whole. Whoever gets a [`Shard`] from [`Cache::lock_shard`] finds it repaired if its last writer
//! died; the other modules add what a shard can do (`index`, `log`, `eviction`, `write`, `audit`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use tuckbox_arena::{Acquired, Arena, Region, Standing};

use crate::cache::Cache;
use crate::error::Result;
use crate::layout::shard;
use crate::log::reserve_scratch;

/// How long the locks of a removed file are waited for.
const LAST_LOCK_LIMIT: Duration = Duration::from_millis(5);

/// A locked shard. Dropping it lets go of the lock.
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
        // A panic may have left anything half done, as a death does: whoever comes next repairs.
        if std::thread::panicking() {
            self.cache.arena.abandon(at);
        } else {
            self.cache.arena.unlock(at);
        }
    }
}

impl Cache {
    /// Locks a shard, waiting as long as the configuration allows, and repairs what a dead writer
    /// left half done.
    #[inline(never)]
    pub(crate) fn lock_shard(&self, index: u64) -> Result<Shard<'_>> {
        self.lock_shard_for(index, self.lock_limit)
    }

    /// As [`Cache::lock_shard`], waiting for `limit` at most.
    #[inline(always)]
    pub(crate) fn lock_shard_for(&self, index: u64, limit: Duration) -> Result<Shard<'_>> {
        self.arena.vouch()?;
        match self.arena.look_at_path() {
            Standing::InPlace => self.take_shard(index, limit),
            Standing::Replaced => Err(self.arena.lose().into()),
            Standing::Removed => {
                self.empty_removed_file();
                Err(self.arena.lose().into())
            }
        }
    }

    #[inline(always)]
    fn take_shard(&self, index: u64, limit: Duration) -> Result<Shard<'_>> {
        reserve_scratch(&self.shape)?;
        let at = self.arena.geometry().shard_at(index);
        let acquired = self.arena.lock(at + shard::LOCK, limit)?;
        if acquired == Acquired::TakenOver {
            self.mend(index, at);
        }
        Ok(self.locked(index, at))
    }

    /// The shard whose lock was just taken, and whose last writer let go of it.
    #[inline(always)]
    fn locked(&self, index: u64, at: u64) -> Shard<'_> {
        let shard = Shard { cache: self, index, at };
        if shard.word(shard::BOOT) != self.arena.boot() {
            shard.look_after_boot();
        }
        shard
    }

    /// Repairs a shard whose lock was taken over. It stays locked, unless that panics.
    #[cold]
    fn mend(&self, index: u64, at: u64) {
        let shard = Shard { cache: self, index, at };
        if !tuckbox_arena::mutants::is_on("no-repair") {
            shard.repair();
            self.arena.free_abandoned_segments();
        }
        std::mem::forget(shard);
    }

    /// Empties a file that no directory has any more, as far as its locks can be had at once. Those
    /// who only read make no system call by which they could notice; so they miss, and have
    /// something to write.
    #[cold]
    fn empty_removed_file(&self) {
        for index in 0..self.shape.shard_count {
            if let Ok(shard) = self.take_shard(index, LAST_LOCK_LIMIT.min(self.lock_limit)) {
                shard.clear();
            }
        }
    }

    /// Locks a shard if nobody has it. For a second shard, which may not be waited for.
    pub(crate) fn try_lock_shard(&self, index: u64) -> Result<Option<Shard<'_>>> {
        reserve_scratch(&self.shape)?;
        let at = self.arena.geometry().shard_at(index);
        let taken = self.arena.try_lock(at + shard::LOCK)?;
        if tuckbox_arena::mutants::is_on("eager-unlock") {
            return Ok(Some(Shard { cache: self, index, at }).filter(|_| taken));
        }
        // Made only if it was taken: dropping a `Shard` lets go of the lock, whoever holds it.
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

    /// Sets a word of the shard; what was written before is visible to who sees it.
    #[inline]
    pub fn set_word(&self, offset: u64, value: u64) {
        self.region().store(self.at + offset, value, Ordering::Release);
    }

    /// Adds to a word of the shard.
    #[inline(always)]
    pub fn add_word(&self, offset: u64, amount: u64) {
        self.set_word(offset, self.word(offset).wrapping_add(amount));
    }

    /// Subtracts from a word of the shard, to zero at the least.
    #[inline]
    pub fn subtract_word(&self, offset: u64, amount: u64) {
        self.set_word(offset, self.word(offset).saturating_sub(amount));
    }

    /// A version that no record of this shard had. It is used up even if its writer dies. Of it a
    /// record keeps the low bits.
    #[inline(always)]
    pub fn next_version(&self) -> u64 {
        let version = self.word(shard::SEQUENCE).wrapping_add(1);
        self.set_word(shard::SEQUENCE, version);
        version
    }
}
