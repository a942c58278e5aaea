//! The two logs of a shard: records in segments, appended at the log head and examined again,
//! oldest first, at the log tail. Must not know which entries to evict.
//!
//! A record that is short compared with a segment never crosses its end. A longer one may; then the
//! segment's trailer names the segment (and its generation) where it continues. The log head is one
//! word, moved (release) when a record is complete: what lies behind it does not exist. A segment
//! leaves at the tail only when no slot refers to any record in it.

use std::cell::Cell;

use smallvec::SmallVec;
use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::region::{bytes_of, SegmentSlice, View, WORD};

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::hash::KeyHash;
use crate::layout::{log, note, shard, Position, Shape, Slot, RECORD_SPACE_MIN, TRAILER_BYTES};
use crate::record::{expiry, flag, RecordHeader};
use crate::shard::Shard;
use crate::space::Need;

/// Which of the two logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// For new entries.
    Small,
    /// For entries that passed the admission test.
    Main,
}

impl LogKind {
    /// Both.
    pub const BOTH: [LogKind; 2] = [LogKind::Small, LogKind::Main];

    /// The offset of its words in the shard.
    pub fn at(self) -> u64 {
        match self {
            LogKind::Small => shard::SMALL,
            LogKind::Main => shard::MAIN,
        }
    }
}

/// Space reserved for one record: its place, and the segments that it opens.
#[derive(Debug)]
pub struct Reservation {
    kind: LogKind,
    /// Where the record begins.
    pub position: Position,
    log_bytes: u64,
    /// Taken for the record, not linked yet. The first is `position.segment` if `opens_segment`.
    segments: SmallVec<[u32; RECORD_SEGMENTS]>,
    opens_segment: bool,
}

/// [`RECORD_SPACE_MIN`] in words.
pub(crate) const RECORD_START_WORDS: usize = (RECORD_SPACE_MIN / WORD) as usize;

/// Segments of a record that are listed without allocating: a key takes at most sixteen of the
/// shortest segments, and the rest of the record at most one.
const RECORD_SEGMENTS: usize = 20;

thread_local! {
    static SCRATCH: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    /// Capacity of [`SCRATCH`] in words.
    static SCRATCH_WORDS: Cell<usize> = const { Cell::new(0) };
}

/// Makes sure that this thread can copy any record of a cache without allocating. Called before a
/// lock is taken, because an operation under a lock cannot be undone. Unused memory is not touched.
///
/// # Errors
/// [`Error::OutOfMemory`].
#[inline]
pub fn reserve_scratch(shape: &Shape) -> Result<()> {
    // One more word, for an expiry that may be inserted.
    let words = shape.record_words_max + 1;
    if SCRATCH_WORDS.get() >= words {
        return Ok(());
    }
    reserve_more(words)
}

#[cold]
fn reserve_more(words: usize) -> Result<()> {
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let reserved = scratch.try_reserve_exact(words);
    SCRATCH.set(scratch);
    reserved.map_err(|_| Error::OutOfMemory { wanted_bytes: words * 8 })?;
    SCRATCH_WORDS.set(words);
    Ok(())
}

/// Lends a vector that keeps its memory between calls: see [`reserve_scratch`]. Must not be nested.
pub fn with_scratch<R>(work: impl FnOnce(&mut Vec<u64>) -> R) -> R {
    let mut scratch = SCRATCH.take();
    let result = work(&mut scratch);
    SCRATCH.set(scratch);
    result
}

impl Cache {
    /// The words from a record to the end of its segment; none if no record can begin there.
    #[inline(always)]
    pub(crate) fn record_at(&self, offset: u64) -> Option<SegmentSlice<'_>> {
        let slice = match self.arena.region().segment_slice(offset) {
            Some(slice) => slice,
            None => self.slice_after_growth(offset)?,
        };
        // Without this check an access behind the segment would still be refused, but by a panic.
        let fits = offset % 8 == 0
            && (slice.len_bytes() >= RECORD_SPACE_MIN + TRAILER_BYTES
                || tuckbox_arena::mutants::is_on("no-bounds"));
        fits.then_some(slice)
    }

    #[cold]
    #[inline(never)]
    fn slice_after_growth(&self, offset: u64) -> Option<SegmentSlice<'_>> {
        let (segment, _) = self.arena.geometry().place_of(offset)?;
        self.is_usable(segment).then(|| self.arena.region().segment_slice(offset))?
    }

    /// The segment and byte where a record begins.
    #[inline(always)]
    pub(crate) fn position_in(&self, record: SegmentSlice<'_>) -> Position {
        let byte = self.shape.segment_bytes - record.len_bytes();
        Position { segment: record.segment(), byte }
    }

    /// The segment and byte of a record's offset; none if no record can begin there.
    #[inline(always)]
    pub(crate) fn position_of(&self, offset: u64) -> Option<Position> {
        self.record_at(offset).map(|record| self.position_in(record))
    }

    /// The offset of a place in a log.
    #[inline]
    pub(crate) fn offset_of(&self, position: Position) -> u64 {
        self.arena.geometry().segment_at(position.segment) + position.byte
    }

    /// The segment where a record that crosses the end of this one continues, and that segment's
    /// generation when the record was written.
    pub(crate) fn trailer(&self, segment: u32) -> Option<(u32, u64)> {
        let at = self.arena.geometry().segment_at(segment) + self.shape.log_bytes;
        let next = u32::try_from(self.arena.region().get(at).checked_sub(1)?).ok()?;
        self.is_usable(next).then(|| (next, self.arena.region().get(at + 8)))
    }

    /// Parses the header of a record from its first words. None if no writer of this version writes
    /// such a record.
    #[inline(always)]
    pub(crate) fn parse_header(
        &self,
        start: &View<'_, RECORD_START_WORDS>,
        first: u64,
    ) -> Option<RecordHeader> {
        RecordHeader::parse(first, |index| start.get(index), &self.shape)
    }
}

impl Shard<'_> {
    /// A word of a log as stored in the file.
    fn log_word(&self, kind: LogKind, offset: u64) -> u64 {
        self.word(kind.at() + offset)
    }

    /// Whether a log has no segment.
    pub fn log_is_empty(&self, kind: LogKind) -> bool {
        self.log_word(kind, log::HEAD) == 0
    }

    /// A counter of a log, bounded by what is possible so that a damaged one cannot overflow a
    /// computation.
    pub fn log_count(&self, kind: LogKind, offset: u64) -> u64 {
        let geometry = self.arena().geometry();
        let most = match offset {
            log::SEGMENTS => geometry.segment_count,
            _ => geometry.plan.size_bytes,
        };
        self.log_word(kind, offset).min(most)
    }

    /// The log head or tail ([`log::HEAD`] or [`log::TAIL`]); none if the log is empty, or the word
    /// is damaged and names no place in the file.
    fn cursor(&self, kind: LogKind, word: u64) -> Option<Position> {
        let at = Position::from_word(self.log_word(kind, word))?;
        (self.cache.shape.is_place(at.byte) && self.cache.is_usable(at.segment)).then_some(at)
    }

    /// Where the log's next record goes; none as in [`Shard::tail_cursor`].
    pub fn head_cursor(&self, kind: LogKind) -> Option<Position> {
        self.cursor(kind, log::HEAD)
    }

    fn is_log_head_damaged(&self, kind: LogKind) -> bool {
        self.log_word(kind, log::HEAD) != 0 && self.head_cursor(kind).is_none()
    }

    /// Whether the ends of a log are damaged. Then no eviction helps until the shard has been
    /// repaired.
    pub fn has_damaged_log(&self) -> bool {
        let is_sound = |kind: LogKind| {
            if self.log_word(kind, log::HEAD) == 0 {
                return self.log_word(kind, log::TAIL) == 0;
            }
            let ends = [self.head_cursor(kind), self.tail_cursor(kind)];
            let is_empty = self.log_count(kind, log::ENTRIES) == 0;
            ends.iter().all(|end| end.is_some_and(|end| self.owns(end.segment)))
                && (is_empty || self.tail(kind).is_some())
        };
        !LogKind::BOTH.into_iter().all(is_sound)
    }

    /// Where a log begins; none if it is empty or the word is damaged.
    pub fn tail_cursor(&self, kind: LogKind) -> Option<Position> {
        self.cursor(kind, log::TAIL)
    }

    fn set_log_word(&self, kind: LogKind, offset: u64, value: u64) {
        self.set_word(kind.at() + offset, value);
    }

    /// Counts a record as being in a log.
    pub fn count_in(&self, kind: LogKind, header: &RecordHeader) {
        self.add_word(kind.at() + log::ENTRIES, 1);
        self.add_word(kind.at() + log::BYTES, header.log_bytes);
        self.add_word(
            kind.at() + log::BODY_BYTES,
            header.body_count * self.cache.shape.segment_bytes,
        );
    }

    /// Counts a record as no longer being in a log.
    pub fn count_out(&self, kind: LogKind, header: &RecordHeader) {
        self.subtract_word(kind.at() + log::ENTRIES, 1);
        self.subtract_word(kind.at() + log::BYTES, header.log_bytes);
        let body_bytes = header.body_count * self.cache.shape.segment_bytes;
        self.subtract_word(kind.at() + log::BODY_BYTES, body_bytes);
    }

    /// Entries of this shard.
    pub fn entries(&self) -> u64 {
        LogKind::BOTH.iter().map(|kind| self.log_count(*kind, log::ENTRIES)).sum()
    }

    /// Reads a record header; none if no writer of this version writes such a record.
    #[inline(never)]
    pub fn load_header(&self, offset: u64) -> Option<RecordHeader> {
        self.locate_header(offset).map(|(_, header)| header)
    }

    /// As [`Shard::load_header`], with the record's place in its log.
    #[inline(always)]
    pub fn locate_header(&self, offset: u64) -> Option<(Position, RecordHeader)> {
        let record = self.cache.record_at(offset)?;
        let start = record.view();
        let header = self.cache.parse_header(&start, start.get(0))?;
        Some((self.cache.position_in(record), header))
    }

    /// Copies the first `len_bytes` of a record into `words`. False if its trailers are damaged.
    pub fn load_part(&self, offset: u64, len_bytes: u64, words: &mut Vec<u64>) -> bool {
        let Some(mut at) = self.cache.position_of(offset) else { return false };
        words.clear();
        words.resize(len_bytes.div_ceil(8) as usize, 0);
        let mut done = 0;
        loop {
            let here_words = ((self.cache.shape.log_bytes - at.byte) / 8) as usize;
            let count = here_words.min(words.len() - done);
            let from = self.cache.offset_of(at);
            self.region().copy_out(from, &mut words[done..done + count]);
            done += count;
            if done == words.len() {
                return true;
            }
            let Some((next, generation)) = self.cache.trailer(at.segment) else { return false };
            if self.arena().generation(next) != generation {
                return false;
            }
            at = Position { segment: next, byte: 0 };
        }
    }

    /// Copies a whole record into `words`.
    pub fn load_record(&self, offset: u64, words: &mut Vec<u64>) -> Option<RecordHeader> {
        let header = self.load_header(offset)?;
        if !self.load_part(offset, header.log_bytes, words) {
            return None;
        }
        // Uses the header of this copy: the file may have changed meanwhile, if a broken program
        // writes there.
        RecordHeader::from_copy(words, &self.cache.shape).filter(|copied| *copied == header)
    }

    /// Hashes the key of a record.
    pub fn key_hash_at(&self, offset: u64, header: &RecordHeader) -> Option<KeyHash> {
        with_scratch(|words| {
            self.load_part(offset, header.key_at + header.key_bytes, words)
                .then(|| self.cache.hasher.key(header.key(words)))
        })
    }

    /// Hashes the key of the record that a slot leads to.
    pub fn hash_of(&self, slot: Slot) -> Option<KeyHash> {
        let header = self.load_header(slot.offset())?;
        self.key_hash_at(slot.offset(), &header)
    }

    /// Whether the record at a place has this key.
    #[inline(always)]
    pub fn has_key(&self, position: Position, header: &RecordHeader, key: &[u8]) -> bool {
        if header.key_bytes != key.len() as u64 {
            return false;
        }
        let offset = self.cache.offset_of(position);
        if position.byte + header.log_bytes <= self.cache.shape.log_bytes {
            return self.region().holds(offset + header.key_at, key);
        }
        self.has_key_that_crosses(offset, header, key)
    }

    #[cold]
    fn has_key_that_crosses(&self, offset: u64, header: &RecordHeader, key: &[u8]) -> bool {
        with_scratch(|words| {
            let at = header.key_at as usize;
            self.load_part(offset, header.key_at + header.key_bytes, words)
                && bytes_of(words)[at..at + key.len()] == *key
        })
    }

    /// Whether a copied record is valid: not busy, and checksum and expiry match.
    pub fn is_valid(
        &self,
        offset: u64,
        header: &RecordHeader,
        words: &[u64],
        hash: KeyHash,
    ) -> bool {
        self.valid_content(offset, header, words, hash).is_some()
    }

    /// The sum of a record's content, from a copy of it; none if the record is not valid.
    pub fn valid_content(
        &self,
        offset: u64,
        header: &RecordHeader,
        words: &[u64],
        hash: KeyHash,
    ) -> Option<u64> {
        let position = self.cache.position_of(offset)?;
        let generation = self.arena().generation(position.segment);
        let hasher = &self.cache.hasher;
        let content = header.content(words);
        let is_valid = !header.sequence.is_busy()
            && header.expiry_us(words, hash).is_some()
            && (tuckbox_arena::mutants::is_on("no-checksum")
                || header.sequence.checksum()
                    == header.checksum(content, hasher, hash, offset, generation));
        is_valid.then_some(content)
    }

    /// When the entry at a place expires; none if its expiry is damaged.
    #[inline(always)]
    pub fn expiry_us_at(&self, offset: u64, header: &RecordHeader, hash: KeyHash) -> Option<u64> {
        if !header.has(flag::EXPIRY) {
            return Some(expiry::NEVER_US);
        }
        header.expiry_us(&self.region().view::<2>(offset).words(), hash)
    }

    /// The place behind a record.
    pub fn end_of(&self, position: Position, log_bytes: u64) -> Option<Position> {
        let free_bytes = self.cache.shape.log_bytes - position.byte;
        if log_bytes <= free_bytes {
            return Some(Position { byte: position.byte + log_bytes, ..position });
        }
        let mut rest_bytes = log_bytes - free_bytes;
        let mut segment = self.cache.trailer(position.segment)?.0;
        while rest_bytes > self.cache.shape.log_bytes {
            rest_bytes -= self.cache.shape.log_bytes;
            segment = self.cache.trailer(segment)?.0;
        }
        Some(Position { segment, byte: rest_bytes })
    }

    /// Reserves space for a record at a log head. None if it takes more segments than are
    /// available without evicting.
    pub fn reserve(&self, kind: LogKind, log_bytes: u64, need: Need) -> Option<Reservation> {
        let shape = &self.cache.shape;
        let head = self.head_cursor(kind);
        if head.is_none() && self.is_log_head_damaged(kind) {
            // Nothing may be written before the shard has been repaired.
            return None;
        }
        let free_bytes = head.map_or(0, |head| shape.log_bytes.saturating_sub(head.byte));
        let crosses = log_bytes > shape.crossing_bytes && free_bytes >= RECORD_SPACE_MIN;
        let fits = log_bytes <= free_bytes && free_bytes >= RECORD_SPACE_MIN;
        let opens_segment = !(fits || crosses);
        let rest_bytes =
            if opens_segment { log_bytes } else { log_bytes.saturating_sub(free_bytes) };
        let count = rest_bytes.div_ceil(shape.log_bytes);
        if need == Need::NewRecord && fits && self.would_block_moves(kind, log_bytes, free_bytes) {
            return None;
        }
        let mut segments = SmallVec::new();
        for _ in 0..count {
            match self.take_for_log(need) {
                Some(segment) => segments.push(segment),
                None => {
                    segments.into_iter().for_each(|segment| self.put_back(segment));
                    return None;
                }
            }
        }
        let position = if opens_segment {
            Position { segment: segments[0], byte: 0 }
        } else {
            head.expect("there is space in it")
        };
        Some(Reservation { kind, position, log_bytes, segments, opens_segment })
    }

    /// Gives back an unused reservation.
    pub fn cancel(&self, reservation: Reservation) {
        reservation.segments.into_iter().for_each(|segment| self.put_back(segment));
    }

    fn open_segment(&self, kind: LogKind, segment: u32, first_byte: u64) {
        let opened = self.word(shard::CLOCK) & ((1 << 48) - 1) | self.word(shard::HALVINGS) << 48;
        let arena = self.arena();
        // Often enough that a reboot cannot set the file's clock back by much.
        arena.record_time();
        arena.set_note(segment, note::NEXT, 0);
        let mark = if kind == LogKind::Main { note::EXTENT_MAIN } else { 0 };
        arena.set_note(segment, note::EXTENT, first_byte << 32 | mark);
        arena.set_note(segment, note::OPENED, opened);
    }

    fn seal(&self, head: Position, next: u32) {
        let extent = self.arena().note(head.segment, note::EXTENT) & !note::EXTENT_END;
        self.arena().set_note(head.segment, note::EXTENT, extent | head.byte);
        self.arena().set_note(head.segment, note::NEXT, u64::from(next) + 1);
    }

    /// Writes a record into its reserved space, then moves the log head behind it. No slot leads to
    /// the record yet.
    pub fn append(&self, reservation: Reservation, words: &[u64]) {
        let log_bytes = self.cache.shape.log_bytes;
        debug_assert_eq!(reservation.log_bytes, words.len() as u64 * 8);
        let mut segments = reservation.segments.iter().copied();
        let mut before = self.head_cursor(reservation.kind);
        let mut at = reservation.position;
        if reservation.opens_segment {
            let segment = segments.next().expect("reserve took it");
            self.open_segment(reservation.kind, segment, 0);
            if let Some(before) = before {
                self.seal(before, segment);
            }
            before = Some(at);
        }
        let mut done = 0;
        loop {
            let here_words = ((log_bytes - at.byte) / 8) as usize;
            let count = here_words.min(words.len() - done);
            self.region().copy_in(self.cache.offset_of(at), &words[done..done + count]);
            done += count;
            at.byte += count as u64 * 8;
            if done == words.len() {
                break;
            }
            let next = segments.next().expect("reserve took as many as it needs");
            let rest_bytes = (words.len() - done) as u64 * 8;
            self.open_segment(reservation.kind, next, rest_bytes.min(log_bytes));
            let trailer_at = self.arena().geometry().segment_at(at.segment) + log_bytes;
            self.region().set(trailer_at, u64::from(next) + 1);
            self.region().set(trailer_at + 8, self.arena().generation(next));
            self.seal(Position { segment: at.segment, byte: log_bytes }, next);
            at = Position { segment: next, byte: 0 };
        }
        hooks::reach(Point::RecordWritten);
        if self.log_word(reservation.kind, log::TAIL) == 0 {
            self.set_log_word(
                reservation.kind,
                log::TAIL,
                before.unwrap_or(reservation.position).word(),
            );
        }
        self.add_word(reservation.kind.at() + log::SEGMENTS, reservation.segments.len() as u64);
        self.set_log_word(reservation.kind, log::HEAD, at.word());
        hooks::reach(Point::CursorMoved);
    }

    /// The oldest record of a log that was not examined yet; none if there is none. Segments
    /// without further records are freed on the way.
    pub fn tail(&self, kind: LogKind) -> Option<Position> {
        for _ in 0..=self.arena().geometry().segment_count {
            let tail = self.tail_cursor(kind)?;
            let head = self.head_cursor(kind)?;
            if tail.segment == head.segment {
                return (tail.byte < head.byte).then_some(tail);
            }
            let end = self.arena().note(tail.segment, note::EXTENT) & note::EXTENT_END;
            if tail.byte < end {
                return Some(tail);
            }
            let next = self.next_in_log(tail.segment)?;
            let first = self.arena().note(next, note::EXTENT) >> 32;
            self.advance_tail(kind, Position { segment: next, byte: first });
        }
        None
    }

    /// The segment after this one in its log.
    pub fn next_in_log(&self, segment: u32) -> Option<u32> {
        let next = u32::try_from(self.arena().note(segment, note::NEXT).checked_sub(1)?).ok()?;
        self.cache.is_usable(next).then_some(next)
    }

    /// Number of segments from one of a log up to another, excluding the latter. None if a damaged
    /// link does not lead there.
    fn count_between(&self, from: u32, to: u32) -> Option<u64> {
        let mut count = 0;
        let mut segment = from;
        while segment != to {
            segment = self.next_in_log(segment)?;
            count += 1;
            if count > self.arena().geometry().segment_count {
                return None;
            }
        }
        Some(count)
    }

    /// Frees this many segments of a log, from one on. The caller has found that the log has them.
    fn put_back_from(&self, first: u32, count: u64) {
        let mut segment = Some(first);
        for _ in 0..count {
            let Some(this) = segment else { return };
            // Loaded first: the segment's next owner writes a link of its own there.
            segment = self.next_in_log(this);
            self.end_and_put_back(this);
        }
    }

    /// Moves the log tail and frees the segments behind it. No slot may refer to them.
    pub fn advance_tail(&self, kind: LogKind, to: Position) {
        let Some(from) = self.tail_cursor(kind) else { return };
        let first = self.arena().note(to.segment, note::EXTENT) >> 32;
        let count = self.count_between(from.segment, to.segment);
        let Some(count) = count.filter(|count| *count == 0 || to.byte == first) else {
            // The record and its log disagree on where the next record begins.
            return self.skip_damaged(kind, from);
        };
        self.set_log_word(kind, log::TAIL, to.word());
        if count > 0 {
            hooks::reach(Point::SegmentUnlinked);
            self.subtract_word(kind.at() + log::SEGMENTS, count);
            self.put_back_from(from.segment, count);
        }
    }

    /// Frees the head segments of logs without entries, and the spare segments: for a shard that
    /// has nothing else to give while another has no segment at all. Whether there were any.
    pub fn free_empty_logs(&self) -> bool {
        let mut freed = self.free_spares();
        for kind in LogKind::BOTH {
            let head = self.log_word(kind, log::HEAD);
            if head == 0 || head != self.log_word(kind, log::TAIL) {
                continue;
            }
            let Some(position) = Position::from_word(head) else { continue };
            self.set_log_word(kind, log::HEAD, 0);
            self.set_log_word(kind, log::TAIL, 0);
            self.set_log_word(kind, log::SEGMENTS, 0);
            if self.cache.is_usable(position.segment) {
                self.end_and_put_back(position.segment);
                freed = true;
            }
        }
        freed
    }

    /// Empties both logs. No slot may refer to them.
    pub fn reset_logs(&self) {
        for kind in LogKind::BOTH {
            let left = match (self.tail_cursor(kind), self.head_cursor(kind)) {
                // Segments that a damaged log does not reach stay the shard's; `check` finds them.
                (Some(tail), Some(head)) => self
                    .count_between(tail.segment, head.segment)
                    .map(|count| (tail.segment, count + 1)),
                _ => None,
            };
            self.set_log_word(kind, log::HEAD, 0);
            self.set_log_word(kind, log::TAIL, 0);
            for word in [log::ENTRIES, log::BYTES, log::BODY_BYTES, log::SEGMENTS] {
                self.set_log_word(kind, word, 0);
            }
            if let Some((first, count)) = left {
                self.put_back_from(first, count);
            }
        }
    }

    /// The log of a record, by its segment.
    pub fn log_of(&self, segment: u32) -> LogKind {
        match self.arena().note(segment, note::EXTENT) & note::EXTENT_MAIN {
            0 => LogKind::Small,
            _ => LogKind::Main,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::value::Config;

    #[test]
    fn a_record_begins_where_there_is_room_in_a_segment_that_is_there() {
        let config = Config { size_bytes: 4 << 20, ..Config::default() };
        let twins = Cache::twins(&config, 2).unwrap();
        let [one, other] = &twins[..] else { panic!("two were asked for") };
        let geometry = one.arena.geometry();
        let (end, least_bytes) = (geometry.segment_at(1), RECORD_SPACE_MIN + TRAILER_BYTES);
        let place = |cache: &Cache, offset| {
            let position = cache.position_of(offset)?;
            Some((position.segment, position.byte))
        };
        let last = one.shape.segment_bytes - least_bytes;
        assert_eq!(place(one, end - least_bytes), Some((0, last)));
        assert_eq!(place(one, end), Some((1, 0)));
        let (pool_at, max) = (geometry.pool_at, geometry.file_bytes_max());
        for offset in [
            end - least_bytes + 8,
            end - 8,
            end - least_bytes - 4,
            pool_at - 8,
            0,
            max,
            u64::MAX - 7,
        ] {
            assert_eq!(place(one, offset), None, "{offset}");
        }
        // Growth by another handle is noticed when it is needed.
        let present = other.arena.segments_present();
        while one.arena.segments_present() == present {
            assert!(one.arena.grow().unwrap());
        }
        let behind = geometry.segment_at(present);
        assert!(other.arena.region().segment_slice(behind).is_none());
        assert_eq!(place(other, behind), Some((present, 0)));
        assert!(other.arena.region().segment_slice(behind).is_some());
    }
}
