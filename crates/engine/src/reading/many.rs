//! Reads of many keys. Must not know how one key is read.
//!
//! Reads prefetch the memory of the next keys while one is read. In a cache larger than the
//! processor's own, a read waits twice: for its buckets and for a record. So for each window of
//! keys first all buckets are prefetched, then all records, and then the keys are read. Prefetches
//! are guesses; only a read decides. A small cache does without: its memory is near already.

use std::sync::atomic::Ordering;

use super::buffer::Buffer;
use super::read::Reader;
use crate::error::Error;
use crate::format::{choices_of, shard, IndexState, KeyHash};
use crate::storage::RECORD_BYTES;
use crate::value::Entry;

/// Keys to prefetch at once: about as many lines as a processor fetches in parallel.
const WINDOW: usize = 16;
/// A smaller file is mostly in the processor's own caches once it is in use.
const FAR_FROM_BYTES: u64 = 16 << 20;

impl Reader<'_> {
    /// Reads the entries of all `keys`, in order. Calls `answer` with the position of each key that
    /// has an entry, and the entry. An error of `answer` ends the reading.
    ///
    /// # Errors
    /// As [`crate::Cache::get`], before the first key is read if one is too long; the errors of `answer`.
    pub fn get_each<K: AsRef<[u8]>, E: From<Error>>(
        self,
        keys: &[K],
        buffer: &mut Buffer,
        mut answer: impl FnMut(usize, Entry<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for key in keys {
            self.check_lengths(key.as_ref(), None)?;
        }
        let is_far = self.arena.region().usable_bytes() >= FAR_FROM_BYTES;
        let mut hashes = [KeyHash(0); WINDOW];
        for (window, keys) in keys.chunks(WINDOW).enumerate() {
            for (key, hash) in keys.iter().zip(&mut hashes) {
                *hash = self.hasher.key(key.as_ref());
            }
            if is_far {
                hashes[..keys.len()].iter().for_each(|hash| self.ask_for_buckets(*hash));
                hashes[..keys.len()].iter().for_each(|hash| self.ask_for_record(*hash));
            }
            for (place, (key, hash)) in keys.iter().zip(hashes).enumerate() {
                // Checked each time: `answer` may have closed the cache.
                let owner = self.arena.reader().map_err(Error::from)?;
                if let Some(entry) = self.get_hashed(owner, key.as_ref(), hash, buffer)? {
                    answer(window * WINDOW + place, entry)?;
                }
            }
        }
        Ok(())
    }

    /// The position of a hash's shard, and the state of its index.
    #[inline(always)]
    fn shard_of(self, hash: KeyHash) -> (u64, IndexState) {
        let shard_at = self.shard_at(hash);
        let state = self.arena.region().load(shard_at + shard::STATE, Ordering::Relaxed);
        (shard_at, IndexState(state))
    }

    fn ask_for_buckets(self, hash: KeyHash) {
        let (shard_at, state) = self.shard_of(hash);
        let (first, second) = choices_of(hash, state.buckets());
        for bucket in [first, second] {
            if let Some(bucket_at) = self.bucket_at(shard_at, bucket) {
                self.arena.region().prefetch(bucket_at, 1);
            }
        }
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
