//! Reading without a lock.
//!
//! A read loads the slot, then the generation of its segment, then **the slot again**, copies the
//! record, and looks at the generation once more; then it compares the whole key and verifies the
//! checksum. The proof, with the four invariants that writers keep, is in `docs/concurrency.md`.
//! In short: the second slot load shows that the slot still led to the record when the generation
//! was loaded (a slot is cleared before its segment's generation moves), so the generation is that
//! of the record's own use of the segment; and the last look shows that this use had not ended
//! when the copy was complete.
//!
//! A read that meets a change starts again; after a bounded number of times it goes on under the
//! shard's lock, for a short while, and then answers a miss and counts it. A handle that only reads
//! takes no lock and answers the miss at once.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::region::{fence, Stretch, View};
use tuckbox_arena::Counter;

use crate::cache::Cache;
use crate::error::{lengthen, Error, Result};
use crate::hash::KeyHash;
use crate::index::{IndexState, TaggedSlot};
use crate::layout::{shard, Position, Slot, TRAILER_BYTES};
use crate::log::RECORD_START_WORDS;
use crate::record::{expiry, flag, Head, Sequence};
use crate::value::{Buffer, Entry, Value};

/// How often a read starts again before it goes on under the lock.
const ATTEMPTS: u32 = if cfg!(loom) { 2 } else { 64 };
/// How long it waits for that lock. In a model, where time must not matter, as long as it takes.
const LOCK_LIMIT: Duration =
    if cfg!(loom) { Duration::from_secs(1000) } else { Duration::from_millis(25) };

/// Bytes of a record that are asked for long before it is read, or to be written: as many as most
/// records have.
pub(crate) const RECORD_BYTES: u64 = 256;
/// Which bytes are asked for when it is about to be read: its second and third line. The first is loaded
/// at once, and what comes behind them as soon as it is asked for; all four take a tenth more time.
const NEXT_LINES: Range<u64> = 64..192;

/// What one attempt came to.
pub(crate) enum Attempt {
    /// The record is in the buffer, proved.
    Found,
    /// There is no such entry.
    Missing,
    /// Something moved meanwhile: try again.
    Changed,
    /// There is no memory to copy so many bytes to.
    NoMemory(usize),
}

/// A shard's cache line that is for readers.
pub(crate) type ReadersLine<'a> = View<'a, { shard::READERS_WORDS }>;

/// A slot as a reader loaded it, and where.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// The cache line of its shard that is for readers.
    pub shard: ReadersLine<'a>,
    /// The shard's epoch when the bucket was looked into.
    pub epoch: u64,
    /// Its word.
    pub word: View<'a, 1>,
    /// What that held.
    pub slot: Slot,
}

impl<'a> TaggedSlot<'a> {
    fn seen(self, shard: ReadersLine<'a>, epoch: u64) -> Seen<'a> {
        Seen { shard, epoch, word: self.word, slot: self.slot }
    }
}

impl Seen<'_> {
    /// Whether the slot leads to the same record still.
    #[inline(always)]
    fn is_still(&self) -> bool {
        Slot(self.word.load(0, Ordering::Acquire)).is_same_place(self.slot)
    }
}

/// A record that a slot led to at one moment, and what was seen of it then.
#[derive(Clone, Copy)]
struct Located<'a> {
    /// Its words, and what is behind it in its segment.
    record: Stretch<'a>,
    /// Where the generation of its segment is, and what it was.
    use_of_segment: View<'a, 1>,
    generation: u64,
    /// Its first words, and what word 0 was.
    start: View<'a, RECORD_START_WORDS>,
    first: u64,
}

impl Located<'_> {
    /// The same, so that the compiler knows the flags.
    #[inline(always)]
    fn with_flags(self, flags: u64) -> Self {
        debug_assert_eq!(Sequence(self.first).flags(), flags);
        Located { first: self.first & !flag::ALL | flags, ..self }
    }
}

/// A record that was copied into a buffer, and was in its place until the copy was complete.
#[derive(Clone, Copy)]
pub(crate) struct Copied {
    /// Its first words, parsed.
    pub head: Head,
    /// The sum of what it holds.
    pub content: u64,
    /// The generation of its segment.
    pub generation: u64,
}

/// Why a record was not copied.
pub(crate) enum CopyError {
    /// Something moved meanwhile.
    Changed,
    /// Nothing moved, and yet it is no record.
    Damaged,
    /// There is no memory to copy so many bytes to.
    NoMemory(usize),
}

type CopyResult<T> = std::result::Result<T, CopyError>;

/// What a read came to: no more than fits a register.
pub(crate) enum Answer {
    /// The entry is in the buffer.
    Found,
    /// There is none.
    Missing,
    /// It was refused; why is in the buffer.
    Refused,
}

impl Buffer {
    /// Room for a record of so many words; none if there is no memory for it.
    #[inline(always)]
    fn room_for(&mut self, word_count: usize) -> Option<&mut [u64]> {
        if self.record.len() < word_count {
            lengthen(&mut self.record, word_count).ok()?;
        }
        self.record.get_mut(..word_count)
    }

    /// Whether the read that came to this found an entry, or why it was refused.
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
    /// Finds and copies an entry; whether there is one. The hit is noted in the slot if
    /// `notes_hit`.
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

    /// As [`Cache::read`], after a first attempt that came to this.
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

    /// A shard's cache line for readers, and the index's state and epoch that it holds.
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
            // Returned here: joined with the answer of the others it would leave its registers.
            let seen = first.seen(shard, epoch);
            if let Some(attempt) = self.try_slot(key, hash, notes_hit, seen, buffer) {
                return attempt;
            }
            if let Some(attempt) = self.try_others(key, hash, notes_hit, word, buffer) {
                return attempt;
            }
        }
        hooks::reach(Point::ProbeMissed);
        // Nothing found: true only if no entry changed its bucket meanwhile.
        fence(Ordering::Acquire);
        let unchanged = shard.get(shard::readers_word(shard::STATE)) == state
            && shard.get(shard::readers_word(shard::EPOCH)) == epoch;
        if unchanged || tuckbox_arena::mutants::is_on("no-state-check") {
            Attempt::Missing
        } else {
            Attempt::Changed
        }
    }

    /// Reads the records of the other slots with the tag, after that of the slot `first` was not the
    /// key's, which is rare. Left out is its place, not what it held: that may be the key's slot by now.
    ///
    /// State and epoch are loaded anew: handed over, they would leave their registers in all reads. What
    /// is found is held against this epoch; that nothing was is held by the caller against his own.
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

    /// Reads the record of one slot. How the attempt ends; none if it is not the key's.
    ///
    /// Here and beneath, what is wanted is handed over one by one: as a struct it would be written to
    /// memory in all reads, for the calls that are rare.
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
        // Each of the two has a copy of the code, in which the compiler knows what such a record has not.
        match Sequence(located.first).flags() {
            0 => self.try_record(key, hash, notes_hit, seen, located.with_flags(0), buffer),
            flag::EXPIRY => {
                let located = located.with_flags(flag::EXPIRY);
                self.try_record(key, hash, notes_hit, seen, located, buffer)
            }
            _ => self.try_rare_record(key, hash, notes_hit, seen.word, seen.epoch, buffer),
        }
    }

    /// As [`Cache::try_slot`], of a number or a long record. The slot is loaded and followed anew: what was
    /// seen of it would leave its registers in all reads. One that is empty by now, or another key's, is a change. The epoch is
    /// the one that was loaded before the slot was found.
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

    /// Reads the record that a slot led to. How the attempt ends; none if it is not the key's.
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
        if !copied.head.has_key(&buffer.record, key) {
            // By the buffer: as an argument it would be in memory in all reads.
            buffer.head = copied.head;
            self.count_if_damaged(buffer, copied.content, offset, copied.generation);
            return None;
        }
        if !self.proves_itself(&copied, buffer, hash, offset) {
            self.arena.count(Counter::ChecksumMismatches, 1);
            return None;
        }
        if copied.head.body_count != 0 {
            if let Some(attempt) = self.collect_bodies(seen, buffer) {
                return Some(attempt);
            }
        }
        if notes_hit {
            if let Some(hit) = seen.slot.with_hit() {
                // Lost to any other change of the slot: a hit is a hint.
                seen.word.replace(0, seen.slot.0, hit.0);
            }
            self.sample_hit(seen.shard, hash, &copied.head);
        }
        Some(Attempt::Found)
    }

    /// How an attempt ends that did not get a record; none if that was no record.
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

    /// Copies the parts of a large value that are in segments of their own. How the attempt ends if
    /// that fails.
    #[inline(never)]
    fn collect_bodies(&self, seen: Seen<'_>, buffer: &mut Buffer) -> Option<Attempt> {
        let head = buffer.head;
        // Before any memory is taken for them: a damaged list may name more than the file has.
        if !self.has_bodies(&head, &buffer.record) {
            return Some(self.changed_or_missing(seen));
        }
        match buffer.land(|record, value| self.load_bodies(&head, record, value)) {
            Ok(true) => None,
            Ok(false) => Some(self.changed_or_missing(seen)),
            Err(_) => Some(Attempt::NoMemory(head.value_bytes as usize)),
        }
    }

    /// A record of another key under this key's tag, in the buffer: the tags agree by chance, which is
    /// rare, or one of the two is damaged.
    #[cold]
    fn count_if_damaged(&self, buffer: &mut Buffer, content: u64, offset: u64, generation: u64) {
        let copied = Copied { head: buffer.head, content, generation };
        let hash = self.hasher.key(copied.head.key(&buffer.record));
        if !self.proves_itself(&copied, buffer, hash, offset) {
            self.arena.count(Counter::ChecksumMismatches, 1);
        }
    }

    /// A large value whose bodies do not fit its record: it was replaced meanwhile, or damaged.
    #[cold]
    fn changed_or_missing(&self, seen: Seen<'_>) -> Attempt {
        if seen.is_still() {
            self.arena.count(Counter::ChecksumMismatches, 1);
            Attempt::Missing
        } else {
            Attempt::Changed
        }
    }

    /// Copies the record that a slot leads to, and makes sure that it was that slot's record all
    /// the time.
    pub(crate) fn read_slot(&self, seen: Seen<'_>, buffer: &mut Buffer) -> CopyResult<Copied> {
        self.copy_record(self.follow(seen)?, buffer)
    }

    /// Has the next lines of a record come beside the first, not after it.
    #[inline(always)]
    fn ask_for_next_lines(&self, offset: u64) {
        self.arena.region().prefetch(offset + NEXT_LINES.start, NEXT_LINES.end - NEXT_LINES.start);
    }

    /// Follows a slot to its record, and makes sure that it was that slot's then.
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

    /// Copies a record, and makes sure that it was in its place all the time.
    #[inline(always)]
    fn copy_record(&self, located: Located<'_>, buffer: &mut Buffer) -> CopyResult<Copied> {
        let Located { record, use_of_segment, generation, start, first } = located;
        let is_still = || {
            if !tuckbox_arena::mutants::is_on("no-acquire-fence") {
                fence(Ordering::Acquire);
            }
            start.get(0) == first && use_of_segment.load(0, Ordering::Acquire) == generation
        };
        let Some(head) = self.head_of(&start, first) else {
            return Err(if is_still() { CopyError::Damaged } else { CopyError::Changed });
        };
        if head.sequence.is_busy() {
            // Rewritten by a live writer, or by one that died: the lock tells.
            return Err(CopyError::Changed);
        }
        let count = (head.log_bytes / 8) as usize;
        let Some(words) = buffer.room_for(count) else {
            return Err(CopyError::NoMemory(count * 8));
        };
        let (mut is_whole, mut content) = (true, 0);
        if head.log_bytes + TRAILER_BYTES <= record.len_bytes() {
            content = record.copy_out_summed(words, head.content_from());
        } else {
            is_whole = self.copy_crossing(self.position_in(record), words);
            if is_whole {
                content = head.content(words);
            }
        }
        hooks::reach(Point::RecordCopied);
        match (is_still(), is_whole) {
            (true, true) => Ok(Copied { head, content, generation }),
            (true, false) => Err(CopyError::Damaged),
            (false, _) => Err(CopyError::Changed),
        }
    }

    /// Copies a record that goes on in further segments. Each must be in the use that the trailer
    /// before it names, before and after the copy.
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

    /// Whether a record that was copied into the buffer is what was written at this place under a key
    /// of this hash. The buffer has what the record says of itself then, proved or not.
    #[inline(always)]
    pub(crate) fn proves_itself(
        &self,
        copied: &Copied,
        buffer: &mut Buffer,
        hash: KeyHash,
        offset: u64,
    ) -> bool {
        let Copied { head, content, generation } = *copied;
        let Some(expiry_us) = head.expiry_us(&buffer.record, hash) else { return false };
        (buffer.head, buffer.content, buffer.expiry_us) = (head, content, expiry_us);
        tuckbox_arena::mutants::is_on("no-checksum")
            || head.sequence.checksum()
                == head.checksum(content, &self.hasher, hash, offset, generation)
    }

    /// The entry in a buffer that was filled.
    #[inline(always)]
    pub(crate) fn entry_in<'b>(&self, buffer: &'b Buffer) -> Entry<'b> {
        let head = &buffer.head;
        let mut has_landed = false;
        let value = if head.has(flag::NUMBER) {
            Value::Int(head.number(&buffer.record))
        } else if head.body_count != 0 {
            let (bytes, landed) = buffer.large_value();
            has_landed = landed;
            Value::Bytes { tag: head.tag, bytes }
        } else {
            Value::Bytes { tag: head.tag, bytes: head.tail(&buffer.record, &self.shape) }
        };
        let expiry_us = (buffer.expiry_us != expiry::NEVER_US).then_some(buffer.expiry_us);
        Entry { value, expiry_us, version: head.version(buffer.content), has_landed }
    }

    /// Whether the entry in a buffer that was filled has expired.
    #[inline(always)]
    pub(crate) fn has_expired(&self, buffer: &Buffer) -> bool {
        self.is_expired(buffer.expiry_us)
    }

    /// Whether an expiry has passed. Reads the clock only if there is one.
    #[inline]
    pub(crate) fn is_expired(&self, expiry_us: u64) -> bool {
        expiry_us != expiry::NEVER_US && expiry_us <= self.arena.now_us()
    }
}
