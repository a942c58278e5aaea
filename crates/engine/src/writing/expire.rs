//! Removes expired entries on request. Reads skip them and eviction drops them anyway; this frees
//! their space now. Must not know eviction.

use super::write::Writer;
use crate::format::{flag, shard};
use crate::index::Found;

impl Writer<'_> {
    /// Removes expired entries of some buckets; how many, and whether there are more buckets.
    pub fn expire_buckets(&self, from: u32, count: u32) -> (u64, bool) {
        let mut expired = 0;
        let end = from.saturating_add(count).min(self.bucket_count());
        for bucket in from..end {
            for (at, slot) in self.taken_slots(bucket) {
                let header = self.load_header(slot.offset());
                let Some(header) = header.filter(|it| it.has(flag::EXPIRY)) else { continue };
                let Some(hash) = self.hash_of(slot) else { continue };
                let found = Found { at, slot };
                match self.expiry_us_at(slot.offset(), &header, hash) {
                    None => self.drop_damaged(hash, &found, &header),
                    Some(expiry_us) if self.cx.is_expired(expiry_us) => {
                        self.remove(hash, &found, &header);
                        self.add_word(shard::EXPIRATIONS, 1);
                        expired += 1;
                    }
                    Some(_) => {}
                }
            }
        }
        (expired, end < self.bucket_count())
    }
}
