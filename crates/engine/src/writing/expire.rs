//! Removes expired and invalid entries on request. Reads skip them and eviction drops them anyway; this frees
//! their space now. Must not know eviction.

use super::write::Writer;
use crate::format::{flag, shard};
use crate::index::Found;
use crate::invalidation::{state_at, State};

impl Writer<'_> {
    /// Removes expired and invalid entries of some buckets; how many, and whether there are more
    /// buckets.
    pub fn expire_buckets(&self, from: u32, count: u32) -> (u64, bool) {
        let mut expired = 0;
        let end = from.saturating_add(count).min(self.bucket_count());
        for bucket in from..end {
            for (at, slot) in self.taken_slots(bucket) {
                let may_end = |flags: u64| flags & (flag::EXPIRY | flag::LONG) != 0;
                let header = self.load_header(slot.offset());
                let Some(header) = header.filter(|it| may_end(it.sequence.flags())) else {
                    continue;
                };
                let Some(hash) = self.hash_of(slot) else { continue };
                let found = Found { at, slot };
                match state_at(self, slot.offset(), &header, hash) {
                    State::Damaged => self.drop_damaged(hash, &found, &header),
                    State::Missing => {
                        self.remove(hash, &found, &header);
                        self.add_word(shard::EXPIRATIONS, 1);
                        expired += 1;
                    }
                    State::Fresh | State::Stale => {}
                }
            }
        }
        (expired, end < self.bucket_count())
    }
}
