//! The rows of ghosts in a shard's index segments. Must not know what a ghost is used for: see
//! [`crate::policy`].

use super::Eviction;
use crate::format::{bucket_of, shard, KeyHash};
use crate::policy::{Ghost, Row};

impl Eviction<'_> {
    fn ghost_row(&self, hash: KeyHash) -> Option<(u64, Row)> {
        let bucket = bucket_of(hash.first(), self.index_state().buckets());
        let at = self.cx.ghosts_at(self.at, bucket)?;
        Some((at, Row::new(self.region().view(at).words(), self.word(shard::HALVINGS))))
    }

    /// Prefetches the row of a key's ghost.
    #[inline(always)]
    pub fn ask_for_ghost(&self, hash: KeyHash) {
        let bucket = bucket_of(hash.first(), self.index_state().buckets());
        if let Some(at) = self.cx.ghosts_at(self.at, bucket) {
            self.region().prefetch(at, 1);
        }
    }

    /// Removes and returns the ghost of a key, if there is one.
    pub fn take_ghost(&self, hash: KeyHash) -> Option<Ghost> {
        let (at, mut row) = self.ghost_row(hash)?;
        let rows = u64::from(self.index_state().buckets());
        let ghost = row.take(hash.fingerprint(), rows)?;
        self.region().copy_in(at, &row.words());
        Some(ghost)
    }

    /// Remembers a key that leaves the cache, if it has a row.
    pub fn put_ghost(&self, hash: KeyHash, frequency: u64, from_main: bool) {
        let Some((at, mut row)) = self.ghost_row(hash) else { return };
        row.put(hash.fingerprint(), frequency, from_main);
        self.region().copy_in(at, &row.words());
    }

    /// Makes sure that an evicted key has a row while the pool has segments, which is so if the
    /// limit of entries binds. If the byte limit binds, the logs have done it.
    #[inline]
    pub fn prepare_ghost(&self, hash: KeyHash) {
        if self.pool_is_scarce() {
            return;
        }
        let bucket = self.choices(hash).0;
        if !self.has_ghosts_of(bucket) {
            self.open_ghosts(bucket);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cache, Config, Place, Ttl, Value};

    /// Entries evicted for their bytes are remembered as well as those evicted for their number.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn every_bucket_of_a_full_cache_has_ghosts() {
        for (size_bytes, max_entries) in
            [(64 << 10, None), (1 << 20, None), (40 << 20, None), (8 << 20, Some(3_000))]
        {
            let config = Config { size_bytes, max_entries, ..Config::default() };
            let cache = Cache::open(&Place::Private, &config).unwrap();
            let mut number = 0u64;
            while cache.stats().evictions < 20_000 {
                for _ in 0..1_000 {
                    number += 1;
                    let key = number.to_le_bytes();
                    cache.set(&key, Value::bytes(&[7; 160]), Ttl::Never).unwrap();
                }
            }
            for index in 0..cache.cx.shape.shard_count {
                let shard = cache.writes().lock(index).unwrap();
                let missing =
                    (0..shard.bucket_count()).find(|bucket| !shard.has_ghosts_of(*bucket));
                assert_eq!(missing, None, "shard {index} of a cache of {size_bytes} bytes");
            }
        }
    }
}
