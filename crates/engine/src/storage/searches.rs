//! What the last search for entries to collect has found out, so that a write without room repeats it
//! only if it may find something. About entries that are never evicted: others are evicted instead. Must
//! not know how entries are found or collected.
//!
//! A shard keeps the soonest moment at which one of these entries expires, and what the stamp clock showed
//! when the search began: an invalidation moves that clock.
//!
//! The races:
//!
//! - *An entry is stored while a search goes on*, in a bucket that the search has passed. Its writer
//!   first lowers the moment and ends the search, under the shard's lock, so the search raises
//!   nothing. So does a move of entries between buckets.
//! - *A tag is evicted meanwhile*: its clock may have moved and its row not yet. The search begins
//!   only when every lock was free once since, and the eviction holds one of them until it has done both.
//! - *A process dies* in a search: nothing was raised. In a write: the moment is too early, which
//!   costs one search.
//!
//! Words that are wrong, such as damaged ones, are believed for [`VALID_US`] at most.

use std::sync::atomic::Ordering;

use super::context::Context;
use super::shard::Shard;
use crate::format::{expiry, shard};

/// For how long nothing is searched again.
const VALID_US: u64 = 10_000_000;

/// A search through one shard.
#[derive(Clone, Copy)]
pub struct Search {
    /// What the stamp clock showed when it began.
    stamp: u64,
    number: u64,
    state: u64,
    valid_until_us: u64,
}

impl Context {
    /// Whether a search through a shard may find entries to collect. Read without its lock.
    pub fn may_find_some(&self, index: u64, stamp: u64) -> bool {
        let at = self.arena.geometry().shard_at(index);
        let word = |word| self.arena.region().load(at + word, Ordering::Acquire);
        let (searched, soonest_us) = (word(shard::SEARCHED), word(shard::SOONEST));
        let now_us = self.arena.now_us();
        let is_valid = (now_us + 1..=now_us.saturating_add(VALID_US)).contains(&soonest_us);
        searched == 0 || searched != stamp || !is_valid
    }
}

impl Shard<'_> {
    /// Begins a search through all buckets, which may give up the lock in between.
    pub fn begin_search(&self, stamp: u64) -> Search {
        let number = self.next_version();
        self.set_word(shard::SEARCH, number);
        let valid_until_us = self.cx.arena.now_us().saturating_add(VALID_US);
        Search { stamp, number, state: self.word(shard::STATE), valid_until_us }
    }

    /// Ends a search that has collected what there was. The others expire at this moment or later.
    pub fn end_search(&self, search: &Search, soonest_us: u64) {
        let is_whole =
            (self.word(shard::SEARCH), self.word(shard::STATE)) == (search.number, search.state);
        if is_whole {
            self.set_word(shard::SOONEST, soonest_us.min(search.valid_until_us));
            self.set_word(shard::SEARCHED, search.stamp);
        }
    }

    /// Notes, before it is there, that an entry which is never evicted expires at a moment.
    #[inline(always)]
    pub fn note_expiry(&self, expiry_us: u64) {
        if expiry_us != expiry::NEVER_US {
            self.lower_soonest(expiry_us);
        }
    }

    fn lower_soonest(&self, expiry_us: u64) {
        if expiry_us < self.word(shard::SOONEST) {
            self.set_word(shard::SOONEST, expiry_us);
        }
        if self.word(shard::SEARCH) != 0 {
            self.set_word(shard::SEARCH, 0);
        }
    }
}
