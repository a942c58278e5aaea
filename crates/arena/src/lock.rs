//! The lock: a futex word that names its owner's process slot and incarnation.
//!
//! Never a pid, and never a `pthread_mutex_t`, whose layout differs between C libraries that may
//! share a file. Bit 31 of the word says that somebody may be asleep on it. A waiter sleeps in
//! slices; between them the host may interrupt it, the time limit may end it, and it asks whether
//! the owner still lives. A dead owner's lock is taken over by one compare-and-swap of the very
//! word that named it, so only one waiter succeeds; a stopped owner keeps its lock.
//!
//! The word's high half is a check, keyed with the file's random numbers, of the owner and of the
//! lock's place. A word that something else wrote there names nobody: it is taken over at once, and
//! cannot keep a lock from everybody for as long as the process lives that it would name.
//!
//! Killed between storing zero and waking: the sleepers notice at the end of their slice.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::arena::Arena;
use crate::error::{Error, Result};
use crate::os;
use crate::process::{Counter, OwnerId, FORKS};

const WAITERS: u64 = 1 << 31;
/// Names nobody, and is not the zero of a lock that was let go in order.
const ABANDONED: u64 = 1 << 30;
/// For how long a waiter tries before its first sleep: longer than nearly all holds are. Who sleeps gives
/// its core away, and where there are more processes than cores gets it back after the others' turns,
/// which are a hundred times as long.
const SPIN_FOR: Duration = Duration::from_micros(if cfg!(loom) { 0 } else { 64 });
/// Tries from one look at the clock to the next.
const SPINS: u32 = if cfg!(loom) { 0 } else { 32 };
const FIRST_SLICE: Duration = Duration::from_millis(2);
const SLICE: Duration = Duration::from_millis(25);

/// How a lock came to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what a dead owner left half done must be repaired"]
pub enum Acquired {
    /// From nobody, or from an owner that let go.
    Clean,
    /// From a dead owner: what the lock guards may be half done.
    TakenOver,
}

impl Arena {
    /// Takes the lock whose word is at `offset`, waiting `limit` at most.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] if a live owner kept it, [`Error::Interrupted`] if the host said so,
    /// [`Error::Closed`].
    #[inline]
    pub fn lock(&self, offset: u64, limit: Duration) -> Result<Acquired> {
        let me = self.enter()?;
        let word = self.region().lock_word(offset);
        let mine = self.lock_bits(offset, me);
        if word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Ok(Acquired::Clean);
        }
        self.wait_for(offset, me, limit).inspect_err(|_| self.leave())
    }

    /// Takes the lock if nobody has it.
    ///
    /// # Errors
    /// [`Error::Closed`], or what taking a slot after a fork met.
    pub fn try_lock(&self, offset: u64) -> Result<bool> {
        let me = self.enter()?;
        let word = self.region().lock_word(offset);
        let mine = self.lock_bits(offset, me);
        let taken = word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !taken {
            self.leave();
        }
        Ok(taken)
    }

    /// Lets go of a lock that this thread holds.
    #[inline(always)]
    pub fn unlock(&self, offset: u64) {
        let word = self.region().lock_word(offset);
        let order = if crate::mutants::is_on("relaxed-unlock") {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        if word.swap(0, order) & WAITERS != 0 {
            os::futex_wake_one(word);
        }
        self.leave_lock();
    }

    /// Lets go of a lock as a death would: whoever takes it next is told that it was taken over.
    #[cold]
    pub fn abandon(&self, offset: u64) {
        let word = self.region().lock_word(offset);
        word.store(ABANDONED, Ordering::Release);
        os::futex_wake_one(word);
        self.leave_lock();
    }

    /// Ends an operation whose lock was let go of. If the mapping is gone, it was perhaps only our
    /// zeros that were told: then the others shall take this handle for dead.
    #[inline(always)]
    fn leave_lock(&self) {
        if self.region().is_lost() {
            self.lose();
        }
        self.leave();
    }

    /// The word of a lock that `owner` holds.
    #[inline]
    fn lock_bits(&self, offset: u64, owner: OwnerId) -> u64 {
        let bits = u64::from(owner.bits());
        let [first, second] = self.identity().hash_key;
        let check = (bits ^ offset.rotate_left(32) ^ first).wrapping_mul(second | 1);
        check & !0xffff_ffff | bits
    }

    /// Who holds a lock whose word this is; none if nobody does, or the word does not prove itself.
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
            // A child that was forked meanwhile has no operation to leave until it begins one.
            if entered.1 != FORKS.load(Ordering::Relaxed) {
                self.begin_operation();
            }
        })
    }

    /// Waits as whom `entered` names, under which fork count. Changes that if the host forks while a
    /// handler of its own runs here, and this is the child: the parent waits in its own name.
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
        loop {
            for _ in 0..SPINS {
                if word.load(Ordering::Relaxed) == 0
                    && word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    return Ok(Acquired::Clean);
                }
                std::hint::spin_loop();
            }
            if began.elapsed() >= SPIN_FOR.min(limit) {
                break;
            }
        }
        let mut slice = FIRST_SLICE;
        loop {
            let seen = word.load(Ordering::Relaxed);
            let Some(owner) = self.holder(offset, seen) else {
                // Free, or a word that names nobody. We may have left others asleep: keep the bit.
                let bit = if crate::mutants::is_on("one-sleeper") { 0 } else { WAITERS };
                let mine = mine | bit;
                if word.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    if seen & !WAITERS == 0 {
                        return Ok(Acquired::Clean);
                    }
                    self.count(Counter::Takeovers, 1);
                    return Ok(Acquired::TakenOver);
                }
                continue;
            };
            let waited = began.elapsed();
            if waited >= limit {
                return Err(Error::LockTimeout { waited });
            }
            let asleep_on = seen | WAITERS;
            if seen != asleep_on
                && word
                    .compare_exchange(seen, asleep_on, Ordering::Relaxed, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            let nap = slice.min(limit - waited);
            let within = self.within();
            let slept = self.waiter().run(&mut || os::futex_wait(word, asleep_on as u32, nap));
            drop(within);
            slept.map_err(|_| Error::Interrupted)?;
            let forks = FORKS.load(Ordering::Relaxed);
            if forks != entered.1 && !crate::mutants::is_on("parents-name") {
                // The enclosing operation's locks belong to the parent, so the caller must start that one again.
                if self.operations_of_this_thread() > 0 {
                    return Err(Error::Forked);
                }
                me = self.enter()?;
                mine = self.lock_bits(offset, me);
                *entered = (me, forks);
            } else if !self.is_still(me) {
                return Err(self.gone().unwrap_or(Error::Closed));
            }
            self.look_for_cut()?;
            slice = SLICE;
            // Our own slot names another thread of this process: alive as we are.
            let unchanged = word.load(Ordering::Relaxed) & !WAITERS == seen & !WAITERS;
            if unchanged && owner != me && self.counts_as_dead(owner) {
                let theirs = word.load(Ordering::Relaxed);
                let mine = mine | WAITERS;
                if theirs & !WAITERS == seen & !WAITERS
                    && word
                        .compare_exchange(theirs, mine, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                {
                    self.count(Counter::Takeovers, 1);
                    return Ok(Acquired::TakenOver);
                }
            }
        }
    }
}
