//! The places of replaced records, for new records of the same length: storing a value again and again
//! then takes no further space, and touches no memory that was not used just before. Only in the log of
//! pinned entries, where a record is never written over while its entry is there. Must not know why an
//! entry is replaced.
//!
//! Each open file remembers a few places of its own, outside of the shared memory. They are used under
//! the shard's lock, and only if nothing else has happened to the place:
//! - *Its segment is in the same use.* Otherwise its generation has moved.
//! - *Its record is the one that was replaced.* No two records of a use have the same word 0. So a forked
//!   child that knows the same place finds it changed.
//! - *The log's tail has not passed it.* The tail skips what is before it, and frees the segment.
//!
//! The races with readers are in `docs/explanation/concurrency.md`, "The lock-free read". If the writer
//! dies, the place is dead space of its log. A walk through the log still finds the next record, because
//! both records have the same flags and the same length.

use std::sync::atomic::Ordering;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;
use tuckbox_arena::region::fence;

use super::places::RememberedPlace;
use super::shard::Shard;
use crate::format::{flag, LogKind, Position, RecordHeader, Sequence};

impl Shard<'_> {
    /// Remembers the place of a pinned record to which no slot leads any more, and which is marked.
    #[inline]
    pub fn remember_place(&self, at: Position, header: &RecordHeader) {
        let log_bytes = header.log_bytes;
        if header.has(flag::LONG) || at.byte + log_bytes > self.cx.shape.log_bytes {
            return;
        }
        let offset = self.cx.offset_of(at);
        let first = self.region().get(offset);
        let generation = self.arena().generation(at.segment);
        let place = RememberedPlace { offset, first, generation, log_bytes };
        self.cx.places.remember(self.index, place);
    }

    /// A place for a pinned record with this header.
    #[inline]
    pub fn remembered_place(&self, header: &RecordHeader) -> Option<Position> {
        if header.has(flag::LONG) {
            return None;
        }
        let place = self.cx.places.recall(self.index, header.log_bytes)?;
        let at = self.cx.position_of(place.offset)?;
        let is_same = self.arena().generation(at.segment) == place.generation
            && (self.region().get(place.offset) == place.first
                || mutants::is_on("place-of-another"));
        let tail = self.tail_cursor(LogKind::Pinned)?;
        let is_ahead = tail.segment != at.segment
            || tail.byte <= at.byte
            || mutants::is_on("place-behind-tail");
        let has_same_flags = Sequence(place.first).flags() == header.sequence.flags();
        (is_same && is_ahead && has_same_flags).then_some(at)
    }

    /// Writes a record into a remembered place. No slot leads to it yet. Word 0, which is busy until
    /// then, comes last.
    pub fn write_over(&self, at: Position, words: &[u64]) {
        let offset = self.cx.offset_of(at);
        fence(Ordering::Release);
        self.region().copy_in(offset + 8, &words[1..]);
        self.count_live(at.segment);
        hooks::reach(Point::RecordWritten);
        self.region().store(offset, words[0], Ordering::Release);
        hooks::reach(Point::CursorMoved);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{Buffer, Cache, Config, Pass, Value};

    fn replace(cache: &Cache, key: &[u8], byte: u8) {
        let pass = Pass { gate: cache.gate(), version: Pass::ANY, delta: 0 };
        assert!(cache.store_passing(key, Value::bytes(&[byte; 100]), &pass).unwrap().is_some());
    }

    fn byte_of(cache: &Cache, key: &[u8]) -> Option<u8> {
        match cache.get(key, &mut Buffer::new()).unwrap()?.value {
            Value::Bytes { bytes, .. } => Some(bytes[0]),
            Value::Int(_) => None,
        }
    }

    #[test]
    fn two_that_know_the_same_place_do_not_both_use_it() {
        let config = Config { size_bytes: 1 << 20, evicts: false, ..Config::default() };
        let twins = Cache::twins(&config, 2).unwrap();
        let keys = [b"one", b"two", b"six"];
        keys.iter().for_each(|key| replace(&twins[0], *key, 1));
        for round in 2..50 {
            replace(&twins[0], keys[0], round);
            // As in a forked child.
            twins[1].cx.places.copy_from(&twins[0].cx.places);
            replace(&twins[0], keys[1], round);
            replace(&twins[1], keys[2], round);
            for key in keys {
                assert_eq!(byte_of(&twins[0], key), Some(round), "{key:?}");
            }
        }
        assert!(twins[1].check().unwrap().is_sound());
    }
}
