//! Lock-free reads. Must not know how writes choose what to store or evict.
//!
//! A read loads the slot, then the generation of its segment, then **the slot again**. It copies
//! the record, checks the generation again, compares the whole key, and verifies the checksum.
//!
//! The race: while a reader copies, a writer may free the segment and reuse it. The second slot
//! load makes this harmless: a slot is cleared before its segment's generation moves, so the loaded
//! generation belongs to the use in which the record was written. The last check shows that this
//! use had not ended when the copy was complete. The proof and the four invariants that writers
//! keep are in `docs/concurrency.md`, "The lock-free read".
//!
//! A read that meets a change starts again. After a bounded number of attempts it continues under
//! the shard's lock, for a short while, and then reports a miss and counts it. A read-only handle
//! takes no lock and reports the miss at once.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::region::{fence, SegmentSlice, View};
use tuckbox_arena::Counter;

use crate::cache::Cache;
use crate::error::{lengthen, Error, Result};
use crate::hash::KeyHash;
use crate::index::{IndexState, TaggedSlot};
use crate::layout::{shard, Position, Slot, TRAILER_BYTES};
use crate::log::RECORD_START_WORDS;
use crate::record::{expiry, flag, RecordHeader, Sequence};
use crate::value::{Buffer, Entry, Value};

/// Attempts of a read before it continues under the lock.
const ATTEMPTS: u32 = if cfg!(loom) { 2 } else { 64 };
/// How long a read waits for that lock. In a loom model, where time must not matter, practically
/// forever.
const LOCK_LIMIT: Duration =
    if cfg!(loom) { Duration::from_secs(1000) } else { Duration::from_millis(25) };

/// Bytes of a record to prefetch well before it is read or written: most records are not longer.
pub(crate) const RECORD_BYTES: u64 = 256;
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

/// The cache line of a shard that readers use.
pub(crate) type ReadersLine<'a> = View<'a, { shard::READERS_WORDS }>;

/// A slot as a reader loaded it, and where.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// The readers' cache line of its shard.
    pub shard: ReadersLine<'a>,
    /// The shard's epoch when the bucket was searched.
    pub epoch: u64,
    /// The slot's word in the file.
    pub word: View<'a, 1>,
    /// The value of that word.
    pub slot: Slot,
}

impl<'a> TaggedSlot<'a> {
    fn seen(self, shard: ReadersLine<'a>, epoch: u64) -> Seen<'a> {
        Seen { shard, epoch, word: self.word, slot: self.slot }
    }
}

impl Seen<'_> {
    /// Whether the slot still leads to the same record.
    #[inline(always)]
    fn is_still(&self) -> bool {
        Slot(self.word.load(0, Ordering::Acquire)).is_same_place(self.slot)
    }
}

/// A record that a slot led to at one moment, and what was loaded of it then.
#[derive(Clone, Copy)]
struct Located<'a> {
    /// The record and what follows it in its segment.
    record: SegmentSlice<'a>,
    /// The generation word of its segment, and its value.
    use_of_segment: View<'a, 1>,
    generation: u64,
    /// The record's first words, and the value of word 0.
    start: View<'a, RECORD_START_WORDS>,
    first: u64,
}

impl Located<'_> {
    /// The same with known flags, for the compiler.
    #[inline(always)]
    fn with_flags(self, flags: u64) -> Self {
        debug_assert_eq!(Sequence(self.first).flags(), flags);
        Located { first: self.first & !flag::ALL | flags, ..self }
    }
}

/// A record in a buffer that stayed in its place until the copy was complete.
#[derive(Clone, Copy)]
pub(crate) struct Copied {
    /// The parsed record header.
    pub header: RecordHeader,
    /// The sum of its content.
    pub content: u64,
    /// The generation of its segment.
    pub generation: u64,
}

/// Why a record was not copied.
pub(crate) enum CopyError {
    /// Something changed meanwhile.
    Changed,
    /// Nothing changed, but this is no valid record.
    Damaged,
    /// Not enough memory to copy this many bytes.
    NoMemory(usize),
}

type CopyResult<T> = std::result::Result<T, CopyError>;

/// The result of a read; fits a register.
pub(crate) enum Answer {
    /// The entry is in the buffer.
    Found,
    /// There is no such entry.
    Missing,
    /// The read failed; the error is in the buffer.
    Refused,
}

impl Buffer {
    /// Space for a record of this many words; none if there is no memory for it.
    #[inline(always)]
    fn record_space(&mut self, word_count: usize) -> Option<&mut [u64]> {
        if self.record.len() < word_count {
            lengthen(&mut self.record, word_count).ok()?;
        }
        self.record.get_mut(..word_count)
    }

    /// Whether the read with this result found an entry, or its error.
    #[inline(always)]
    pub(crate) fn outcome(&mut self, answer: Answer) -> Result<bool> {
        match answer {
            Answer::Found => Ok(true),
            Answer::Missing => Ok(false),
            Answer::Refused => Err(self.take_refusal()),
        }
    }
}

impl Cache {
    /// Finds and copies an entry; whether there is one. Adds a hit to the slot if `notes_hit`.
    #[inline(always)]
    pub(crate) fn read(
        &self,
        key: &[u8],
        hash: KeyHash,
        buffer: &mut Buffer,
        notes_hit: bool,
    ) -> Answer {
        match self.try_read(key, hash, buffer, notes_hit) {
            Attempt::Found => Answer::Found,
            Attempt::Missing => Answer::Missing,
            rare => self.read_again(key, hash, buffer, notes_hit, rare),
        }
    }

    /// As [`Cache::read`], after a first attempt with this result.
    #[cold]
    #[inline(never)]
    fn read_again(
        &self,
        key: &[u8],
        hash: KeyHash,
        buffer: &mut Buffer,
        notes_hit: bool,
        first: Attempt,
    ) -> Answer {
        let mut attempt = first;
        for _ in 1..ATTEMPTS {
            let Attempt::Changed = attempt else { break };
            std::hint::spin_loop();
            attempt = self.try_read(key, hash, buffer, notes_hit);
        }
        let result = match attempt {
            Attempt::Found => Ok(true),
            Attempt::Missing => Ok(false),
            Attempt::Changed => self.read_under_lock(key, hash, buffer),
            Attempt::NoMemory(wanted_bytes) => Err(Error::OutOfMemory { wanted_bytes }),
        };
        match result {
            Ok(true) => Answer::Found,
            Ok(false) => Answer::Missing,
            Err(error) => {
                buffer.refusal = Some(error);
                Answer::Refused
            }
        }
    }

    #[cold]
    fn read_under_lock(&self, key: &[u8], hash: KeyHash, buffer: &mut Buffer) -> Result<bool> {
        if self.arena.is_read_only() {
            return Ok(false);
        }
        self.arena.count(Counter::ReadsUnderLock, 1);
        let index = hash.shard(self.shape.shard_count);
        let shard = match self.lock_shard_for(index, LOCK_LIMIT.min(self.lock_limit)) {
            Ok(shard) => shard,
            Err(Error::Arena(tuckbox_arena::Error::LockTimeout { .. })) => {
                self.arena.count(Counter::ReadsGivenUp, 1);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        match shard.find_key(key, hash) {
            Some(live) => shard.copy_entry(&live, hash, buffer),
            None => Ok(false),
        }
    }

    /// Where the shard of a key begins.
    #[inline(always)]
    pub(crate) fn shard_at(&self, hash: KeyHash) -> u64 {
        self.arena.geometry().shard_at(hash.shard(self.shape.shard_count))
    }

    /// A shard's cache line for readers, with the index state and epoch in it.
    #[inline(always)]
    fn readers_line(&self, shard_at: u64) -> (ReadersLine<'_>, u64, u64) {
        let line: ReadersLine<'_> = self.arena.region().view(shard_at + shard::STATE);
        let state = line.load(shard::readers_word(shard::STATE), Ordering::Acquire);
        let epoch = line.load(shard::readers_word(shard::EPOCH), Ordering::Acquire);
        (line, state, epoch)
    }

    #[inline(always)]
    fn try_read(&self, key: &[u8], hash: KeyHash, buffer: &mut Buffer, notes_hit: bool) -> Attempt {
        let shard_at = self.shard_at(hash);
        let (shard, state, epoch) = self.readers_line(shard_at);
        hooks::reach(Point::StateLoaded);
        let tagged = self.tagged(shard_at, hash, IndexState(state), epoch);
        if let Some(first) = tagged.and_then(|mut tagged| tagged.next()) {
            let word = first.word;
            // Returned here: merging it with the result of the others would push it out of its
            // registers.
            let seen = first.seen(shard, epoch);
            if let Some(attempt) = self.try_slot(key, hash, notes_hit, seen, buffer) {
                return attempt;
            }
            if let Some(attempt) = self.try_others(key, hash, notes_hit, word, buffer) {
                return attempt;
            }
        }
        hooks::reach(Point::ProbeMissed);
        // A miss holds only if no entry changed its bucket meanwhile.
        fence(Ordering::Acquire);
        let unchanged = shard.get(shard::readers_word(shard::STATE)) == state
            && shard.get(shard::readers_word(shard::EPOCH)) == epoch;
        if unchanged || tuckbox_arena::mutants::is_on("no-state-check") {
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
    fn try_others(
        &self,
        key: &[u8],
        hash: KeyHash,
        notes_hit: bool,
        first: View<'_, 1>,
        buffer: &mut Buffer,
    ) -> Option<Attempt> {
        hooks::reach(Point::OtherKeyFound);
        let shard_at = self.shard_at(hash);
        let (shard, state, epoch) = self.readers_line(shard_at);
        self.tagged(shard_at, hash, IndexState(state), epoch)?
            .filter(|other| !other.word.is_at(first))
            .find_map(|other| self.try_slot(key, hash, notes_hit, other.seen(shard, epoch), buffer))
    }

    /// Reads the record of one slot. The result of the attempt; none if the record is another
    /// key's.
    ///
    /// Here and below, arguments are passed one by one: a struct would be written to memory in all
    /// reads, for calls that are rare.
    #[inline(always)]
    fn try_slot(
        &self,
        key: &[u8],
        hash: KeyHash,
        notes_hit: bool,
        seen: Seen<'_>,
        buffer: &mut Buffer,
    ) -> Option<Attempt> {
        let located = match self.follow(seen) {
            Ok(located) => located,
            Err(error) => return self.attempt_of(error),
        };
        // Each of these two kinds has its own copy of the code, specialised for the flags.
        match Sequence(located.first).flags() {
            0 => self.try_record(key, hash, notes_hit, seen, located.with_flags(0), buffer),
            flag::EXPIRY => {
                let located = located.with_flags(flag::EXPIRY);
                self.try_record(key, hash, notes_hit, seen, located, buffer)
            }
            _ => self.try_rare_record(key, hash, notes_hit, seen.word, seen.epoch, buffer),
        }
    }

    /// As [`Cache::try_slot`], for a number or a long record. Loads and follows the slot again: its
    /// values would leave their registers in all reads. A slot that is empty by now or has another
    /// tag is a change. `epoch` was loaded before the slot was found.
    #[inline(never)]
    fn try_rare_record(
        &self,
        key: &[u8],
        hash: KeyHash,
        notes_hit: bool,
        word: View<'_, 1>,
        epoch: u64,
        buffer: &mut Buffer,
    ) -> Option<Attempt> {
        hooks::reach(Point::RareRecordFound);
        let shard = self.arena.region().view(self.shard_at(hash) + shard::STATE);
        let slot = Slot(word.load(0, Ordering::Acquire));
        if slot.is_empty() || slot.tag() != hash.tag() {
            return Some(Attempt::Changed);
        }
        let seen = Seen { shard, epoch, word, slot };
        match self.follow(seen) {
            Ok(located) => self.try_record(key, hash, notes_hit, seen, located, buffer),
            Err(error) => self.attempt_of(error),
        }
    }

    /// Reads the record that a slot led to. The result of the attempt; none if the record is
    /// another key's.
    #[inline(always)]
    fn try_record(
        &self,
        key: &[u8],
        hash: KeyHash,
        notes_hit: bool,
        seen: Seen<'_>,
        located: Located<'_>,
        buffer: &mut Buffer,
    ) -> Option<Attempt> {
        let copied = match self.copy_record(located, buffer) {
            Ok(copied) => copied,
            Err(error) => return self.attempt_of(error),
        };
        let offset = seen.slot.offset();
        if !copied.header.has_key(&buffer.record, key) {
            // Through the buffer: as an argument it would be in memory in all reads.
            buffer.header = copied.header;
            self.count_if_damaged(buffer, copied.content, offset, copied.generation);
            return None;
        }
        if !self.verify_copy(&copied, buffer, hash, offset) {
            self.arena.count(Counter::ChecksumMismatches, 1);
            return None;
        }
        if copied.header.body_count != 0 {
            if let Some(attempt) = self.collect_bodies(seen, buffer) {
                return Some(attempt);
            }
        }
        if notes_hit {
            if let Some(hit) = seen.slot.with_hit() {
                // The race: another reader or a writer changes the slot first. Then this hit is
                // lost, which is harmless: hits are hints.
                seen.word.replace(0, seen.slot.0, hit.0);
            }
            self.sample_hit(seen.shard, hash, &copied.header);
        }
        Some(Attempt::Found)
    }

    /// The result of an attempt that did not get a record; none if there was no valid record.
    #[inline(always)]
    fn attempt_of(&self, error: CopyError) -> Option<Attempt> {
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
    fn collect_bodies(&self, seen: Seen<'_>, buffer: &mut Buffer) -> Option<Attempt> {
        let header = buffer.header;
        // Checked before memory is allocated: a damaged list may name more segments than the file
        // has.
        if !self.has_bodies(&header, &buffer.record) {
            return Some(self.changed_or_missing(seen));
        }
        match buffer.fill_value(|record, value| self.load_bodies(&header, record, value)) {
            Ok(true) => None,
            Ok(false) => Some(self.changed_or_missing(seen)),
            Err(_) => Some(Attempt::NoMemory(header.value_bytes as usize)),
        }
    }

    /// A record with this key's tag but another key, in the buffer: equal tags are rare, or one of
    /// the two is damaged.
    #[cold]
    fn count_if_damaged(&self, buffer: &mut Buffer, content: u64, offset: u64, generation: u64) {
        let copied = Copied { header: buffer.header, content, generation };
        let hash = self.hasher.key(copied.header.key(&buffer.record));
        if !self.verify_copy(&copied, buffer, hash, offset) {
            self.arena.count(Counter::ChecksumMismatches, 1);
        }
    }

    /// A large value whose bodies do not match its record: it was replaced meanwhile, or is
    /// damaged.
    #[cold]
    fn changed_or_missing(&self, seen: Seen<'_>) -> Attempt {
        if seen.is_still() {
            self.arena.count(Counter::ChecksumMismatches, 1);
            Attempt::Missing
        } else {
            Attempt::Changed
        }
    }

    /// Copies the record that a slot leads to, and checks that it was that slot's record all the
    /// time.
    pub(crate) fn read_slot(&self, seen: Seen<'_>, buffer: &mut Buffer) -> CopyResult<Copied> {
        self.copy_record(self.follow(seen)?, buffer)
    }

    /// Prefetches the next lines of a record together with the first.
    #[inline(always)]
    fn ask_for_next_lines(&self, offset: u64) {
        self.arena.region().prefetch(offset + NEXT_LINES.start, NEXT_LINES.end - NEXT_LINES.start);
    }

    /// Follows a slot to its record, and checks that it was the slot's record then.
    #[inline(always)]
    fn follow<'a>(&'a self, seen: Seen<'a>) -> CopyResult<Located<'a>> {
        hooks::reach(Point::SlotLoaded);
        let offset = seen.slot.offset();
        self.ask_for_next_lines(offset);
        let record = self.record_at(offset).ok_or(CopyError::Damaged)?;
        let use_of_segment = self.arena.generation_word(record.segment());
        let generation = use_of_segment.load(0, Ordering::Acquire);
        let is_same = seen.is_still() || tuckbox_arena::mutants::is_on("one-slot-load");
        let is_epoch = seen.shard.load(shard::readers_word(shard::EPOCH), Ordering::Acquire)
            == seen.epoch
            || tuckbox_arena::mutants::is_on("no-epoch-check");
        if !is_same || !is_epoch {
            return Err(CopyError::Changed);
        }
        hooks::reach(Point::SlotConfirmed);
        let start = record.view();
        let first = start.load(0, Ordering::Acquire);
        Ok(Located { record, use_of_segment, generation, start, first })
    }

    /// Copies a record, and checks that it did not change meanwhile.
    #[inline(always)]
    fn copy_record(&self, located: Located<'_>, buffer: &mut Buffer) -> CopyResult<Copied> {
        let Located { record, use_of_segment, generation, start, first } = located;
        let is_still = || {
            if !tuckbox_arena::mutants::is_on("no-acquire-fence") {
                fence(Ordering::Acquire);
            }
            start.get(0) == first && use_of_segment.load(0, Ordering::Acquire) == generation
        };
        let Some(header) = self.parse_header(&start, first) else {
            return Err(if is_still() { CopyError::Damaged } else { CopyError::Changed });
        };
        if header.sequence.is_busy() {
            // A live writer is rewriting it, or a writer died: the lock tells which.
            return Err(CopyError::Changed);
        }
        let count = (header.log_bytes / 8) as usize;
        let Some(words) = buffer.record_space(count) else {
            return Err(CopyError::NoMemory(count * 8));
        };
        let (mut is_whole, mut content) = (true, 0);
        if header.log_bytes + TRAILER_BYTES <= record.len_bytes() {
            content = record.copy_out_summed(words, header.content_from());
        } else {
            is_whole = self.copy_crossing(self.position_in(record), words);
            if is_whole {
                content = header.content(words);
            }
        }
        hooks::reach(Point::RecordCopied);
        match (is_still(), is_whole) {
            (true, true) => Ok(Copied { header, content, generation }),
            (true, false) => Err(CopyError::Damaged),
            (false, _) => Err(CopyError::Changed),
        }
    }

    /// Copies a record that continues in further segments. Before and after the copy, each segment
    /// must have the generation that the previous trailer names.
    #[cold]
    fn copy_crossing(&self, mut at: Position, words: &mut [u64]) -> bool {
        let mut done = 0;
        loop {
            let here_words = ((self.shape.log_bytes - at.byte) / 8) as usize;
            let count = here_words.min(words.len() - done);
            let from = self.offset_of(at);
            let expected = self.arena.generation(at.segment);
            self.arena.region().copy_out(from, &mut words[done..done + count]);
            done += count;
            fence(Ordering::Acquire);
            if self.arena.generation(at.segment) != expected {
                return false;
            }
            if done == words.len() {
                return true;
            }
            let Some((next, generation)) = self.trailer(at.segment) else { return false };
            if self.arena.generation(next) != generation {
                return false;
            }
            at = Position { segment: next, byte: 0 };
        }
    }

    /// Whether the record in the buffer was written at this place under a key with this hash. Sets
    /// the buffer's fields from the record in any case.
    #[inline(always)]
    pub(crate) fn verify_copy(
        &self,
        copied: &Copied,
        buffer: &mut Buffer,
        hash: KeyHash,
        offset: u64,
    ) -> bool {
        let Copied { header, content, generation } = *copied;
        let Some(expiry_us) = header.expiry_us(&buffer.record, hash) else { return false };
        (buffer.header, buffer.content, buffer.expiry_us) = (header, content, expiry_us);
        tuckbox_arena::mutants::is_on("no-checksum")
            || header.sequence.checksum()
                == header.checksum(content, &self.hasher, hash, offset, generation)
    }

    /// The entry in a filled buffer.
    #[inline(always)]
    pub(crate) fn entry_in<'b>(&self, buffer: &'b Buffer) -> Entry<'b> {
        let header = &buffer.header;
        let mut is_in_output = false;
        let value = if header.has(flag::NUMBER) {
            Value::Int(header.number(&buffer.record))
        } else if header.body_count != 0 {
            let (bytes, is_output) = buffer.large_value();
            is_in_output = is_output;
            Value::Bytes { tag: header.tag, bytes }
        } else {
            Value::Bytes { tag: header.tag, bytes: header.tail(&buffer.record, &self.shape) }
        };
        let expiry_us = (buffer.expiry_us != expiry::NEVER_US).then_some(buffer.expiry_us);
        Entry { value, expiry_us, version: header.version(buffer.content), is_in_output }
    }

    /// Whether the entry in a filled buffer has expired.
    #[inline(always)]
    pub(crate) fn has_expired(&self, buffer: &Buffer) -> bool {
        self.is_expired(buffer.expiry_us)
    }

    /// Whether an expiry has passed. Reads the clock only if there is an expiry.
    #[inline]
    pub(crate) fn is_expired(&self, expiry_us: u64) -> bool {
        expiry_us != expiry::NEVER_US && expiry_us <= self.arena.now_us()
    }
}
