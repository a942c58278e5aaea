//! Writes of many keys. Must not know how one key is stored.
//!
//! Values that fit into the existing records of several keys are stored under one lock, few enough
//! to hold it only briefly. Each is stored as if it were alone: a death leaves some of them stored,
//! and costs at most one entry.

use smallvec::SmallVec;
use tuckbox_arena::region::prefetch_bytes;

use super::store::{Store, Storing, Tries, DRAFT_WORDS};
use super::write::{InPlace, Writer};
use crate::error::{lengthen, reserve, Result};
use crate::format::layout::{attribute, record::WORDS_MAX};
use crate::format::{Draft, Hasher, KeyHash, NewAttributes, RecordHeader};
use crate::index::Lookup;
use crate::reading::Reader;
use crate::repair::lock;
use crate::value::{Attributes, Condition, Ttl, Value};

/// Most entries stored under one lock, and prefetched together.
const GROUP: usize = 16;
/// An entry with more bytes of key and value is stored alone.
const SHORT_BYTES: usize = 4096;
/// Bytes of each key and value to prefetch.
const START_BYTES: usize = 256;
/// How many keys before its turn a key is prefetched.
const KEYS_AHEAD: usize = 8;
/// Words of the longest record of a shorter entry, with slack.
const SHORT_WORDS: usize =
    SHORT_BYTES / 8 + WORDS_MAX as usize + 1 + RecordHeader::SLACK_WORDS_MAX as usize;
/// More words if it has attributes.
const ATTRIBUTE_WORDS: usize = (attribute::WORDS_MAX + attribute::TAGS_BYTES_MAX / 8) as usize;
/// When the entries expire, and the attributes that they have.
type Common<'a> = (Option<u64>, Option<NewAttributes<'a>>);

impl Store<'_> {
    /// Stores values, replacing present ones: in an ordered cache in the order of `entries`, else shard
    /// by shard, each shard in that order.
    ///
    /// # Errors
    /// As [`crate::Cache::set`]. Keys and values that are too long are refused before anything is stored;
    /// after other errors some entries may have been stored, and `rest` gets the places of those that
    /// were not.
    pub fn set_each(
        self,
        entries: &[(&[u8], Value<'_>)],
        ttl: Ttl,
        attributes: &Attributes<'_>,
        rest: &mut Vec<usize>,
    ) -> Result<()> {
        let common: Common<'_> = match self.new_attributes(ttl, attributes)? {
            Some((expiry_us, attributes)) => (expiry_us, Some(attributes)),
            None => (self.expiry_of(ttl), None),
        };
        if self.shape.is_ordered {
            return self.set_in_order(entries, &common, rest);
        }
        // Linked lists of the places of each shard, in order.
        let (mut firsts, mut places) = (Vec::new(), Vec::new());
        lengthen(&mut firsts, self.shape.shard_count as usize)?;
        lengthen(&mut places, entries.len())?;
        for (place, (key, value)) in entries.iter().enumerate().rev() {
            if let Some(later) = place.checked_sub(KEYS_AHEAD) {
                prefetch_start(entries[later].0);
            }
            self.check_lengths(key, Some(*value))?;
            let hash = hash_of(&self.hasher, key);
            let first: &mut Option<usize> =
                &mut firsts[hash.shard(self.shape.shard_count) as usize];
            places[place] = (hash, first.replace(place));
        }
        for index in 0..firsts.len() {
            while firsts[index].is_some() {
                let next = &mut firsts[index];
                if let Err(error) = self.set_group(index as u64, next, entries, &places, &common) {
                    reserve(rest, entries.len())?;
                    for mut next in firsts {
                        while let Some(place) = next {
                            rest.push(place);
                            next = places[place].1;
                        }
                    }
                    return Err(error);
                }
            }
        }
        self.arena.check_not_lost()?;
        Ok(())
    }

    fn set_in_order(
        self,
        entries: &[(&[u8], Value<'_>)],
        (expiry_us, attributes): &Common<'_>,
        rest: &mut Vec<usize>,
    ) -> Result<()> {
        entries.iter().try_for_each(|(key, value)| self.check_lengths(key, Some(*value)))?;
        for (place, (key, value)) in entries.iter().enumerate() {
            let attributes = attributes.as_ref();
            let always = Condition::Always;
            if let Err(error) = self.store_copy(key, *value, *expiry_us, attributes, false, always)
            {
                reserve(rest, entries.len() - place)?;
                rest.extend(place..entries.len());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Stores the entry at the `next` place and some later ones of its shard. `next` becomes the first
    /// place that is not stored.
    fn set_group(
        self,
        index: u64,
        next: &mut Option<usize>,
        entries: &[(&[u8], Value<'_>)],
        places: &[(KeyHash, Option<usize>)],
        common: &Common<'_>,
    ) -> Result<()> {
        self.ask_for_group(*next, entries, places);
        let mut left = GROUP;
        while left > 0 && next.is_some() {
            self.set_under_one_lock(index, next, &mut left, entries, places, common)?;
        }
        Ok(())
    }

    /// Stores short entries under one lock, up to the first that does not fit into the record of its
    /// key, which may take more locks; or one long entry by itself. Stores at most `left` entries, and
    /// subtracts how many.
    fn set_under_one_lock(
        self,
        index: u64,
        next: &mut Option<usize>,
        left: &mut usize,
        entries: &[(&[u8], Value<'_>)],
        places: &[(KeyHash, Option<usize>)],
        (expiry_us, attributes): &Common<'_>,
    ) -> Result<()> {
        let extras = self.extras(*expiry_us, attributes.as_ref());
        let (mut spare, mut tries) = (DRAFT_WORDS.take(), Tries::default());
        let condition = Condition::Always;
        let entry_at = |place: usize| (entries[place], places[place]);
        let Some(((key, value), (hash, after))) = next.map(entry_at) else { return Ok(()) };
        if !self.is_short(key, value) {
            let draft = Draft::new(key, hash, value, extras, &self.shape, &mut spare)?;
            self.finish_store(Storing { key, draft, condition, tries }, Ok(None))?;
            (*next, *left) = (after, *left - 1);
            return Ok(());
        }
        // Before the lock is taken, because nothing is allocated under it.
        let words = SHORT_WORDS + if attributes.is_some() { ATTRIBUTE_WORDS } else { 0 };
        if spare.len() < words {
            lengthen(&mut spare, words)?;
        }
        DRAFT_WORDS.set(spare);
        let taken = lock::acquire(self.0, index, tries.lock_budget.remaining(self.lock_limit))?;
        // Not in an option, so that it stays in registers: see `Shard::acquire`.
        let shard = Writer::from(lock::locked(self.0, index, taken));
        let mut spare = DRAFT_WORDS.take();
        while let Some(((key, value), (hash, after))) = next.filter(|_| *left > 0).map(entry_at) {
            if !self.is_short(key, value) {
                break;
            }
            let mut draft = Draft::new(key, hash, value, extras, &self.shape, &mut spare)?;
            if let InPlace::NotEnough(live) = shard.put_in_place(key, &mut draft, condition) {
                let mut storing = Storing { key, draft, condition, tries };
                match self.evict_and_put(shard, &mut storing, live, &[]) {
                    Ok(Some(_)) => DRAFT_WORDS.set(storing.draft.into_spare()),
                    unfinished => _ = self.finish_store(storing, unfinished)?,
                }
                (*next, *left) = (after, *left - 1);
                return Ok(());
            }
            spare = draft.into_spare();
            (*next, *left) = (after, *left - 1);
        }
        DRAFT_WORDS.set(spare);
        Ok(())
    }

    /// Prefetches what a group needs: the caller's values, of which the group takes every few, so that
    /// the processor does not foresee them; and, if that pays, the buckets and the present records.
    #[inline(always)]
    fn ask_for_group(
        self,
        mut next: Option<usize>,
        entries: &[(&[u8], Value<'_>)],
        places: &[(KeyHash, Option<usize>)],
    ) {
        let mut hashes = SmallVec::<[KeyHash; GROUP]>::new();
        while let Some(place) = next.filter(|_| hashes.len() < GROUP) {
            if let Value::Bytes { bytes, .. } = entries[place].1 {
                prefetch_start(bytes);
            }
            let (hash, after) = places[place];
            hashes.push(hash);
            next = after;
        }
        Reader(Lookup(self.0)).ask_for(&hashes);
    }

    /// Whether an entry may be stored under a lock together with others: it is copied quickly and
    /// needs no segments of its own.
    fn is_short(self, key: &[u8], value: Value<'_>) -> bool {
        (value.len() as u64) < self.shape.segment_bytes && key.len() + value.len() <= SHORT_BYTES
    }
}

/// The hash of a key. A call, because inlined into the loop it made each entry take 97 more instructions.
#[inline(never)]
fn hash_of(hasher: &Hasher, key: &[u8]) -> KeyHash {
    hasher.key(key)
}

/// Prefetches the caller's bytes: all of a short key or value.
#[inline(always)]
fn prefetch_start(bytes: &[u8]) {
    prefetch_bytes(&bytes[..bytes.len().min(START_BYTES)]);
}
