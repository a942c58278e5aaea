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
use crate::index::{IndexState, Tagged};
use crate::layout::{bucket_of, shard};
use crate::value::{Buffer, Entry};

/// Keys whose memory is asked for at once: about as many lines as a processor fetches side by side.
const WINDOW: usize = 16;
/// A file of fewer bytes is mostly in the processor's own caches once it is in use.
const FAR_FROM_BYTES: u64 = 16 << 20;
/// Bytes of a record that are asked for. What follows them, the processor asks for by itself.
const RECORD_BYTES: u64 = 256;

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
                hashes[..keys.len()].iter().for_each(|hash| self.ask_for_bucket(*hash));
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

    /// Where the bucket of a hash's first choice is, as far as it can be told at a glance.
    #[inline(always)]
    fn likely_bucket(&self, hash: KeyHash) -> Option<u64> {
        let shard_at = self.arena.geometry().shard_at(hash.shard(self.shape.shard_count));
        let state = self.arena.region().load(shard_at + shard::STATE, Ordering::Relaxed);
        self.bucket_at(shard_at, bucket_of(hash.first(), IndexState(state).buckets()))
    }

    fn ask_for_bucket(&self, hash: KeyHash) {
        if let Some(bucket_at) = self.likely_bucket(hash) {
            self.arena.region().prefetch(bucket_at, 1);
        }
    }

    fn ask_for_record(&self, hash: KeyHash) {
        let Some(bucket_at) = self.likely_bucket(hash) else { return };
        let region = self.arena.region();
        if let Some((_, slot)) = Tagged::new(region.view(bucket_at), hash.tag()).next() {
            region.prefetch(slot.offset(), RECORD_BYTES);
        }
    }
}
