//! Entries: a slot and the record that it leads to. Owns how both leave together. Must not know why.

use tuckbox_arena::Counter;

use super::buckets::{Found, Index};
use crate::format::{shard, KeyHash, PolicyBits, RecordHeader, Slot};
use crate::storage::Reservation;

impl Index<'_> {
    /// Removes a damaged entry and counts it.
    #[cold]
    pub fn drop_damaged(&self, hash: KeyHash, found: &Found, header: &RecordHeader) {
        self.arena().count(Counter::ChecksumMismatches, 1);
        self.remove(hash, found, header);
        self.add_word(shard::LOST, 1);
    }

    /// Removes an entry from the index and the counts, and frees its bodies. Its record becomes
    /// dead space.
    pub fn remove(&self, hash: KeyHash, found: &Found, header: &RecordHeader) {
        let offset = found.slot.offset();
        self.store_slot(found.at, Slot::EMPTY);
        let position = self.cx.position_of(offset);
        if let Some(position) = position {
            self.count_out(self.log_of(position.segment), header);
        }
        self.free_bodies_at(offset, header, hash);
        self.retire(offset);
        if let Some(position) = position {
            self.vacate(position, header.log_bytes);
        }
    }

    /// Appends the words of an entry's record, with the sum of their content, as a new record, and
    /// makes its slot lead there. The caller counts.
    pub fn relocate(
        &self,
        found: &Found,
        header: &RecordHeader,
        (words, content): (&mut [u64], u64),
        hash: KeyHash,
        reservation: &Reservation,
        bits: PolicyBits,
    ) {
        let place = self.cx.record_place(reservation.position);
        header.seal(words, content, &self.cx.hasher, hash, place);
        self.append(reservation, words, words.len());
        self.store_slot(found.at, Slot::new(place.offset, hash.tag(), bits));
        self.retire(found.slot.offset());
    }
}
