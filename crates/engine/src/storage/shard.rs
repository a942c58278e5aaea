//! A shard under its lock. Owns the lock and access to the shard's words. Must not know what a shard
//! holds, nor repair it: see [`crate::repair`].

use std::sync::atomic::Ordering;
use std::time::Duration;

use tuckbox_arena::region::{fence, View};
use tuckbox_arena::{mutants, Acquired, Arena, Region};

use super::context::Context;
use super::scratch::reserve_scratch;
use crate::error::Result;
use crate::format::shard;

/// A locked shard. Dropping it releases the lock.
pub struct Shard<'a> {
    /// The cache it belongs to.
    pub cx: &'a Context,
    /// Its number.
    pub index: u64,
    /// Where it begins in the file.
    pub at: u64,
    /// Its words up to the index directory, checked once.
    words: Words<'a>,
}

/// A shard's lock was taken, and its guard is not made yet. Until then, nothing releases the lock.
#[must_use]
pub struct Taken(());

type Words<'a> = View<'a, { shard::DIRECTORY as usize / 8 }>;

const CHANGES: usize = shard::CHANGES as usize / 8;

/// Tells those that keep what they read that entries may change from now on: see
/// `Reader::is_current`. The count grows past what a dead owner has left.
#[inline(always)]
fn begin_changes(words: &Words<'_>) {
    if mutants::is_on("late-changes") {
        return;
    }
    words.set(CHANGES, words.get(CHANGES).wrapping_add(1) | 1);
    // Whoever sees a change of an entry also sees this one.
    fence(Ordering::Release);
}

/// Tells that entries do not change any more.
#[inline(always)]
fn end_changes(words: &Words<'_>) {
    words.store(CHANGES, (words.get(CHANGES) | 1).wrapping_add(1), Ordering::Release);
}

impl Drop for Shard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let at = self.at + shard::LOCK;
        // A panic may have left anything half done, as a death does: the next owner repairs.
        if std::thread::panicking() {
            self.cx.arena.abandon(at);
        } else {
            end_changes(&self.words);
            self.cx.arena.unlock(at);
        }
    }
}

impl<'a> Shard<'a> {
    /// Takes a shard's lock, waiting at most `limit`. Also returns whether a dead writer had it,
    /// whose shard must be repaired before use. The caller makes the guard at once, by
    /// [`Shard::locked`]: a result that holds the guard would go through memory, and each write
    /// would wait for what it has just stored.
    #[inline(always)]
    pub fn acquire(cx: &'a Context, index: u64, limit: Duration) -> Result<(Taken, Acquired)> {
        reserve_scratch(&cx.shape)?;
        let at = cx.arena.geometry().shard_at(index);
        let acquired = cx.arena.lock(at + shard::LOCK, limit)?;
        begin_changes(&cx.arena.region().view(at));
        Ok((Taken(()), acquired))
    }

    /// The guard of a shard whose lock was just taken.
    #[inline(always)]
    pub fn locked(cx: &'a Context, index: u64, _taken: Taken) -> Shard<'a> {
        let at = cx.arena.geometry().shard_at(index);
        Shard { cx, index, at, words: cx.arena.region().view(at) }
    }

    /// Gives the guard up. The lock stays taken, for another guard.
    pub fn into_taken(self) -> Taken {
        if !mutants::is_on("no-handover") {
            std::mem::forget(self);
        }
        Taken(())
    }

    /// Locks a shard if its lock is free. For a second shard, which must not be waited for.
    pub fn try_lock(cx: &'a Context, index: u64) -> Result<Option<Shard<'a>>> {
        reserve_scratch(&cx.shape)?;
        let at = cx.arena.geometry().shard_at(index);
        let words = cx.arena.region().view(at);
        let taken = cx.arena.try_lock(at + shard::LOCK)?;
        if mutants::is_on("eager-unlock") {
            return Ok(Some(Shard { cx, index, at, words }).filter(|_| taken));
        }
        // Created only if the lock was taken: dropping a `Shard` releases the lock, whoever holds
        // it.
        Ok(taken.then(|| {
            begin_changes(&words);
            Shard { cx, index, at, words }
        }))
    }

    pub(crate) fn arena(&self) -> &'a Arena {
        &self.cx.arena
    }

    pub(crate) fn region(&self) -> &'a Region {
        self.cx.arena.region()
    }

    /// A word of the shard.
    #[inline(always)]
    pub fn word(&self, offset: u64) -> u64 {
        match offset < shard::DIRECTORY {
            true => self.words.get((offset / 8) as usize),
            false => self.region().get(self.at + offset),
        }
    }

    /// Sets a word of the shard. A thread that sees it also sees what was written before.
    #[inline(always)]
    pub fn set_word(&self, offset: u64, value: u64) {
        match offset < shard::DIRECTORY {
            true => self.words.store((offset / 8) as usize, value, Ordering::Release),
            false => self.region().store(self.at + offset, value, Ordering::Release),
        }
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
