//! Operations on many keys. Must not know how one key is read or stored.
//!
//! Reads prefetch the memory of the next keys while one is read. In a cache larger than the
//! processor's own, a read waits twice: for its buckets and for a record. So for each window of
//! keys first all buckets are prefetched, then all records, and then the keys are read. Prefetches
//! are guesses; only a read decides. A small cache does without: its memory is near already.
//!
//! Writes store values that fit into the existing records of several keys under one lock, few
//! enough to hold it only briefly. Each is stored as if it were alone: a death leaves some of them
//! stored, and costs at most one entry.

use std::sync::atomic::Ordering;

use crate::cache::Cache;
use crate::error::{lengthen, Error, Result};
use crate::hash::KeyHash;
use crate::index::{choices_of, IndexState};
use crate::layout::shard;
use crate::read::RECORD_BYTES;
use crate::record::{Draft, RecordHeader};
use crate::store::{LockBudget, Storing, DRAFT_WORDS};
use crate::value::{Buffer, Entry, Ttl, Value};
use crate::write::{Condition, InPlace};

/// Keys to prefetch at once: about as many lines as a processor fetches in parallel.
const WINDOW: usize = 16;
/// Most entries stored under one lock.
const GROUP: usize = 16;
/// An entry with more bytes of key and value is stored alone.
const SHORT_BYTES: usize = 4096;
/// Words of the longest record of a shorter entry.
const SHORT_WORDS: usize = SHORT_BYTES / 8 + RecordHeader::WORDS_MAX as usize + 1;
/// A smaller file is mostly in the processor's own caches once it is in use.
const FAR_FROM_BYTES: u64 = 16 << 20;

impl Cache {
    /// Reads the entries of all `keys`, in order. Calls `answer` with the position of each key that
    /// has an entry, and the entry. An error of `answer` ends the reading.
    ///
    /// # Errors
    /// As [`Cache::get`], before the first key is read if one is too long; the errors of `answer`.
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
                // Checked each time: `answer` may have closed the cache.
                let owner = self.arena.reader().map_err(Error::from)?;
                if let Some(entry) = self.get_hashed(owner, key.as_ref(), hash, buffer)? {
                    answer(window * WINDOW + place, entry)?;
                }
            }
        }
        Ok(())
    }

    /// Stores values, replacing present ones, shard by shard, each shard in the order of `entries`.
    ///
    /// # Errors
    /// As [`Cache::set`]. Keys and values that are too long are refused before anything is stored;
    /// after other errors some entries may have been stored.
    pub fn set_each(&self, entries: &[(&[u8], Value<'_>)], ttl: Ttl) -> Result<()> {
        // Linked lists of the places of each shard, in order.
        let (mut firsts, mut places) = (Vec::new(), Vec::new());
        lengthen(&mut firsts, self.shape.shard_count as usize)?;
        lengthen(&mut places, entries.len())?;
        for (place, (key, value)) in entries.iter().enumerate().rev() {
            self.check_lengths(key, Some(*value))?;
            let hash = self.hasher.key(key);
            let first: &mut Option<usize> =
                &mut firsts[hash.shard(self.shape.shard_count) as usize];
            places[place] = (hash, first.replace(place));
        }
        for (index, mut next) in (0..).zip(firsts) {
            while let Some(place) = next {
                let mut spare = DRAFT_WORDS.take();
                let stored = self.set_group(index, place, entries, &places, ttl, &mut spare);
                DRAFT_WORDS.set(spare);
                next = stored?;
            }
        }
        self.arena.check_not_lost()?;
        Ok(())
    }

    /// Stores the entry of a place and some later ones of its shard; those that fit into the
    /// records of their keys under one lock. Returns the next place.
    fn set_group(
        &self,
        index: u64,
        first: usize,
        entries: &[(&[u8], Value<'_>)],
        places: &[(KeyHash, Option<usize>)],
        ttl: Ttl,
        spare: &mut Vec<u64>,
    ) -> Result<Option<usize>> {
        // Before a lock is taken, because nothing is allocated under it.
        if spare.len() < SHORT_WORDS {
            lengthen(spare, SHORT_WORDS)?;
        }
        let expiry_us = self.expiry_of(ttl);
        let (mut held, mut next) = (None, Some(first));
        for _ in 0..GROUP {
            let Some(place) = next else { break };
            let ((key, value), (hash, after)) = (entries[place], places[place]);
            let mut lock_budget = LockBudget::default();
            let is_short = self.is_short(key, value);
            let shard = match held.take().filter(|_| is_short) {
                None if is_short => {
                    Some(self.lock_shard_for(index, lock_budget.remaining(self.lock_limit))?)
                }
                held => held,
            };
            let draft = Draft::new(key, hash, value, expiry_us, &self.shape, spare)?;
            let mut storing = Storing::new(key, draft, Condition::Always, lock_budget);
            let stored = match shard {
                Some(shard) => match storing.put_in_place(&shard) {
                    InPlace::Done(stored) => {
                        held = Some(shard);
                        Ok(Some(stored))
                    }
                    InPlace::NotEnough(live) => self.evict_and_put(shard, &mut storing, live, &[]),
                },
                None => Ok(None),
            };
            let (stored, words) = match stored {
                Ok(Some(stored)) => (Ok(stored), storing.into_spare()),
                unfinished => self.finish_store(storing, unfinished),
            };
            *spare = words;
            stored?;
            next = after;
        }
        Ok(next)
    }

    /// Whether an entry may be stored under a lock together with others: it is copied quickly and
    /// needs no segments of its own.
    fn is_short(&self, key: &[u8], value: Value<'_>) -> bool {
        (value.len() as u64) < self.shape.segment_bytes && key.len() + value.len() <= SHORT_BYTES
    }

    /// The position of a hash's shard, and the state of its index.
    #[inline(always)]
    fn shard_of(&self, hash: KeyHash) -> (u64, IndexState) {
        let shard_at = self.shard_at(hash);
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
