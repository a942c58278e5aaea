//! Many keys at once.
//!
//! Reading: while one is being read, the memory of the next ones is on its way. A read of a cache that is larger than the processor's own waits twice, for a bucket and then for
//! a record. Both can be asked for before they are needed: first all buckets of a window of keys,
//! then, once these are there, all records, then the reads themselves. What is asked for is a
//! guess, made without any of the care that a read takes; only a read answers. In a small cache
//! nothing is asked for: what is near already is not worth the asking.
//!
//! Writing: keys of the same shard are stored under one lock, so many that it is not held for long.
//! Each is stored as if it were alone: a death leaves some of them stored, and nothing half done.

use std::sync::atomic::Ordering;

use crate::cache::Cache;
use crate::error::{lengthen, Error, Result};
use crate::hash::KeyHash;
use crate::index::{choices_of, IndexState};
use crate::layout::shard;
use crate::read::RECORD_BYTES;
use crate::record::{Draft, Head};
use crate::value::{Buffer, Entry, Ttl, Value};
use crate::write::{Condition, InPlace, Storing, DRAFT_WORDS};

/// Keys whose memory is asked for at once: about as many lines as a processor fetches side by side.
const WINDOW: usize = 16;
/// Entries that are stored under one lock at most.
const GROUP: usize = 16;
/// An entry with more bytes of key and value is stored by itself.
const GROUPED_BYTES: usize = 4096;
/// Words that a record may have beside those that its key and value fill.
const OTHER_WORDS: usize = Head::WORDS_MOST as usize + 1;
/// A file of fewer bytes is mostly in the processor's own caches once it is in use.
const FAR_FROM_BYTES: u64 = 16 << 20;

/// Values on their way into the cache.
struct Many<F> {
    /// Gives the key and the value of a place.
    entry: F,
    /// Of each place the hash of its key, and the next place of the same shard.
    places: Vec<(KeyHash, Option<usize>)>,
    expiry_us: Option<u64>,
    /// Words that the longest draft takes which is made under a lock.
    draft_words: usize,
}

impl Cache {
    /// Reads the entries of all `keys`, in their order: of those that have one, `answer` gets the key's
    /// place and the entry. What it refuses ends the reading.
    ///
    /// # Errors
    /// As [`Cache::get`], before the first key is read if one is too long; what `answer` refuses.
    pub fn get_each<K: AsRef<[u8]>, E: From<Error>>(
        &self,
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
                // Each time: `answer` may have closed the cache.
                let owner = self.arena.reader().map_err(Error::from)?;
                if let Some(entry) = self.get_hashed(owner, key.as_ref(), hash, buffer)? {
                    answer(window * WINDOW + place, entry)?;
                }
            }
        }
        Ok(())
    }

    /// Stores `count` values over those that are there; `entry` gives the key and the value of each
    /// place. Keys of one shard are stored in the order of their places.
    ///
    /// # Errors
    /// As [`Cache::set`]. If a key or a value is too long, before anything is stored; otherwise some
    /// may have been stored.
    pub fn set_each<'e>(
        &self,
        count: usize,
        entry: impl Fn(usize) -> (&'e [u8], Value<'e>),
        ttl: Ttl,
    ) -> Result<()> {
        // The places of each shard in their order: the first, and after each the next.
        let (mut firsts, mut places) = (Vec::new(), Vec::new());
        lengthen(&mut firsts, self.shape.shard_count as usize)?;
        lengthen(&mut places, count)?;
        let mut longest_bytes = 0;
        for place in (0..count).rev() {
            let (key, value) = entry(place);
            self.check_lengths(key, Some(value))?;
            longest_bytes = longest_bytes.max(key.len() + value.len());
            let hash = self.hasher.key(key);
            let first: &mut Option<usize> =
                &mut firsts[hash.shard(self.shape.shard_count) as usize];
            places[place] = (hash, first.replace(place));
        }
        let expiry_us = self.expiry_of(ttl);
        let draft_words = longest_bytes.min(GROUPED_BYTES).div_ceil(8) + OTHER_WORDS;
        let many = Many { entry, places, expiry_us, draft_words };
        for (index, mut next) in (0..).zip(firsts) {
            while let Some(place) = next {
                next = self.set_group(index, place, &many)?;
            }
        }
        self.arena.vouch()?;
        Ok(())
    }

    /// Stores the entry of a place of one shard and some of those after it, under one lock where
    /// that is possible. Returns the place that is next.
    fn set_group<'e>(
        &self,
        index: u64,
        first: usize,
        many: &Many<impl Fn(usize) -> (&'e [u8], Value<'e>)>,
    ) -> Result<Option<usize>> {
        let (hasher, shape) = (&self.hasher, &self.shape);
        let mut spare = DRAFT_WORDS.take();
        // Before the lock is taken, since no memory is asked for under it.
        if spare.len() < many.draft_words {
            lengthen(&mut spare, many.draft_words)?;
        }
        let (mut held, mut next) = (None, Some(first));
        for _ in 0..GROUP {
            let Some(place) = next else { break };
            let ((key, value), (hash, after)) = ((many.entry)(place), many.places[place]);
            let is_short = key.len() + value.len() <= GROUPED_BYTES;
            let shard = match held.take().filter(|_| is_short) {
                None if is_short => Some(self.lock_shard_for(index, self.lock_limit)?),
                held => held,
            };
            let draft = Draft::new(key, hash, value, many.expiry_us, hasher, shape, &mut spare)?;
            let mut storing = Storing::new(key, draft, Condition::Always);
            let stored = match shard {
                Some(shard) => match shard.put_in_place(&mut storing) {
                    InPlace::Done(stored) => {
                        held = Some(shard);
                        Ok(Some(stored))
                    }
                    InPlace::NotEnough(live) => {
                        self.make_way_and_put(shard, &mut storing, live, &[])
                    }
                },
                None => Ok(None),
            };
            spare = match stored {
                Ok(Some(_)) => storing.into_spare(),
                unfinished => {
                    self.store_patiently(storing, unfinished)?;
                    DRAFT_WORDS.take()
                }
            };
            next = after;
        }
        drop(held);
        DRAFT_WORDS.set(spare);
        Ok(next)
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
