//! Writes of many keys. Must not know how one key is stored.
//!
//! Values that fit into the existing records of several keys are stored under one lock, few enough
//! to hold it only briefly. Each is stored as if it were alone: a death leaves some of them stored,
//! and costs at most one entry.

use super::store::{Store, Storing, Tries, DRAFT_WORDS};
use super::write::InPlace;
use crate::error::{lengthen, reserve, Result};
use crate::format::layout::{attribute, record::WORDS_MAX};
use crate::format::{Draft, KeyHash, NewAttributes};
use crate::value::{Attributes, Condition, Ttl, Value};

/// Most entries stored under one lock.
const GROUP: usize = 16;
/// An entry with more bytes of key and value is stored alone.
const SHORT_BYTES: usize = 4096;
/// Words of the longest record of a shorter entry.
const SHORT_WORDS: usize = SHORT_BYTES / 8 + WORDS_MAX as usize + 1;
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
            self.check_lengths(key, Some(*value))?;
            let hash = self.hasher.key(key);
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

    /// Stores the entry at the `next` place and some later ones of its shard; those that fit into
    /// the records of their keys under one lock. `next` becomes the first place that is not stored.
    fn set_group(
        self,
        index: u64,
        next: &mut Option<usize>,
        entries: &[(&[u8], Value<'_>)],
        places: &[(KeyHash, Option<usize>)],
        (expiry_us, attributes): &Common<'_>,
    ) -> Result<()> {
        // Before a lock is taken, because nothing is allocated under it.
        let mut spare = DRAFT_WORDS.take();
        let words = SHORT_WORDS + if attributes.is_some() { ATTRIBUTE_WORDS } else { 0 };
        if spare.len() < words {
            lengthen(&mut spare, words)?;
        }
        DRAFT_WORDS.set(spare);
        let mut held = None;
        for _ in 0..GROUP {
            let Some(place) = *next else { break };
            let ((key, value), (hash, after)) = (entries[place], places[place]);
            let mut tries = Tries::default();
            let is_short = self.is_short(key, value);
            let shard = match held.take().filter(|_| is_short) {
                None if is_short => {
                    Some(self.lock_for(index, tries.lock_budget.remaining(self.lock_limit))?)
                }
                held => held,
            };
            let mut spare = DRAFT_WORDS.take();
            let extras = self.extras(*expiry_us, attributes.as_ref());
            let draft = Draft::new(key, hash, value, extras, &self.shape, &mut spare)?;
            let condition = Condition::Always;
            let mut storing = Storing { key, draft, condition, tries };
            let stored = match shard {
                Some(shard) => match shard.put_in_place(key, &mut storing.draft, condition) {
                    InPlace::Done(stored) => {
                        held = Some(shard);
                        Ok(Some(stored))
                    }
                    InPlace::NotEnough(live) => self.evict_and_put(shard, &mut storing, live, &[]),
                },
                None => Ok(None),
            };
            match stored {
                Ok(Some(_)) => DRAFT_WORDS.set(storing.draft.into_spare()),
                unfinished => _ = self.finish_store(storing, unfinished)?,
            }
            *next = after;
        }
        Ok(())
    }

    /// Whether an entry may be stored under a lock together with others: it is copied quickly and
    /// needs no segments of its own.
    fn is_short(self, key: &[u8], value: Value<'_>) -> bool {
        (value.len() as u64) < self.shape.segment_bytes && key.len() + value.len() <= SHORT_BYTES
    }
}
