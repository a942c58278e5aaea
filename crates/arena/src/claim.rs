//! The claim: a word that names the process which is making something, and on which others sleep until
//! it is done.
//!
//! Owns taking, releasing and waiting. Must not know what is made. Unlike a lock, a claim is never
//! waited for in order to have it: whoever wakes decides again. It may be held for minutes, and
//! protects no data, so a dead owner leaves nothing to repair. Closing the handle releases it.
//!
//! Bits 0..31 are the owner, bit 31 says that a waiter may be asleep, and bits 32..64 are a number
//! that tells one claim from the next.
//!
//! The race: the owner releases while others set bit 31. Both use compare-and-swap, so the owner
//! sees the bit, or the waiter sees zero. If the owner is killed between storing zero and waking, the
//! sleepers look again when their slice ends.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::arena::Arena;
use crate::error::Result;
use crate::hooks::{self, Point};
use crate::platform::wait;
use crate::process::{ForkMutex, OwnerId, FORKS};

const WAITERS: u64 = 1 << 31;
const FIRST_SLICE: Duration = Duration::from_millis(2);
/// How often a waiter asks whether the owner lives: makers take long, and may have many waiters.
const SLICE: Duration = Duration::from_millis(50);

/// A claim of this process. A forked child inherits it, but it stays the parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    offset: u64,
    word: u64,
    forks: u64,
}

impl Claim {
    /// Whether this process made it, not the parent that forked this process.
    pub fn is_of_this_process(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed) || crate::mutants::is_on("lease-of-parent")
    }
}

/// The claims of a handle, by offset. Those of the parent are listed until their places are claimed
/// again.
#[derive(Debug)]
pub(crate) struct Claims(ForkMutex<Vec<Claim>>);

impl Claims {
    pub(crate) const fn new() -> Claims {
        Claims(ForkMutex::new(Vec::new()))
    }

    /// Lists a claim; false without memory for it.
    fn add(&self, claim: Claim) -> bool {
        self.0.with(|all| {
            let place = all.binary_search_by_key(&claim.offset, |one| one.offset);
            match place {
                Ok(place) => all[place] = claim,
                Err(place) if all.try_reserve(1).is_ok() => all.insert(place, claim),
                Err(_) => return false,
            }
            true
        })
    }

    fn remove(&self, claim: Claim) {
        self.0.with(|all| {
            let place = all.binary_search_by_key(&claim.offset, |one| one.offset);
            if let Some(place) = place.ok().filter(|place| all[*place] == claim) {
                all.remove(place);
            }
        });
    }

    fn take_all(&self) -> Vec<Claim> {
        self.0.with(std::mem::take)
    }
}

impl Arena {
    /// Takes the claim whose word is at `offset`. The word is zero, and until this returns nobody else
    /// takes it. `number` must differ from that of the claim before. A claim of nothing if this
    /// process has no memory to remember it.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], or the error of taking a process slot after a fork.
    pub fn claim(&self, offset: u64, number: u64) -> Result<Claim> {
        let word = number << 32 | u64::from(self.owner()?.bits());
        let claim = Claim { offset, word, forks: FORKS.load(Ordering::Relaxed) };
        // Before the word, so that closing misses none.
        if !self.claims().add(claim) {
            return Ok(self.claim_nothing());
        }
        self.region().store(offset, word, Ordering::Release);
        Ok(claim)
    }

    /// A claim of no word, when there is no room for one.
    pub fn claim_nothing(&self) -> Claim {
        Claim { offset: 0, word: 0, forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Releases a claim and wakes all waiters. Takes no lock, and may be called after the handle was
    /// closed. Does nothing if the claim is the parent's, or was released.
    pub fn release(&self, claim: Claim) {
        if claim.word != 0 && claim.is_of_this_process() {
            self.release_word(claim.offset, claim.word);
            self.claims().remove(claim);
        }
    }

    /// Releases all claims of this handle, when it is closed: its process slot may live on.
    pub(crate) fn release_all(&self) {
        self.claims().take_all().into_iter().for_each(|claim| self.release(claim));
    }

    /// Releases a claim of a dead owner, whose word is `seen`.
    pub fn release_word(&self, offset: u64, seen: u64) {
        let word = self.region().lock_word(offset);
        let mut now = word.load(Ordering::Relaxed);
        while now & !WAITERS == seen & !WAITERS && now != 0 {
            match word.compare_exchange(now, 0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    hooks::reach(Point::ClaimReleased);
                    if now & WAITERS != 0 && !crate::mutants::is_on("no-maker-wake") {
                        wait::wake_all(word);
                    }
                    return;
                }
                Err(changed) => now = changed,
            }
        }
    }

    /// Whether a claim's word names a process that lives. Asks the system, unless it is this process.
    pub fn is_claimed(&self, word: u64) -> bool {
        let owner = OwnerId::from_bits(word as u32);
        owner.is_some_and(|owner| !self.is_dead(owner) || crate::mutants::is_on("dead-makers-kept"))
    }

    /// Waits until the claim at `offset`, whose word was `seen`, is released or its owner is dead, at
    /// most `limit`. False if the time is over.
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`], [`crate::Error::Closed`], [`crate::Error::Lost`].
    pub fn wait_for_claim(&self, offset: u64, seen: u64, limit: Duration) -> Result<bool> {
        let word = self.region().lock_word(offset);
        let began = Instant::now();
        let mut slice = FIRST_SLICE;
        loop {
            // Again for each slice, so that another thread can close the handle, and a forked child
            // waits in its own name.
            let _operation = self.guard_operation()?;
            self.check_not_truncated()?;
            let now = word.load(Ordering::Acquire);
            if now & !WAITERS != seen & !WAITERS || !self.is_claimed(now) {
                return Ok(true);
            }
            let waited = began.elapsed();
            if waited >= limit {
                return Ok(false);
            }
            let asleep_on = now | WAITERS;
            let order = Ordering::Relaxed;
            if now != asleep_on && word.compare_exchange(now, asleep_on, order, order).is_err() {
                continue;
            }
            hooks::reach(Point::ClaimAwaited);
            let nap = slice.min(limit - waited);
            self.wait(&mut || wait::sleep_while(word, asleep_on as u32, nap))?;
            slice = SLICE;
        }
    }
}
