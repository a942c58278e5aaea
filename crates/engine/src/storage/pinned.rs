//! The room of entries that are never evicted, and what they leave of a shard. Must not know how room
//! is made.

use super::shard::Shard;
use crate::format::{log, shard, LogKind};

/// Segments that entries which are never evicted leave in a shard.
const RESERVE: u64 = 2;

impl Shard<'_> {
    /// A segment for the index, which gives it back only when it is empty.
    pub fn take_for_index(&self) -> Option<u32> {
        self.take_from_pool().or_else(|| match self.evictable_entries() {
            // Nothing would fill the spare segments again.
            0 => self.pop_surplus_spare(),
            _ => self.pop_spare(),
        })
    }

    /// Whether the entries that are never evicted may grow by these bytes of records.
    ///
    /// As long as entries can be evicted, they may. Otherwise [`RESERVE`] segments are left, unused or
    /// dead space, so that compaction always gains a segment. Records leave gaps at the ends of
    /// segments, which differ from one round to the next: what had room once has room again.
    pub fn may_stay(&self, more_bytes: u64) -> bool {
        let kept = self.cx.shape.spares_kept;
        if !self.pool_is_scarce()
            || self.keep_at_least(kept + RESERVE).is_some()
            || self.evictable_entries() > 0
        {
            return true;
        }
        let present = self.log_count(LogKind::Pinned, log::BYTES);
        if present + more_bytes <= self.word(shard::PINNED_MOST) {
            return true;
        }
        let segment_bytes = self.cx.shape.log_bytes;
        let head = self.head_cursor(LogKind::Pinned);
        let unwritten = head.map_or(0, |head| segment_bytes.saturating_sub(head.byte));
        let unused = self.spare_count().saturating_sub(kept) * segment_bytes + unwritten;
        let has_room =
            unused + self.dead_bytes(LogKind::Pinned) >= RESERVE * segment_bytes + more_bytes;
        let had_room = present + if has_room { more_bytes } else { 0 };
        self.set_word(shard::PINNED_MOST, had_room.max(self.word(shard::PINNED_MOST)));
        has_room
    }

    /// Whether compaction of the log of pinned entries gains a segment. It ends in any case: once all
    /// entries have moved, there is no dead space.
    pub fn pinned_is_worth_compacting(&self) -> bool {
        let shape = &self.cx.shape;
        self.dead_bytes(LogKind::Pinned) >= shape.log_bytes + shape.crossing_bytes
    }

    /// Frees the spare segment beyond those that are kept. Whether there was one.
    pub fn free_surplus_spare(&self) -> bool {
        // They are the reserve of entries that stay.
        if self.evictable_entries() == 0 && !self.log_is_empty(LogKind::Pinned) {
            return false;
        }
        let surplus = self.pop_surplus_spare();
        surplus.inspect(|segment| self.arena().release_segment(*segment)).is_some()
    }
}
