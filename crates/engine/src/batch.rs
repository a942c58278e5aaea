//! Reading many keys: while one is being read, the memory of the next ones is on its way.
//!
//! A read of a cache that is larger than the processor's own waits twice, for a bucket and then for
//! a record. Both can be asked for before they are needed: first all buckets of a window of keys,
//! then, once these are there, all records, then the reads themselves. What is asked for is a
//! guess, made without any of the care that a read takes; only a read answers. In a small cache
//! nothing is asked for: what is near already is not worth the asking.

use std::sync::atomic::Ordering;

use crate::cache::Cache;
use crate::error::Error;
use crate::hash::KeyHash;
use crate::index::{choices_of, IndexState};
use crate::layout::shard;
use crate::read::RECORD_BYTES;
use crate::value::{Buffer, Entry};

/// Keys whose memory is asked for at once: about as many lines as a processor fetches side by side.
const WINDOW: usize = 16;
/// A file of fewer bytes is mostly in the processor's own caches once it is in use.
const FAR_FROM_BYTES: u64 = 16 << 20;

impl Cache {
    /// Reads the entries of all `keys`, in their order: `answer` gets each key's place and its
    /// entry. What it refuses ends the reading.
    ///
    /// # Errors
    /// As [`Cache::get`], before the first key is read if one is too long; what `answer` refuses.
    pub fn get_each<K: AsRef<[u8]>, E: From<Error>>(
        &self,
        keys: &[K],
        buffer: &mut Buffer,
        mut answer: impl FnMut(usize, Option<Entry<'_>>) -> std::result::Result<(), E>,
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
                // Each time: `answer` may have closed the cache.
                let owner = self.arena.reader().map_err(Error::from)?;
                let entry = self.get_hashed(owner, key.as_ref(), hash, buffer)?;
                answer(window * WINDOW + place, entry)?;
            }
        }
        Ok(())
    }

    /// Where the shard of a hash is, and the state of its index.
    #[inline(always)]
    fn shard_of(&self, hash: KeyHash) -> (u64, IndexState) {
        let shard_at = self.arena.geometry().shard_at(hash.shard(self.shape.shard_count));
        let state = self.arena.region().load(shard_at + shard::STATE, Ordering::Relaxed);
        (shard_at, IndexState(state))
    }

    fn ask_for_buckets(&self, hash: KeyHash) {
        let (shard_at, state) = self.shard_of(hash);
        let (first, second) = choices_of(hash, state.buckets());
        for bucket in [first, second] {
            if let Some(bucket_at) = self.bucket_at(shard_at, bucket) {
                self.arena.region().prefetch(bucket_at, 1);
            }
        }
    }

    fn ask_for_record(&self, hash: KeyHash) {
        let (shard_at, state) = self.shard_of(hash);
        let region = self.arena.region();
        let epoch = region.load(shard_at + shard::EPOCH, Ordering::Relaxed);
        let tagged = self.tagged(shard_at, hash, state, epoch);
        if let Some(found) = tagged.and_then(|mut tagged| tagged.next()) {
            region.prefetch(found.slot.offset(), RECORD_BYTES);
        }
    }
}
