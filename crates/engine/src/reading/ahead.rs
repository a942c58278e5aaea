//! Prefetching for reads and writes of many keys, and for single writes. Must not know how a key is
//! read or written.
//!
//! In a cache larger than the processor's own, a read or a write waits twice: for its buckets and
//! for a record. So for each window of keys first all buckets are prefetched, then all records, and
//! then the keys are read or written. A single write has its record to build before it looks at its
//! buckets. Prefetches are guesses; only a read or a locked write decides. A small cache does
//! without: its memory is near already.

use std::sync::atomic::Ordering;

use super::read::Reader;
use crate::format::{choices_of, shard, IndexState, KeyHash};
use crate::storage::RECORD_BYTES;

/// Keys to prefetch at once: about as many lines as a processor fetches in parallel.
pub const WINDOW: usize = 16;
/// The index of a smaller file is mostly in a core's own cache once it is in use: it takes about a
/// twentieth of a file with short values.
const INDEX_FAR_FROM_BYTES: u64 = 16 << 20;

impl Reader<'_> {
    /// Prefetches what reads or overwrites of these keys will need, if that pays.
    pub(crate) fn ask_for(self, hashes: &[KeyHash]) {
        if self.arena.region().usable_bytes() >= INDEX_FAR_FROM_BYTES {
            hashes.iter().for_each(|hash| _ = self.ask_for_buckets(*hash));
        }
        if self.records_are_far() {
            hashes.iter().for_each(|hash| self.ask_for_record(*hash));
        }
    }

    /// Prefetches what a write of this key will need, if that pays: its buckets, and its ghost.
    #[inline(always)]
    pub(crate) fn ask_for_place(self, hash: KeyHash) {
        if self.arena.region().usable_bytes() >= INDEX_FAR_FROM_BYTES {
            self.ask_for_far_place(hash);
        }
    }

    // Not inline: writes into small caches would pay for its registers.
    #[inline(never)]
    fn ask_for_far_place(self, hash: KeyHash) {
        let (shard_at, first) = self.ask_for_buckets(hash);
        if let Some(at) = self.ghosts_at(shard_at, first) {
            self.arena.region().prefetch(at, 1);
        }
    }

    /// The position of a hash's shard, and the state of its index.
    #[inline(always)]
    fn shard_of(self, hash: KeyHash) -> (u64, IndexState) {
        let shard_at = self.shard_at(hash);
        let state = self.arena.region().load(shard_at + shard::STATE, Ordering::Relaxed);
        (shard_at, IndexState(state))
    }

    /// Prefetches the buckets of a hash; returns its shard's position, and the first bucket.
    fn ask_for_buckets(self, hash: KeyHash) -> (u64, u32) {
        let (shard_at, state) = self.shard_of(hash);
        let (first, second) = choices_of(hash, state.buckets());
        for bucket in [first, second] {
            if let Some(bucket_at) = self.bucket_at(shard_at, bucket) {
                self.arena.region().prefetch(bucket_at, 1);
            }
        }
        (shard_at, first)
    }

    fn ask_for_record(self, hash: KeyHash) {
        let (shard_at, state) = self.shard_of(hash);
        let region = self.arena.region();
        let epoch = region.load(shard_at + shard::EPOCH, Ordering::Relaxed);
        let tagged = self.tagged(shard_at, hash, state, epoch);
        if let Some(found) = tagged.and_then(|mut tagged| tagged.next()) {
            region.prefetch(found.slot.offset(), RECORD_BYTES);
        }
    }
}
