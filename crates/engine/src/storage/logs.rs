//! The logs of a shard: records in segments, appended at the log head and examined again,
//! oldest first, at the log tail. Must not know which entries to evict.
//!
//! A record that is short compared with a segment never crosses its end. A longer one may; then the
//! segment's trailer names the segment (and its generation) where it continues. The log head is one
//! word, moved (release) when a record is complete: what lies behind it does not exist. A segment
//! leaves its log only when no slot refers to any record in it: at the tail, or from the middle once
//! its last record was replaced or removed.

use smallvec::SmallVec;
use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;

use super::shard::Shard;
use crate::format::{
    log, note, segment_of, shard, LogKind, Position, RecordHeader, RECORD_SPACE_MIN,
};

/// What a segment is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A new record: may use neither the spare segments nor the space at the log head that moves
    /// need.
    NewRecord,
    /// A new record for which nothing could be freed: may use the space at the log head.
    NewRecordAnyway,
    /// A record that moves to a log head so that its old segment becomes free.
    Move,
}

/// Space for one record: its place, and the segments that it opens. [`Shard::reserve`] fills it in.
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

impl Reservation {
    /// For a record of this length in a log. Nothing is reserved yet.
    #[inline(always)]
    pub fn new(kind: LogKind, log_bytes: u64) -> Reservation {
        let position = Position { segment: 0, byte: 0 };
        Reservation { kind, position, log_bytes, segments: SmallVec::new(), opens_segment: false }
    }
}

/// Where the first bytes of a record end.
enum PartEnd {
    Here(Position),
    /// In a segment that was freed: only a dead record does. The place of the log's next record.
    Freed(Position),
}

/// Segments of a record that are listed without allocating: a key takes at most seventeen of the
/// shortest segments, its tags three, and the rest of the record two.
const RECORD_SEGMENTS: usize = 22;

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
        (self.cx.shape.is_place(at.byte) && self.cx.is_usable(at.segment)).then_some(at)
    }

    /// Where the log's next record goes; none as in [`Shard::tail_cursor`].
    pub fn head_cursor(&self, kind: LogKind) -> Option<Position> {
        self.cursor(kind, log::HEAD)
    }

    /// Whether the ends of a log are damaged. Then no eviction helps until the shard has been
    /// repaired.
    pub fn has_damaged_log(&self) -> bool {
        let is_sound = |kind: LogKind| {
            if self.log_is_empty(kind) {
                return self.log_word(kind, log::TAIL) == 0;
            }
            let ends = [self.head_cursor(kind), self.tail_cursor(kind)];
            let is_empty = self.log_count(kind, log::ENTRIES) == 0;
            ends.iter().all(|end| end.is_some_and(|end| self.owns(end.segment)))
                && (is_empty || self.tail(kind).is_some())
        };
        !LogKind::ALL.into_iter().all(is_sound)
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
        if header.body_count > 0 {
            let body_bytes = header.body_count * self.cx.shape.segment_bytes;
            self.add_word(kind.at() + log::BODY_BYTES, body_bytes);
        }
    }

    /// Counts a record as no longer being in a log.
    pub fn count_out(&self, kind: LogKind, header: &RecordHeader) {
        self.subtract_word(kind.at() + log::ENTRIES, 1);
        self.subtract_word(kind.at() + log::BYTES, header.log_bytes);
        if header.body_count > 0 {
            let body_bytes = header.body_count * self.cx.shape.segment_bytes;
            self.subtract_word(kind.at() + log::BODY_BYTES, body_bytes);
        }
    }

    /// Entries of this shard.
    pub fn entries(&self) -> u64 {
        LogKind::ALL.iter().map(|kind| self.log_count(*kind, log::ENTRIES)).sum()
    }

    /// Entries of this shard that may be evicted.
    pub fn evictable_entries(&self) -> u64 {
        LogKind::BOTH.iter().map(|kind| self.log_count(*kind, log::ENTRIES)).sum()
    }

    /// A segment for a log.
    pub fn take_for_log(&self, need: Need) -> Option<u32> {
        if need == Need::Move {
            return self.pop_spare().or_else(|| self.take_from_pool());
        }
        if self.pool_is_scarce() {
            self.keep_spares()?;
            // From now on entries are evicted, and their ghosts need space.
            self.open_all_ghosts();
            return self.pop_surplus_spare().or_else(|| self.take_from_pool());
        }
        self.take_from_pool()
    }

    /// Whether a record of this length at a log head with this much space in its segment would
    /// leave too little to move the live entries of the log's oldest segment. Dead space could then
    /// only be reclaimed by evicting entries.
    pub fn would_block_moves(&self, kind: LogKind, log_bytes: u64, free_bytes: u64) -> bool {
        if !self.pool_is_scarce() {
            return false;
        }
        let spares = self.spare_words().filter(|at| self.word(*at) != 0).count() as u64;
        if spares >= self.cx.shape.spares_kept || self.keep_spares().is_some() {
            return false;
        }
        let (Some(tail), Some(head)) = (self.tail(kind), self.head_cursor(kind)) else {
            return false;
        };
        let segment_bytes = self.cx.shape.log_bytes;
        // The last record of the segment may cross its end.
        let most = segment_bytes.saturating_sub(tail.byte)
            + (self.cx.shape.spares_kept - 1) * segment_bytes;
        let left = free_bytes.saturating_sub(log_bytes) + spares * segment_bytes;
        tail.segment != head.segment && left < most
    }

    /// Reserves space for a record at its log head. False if it takes more segments than are
    /// available without evicting: nothing is reserved then.
    // Fills in the caller's: a result would be copied right after it was stored, and wait for that.
    pub fn reserve(&self, reservation: &mut Reservation, need: Need) -> bool {
        let Reservation { kind, log_bytes, .. } = *reservation;
        let shape = &self.cx.shape;
        let head = self.head_cursor(kind);
        if head.is_none() && !self.log_is_empty(kind) {
            // Nothing may be written before the shard has been repaired.
            return false;
        }
        let free_bytes = head.map_or(0, |head| shape.log_bytes.saturating_sub(head.byte));
        let crosses = log_bytes > shape.crossing_bytes && free_bytes >= RECORD_SPACE_MIN;
        let fits = log_bytes <= free_bytes && free_bytes >= RECORD_SPACE_MIN;
        let opens_segment = !(fits || crosses);
        if need == Need::NewRecord && fits && self.would_block_moves(kind, log_bytes, free_bytes) {
            return false;
        }
        let mut rest_bytes =
            if opens_segment { log_bytes } else { log_bytes.saturating_sub(free_bytes) };
        while rest_bytes > 0 {
            let Some(segment) = self.take_for_log(need) else {
                self.cancel(reservation);
                return false;
            };
            reservation.segments.push(segment);
            rest_bytes = rest_bytes.saturating_sub(shape.log_bytes);
        }
        reservation.opens_segment = opens_segment;
        reservation.position = match opens_segment {
            true => Position { segment: reservation.segments[0], byte: 0 },
            false => head.expect("there is space in it"),
        };
        true
    }

    /// Gives back what was reserved and not used.
    pub fn cancel(&self, reservation: &mut Reservation) {
        reservation.segments.drain(..).for_each(|segment| self.put_back(segment));
    }

    fn open_segment(&self, kind: LogKind, segment: u32, first_byte: u64, before: Option<u32>) {
        let opened = self.word(shard::CLOCK) & ((1 << 48) - 1) | self.word(shard::HALVINGS) << 48;
        let arena = self.arena();
        // Often enough that a reboot cannot set the file's clock back by much.
        arena.record_time();
        arena.set_note(segment, note::NEXT, 0);
        let mark = match kind {
            LogKind::Small => 0,
            LogKind::Main => note::EXTENT_MAIN,
            LogKind::Pinned => note::EXTENT_PINNED,
        };
        arena.set_note(segment, note::EXTENT, first_byte << 32 | mark);
        arena.set_note(segment, note::OPENED, opened);
        let before = before.map_or(0, |before| u64::from(before) + 1);
        arena.set_note(segment, note::LIVE, before << 32);
    }

    fn seal(&self, head: Position, next: u32) {
        let extent = self.arena().note(head.segment, note::EXTENT) & !note::EXTENT_END;
        self.arena().set_note(head.segment, note::EXTENT, extent | head.byte);
        self.arena().set_note(head.segment, note::NEXT, u64::from(next) + 1);
    }

    /// Writes a record into its reserved space, then moves the log head behind it. No slot leads to
    /// the record yet. The words from `present` on are there already.
    pub fn append(&self, reservation: &Reservation, words: &[u64], present: usize) {
        let log_bytes = self.cx.shape.log_bytes;
        debug_assert_eq!(reservation.log_bytes, words.len() as u64 * 8);
        let mut segments = reservation.segments.iter().copied();
        let mut before = self.head_cursor(reservation.kind);
        let mut at = reservation.position;
        if reservation.opens_segment {
            let segment = segments.next().expect("reserve took it");
            self.open_segment(reservation.kind, segment, 0, before.map(|before| before.segment));
            if let Some(before) = before {
                self.seal(before, segment);
            }
            before = Some(at);
        }
        let mut done = 0;
        loop {
            let here_words = ((log_bytes - at.byte) / 8) as usize;
            let count = here_words.min(words.len() - done);
            let missing = &words[done..present.min(done + count)];
            self.region().copy_in(self.cx.offset_of(at), missing);
            if done == 0 || !mutants::is_on("live-at-beginning") {
                self.count_live(at.segment);
            }
            done += count;
            let begins = at.byte;
            at.byte += count as u64 * 8;
            if done == words.len() {
                break;
            }
            let next = segments.next().expect("reserve took as many as it needs");
            let rest_bytes = (words.len() - done) as u64 * 8;
            let first_byte = rest_bytes.min(log_bytes);
            self.open_segment(reservation.kind, next, first_byte, Some(at.segment));
            let trailer_at = self.arena().geometry().segment_at(at.segment) + log_bytes;
            self.region().set(trailer_at, begins << 32 | (u64::from(next) + 1));
            self.region().set(trailer_at + 8, self.arena().generation(next));
            self.seal(Position { segment: at.segment, byte: log_bytes }, next);
            at = Position { segment: next, byte: 0 };
        }
        hooks::reach(Point::RecordWritten);
        if self.log_word(reservation.kind, log::TAIL) == 0 {
            let tail = before.unwrap_or(reservation.position);
            self.set_log_word(reservation.kind, log::TAIL, tail.word());
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
            if tail.byte < end && self.live_records(tail.segment) > 0 {
                return Some(tail);
            }
            self.move_tail(kind, self.next_segment(tail.segment)?);
        }
        None
    }

    /// How many records that a slot leads to have a part in a segment.
    fn live_records(&self, segment: u32) -> u64 {
        self.arena().note(segment, note::LIVE) & note::LIVE_RECORDS
    }

    /// Counts a record in a segment.
    #[inline(always)]
    pub(super) fn count_live(&self, segment: u32) {
        let live = self.arena().note(segment, note::LIVE);
        self.arena().set_note(segment, note::LIVE, live.wrapping_add(1));
    }

    /// The place behind a record.
    #[inline(always)]
    pub fn end_of(&self, position: Position, log_bytes: u64) -> Option<Position> {
        let Position { segment, byte } = position;
        match log_bytes <= self.cx.shape.log_bytes - byte {
            true => Some(Position { segment, byte: byte + log_bytes }),
            false => self.end_across(position, log_bytes),
        }
    }

    /// As [`Shard::end_of`], for a record that continues in another segment.
    #[cold]
    #[inline(never)]
    fn end_across(&self, position: Position, log_bytes: u64) -> Option<Position> {
        self.end_of_part(position, log_bytes).map(|end| match end {
            PartEnd::Here(end) | PartEnd::Freed(end) => end,
        })
    }

    /// The place behind a dead record whose key is cut off, because a segment of it was freed. None if
    /// the key is there, or the record is damaged.
    #[cold]
    pub fn end_of_cut_off(&self, position: Position) -> Option<Position> {
        let header = self.load_header(self.cx.offset_of(position))?;
        match self.end_of_part(position, header.key_at + header.key_bytes)? {
            PartEnd::Here(_) => None,
            PartEnd::Freed(end) => Some(end),
        }
    }

    /// The segments of a record after its first one. None if one of them was freed or, in a damaged file,
    /// is not the shard's.
    pub(super) fn further_segments(
        &self,
        position: Position,
        log_bytes: u64,
    ) -> Option<SmallVec<[u32; 2]>> {
        let segment_bytes = self.cx.shape.log_bytes;
        let mut segments = SmallVec::new();
        let (mut segment, mut rest_bytes) = (position.segment, position.byte + log_bytes);
        while rest_bytes > segment_bytes {
            rest_bytes -= segment_bytes;
            let (next, generation) = self.cx.trailer(segment)?;
            if self.arena().generation(next) != generation || !self.owns(next) {
                return None;
            }
            segments.push(next);
            segment = next;
        }
        Some(segments)
    }

    /// Where the first bytes of a record end.
    #[inline(always)]
    fn end_of_part(&self, position: Position, part_bytes: u64) -> Option<PartEnd> {
        let segment_bytes = self.cx.shape.log_bytes;
        let (Position { mut segment, mut byte }, mut rest_bytes) = (position, part_bytes);
        while rest_bytes > segment_bytes - byte {
            rest_bytes -= segment_bytes - byte;
            let (next, generation) = self.cx.trailer(segment)?;
            if self.arena().generation(next) != generation {
                return self.next_segment(segment).map(PartEnd::Freed);
            }
            (segment, byte) = (next, 0);
        }
        Some(PartEnd::Here(Position { segment, byte: byte + rest_bytes }))
    }

    /// Where the first record begins in the segment after this one of its log.
    pub fn next_segment(&self, segment: u32) -> Option<Position> {
        let next = self.next_in_log(segment)?;
        let byte = self.arena().note(next, note::EXTENT) >> 32;
        Some(Position { segment: next, byte })
    }

    /// The segment after this one in its log.
    pub fn next_in_log(&self, segment: u32) -> Option<u32> {
        let next = segment_of(self.arena().note(segment, note::NEXT))?;
        self.cx.is_usable(next).then_some(next)
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

    /// Bytes of a log's records that no slot leads to, those before its tail included.
    pub fn dead_bytes(&self, kind: LogKind) -> u64 {
        let ends = self.tail_cursor(kind).zip(self.head_cursor(kind));
        let Some((tail, head)) = ends else { return 0 };
        let (mut written, mut segment) = (0u64, tail.segment);
        for _ in 0..=self.arena().geometry().segment_count {
            if segment == head.segment {
                written += head.byte;
                break;
            }
            written += self.arena().note(segment, note::EXTENT) & note::EXTENT_END;
            let Some(next) = self.next_in_log(segment) else { break };
            segment = next;
        }
        written.saturating_sub(self.log_count(kind, log::BYTES))
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

    /// Moves the log tail and frees the segments behind it. No slot may refer to them. False if the
    /// record at the tail and its log disagree on where the next record begins: nothing has
    /// changed then.
    pub fn move_tail(&self, kind: LogKind, to: Position) -> bool {
        let Some(from) = self.tail_cursor(kind) else { return true };
        let first = self.arena().note(to.segment, note::EXTENT) >> 32;
        let count = self.count_between(from.segment, to.segment);
        let count = count.filter(|count| *count == 0 || to.byte == first);
        let Some(count) = count else { return false };
        self.set_log_word(kind, log::TAIL, to.word());
        if count > 0 {
            hooks::reach(Point::SegmentUnlinked);
            self.subtract_word(kind.at() + log::SEGMENTS, count);
            self.put_back_from(from.segment, count);
        }
        true
    }

    /// Frees the head segments of logs without entries, and the spare segments: for a shard that
    /// has nothing else to give while another has no segment at all. Whether there were any.
    pub fn free_empty_logs(&self) -> bool {
        let mut freed = self.free_spares();
        for kind in LogKind::ALL {
            let head = self.log_word(kind, log::HEAD);
            let Some(position) = Position::from_word(head) else { continue };
            if head != self.log_word(kind, log::TAIL) {
                continue;
            }
            self.set_log_word(kind, log::HEAD, 0);
            self.set_log_word(kind, log::TAIL, 0);
            self.set_log_word(kind, log::SEGMENTS, 0);
            if self.cx.is_usable(position.segment) {
                self.end_and_put_back(position.segment);
                freed = true;
            }
        }
        freed
    }

    /// Empties a log without freeing its segments.
    pub fn forget_log(&self, kind: LogKind) {
        for word in [log::HEAD, log::TAIL, log::ENTRIES, log::BYTES, log::BODY_BYTES, log::SEGMENTS]
        {
            self.set_log_word(kind, word, 0);
        }
    }

    /// Empties all logs. No slot may refer to them.
    pub fn reset_logs(&self) {
        for kind in LogKind::ALL {
            // Segments that a damaged log does not reach stay the shard's; `check` finds them.
            let ends = self.tail_cursor(kind).zip(self.head_cursor(kind));
            let count =
                ends.and_then(|(tail, head)| self.count_between(tail.segment, head.segment));
            self.forget_log(kind);
            if let Some(((tail, _), count)) = ends.zip(count) {
                self.put_back_from(tail.segment, count + 1);
            }
        }
    }

    /// The log of a record, by its segment.
    pub fn log_of(&self, segment: u32) -> LogKind {
        let extent = self.arena().note(segment, note::EXTENT);
        match extent & note::EXTENT_PINNED {
            0 => LogKind::of(extent & note::EXTENT_MAIN != 0),
            _ => LogKind::Pinned,
        }
    }
}
