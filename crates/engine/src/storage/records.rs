//! Records in their logs: where they are, and checked copies of them. Must not know which records
//! live, nor how one is appended.

use std::ops::Range;
use std::sync::atomic::Ordering;

use tuckbox_arena::region::{bytes_of, fence, SegmentSlice, View, WORD};

use super::context::Context;
use super::scratch::{uncleared, with_scratch};
use super::shard::Shard;
use crate::format::{
    expiry, flag, segment_of, KeyHash, Position, RecordHeader, RecordPlace, Sequence, Slot,
    RECORD_SPACE_MIN, TRAILER_BYTES,
};

/// [`RECORD_SPACE_MIN`] in words.
pub const RECORD_START_WORDS: usize = (RECORD_SPACE_MIN / WORD) as usize;

/// Bytes of a record to prefetch well before it is read or written: most records are not longer.
pub const RECORD_BYTES: u64 = 256;

/// Where later records are, counted from the beginning of a record: about two ahead.
const LATER_RECORDS: Range<u64> = 512..512 + RECORD_BYTES;

/// From this size on, a file does not fit into a core's own cache.
const FAR_FROM_BYTES: u64 = 2 << 20;

impl Context {
    /// Whether records are worth prefetching. From the size on at which they are, it takes a third of
    /// the time off batches of random keys, and adds a twentieth to those in the order of the
    /// records.
    #[inline(always)]
    pub(crate) fn records_are_far(&self) -> bool {
        self.arena.region().usable_bytes() >= FAR_FROM_BYTES
    }

    /// Prefetches records that were written shortly after this one: entries are often used in the
    /// order in which they were stored. A processor does this by itself, but only within a page.
    #[inline(always)]
    pub(crate) fn prefetch_later_records(&self, offset: u64) {
        let Range { start, end } = LATER_RECORDS;
        self.arena.region().prefetch(offset + start, end - start);
    }

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

    /// The place of a record that begins here now.
    pub(crate) fn record_place(&self, position: Position) -> RecordPlace {
        let generation = self.arena.generation(position.segment);
        RecordPlace { offset: self.offset_of(position), generation }
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
        let next = segment_of(self.arena.region().get(at) & u64::from(u32::MAX))?;
        self.is_usable(next).then(|| (next, self.arena.region().get(at + 8)))
    }

    /// The byte where the part of a record that crosses the end of this segment begins.
    pub(super) fn crossing_byte(&self, segment: u32) -> u64 {
        let at = self.arena.geometry().segment_at(segment) + self.shape.log_bytes;
        self.arena.region().get(at) >> 32
    }

    /// Copies what follows a place of a log, also from further segments. False if a trailer is
    /// damaged, or a segment is used again meanwhile: before and after the copy, each must have the
    /// generation that the previous trailer names.
    #[cold]
    #[inline(never)]
    pub(crate) fn copy_across(&self, mut at: Position, words: &mut [u64]) -> bool {
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
    /// Reads a record header; none if no writer of this version writes such a record.
    #[inline(never)]
    pub fn load_header(&self, offset: u64) -> Option<RecordHeader> {
        self.locate_header(offset).map(|(_, header)| header)
    }

    /// As [`Shard::load_header`], with the record's place in its log.
    #[inline(always)]
    pub fn locate_header(&self, offset: u64) -> Option<(Position, RecordHeader)> {
        let record = self.cx.record_at(offset)?;
        let start = record.view();
        let header = self.cx.parse_header(&start, start.get(0))?;
        Some((self.cx.position_in(record), header))
    }

    /// Copies the first `len_bytes` of a record into `words`. False if its trailers are damaged.
    pub fn load_part(&self, offset: u64, len_bytes: u64, words: &mut Vec<u64>) -> bool {
        let Some(at) = self.cx.position_of(offset) else { return false };
        // Without clearing: what is there will be overwritten.
        words.resize(len_bytes.div_ceil(8) as usize, 0);
        if at.byte + len_bytes <= self.cx.shape.log_bytes {
            self.region().copy_out(self.cx.offset_of(at), words);
            return true;
        }
        self.cx.copy_across(at, words)
    }

    /// Copies a whole record into `words`.
    pub fn load_record(&self, offset: u64, words: &mut Vec<u64>) -> Option<RecordHeader> {
        let header = self.load_header(offset)?;
        if !self.load_part(offset, header.log_bytes, words) {
            return None;
        }
        // Uses the header of this copy: the file may have changed meanwhile, if a broken program
        // writes there.
        RecordHeader::from_copy(words, &self.cx.shape).filter(|copied| *copied == header)
    }

    /// Hashes the key of a record.
    pub fn key_hash_at(&self, offset: u64, header: &RecordHeader) -> Option<KeyHash> {
        with_scratch(|words| {
            self.load_part(offset, header.key_at + header.key_bytes, words)
                .then(|| self.cx.hasher.key(header.key(words)))
        })
    }

    /// Reads a record header and hashes the record's key.
    #[inline(always)]
    pub fn load_keyed(&self, offset: u64) -> Option<(RecordHeader, KeyHash)> {
        let (_, header) = self.locate_header(offset)?;
        let hash = if header.key_at + header.key_bytes <= RECORD_SPACE_MIN {
            let mut words = [0; RECORD_START_WORDS];
            self.region().copy_out(offset, &mut words);
            self.cx.hasher.key(header.key(&words))
        } else {
            self.key_hash_at(offset, &header)?
        };
        Some((header, hash))
    }

    /// Hashes the key of the record that a slot leads to.
    #[inline(never)]
    pub fn hash_of(&self, slot: Slot) -> Option<KeyHash> {
        self.load_keyed(slot.offset()).map(|(_, hash)| hash)
    }

    /// Whether the record at a place has this key.
    #[inline(always)]
    pub fn has_key(&self, position: Position, header: &RecordHeader, key: &[u8]) -> bool {
        if header.key_bytes != key.len() as u64 {
            return false;
        }
        let offset = self.cx.offset_of(position);
        if position.byte + header.key_at + header.key_bytes <= self.cx.shape.log_bytes {
            return self.region().holds(offset + header.key_at, key);
        }
        self.has_key_that_crosses(offset, header.key_at, key)
    }

    // Takes `key_at`: a reference to the header would force it onto the stack in every search.
    #[cold]
    #[inline(never)]
    fn has_key_that_crosses(&self, offset: u64, key_at: u64, key: &[u8]) -> bool {
        with_scratch(|words| {
            let (start, end) = (key_at as usize, key_at as usize + key.len());
            self.load_part(offset, end as u64, words) && bytes_of(words)[start..end] == *key
        })
    }

    /// Copies the whole record that has this header into `words`, and returns the sum of its content.
    /// None if it is not valid, or has another header by now, because a broken program writes there.
    pub fn load_valid(
        &self,
        offset: u64,
        header: &RecordHeader,
        words: &mut Vec<u64>,
        hash: KeyHash,
    ) -> Option<u64> {
        // Without clearing: what is there will be overwritten.
        words.resize((header.log_bytes / 8) as usize, 0);
        self.copy_valid(offset, header, words, hash)
    }

    /// As [`Shard::load_valid`], into as many words as the record has.
    pub fn copy_valid(
        &self,
        offset: u64,
        header: &RecordHeader,
        words: &mut [u64],
        hash: KeyHash,
    ) -> Option<u64> {
        let record = self.cx.record_at(offset)?;
        let content = self.copy_summed(record, header, words)?;
        self.is_valid(record, header, content, words, hash).then_some(content)
    }

    /// Copies the record that has this header, and returns the sum of its content. None if it has another
    /// header by now.
    #[inline(always)]
    fn copy_summed(
        &self,
        record: SegmentSlice<'_>,
        header: &RecordHeader,
        words: &mut [u64],
    ) -> Option<u64> {
        debug_assert_eq!(words.len() as u64 * 8, header.log_bytes);
        let in_segment = record.copy_out_summed(words, header.content_from(), TRAILER_BYTES);
        let content = match in_segment {
            Some(content) => content,
            None => {
                let is_copied = self.cx.copy_across(self.cx.position_in(record), words);
                is_copied.then(|| header.content(words))?
            }
        };
        let copied = RecordHeader::from_copy(words, &self.cx.shape);
        copied.is_some_and(|it| it == *header).then_some(content)
    }

    /// Whether there is a record of this length that is valid, apart from having been replaced.
    pub fn was_valid(&self, offset: u64, log_bytes: u64) -> bool {
        let was = |words: &mut Vec<u64>| {
            let record = self.cx.record_at(offset)?;
            let header = self.load_header(offset).filter(|it| it.log_bytes == log_bytes)?;
            let words = uncleared(words, (log_bytes / 8) as usize);
            let content = self.copy_summed(record, &header, words)?;
            let header = header.with_sequence(header.sequence.without_busy());
            let hash = self.cx.hasher.key(header.key(words));
            self.is_valid(record, &header, content, words, hash).then_some(())
        };
        with_scratch(|words| was(words).is_some())
    }

    /// The sum of a record's content, from a copy of it. None if the record is not valid.
    pub fn valid_content(
        &self,
        offset: u64,
        header: &RecordHeader,
        words: &[u64],
        hash: KeyHash,
    ) -> Option<u64> {
        let (record, content) = (self.cx.record_at(offset)?, header.content(words));
        self.is_valid(record, header, content, words, hash).then_some(content)
    }

    /// Whether a record is valid, from a copy of it: not busy, and checksum and expiry match.
    #[inline(always)]
    fn is_valid(
        &self,
        record: SegmentSlice<'_>,
        header: &RecordHeader,
        content: u64,
        words: &[u64],
        hash: KeyHash,
    ) -> bool {
        let at = self.cx.position_in(record);
        let place = self.cx.record_place(at);
        !header.sequence.is_busy()
            && header.expiry_us(words, hash).is_some()
            && (tuckbox_arena::mutants::is_on("no-checksum")
                || header.sequence.checksum()
                    == header.checksum(content, &self.cx.hasher, hash, place))
    }

    /// When the entry at a place expires; none if its expiry is damaged.
    #[inline(always)]
    pub fn expiry_us_at(&self, offset: u64, header: &RecordHeader, hash: KeyHash) -> Option<u64> {
        if !header.has(flag::EXPIRY) {
            return Some(expiry::NEVER_US);
        }
        header.expiry_us(&self.region().view::<2>(offset).words(), hash)
    }

    /// Marks a record to which no slot leads any more, so that a damaged slot cannot bring back an
    /// old value. A reader that still has the old slot tries again.
    pub fn retire(&self, offset: u64) {
        let sequence = Sequence(self.region().get(offset));
        self.region().store(offset, sequence.with_busy().0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Cache, Config};

    #[test]
    fn a_record_begins_where_there_is_room_in_a_segment_that_is_there() {
        let config = Config { size_bytes: 4 << 20, ..Config::default() };
        let twins = Cache::twins(&config, 2).unwrap();
        let [one, other] = &twins[..] else { panic!("two were asked for") };
        let geometry = one.cx.arena.geometry();
        let (end, least_bytes) = (geometry.segment_at(1), RECORD_SPACE_MIN + TRAILER_BYTES);
        let place = |cache: &Cache, offset| {
            let position = cache.cx.position_of(offset)?;
            Some((position.segment, position.byte))
        };
        let last = one.cx.shape.segment_bytes - least_bytes;
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
        let present = other.cx.arena.segments_present();
        while one.cx.arena.segments_present() == present {
            assert!(one.cx.arena.grow().unwrap());
        }
        let behind = geometry.segment_at(present);
        assert!(other.cx.arena.region().segment_slice(behind).is_none());
        assert_eq!(place(other, behind), Some((present, 0)));
        assert!(other.cx.arena.region().segment_slice(behind).is_some());
    }
}
