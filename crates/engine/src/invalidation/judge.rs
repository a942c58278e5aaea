//! The verdict on an entry: fresh, stale, or missing. Must not know why it is asked for.
//!
//! An entry that is missing has expired or is invalid. One that is stale is missing for everyone who
//! does not ask for stale entries.

use tuckbox_arena::mutants;

use super::rows::{rows, Rows};
use crate::format::{expiry, flag, KeyHash, RecordHeader, StoredAttributes};
use crate::storage::{with_scratch, Shard};

/// What an entry is worth now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is there.
    Fresh,
    /// It is past its time to live or was evicted softly, and is kept for those who accept that.
    Stale,
    /// It has expired, or a tag of it was evicted.
    Missing,
    /// Its expiry or its attributes are damaged.
    Damaged,
}

impl Rows<'_> {
    /// The state of an entry with attributes that has not expired, and when its time to live ends.
    pub fn judge(self, attributes: &StoredAttributes<'_>, expiry_us: u64) -> (State, u64) {
        let fresh_end_us = match expiry_us {
            expiry::NEVER_US => expiry_us,
            expiry_us => expiry_us.saturating_sub(attributes.stale_us),
        };
        let mut is_stale = false;
        for tag in attributes.tags {
            let (invalidated, staled) = self.evictions_of(self.name_hash(tag));
            if invalidated > attributes.stamp {
                return (State::Missing, fresh_end_us);
            }
            is_stale |= staled > attributes.stamp;
        }
        // The clock never showed the stamp, so it cannot be compared with the rows: one of these is
        // damaged, or zeros have taken the place of the file's memory since the record was copied.
        let is_ahead = attributes.stamp > self.stamp() && !mutants::is_on("stamps-ahead");
        if attributes.tags.count > 0 && is_ahead {
            return (State::Missing, fresh_end_us);
        }
        is_stale |= self.is_expired(fresh_end_us);
        (if is_stale { State::Stale } else { State::Fresh }, fresh_end_us)
    }
}

/// The state of the entry at a place of a locked shard.
#[inline(always)]
pub fn state_at(shard: &Shard<'_>, offset: u64, header: &RecordHeader, hash: KeyHash) -> State {
    if header.sequence.flags() & (flag::EXPIRY | flag::LONG) == 0 {
        return State::Fresh;
    }
    match shard.expiry_us_at(offset, header, hash) {
        None => State::Damaged,
        Some(expiry_us) if shard.cx.is_expired(expiry_us) => State::Missing,
        Some(expiry_us) if header.has(flag::LONG) => judge_at(shard, offset, *header, expiry_us),
        Some(_) => State::Fresh,
    }
}

// By value: for a reference, every write would keep the header in memory, not in registers.
#[inline(never)]
fn judge_at(shard: &Shard<'_>, offset: u64, header: RecordHeader, expiry_us: u64) -> State {
    let Some(record) = shard.cx.record_at(offset) else { return State::Damaged };
    let start = record.view::<{ crate::storage::RECORD_START_WORDS }>();
    if !header.has_attributes(|at| start.get(at)) {
        return State::Fresh;
    }
    with_scratch(|words| {
        if !shard.load_part(offset, header.key_at, words) {
            return State::Damaged;
        }
        match header.attributes(words) {
            Ok(Some(attributes)) => rows(shard.cx).judge(&attributes, expiry_us).0,
            _ => State::Damaged,
        }
    })
}
