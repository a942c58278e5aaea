//! Lock-free reads. Must not know how writes choose what to store or evict.
//!
//! A read loads the shard's state and epoch, and finds the slot. It loads the slot, then the
//! generation of its segment and word 0 of the record, then **the slot and the epoch again**. It
//! compares the whole key, copies the record, checks word 0 and the generation again, and verifies the
//! checksum. If one of this fails, or the record is not plain, it does so again by code for all records.
//! If nothing was found, it checks that the state and the epoch are the same.
//!
//! The race: while a reader copies, a writer may free the segment and reuse it, or write another
//! record over one that was replaced. The second slot load makes this harmless: a slot is changed
//! before its segment's generation moves, and before its record's place is used again. So the loaded
//! generation and word 0 belong to the record that the slot led to. The last check shows that it was
//! still there when the copy was complete. The proof and the four invariants that writers
//! keep are in `docs/explanation/concurrency.md`, "The lock-free read".
//!
//! A read that meets a change starts again. After a bounded number of attempts it continues under
//! the shard's lock, for a short while, and then reports a miss and counts it. A read-only handle
//! takes no lock and reports the miss after these attempts.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tuckbox_arena::region::View;
use tuckbox_arena::{mutants, Counter, OwnerId};

use super::buffer::Buffer;
use super::locked::Entries;
use super::steps::{self, Copied, CopyError, CopyResult, FoundAt, Located, Seen};
use crate::error::{would_block, Error, Result};
use crate::eviction::{sample_hit, Eviction};
use crate::format::{flag, shard, IndexState, KeyHash, RecordHeader, RecordPlace, Sequence};
use crate::index::Lookup;
use crate::repair::lock;
use crate::storage::Context;

/// Attempts of a read before it continues under the lock.
const ATTEMPTS: u32 = if cfg!(loom) { 2 } else { 64 };
/// How long a read waits for that lock. In a loom model, where time must not matter, practically
/// forever.
const LOCK_LIMIT: Duration =
    if cfg!(loom) { Duration::from_secs(1000) } else { Duration::from_millis(25) };

/// Bytes to prefetch just before a record is read: its second and third line. The first is loaded
/// at once, the fourth arrives in time anyway; all four take a tenth longer.
const NEXT_LINES: Range<u64> = 64..192;

/// The result of one attempt.
pub(crate) enum Attempt {
    /// The verified record is in the buffer.
    Found,
    /// There is no such entry.
    Missing,
    /// Something changed meanwhile: try again.
    Changed,
    /// Not enough memory to copy this many bytes.
    NoMemory(usize),
}

layer! {
    /// The lock-free reads of a cache.
    #[derive(Clone, Copy)]
    Reader(Lookup<'a>)
}

impl<'a> Reader<'a> {
    /// Finds and copies an entry, also one that has expired; whether there is one. Adds a hit to the
    /// slot if `notes_hit`, except under the lock. With `PROVES`, notes in the buffer where the entry
    /// was found, except under the lock.
    #[inline(always)]
    pub(crate) fn read<const PROVES: bool>(
        self,
        key: &[u8],
        hash: KeyHash,
        buffer: &mut Buffer,
        notes_hit: bool,
    ) -> Result<bool> {
        match self.try_read::<PROVES>(key, hash, buffer, notes_hit) {
            Attempt::Found => Ok(true),
            Attempt::Missing => Ok(false),
            rare => match self.read_again::<PROVES>(key, hash, buffer, notes_hit, rare) {
                Some(found) => Ok(found),
                None => Err(buffer.take_refusal()),
            },
        }
    }

    /// As [`Reader::read`], after a first attempt with this result. None if the read failed; the
    /// error is in the buffer, so that the result fits a register.
    #[cold]
    #[inline(never)]
    fn read_again<const PROVES: bool>(
        self,
        key: &[u8],
        hash: KeyHash,
        buffer: &mut Buffer,
        notes_hit: bool,
        mut attempt: Attempt,
    ) -> Option<bool> {
        for _ in 1..ATTEMPTS {
            let Attempt::Changed = attempt else { break };
            std::hint::spin_loop();
            attempt = self.try_read::<PROVES>(key, hash, buffer, notes_hit);
        }
        let result = match attempt {
            Attempt::Found => Ok(true),
            Attempt::Missing => Ok(false),
            Attempt::Changed => self.read_under_lock(key, hash, buffer),
            // A brief operation gives up like one without memory, and is repeated at leisure.
            Attempt::NoMemory(_) if self.arena.waiter().brief().is_some() => Err(would_block()),
            Attempt::NoMemory(wanted_bytes) => Err(Error::OutOfMemory { wanted_bytes }),
        };
        result.map_err(|error| buffer.refusal = Some(error)).ok()
    }

    #[cold]
    fn read_under_lock(self, key: &[u8], hash: KeyHash, buffer: &mut Buffer) -> Result<bool> {
        buffer.found_at = None;
        // Not to wait for whoever resizes, who holds all locks until the new name is on the disk.
        lock::check_successor(&self)?;
        if self.arena.is_read_only() {
            return Ok(false);
        }
        self.arena.count(Counter::ReadsUnderLock, 1);
        let index = hash.shard(self.shape.shard_count);
        let limit = LOCK_LIMIT.min(self.lock_limit);
        let shard = match lock::lock_hidden(&self, index, limit) {
            Ok(shard) => Entries(Eviction(shard)),
            Err(Error::Arena(tuckbox_arena::Error::LockTimeout { .. })) => {
                self.arena.count(Counter::ReadsGivenUp, 1);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        match shard.find_kept(key, hash) {
            Some(live) => shard.copy_entry(&live, hash, buffer),
            None => Ok(false),
        }
    }

    #[inline(always)]
    fn try_read<const PROVES: bool>(
        self,
        key: &[u8],
        hash: KeyHash,
        buffer: &mut Buffer,
        notes_hit: bool,
    ) -> Attempt {
        let shard_at = self.shard_at(hash);
        let (shard, state, epoch) = steps::load_state(*self, shard_at);
        let tagged = self.tagged(shard_at, hash, IndexState(state), epoch);
        if let Some(first) = tagged.and_then(|mut tagged| tagged.next()) {
            let word = first.word;
            // Returned here: merging it with the result of the others would push it out of its
            // registers.
            let seen = Seen::new(first, shard, epoch);
            if let Some(attempt) = self.try_slot::<PROVES>(key, hash, notes_hit, seen, buffer) {
                return attempt;
            }
            if let Some(attempt) = self.try_others::<PROVES>(key, hash, notes_hit, word, buffer) {
                return attempt;
            }
        }
        // A miss holds only if no entry changed its bucket meanwhile.
        if steps::is_same_state(shard, state, epoch) && epoch != shard::HIDDEN {
            Attempt::Missing
        } else {
            Attempt::Changed
        }
    }

    /// Reads the records of the other slots with the tag, after the slot `first` led to another
    /// key, which is rare. Skips the place of `first`, not its value: another slot, the key's own,
    /// may hold that value by now.
    ///
    /// Loads state and epoch again: as arguments they would leave their registers in all reads. A
    /// record is checked against this epoch; a miss is checked against the caller's.
    #[cold]
    #[inline(never)]
    fn try_others<const PROVES: bool>(
        self,
        key: &[u8],
        hash: KeyHash,
        notes_hit: bool,
        first: View<'_, 1>,
        buffer: &mut Buffer,
    ) -> Option<Attempt> {
        let shard_at = self.shard_at(hash);
        let (shard, state, epoch) = steps::load_state_again(*self, shard_at);
        self.tagged(shard_at, hash, IndexState(state), epoch)?
            .filter(|other| !other.word.is_at(first))
            .find_map(|other| {
                self.try_slot::<PROVES>(
                    key,
                    hash,
                    notes_hit,
                    Seen::new(other, shard, epoch),
                    buffer,
                )
            })
    }

    /// Reads the record of one slot. The result of the attempt; none if the record is another
    /// key's.
    ///
    /// The rare functions below get their arguments one by one: a struct would be written to memory
    /// in all reads, because calls of these are not inlined.
    #[inline(always)]
    fn try_slot<const PROVES: bool>(
        self,
        key: &[u8],
        hash: KeyHash,
        notes_hit: bool,
        seen: Seen<'_>,
        buffer: &mut Buffer,
    ) -> Option<Attempt> {
        let is_read = match self.follow(seen) {
            // Each of these two kinds has its own copy of the code, specialised for the flags.
            Ok(located) => match Sequence(located.first).flags() {
                0 => self.read_plain::<PROVES>(key, hash, seen, located.with_flags(0), buffer),
                flag::EXPIRY => {
                    let located = located.with_flags(flag::EXPIRY);
                    self.read_plain::<PROVES>(key, hash, seen, located, buffer)
                }
                _ => false,
            },
            Err(_) => false,
        };
        if is_read {
            if notes_hit {
                self.note_hit(seen, hash);
            }
            return Some(Attempt::Found);
        }
        self.try_rare_record::<PROVES>(key, hash, notes_hit, seen.word, seen.epoch, buffer)
    }

    /// Adds a hit to the slot of an entry that was read.
    #[inline(always)]
    pub(super) fn note_hit(self, seen: Seen<'_>, hash: KeyHash) {
        if let Some(hit) = seen.slot.with_hit() {
            // The race: another reader or a writer changes the slot first. Then this hit is
            // lost, which is harmless: hits are hints.
            seen.word.replace(0, seen.slot.0, hit.0);
        }
        sample_hit(&self, seen.shard, hash, seen.slot.offset());
    }

    /// Reads a plain record, which a slot led to: it is in one segment, and has no flag or that of an
    /// expiry. Whether that succeeded. If not, [`Reader::try_rare_record`] finds the cause.
    ///
    /// Compares the key with the record's before the copy: loads from a copy that was just made wait for
    /// its stores (decision 70).
    #[inline(always)]
    fn read_plain<const PROVES: bool>(
        self,
        key: &[u8],
        hash: KeyHash,
        seen: Seen<'_>,
        located: Located<'_>,
        buffer: &mut Buffer,
    ) -> bool {
        let Some(header) = self.parse_header(&located.start, located.first) else { return false };
        if header.sequence.is_busy() || !steps::has_key(&located, &header, key) {
            return false;
        }
        // Here, so that its values need not be kept until the record is copied (decision 70).
        buffer.header = header;
        let count = (header.log_bytes / 8) as usize;
        let Some(words) = buffer.record_space(count) else { return false };
        let Some(content) = steps::copy(&located, &header, words) else { return false };
        if !steps::is_still_after_copy(&located) {
            return false;
        }
        let Some(expiry_us) = header.expiry_us(words, hash) else { return false };
        (buffer.content, buffer.expiry_us) = (content, expiry_us);
        if PROVES {
            self.note_place(seen, header.sequence.0, buffer);
        }
        let copied = Copied { header, content, place: located.place };
        steps::has_its_checksum(&copied, &self.hasher, hash)
    }

    /// Notes in the buffer where the entry was found.
    fn note_place(self, seen: Seen<'_>, first: u64, buffer: &mut Buffer) {
        let slot_at = self.arena.region().offset_of(seen.word);
        buffer.found_at = Some(FoundAt { slot_at, slot: seen.slot, epoch: seen.epoch, first });
    }

    /// As [`Reader::try_slot`], for a record that is not plain, and for one that could not be read.
    /// Loads and follows the slot again: its values would leave their registers in all reads. A slot
    /// that is empty by now or has another tag is a change. `epoch` was loaded before the slot was
    /// found.
    #[inline(never)]
    fn try_rare_record<const PROVES: bool>(
        self,
        key: &[u8],
        hash: KeyHash,
        notes_hit: bool,
        word: View<'_, 1>,
        epoch: u64,
        buffer: &mut Buffer,
    ) -> Option<Attempt> {
        let Some(seen) = steps::load_slot_again(*self, hash, word, epoch) else {
            return Some(Attempt::Changed);
        };
        let copied = match self.read_slot(seen, buffer) {
            Ok(copied) => copied,
            Err(error) => return self.attempt_of(error),
        };
        if !copied.header.has_key(&buffer.record, key) {
            self.count_if_damaged(buffer, copied.content, copied.place);
            return None;
        }
        if !self.verify_copy(&copied, buffer, hash) {
            self.arena.count(Counter::ChecksumMismatches, 1);
            return None;
        }
        if copied.header.body_count != 0 {
            if let Some(attempt) = self.collect_bodies(seen, buffer) {
                return Some(attempt);
            }
        }
        if PROVES {
            self.note_place(seen, copied.header.sequence.0, buffer);
        }
        if notes_hit {
            self.note_hit(seen, hash);
        }
        Some(Attempt::Found)
    }

    /// The result of an attempt that did not get a record; none if there was no valid record.
    fn attempt_of(self, error: CopyError) -> Option<Attempt> {
        match error {
            CopyError::Changed => Some(Attempt::Changed),
            CopyError::NoMemory(bytes) => Some(Attempt::NoMemory(bytes)),
            CopyError::Damaged => {
                self.arena.count(Counter::ChecksumMismatches, 1);
                None
            }
        }
    }

    /// Copies the parts of a large value that are in segments of their own. The result of the
    /// attempt if that fails.
    #[inline(never)]
    fn collect_bodies(self, seen: Seen<'_>, buffer: &mut Buffer) -> Option<Attempt> {
        let header = buffer.header;
        // Checked before memory is allocated: a damaged list may name more segments than the file
        // has.
        if !self.has_bodies(&header, &buffer.record) {
            return Some(self.changed_or_missing(seen));
        }
        if self.is_too_long_now(&header) {
            return Some(Attempt::NoMemory(header.value_bytes as usize));
        }
        match buffer.fill_value(self.arena.waiter(), |record, value| {
            self.load_bodies(&header, record, value)
        }) {
            Ok(true) => None,
            Ok(false) => Some(self.changed_or_missing(seen)),
            Err(_) => Some(Attempt::NoMemory(header.value_bytes as usize)),
        }
    }

    /// A record with this key's tag but another key, in the buffer: equal tags are rare, or one of
    /// the two is damaged.
    #[cold]
    fn count_if_damaged(self, buffer: &mut Buffer, content: u64, place: RecordPlace) {
        let copied = Copied { header: buffer.header, content, place };
        let hash = self.hasher.key(copied.header.key(&buffer.record));
        if !self.verify_copy(&copied, buffer, hash) {
            self.arena.count(Counter::ChecksumMismatches, 1);
        }
    }

    /// A large value whose bodies do not match its record: it was replaced meanwhile, or is
    /// damaged.
    #[cold]
    fn changed_or_missing(self, seen: Seen<'_>) -> Attempt {
        if seen.is_still() {
            self.arena.count(Counter::ChecksumMismatches, 1);
            Attempt::Missing
        } else {
            Attempt::Changed
        }
    }

    /// Copies the record that a slot leads to, and checks that it was that slot's record all the
    /// time.
    pub(crate) fn read_slot(self, seen: Seen<'_>, buffer: &mut Buffer) -> CopyResult<Copied> {
        let located = self.follow(seen)?;
        self.copy_record(located, self.header_of(&located)?, buffer)
    }

    /// Follows a slot to its record, and checks that it was the slot's record then.
    #[inline(always)]
    fn follow(self, seen: Seen<'a>) -> CopyResult<Located<'a>> {
        let offset = seen.slot.offset();
        let cx: &Context = *self.0;
        // Together with the first line.
        cx.arena.region().prefetch(offset + NEXT_LINES.start, NEXT_LINES.end - NEXT_LINES.start);
        cx.prefetch_later_records(offset);
        let record = cx.record_at(offset).ok_or(CopyError::Damaged)?;
        let use_of_segment = record.segment_word();
        let generation = use_of_segment.load(0, Ordering::Acquire);
        let start = record.view();
        let mut first = start.load(0, Ordering::Acquire);
        if !steps::is_confirmed(seen) {
            return Err(CopyError::Changed);
        }
        if mutants::is_on("late-first-word") {
            first = start.load(0, Ordering::Acquire);
        }
        let place = RecordPlace { offset, generation };
        Ok(Located { record, use_of_segment, place, start, first })
    }

    /// The header of a record, if there is a valid one.
    fn header_of(self, located: &Located<'_>) -> CopyResult<RecordHeader> {
        match self.parse_header(&located.start, located.first) {
            Some(header) => Ok(header),
            None if steps::is_still(located) => Err(CopyError::Damaged),
            None => Err(CopyError::Changed),
        }
    }

    /// Copies a record and its header into the buffer, and checks that it did not change meanwhile.
    fn copy_record(
        self,
        located: Located<'_>,
        header: RecordHeader,
        buffer: &mut Buffer,
    ) -> CopyResult<Copied> {
        if header.sequence.is_busy() {
            // A live writer is rewriting it, or a writer died: the lock tells which.
            return Err(CopyError::Changed);
        }
        let count = (header.log_bytes / 8) as usize;
        buffer.header = header;
        let Some(words) = buffer.record_space(count) else {
            return Err(CopyError::NoMemory(count * 8));
        };
        let content = match steps::copy(&located, &header, words) {
            Some(content) => Some(content),
            None => self
                .copy_across(self.position_in(located.record), words)
                .then(|| header.content(words)),
        };
        match (steps::is_still_after_copy(&located), content) {
            (true, Some(content)) => Ok(Copied { header, content, place: located.place }),
            (true, None) => Err(CopyError::Damaged),
            (false, _) => Err(CopyError::Changed),
        }
    }

    /// Whether the record in the buffer was written at this place under a key with this hash. Sets
    /// the buffer's `content` and `expiry_us`, unless the expiry is damaged.
    pub(crate) fn verify_copy(self, copied: &Copied, buffer: &mut Buffer, hash: KeyHash) -> bool {
        let Copied { header, content, .. } = *copied;
        let Some(expiry_us) = header.expiry_us(&buffer.record, hash) else { return false };
        (buffer.content, buffer.expiry_us) = (content, expiry_us);
        let is_sound = steps::has_its_checksum(copied, &self.hasher, hash);
        if header.has(flag::LONG) && is_sound {
            return buffer.judge(&self);
        }
        is_sound
    }

    /// As [`Reader::find_hashed`]. Whether the entry is stale; none if there is none, or it is stale
    /// and the caller does not accept that.
    pub(crate) fn find_full(
        self,
        owner: Option<OwnerId>,
        key: &[u8],
        hash: KeyHash,
        accepts_stale: bool,
        buffer: &mut Buffer,
    ) -> Result<Option<bool>> {
        let found = self.read::<false>(key, hash, buffer, owner.is_some())?;
        let is_stale = if found { buffer.judge_full(&self, hash) } else { None };
        let accepted = is_stale.filter(|is_stale| accepts_stale || !is_stale);
        match (accepted, owner) {
            (Some(_), Some(owner)) => self.arena.count_read(owner, Counter::Hits),
            (Some(_), None) => {}
            (None, _) => self.note_miss(owner)?,
        }
        Ok(accepted)
    }

    /// Reads an entry into the buffer, for callers that have the hash and the owner for this handle's
    /// counters; none if it is read-only. Whether there is one.
    #[inline(always)]
    pub(crate) fn find_hashed<const PROVES: bool>(
        self,
        owner: Option<OwnerId>,
        key: &[u8],
        hash: KeyHash,
        buffer: &mut Buffer,
    ) -> Result<bool> {
        let found = self.read::<PROVES>(key, hash, buffer, owner.is_some())?;
        if found && !self.is_expired(buffer.expiry_us) {
            if let Some(owner) = owner {
                self.arena.count_read(owner, Counter::Hits);
            }
            return Ok(true);
        }
        self.note_miss(owner)?;
        Ok(false)
    }

    /// Counts a miss, if the file is still the one at its path.
    #[inline(never)]
    fn note_miss(self, owner: Option<OwnerId>) -> Result<()> {
        // Also closed: another thread may have given the memory back.
        self.arena.check_open()?;
        self.arena.check_not_lost()?;
        lock::check_path(&self, Duration::ZERO)?;
        if let Some(owner) = owner {
            self.arena.count_read(owner, Counter::Misses);
        }
        Ok(())
    }
}
