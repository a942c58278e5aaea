//! The policy bits of new and kept entries, and what is remembered of removed ones. Must not know
//! when entries are evicted.

use super::Eviction;
use crate::format::{log, KeyHash, LogKind, PolicyBits, RecordHeader, Slot};
use crate::index::Found;
use crate::policy::{newcomer, Event};

impl Eviction<'_> {
    /// The policy bits of a new entry in the small log.
    pub fn new_entry_bits(&self, hash: KeyHash, header: &RecordHeader) -> PolicyBits {
        self.measure_sample();
        // A lookup that missed and was followed by a store.
        self.sample(Event::Read, hash, header);
        let ghost = self.take_ghost(hash);
        let small_entries = || self.log_count(LogKind::Small, log::ENTRIES);
        let idle = || self.idle_at_main_tail();
        let (frequency, is_admitted) = newcomer(self.setting(), ghost, small_entries, idle);
        self.count_increments(1);
        self.bits(0, frequency, is_admitted)
    }

    /// The policy bits of an entry that is overwritten or moved.
    pub fn kept_entry_bits(&self, slot: Slot) -> PolicyBits {
        let position = self.cx.position_of(slot.offset());
        let frequency = position.map_or(0, |at| self.halved(slot, at));
        self.bits(slot.policy().hits(), frequency, slot.policy().is_admitted())
    }

    /// Remembers an entry that is about to be removed, or has expired: a key that is stored again
    /// soon is as popular as before. Its ghost carries no reuse distance. That of an entry from the
    /// main log is marked as if it came from the small log, so that it returns to the main log.
    pub fn remember_removed(&self, hash: KeyHash, found: &Found, header: &RecordHeader) {
        let is_main = self
            .cx
            .position_of(found.slot.offset())
            .is_some_and(|at| self.log_of(at.segment) == LogKind::Main);
        let bits = self.kept_entry_bits(found.slot);
        self.put_ghost(hash, bits.frequency() + bits.hits(), !is_main);
        // No shadow may hit the key.
        self.sample(Event::Removed, hash, header);
    }
}
