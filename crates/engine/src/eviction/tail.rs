//! The log tails: what is there, and how entries are dropped or moved on. Decides only that dead,
//! expired, invalid and damaged records are dropped. Must not compare entries.

use tuckbox_arena::hooks::{self, Point};

use super::budget::Budget;
use super::candidate::{Candidate, Keyed};
use super::Eviction;
use crate::format::{log, note, shard, LogKind, PolicyBits, Position, Slot};
use crate::index::Found;
use crate::invalidation::{state_at, State};
use crate::storage::{uncleared, with_scratch, Need, Reservation, RECORD_START_WORDS};

/// What is at the place of a record.
pub(super) enum RecordState {
    Live(Found),
    Dead(Position),
    Unreadable,
}

/// Why an entry is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Evicted,
    Expired,
    Damaged,
}

impl Eviction<'_> {
    /// The oldest live entry of a log. Skips dead records and drops expired and damaged entries on
    /// the way. None if there is no entry, or the budget is spent.
    pub(super) fn candidate(&self, kind: LogKind, budget: &mut Budget) -> Option<Candidate> {
        loop {
            let position = self.tail(kind)?;
            let known =
                budget.next[kind as usize].take().filter(|known| known.position == position);
            let Some(keyed) = known.or_else(|| self.keyed_record(position)) else {
                match self.end_of_cut_off(position) {
                    Some(end) => self.advance_tail(kind, end),
                    None => self.skip_damaged(kind, position),
                }
                match budget.spend() {
                    true => continue,
                    false => return None,
                }
            };
            match self.state_of(&keyed) {
                RecordState::Live(found) => {
                    let candidate = self.candidate_of(kind, &keyed, found);
                    let (offset, header) = (candidate.offset, &candidate.header);
                    let reason = match state_at(self, offset, header, candidate.hash) {
                        State::Damaged => Reason::Damaged,
                        State::Missing => Reason::Expired,
                        State::Fresh | State::Stale => {
                            if budget.steps > 1 && self.cx.records_are_far() {
                                budget.next[kind as usize] = self.ask_for_next(&candidate);
                            }
                            return Some(candidate);
                        }
                    };
                    self.drop_oldest(&candidate, reason);
                }
                RecordState::Dead(end) => self.advance_tail(kind, end),
                RecordState::Unreadable => self.skip_damaged(kind, position),
            }
            if !budget.spend() {
                return None;
            }
        }
    }

    /// Prefetches what the next step of a batch will need: the slots and ghosts of the record behind
    /// a candidate, and the record behind that. Returns the former. It does not change during the
    /// batch, in which nothing is stored.
    #[inline(always)]
    fn ask_for_next(&self, candidate: &Candidate) -> Option<Keyed> {
        let end = self.end_of(candidate.position, candidate.header.log_bytes)?;
        let next = self.keyed_record(self.next_record(candidate.kind, end)?)?;
        self.ask_for_slots(next.hash);
        self.ask_for_ghost(next.hash);
        let behind = self.cx.offset_of(next.position) + next.header.log_bytes;
        self.region().prefetch(behind, 2 * RECORD_START_WORDS as u64 * 8);
        Some(next)
    }

    /// The header of a record and its key's hash. None if it is damaged.
    #[inline(always)]
    pub(super) fn keyed_record(&self, position: Position) -> Option<Keyed> {
        let (header, hash) = self.load_keyed(self.cx.offset_of(position))?;
        Some(Keyed { position, header, hash })
    }

    /// What is at the place of a record.
    #[inline(always)]
    pub(super) fn state_of(&self, keyed: &Keyed) -> RecordState {
        let Some(end) = self.end_of(keyed.position, keyed.header.log_bytes) else {
            return RecordState::Unreadable;
        };
        let offset = self.cx.offset_of(keyed.position);
        let slots = self.slots_of(keyed.hash);
        let found = slots.and_then(|mut slots| slots.find(|it| it.slot.offset() == offset));
        found.map_or(RecordState::Dead(end), RecordState::Live)
    }

    #[inline(always)]
    fn candidate_of(&self, kind: LogKind, keyed: &Keyed, found: Found) -> Candidate {
        let Keyed { position, header, hash } = *keyed;
        Candidate {
            kind,
            position,
            offset: self.cx.offset_of(position),
            header,
            hash,
            found,
            frequency: self.halved(found.slot, position),
            halvings: self.word(shard::HALVINGS),
        }
    }

    /// Moves the log tail past an entry to which no slot leads any more.
    fn advance_past(&self, candidate: &Candidate) {
        if let Some(end) = self.end_of(candidate.position, candidate.header.log_bytes) {
            self.advance_tail(candidate.kind, end);
        }
    }

    /// Moves the log tail. Skips what the log's links contradict.
    fn advance_tail(&self, kind: LogKind, to: Position) {
        if !self.move_tail(kind, to) {
            if let Some(from) = self.tail_cursor(kind) {
                self.skip_damaged(kind, from);
            }
        }
    }

    /// Skips a record with damaged lengths and continues with the next entry of its segment, which
    /// only the index can tell.
    pub fn skip_damaged(&self, kind: LogKind, from: Position) {
        let Some(head) = self.head_cursor(kind) else { return };
        if let Some(byte) = self.drop_and_find_next(from) {
            return self.advance_tail(kind, Position { byte, ..from });
        }
        match self.next_segment(from.segment) {
            // The head segment, in which no entry lies behind this place.
            _ if head.segment == from.segment => self.advance_tail(kind, head),
            Some(next) => self.advance_tail(kind, next),
            // No link leads on. What lies between stays readable in its place until the shard is
            // repaired.
            None => self.set_word(kind.at() + log::TAIL, head.word()),
        }
    }

    /// Drops the entry at a place, if there is one, and returns where the next entry of the segment
    /// begins. Searches the whole index.
    fn drop_and_find_next(&self, from: Position) -> Option<u64> {
        let mut next = None;
        for bucket in 0..self.bucket_count() {
            for (at, slot) in self.taken_slots(bucket) {
                let Some(position) = self.cx.position_of(slot.offset()) else { continue };
                if position == from {
                    self.store_slot(at, Slot::EMPTY);
                    self.add_word(shard::LOST, 1);
                    self.subtract_word(self.log_of(from.segment).at() + log::ENTRIES, 1);
                } else if position.segment == from.segment && position.byte > from.byte {
                    next = Some(next.map_or(position.byte, |byte: u64| byte.min(position.byte)));
                }
            }
        }
        next
    }

    /// Drops the oldest entry of a log.
    pub(super) fn drop_oldest(&self, candidate: &Candidate, reason: Reason) {
        self.drop_entry(candidate, reason);
        self.advance_past(candidate);
    }

    /// Removes an entry from the index and the counts. Its record becomes dead space.
    fn drop_entry(&self, candidate: &Candidate, reason: Reason) {
        let from_main = candidate.kind == LogKind::Main;
        match reason {
            Reason::Evicted => {
                let bits = Slot(self.region().get(candidate.found.at)).policy();
                let frequency = candidate.frequency + bits.hits();
                if bits.hits() > 0 {
                    self.count_increments(bits.hits());
                }
                self.prepare_ghost(candidate.hash);
                self.put_ghost(candidate.hash, frequency, from_main);
                self.add_word(shard::CLOCK, 1);
                self.add_word(shard::EVICTIONS, 1);
            }
            Reason::Expired => {
                self.put_ghost(candidate.hash, candidate.frequency, from_main);
                self.add_word(shard::EXPIRATIONS, 1);
            }
            Reason::Damaged => self.add_word(shard::LOST, 1),
        }
        self.remove(candidate.hash, &candidate.found, &candidate.header);
        hooks::reach(Point::EntryDropped);
    }

    /// Moves an entry to a log head with these bits, or drops it if there is no space for it.
    /// Whether it moved.
    pub(super) fn move_entry(&self, candidate: &Candidate, to: LogKind, bits: PolicyBits) -> bool {
        self.try_move_entry(candidate, to, bits).unwrap_or_else(|| {
            self.drop_oldest(candidate, Reason::Evicted);
            false
        })
    }

    /// Moves an entry to a log head with these bits; drops it if it is damaged. Whether it moved.
    /// None if there is no space: nothing has changed then.
    pub(super) fn try_move_entry(
        &self,
        candidate: &Candidate,
        to: LogKind,
        bits: PolicyBits,
    ) -> Option<bool> {
        let moved = with_scratch(|words| {
            let Candidate { offset, ref header, hash, .. } = *candidate;
            let count = (header.log_bytes / 8) as usize;
            let words = uncleared(words, count);
            let Some(content) = self.copy_valid(offset, header, words, hash) else {
                return Some(false);
            };
            let mut reservation = Reservation::new(to, header.log_bytes);
            if !self.reserve(&mut reservation, Need::Move) {
                return None;
            }
            let record = (words, content);
            self.relocate(&candidate.found, header, record, hash, &reservation, bits);
            self.count_out(candidate.kind, header);
            self.count_in(to, header);
            self.vacate(candidate.position, header.log_bytes);
            Some(true)
        });
        match moved {
            Some(true) => self.advance_past(candidate),
            // Its lengths may be damaged, so they do not tell where the next record begins.
            Some(false) => {
                self.drop_entry(candidate, Reason::Damaged);
                self.skip_damaged(candidate.kind, candidate.position);
            }
            None => {}
        }
        moved
    }

    /// Whether an entry is still the oldest of its log, and what was found of it is still so.
    #[inline(always)]
    pub(super) fn is_still_oldest(&self, candidate: &Candidate) -> bool {
        let slot = Slot(self.region().get(candidate.found.at));
        self.word(candidate.kind.at() + log::TAIL) == candidate.position.word()
            && self.word(shard::HALVINGS) == candidate.halvings
            && slot.is_same_place(candidate.found.slot)
    }

    /// The first record at or after a position; none at the log head.
    pub(super) fn next_record(&self, kind: LogKind, mut at: Position) -> Option<Position> {
        let head = self.head_cursor(kind)?;
        // Bounded, in case the links form a circle. The beginning of a segment's records is read
        // from the file, and may lie behind the segment.
        for _ in 0..=self.arena().geometry().segment_count {
            if !self.cx.shape.is_place(at.byte) {
                return None;
            }
            if at.segment == head.segment {
                return (at.byte < head.byte).then_some(at);
            }
            if at.byte < self.arena().note(at.segment, note::EXTENT) & note::EXTENT_END {
                return Some(at);
            }
            at = self.next_segment(at.segment)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Config, Place, Ttl, Value};

    /// A damaged extent claims that the records of a segment begin or end behind it.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_log_that_leads_out_of_its_segment_ends_there() {
        let config = Config { size_bytes: 1 << 20, ..Config::default() };
        let cache = Cache::open(&Place::Private, &config).unwrap();
        for key in 0..20_000u64 {
            cache.set(&key.to_le_bytes(), Value::bytes(&[7; 160]), Ttl::Never).unwrap();
        }
        let shard = cache.writes().lock(0).unwrap();
        let tail = shard.tail(LogKind::Main).unwrap();
        let second = shard.next_in_log(tail.segment).unwrap();
        let sound = shard.arena().note(second, note::EXTENT);
        let records_from = |first: u64, end: u64| {
            shard.arena().set_note(second, note::EXTENT, first << 32 | note::EXTENT_MAIN | end);
            let (mut at, mut in_first, mut all) = (tail, 0, 0);
            while let Some(place) = shard.next_record(LogKind::Main, at) {
                let Some(keyed) = shard.keyed_record(place) else { break };
                at = match shard.state_of(&keyed) {
                    RecordState::Live(_) => {
                        in_first += u64::from(place.segment == tail.segment);
                        all += 1;
                        shard.end_of(place, keyed.header.log_bytes).unwrap()
                    }
                    RecordState::Dead(end) => end,
                    RecordState::Unreadable => break,
                };
            }
            (in_first, all)
        };
        let (in_first, all) = records_from(sound >> 32, sound & note::EXTENT_END);
        assert!(0 < in_first && in_first + 10 < all, "{in_first} of {all}");
        for segments in 0..4 {
            for byte in (0..cache.cx.shape.segment_bytes).step_by(4) {
                let first = segments * cache.cx.shape.segment_bytes + byte;
                let (in_this, found) = records_from(first, note::EXTENT_END);
                assert_eq!(in_this, in_first, "{first}");
                assert!(segments == 0 || found == in_first, "{first}");
            }
        }
    }
}
