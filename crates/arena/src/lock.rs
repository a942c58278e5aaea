//! The lock: a word on which waiters sleep, which names its owner's process slot and incarnation.
//!
//! Owns acquiring, waiting, takeover from a dead owner, and release. Must not know what a lock
//! guards.
//!
//! The word holds no process id and is no `pthread_mutex_t`: the layout of that type differs
//! between C libraries that may share a file. Bit 31 says that a waiter may be asleep. The high
//! half is a check of owner and lock offset, keyed with the file's random numbers. A word with a
//! wrong check names nobody and is taken over at once; it could otherwise block writers until the
//! process that it happens to name exits.
//!
//! A waiter sleeps in slices. After each slice the host may interrupt it, the time limit may end
//! it, and it asks whether the owner is still alive. A stopped owner keeps its lock. A brief
//! operation does not sleep: it fails, and says whether the owner is alive.
//!
//! The race: several waiters find the same owner dead. Each takes over by one compare-and-swap of
//! the very word that named the owner, so only one succeeds. If an owner is killed between storing
//! zero and waking a sleeper, the sleepers notice when their slice ends.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::arena::Arena;
use crate::error::{Error, Result};
use crate::platform::wait;
use crate::process::{Counter, OwnerId, FORKS};
use crate::region::Word;

const WAITERS: u64 = 1 << 31;
/// Names no owner, and differs from the zero of a normal release.
const ABANDONED: u64 = 1 << 30;
/// How long a waiter spins before its first sleep: longer than nearly all holds. A sleeper gives up
/// its core, and with more processes than cores it gets the core back only after the others' time
/// slices, which are a hundred times as long.
const SPIN_FOR: Duration = Duration::from_micros(64);
/// When a waiter begins to give its core away between attempts, as most holds are shorter: the owner
/// may need that core. If another process gets it, the waiter may return after that one's time slice,
/// and then it sleeps.
const YIELD_FROM: Duration = Duration::from_micros(8);
/// Attempts between two looks at the clock.
const SPINS: u32 = 32;
const FIRST_SLICE: Duration = Duration::from_millis(2);
const SLICE: Duration = Duration::from_millis(25);

/// How a lock was acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what a dead owner left half done must be repaired"]
pub enum Acquired {
    /// The lock was free.
    Clean,
    /// The owner was dead: what the lock guards may be half done.
    TakenOver,
}

/// Takes the lock if its word is still `seen`; whether it did. `mine` is the word of the new owner.
#[inline(always)]
fn take_if(word: &Word, seen: u64, mine: u64) -> bool {
    word.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

impl Arena {
    /// Acquires the lock whose word is at `offset`. Waits at most `limit`.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] if a live owner kept it, [`Error::WouldBlock`] if the operation must
    /// be brief, [`Error::Interrupted`] if the host asked to stop, [`Error::Closed`].
    #[inline]
    pub fn lock(&self, offset: u64, limit: Duration) -> Result<Acquired> {
        let me = self.enter()?;
        if take_if(self.region().lock_word(offset), 0, self.lock_bits(offset, me)) {
            return Ok(Acquired::Clean);
        }
        self.wait_for(offset, me, limit).inspect_err(|_| self.leave())
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    /// [`Error::Closed`], or the error of taking a process slot after a fork.
    pub fn try_lock(&self, offset: u64) -> Result<bool> {
        let me = self.enter()?;
        let taken = take_if(self.region().lock_word(offset), 0, self.lock_bits(offset, me));
        if !taken {
            self.leave();
        }
        Ok(taken)
    }

    /// Releases a lock that this thread holds.
    #[inline(always)]
    pub fn unlock(&self, offset: u64) {
        let word = self.region().lock_word(offset);
        let order = if crate::mutants::is_on("relaxed-unlock") {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        if word.swap(0, order) & WAITERS != 0 {
            wait::wake_one(word);
        }
        self.leave_lock();
    }

    /// Releases a lock as a death would: the next owner is told that it took the lock over.
    #[cold]
    pub fn abandon(&self, offset: u64) {
        let word = self.region().lock_word(offset);
        word.store(ABANDONED, Ordering::Release);
        wait::wake_one(word);
        self.leave_lock();
    }

    /// Ends an operation after its lock was released. If the mapping is lost, the release may have
    /// gone to the private zeros that replaced it; other processes must then see this handle as
    /// dead.
    #[inline(always)]
    fn leave_lock(&self) {
        if self.region().is_lost() {
            self.mark_lost();
        }
        self.leave();
    }

    /// The lock word while `owner` holds the lock at `offset`.
    #[inline]
    fn lock_bits(&self, offset: u64, owner: OwnerId) -> u64 {
        let bits = u64::from(owner.bits());
        let [first, second] = self.identity().hash_key;
        let check = (bits ^ offset.rotate_left(32) ^ first).wrapping_mul(second | 1);
        check & !0xffff_ffff | bits
    }

    /// The owner that a lock word names; none if the lock is free or the word's check is wrong.
    fn holder(&self, offset: u64, word: u64) -> Option<OwnerId> {
        OwnerId::from_bits(word as u32)
            .filter(|owner| self.lock_bits(offset, *owner) == word & !WAITERS)
    }

    fn counts_as_dead(&self, owner: OwnerId) -> bool {
        crate::mutants::is_on("steal")
            || (self.is_dead(owner) && !crate::mutants::is_on("no-takeover"))
    }

    #[cold]
    fn wait_for(&self, offset: u64, me: OwnerId, limit: Duration) -> Result<Acquired> {
        let mut entered = (me, FORKS.load(Ordering::Relaxed));
        self.wait_as(&mut entered, offset, limit).inspect_err(|_| {
            // A child forked meanwhile has no operation to leave until it begins one.
            if entered.1 != FORKS.load(Ordering::Relaxed) {
                self.begin_operation();
            }
        })
    }

    /// Waits as the owner in `entered`, which also holds the fork count. If host code forks during
    /// the wait, the child replaces `entered` by its own owner; the parent keeps waiting in its own
    /// name.
    fn wait_as(
        &self,
        entered: &mut (OwnerId, u64),
        offset: u64,
        limit: Duration,
    ) -> Result<Acquired> {
        let word = self.region().lock_word(offset);
        let mut me = entered.0;
        let mut mine = self.lock_bits(offset, me);
        let began = Instant::now();
        let brief = self.waiter().brief();
        let spin_for = brief.unwrap_or(SPIN_FOR).min(limit);
        // A model sleeps at once: spinning would only add steps.
        while !cfg!(loom) {
            for _ in 0..SPINS {
                if word.load(Ordering::Relaxed) == 0 && take_if(word, 0, mine) {
                    return Ok(Acquired::Clean);
                }
                std::hint::spin_loop();
            }
            let waited = began.elapsed();
            if waited >= spin_for {
                break;
            }
            if waited >= YIELD_FROM && brief.is_none() {
                std::thread::yield_now();
            }
        }
        let mut slice = FIRST_SLICE;
        loop {
            let seen = word.load(Ordering::Relaxed);
            let Some(owner) = self.holder(offset, seen) else {
                if brief.is_some() && seen & !WAITERS != 0 {
                    return Err(Error::WouldBlock { is_locked: false });
                }
                // Free, or a word that names nobody. Keep the waiters bit: others may still be
                // asleep.
                let bit = if crate::mutants::is_on("one-sleeper") { 0 } else { WAITERS };
                if take_if(word, seen, mine | bit) {
                    if seen & !WAITERS == 0 {
                        return Ok(Acquired::Clean);
                    }
                    self.count(Counter::Takeovers, 1);
                    return Ok(Acquired::TakenOver);
                }
                continue;
            };
            if brief.is_some() {
                let is_locked = owner == me || !self.counts_as_dead(owner);
                return Err(Error::WouldBlock { is_locked });
            }
            let waited = began.elapsed();
            if waited >= limit {
                return Err(Error::LockTimeout { waited });
            }
            let asleep_on = seen | WAITERS;
            let order = Ordering::Relaxed;
            if seen != asleep_on && word.compare_exchange(seen, asleep_on, order, order).is_err() {
                continue;
            }
            let nap = slice.min(limit - waited);
            let host_code = self.allow_host_code();
            let slept = self.wait(&mut || wait::sleep_while(word, asleep_on as u32, nap));
            drop(host_code);
            slept?;
            let forks = FORKS.load(Ordering::Relaxed);
            if forks != entered.1 && !crate::mutants::is_on("parents-name") {
                // The locks of the enclosing operation belong to the parent, so the caller must
                // restart it.
                if self.operations_of_this_thread() > 0 {
                    return Err(Error::Forked);
                }
                me = self.enter()?;
                mine = self.lock_bits(offset, me);
                *entered = (me, forks);
            } else if !self.is_still(me) {
                self.check_open()?;
                return Err(Error::Closed);
            }
            self.check_not_truncated()?;
            slice = SLICE;
            // Our own slot names another thread of this process, which is alive.
            let unchanged = word.load(Ordering::Relaxed) & !WAITERS == seen & !WAITERS;
            if unchanged && owner != me && self.counts_as_dead(owner) {
                let theirs = word.load(Ordering::Relaxed);
                let is_same = theirs & !WAITERS == seen & !WAITERS;
                if is_same && take_if(word, theirs, mine | WAITERS) {
                    self.count(Counter::Takeovers, 1);
                    return Ok(Acquired::TakenOver);
                }
            }
        }
    }
}
