//! Counters of the invalidations of a shard's keys: a lease remembers its key's counter, and a store
//! with that lease is refused if the counter has moved. Must not know leases.
//!
//! Several keys share a counter, so a lease may be lost to the delete of another key. `clear` moves
//! the epoch instead.

use tuckbox_arena::hooks::{self, Point};

use super::context::Context;
use super::shard::Shard;
use crate::format::KeyHash;

impl Context {
    /// Where the lease tables of a shard are.
    #[inline(always)]
    pub(crate) fn lease_tables_at(&self, shard_at: u64) -> u64 {
        shard_at + self.arena.geometry().plan.shard_bytes - self.shape.leases.len_bytes()
    }
}

impl Shard<'_> {
    /// Where the counter of a key is, from the start of the shard.
    #[inline(always)]
    fn invalidations_at(&self, hash: KeyHash) -> u64 {
        self.cx.lease_tables_at(0) + self.cx.shape.leases.counter_at(hash)
    }

    /// The key's counter.
    pub fn invalidations(&self, hash: KeyHash) -> u64 {
        self.word(self.invalidations_at(hash))
    }

    /// Counts an invalidation of the key, before its entry is removed: after a death in between, a
    /// lease is refused for nothing. The other way round, a stale value could follow the removal.
    #[inline(always)]
    pub fn invalidate(&self, hash: KeyHash) {
        self.add_word(self.invalidations_at(hash), 1);
        hooks::reach(Point::Invalidated);
    }
}
