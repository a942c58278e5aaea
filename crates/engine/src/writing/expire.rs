//! Removes expired and invalid entries on request. Reads skip them and eviction drops them anyway; this frees
//! their space now. Must not know eviction.

use super::write::Writer;
use crate::format::{expiry, flag, shard};
use crate::index::Found;
use crate::invalidation::{state_at, State};

/// What became of the entries of some buckets.
pub struct Expired {
    /// How many were removed.
    pub count: u64,
    /// When the first of the others expires, [`expiry::NEVER_US`] if none does.
    pub soonest_us: u64,
    /// Whether there are more buckets.
    pub has_more: bool,
}

impl Writer<'_> {
    /// Removes expired and invalid entries of some buckets.
    pub fn expire_buckets(&self, from: u32, count: u32) -> Expired {
        let (mut expired, mut soonest_us) = (0, expiry::NEVER_US);
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
                    State::Fresh | State::Stale => {
                        let expiry_us = self.expiry_us_at(slot.offset(), &header, hash);
                        soonest_us = soonest_us.min(expiry_us.unwrap_or(0));
                    }
                }
            }
        }
        Expired { count: expired, soonest_us, has_more: end < self.bucket_count() }
    }
}
