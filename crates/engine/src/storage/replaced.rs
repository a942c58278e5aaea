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
//! dies, the place is dead space of its log, and its record's length is as before: both records have the
//! same flags, and of the words of the form each says the same length.

use std::sync::atomic::{AtomicU64, Ordering};

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;
use tuckbox_arena::region::fence;

use super::shard::Shard;
use crate::format::{flag, LogKind, Position, RecordHeader, Sequence};

/// Places for each shard, each for some of the lengths.
const PLACES: usize = 8;

/// The places that an open file remembers.
pub struct Replaced(Box<[[Place; PLACES]]>);

/// A place; the words are used under the shard's lock only.
#[derive(Default)]
struct Place {
    /// Where its record begins; 0 for no place.
    offset: AtomicU64,
    /// Word 0 of its record, which is busy.
    first: AtomicU64,
    generation: AtomicU64,
    log_bytes: AtomicU64,
}

impl Replaced {
    /// Remembers nothing yet.
    pub fn new(shard_count: u64) -> Replaced {
        Replaced((0..shard_count).map(|_| Default::default()).collect())
    }

    fn place(&self, shard: u64, log_bytes: u64) -> &Place {
        &self.0[shard as usize][(log_bytes / 8) as usize % PLACES]
    }
}

impl Shard<'_> {
    /// Remembers the place of a pinned record to which no slot leads any more, and which is marked.
    #[inline]
    pub fn remember_place(&self, at: Position, header: &RecordHeader) {
        if header.has(flag::LONG) || at.byte + header.log_bytes > self.cx.shape.log_bytes {
            return;
        }
        let (place, offset) =
            (self.cx.replaced.place(self.index, header.log_bytes), self.cx.offset_of(at));
        place.offset.store(offset, Ordering::Relaxed);
        place.first.store(self.region().get(offset), Ordering::Relaxed);
        place.generation.store(self.arena().generation(at.segment), Ordering::Relaxed);
        place.log_bytes.store(header.log_bytes, Ordering::Relaxed);
    }

    /// A place for a pinned record with this header.
    #[inline]
    pub fn remembered_place(&self, header: &RecordHeader) -> Option<Position> {
        let place = self.cx.replaced.place(self.index, header.log_bytes);
        let offset = place.offset.load(Ordering::Relaxed);
        if offset == 0
            || place.log_bytes.load(Ordering::Relaxed) != header.log_bytes
            || header.has(flag::LONG)
        {
            return None;
        }
        place.offset.store(0, Ordering::Relaxed);
        let at = self.cx.position_of(offset)?;
        let first = place.first.load(Ordering::Relaxed);
        let is_same = self.arena().generation(at.segment)
            == place.generation.load(Ordering::Relaxed)
            && (self.region().get(offset) == first || mutants::is_on("place-of-another"));
        let tail = self.tail_cursor(LogKind::Pinned)?;
        let is_ahead = tail.segment != at.segment
            || tail.byte <= at.byte
            || mutants::is_on("place-behind-tail");
        let has_same_flags = Sequence(first).flags() == header.sequence.flags();
        (is_same && is_ahead && has_same_flags).then_some(at)
    }

    /// Writes a record into a remembered place. No slot leads to it yet. Word 0, which is busy until
    /// then, comes last.
    pub fn write_over(&self, at: Position, words: &[u64]) {
        let offset = self.cx.offset_of(at);
        fence(Ordering::Release);
        self.region().copy_in(offset + 8, &words[1..]);
        hooks::reach(Point::RecordWritten);
        self.region().store(offset, words[0], Ordering::Release);
        hooks::reach(Point::CursorMoved);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
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

    /// As a forked child that knows the places of its parent.
    fn forget_all_but(child: &Cache, parent: &Cache) {
        let places = |cache: &Cache| cache.cx.replaced.0.iter().flatten().count();
        assert_eq!(places(child), places(parent));
        let all = child.cx.replaced.0.iter().flatten().zip(parent.cx.replaced.0.iter().flatten());
        for (to, from) in all {
            for (to, from) in [
                (&to.offset, &from.offset),
                (&to.first, &from.first),
                (&to.generation, &from.generation),
                (&to.log_bytes, &from.log_bytes),
            ] {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
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
            forget_all_but(&twins[1], &twins[0]);
            replace(&twins[0], keys[1], round);
            replace(&twins[1], keys[2], round);
            for key in keys {
                assert_eq!(byte_of(&twins[0], key), Some(round), "{key:?}");
            }
        }
        assert!(twins[1].check().unwrap().is_sound());
    }
}
