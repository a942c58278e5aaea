//! What the logs may hold, in entries or in bytes, and what they do hold.

use crate::layout::log;
use crate::log::LogKind;
use crate::record::Head;
use crate::shard::Shard;
use crate::value::Favour;

/// What the policy reckons in: that of which there is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Entries,
    Bytes,
}

/// The sizes that the policy reckons with.
pub(super) struct Capacity {
    pub(super) unit: Unit,
    /// The small log's share.
    pub(super) small: u64,
    /// What the small log keeps before the main log has to give.
    pub(super) small_least: u64,
    /// The main log's share.
    pub(super) main: u64,
    pub(super) small_used: u64,
    pub(super) main_used: u64,
}

impl Shard<'_> {
    /// Whether a large entry needs to be asked for more often than a small one.
    pub(super) fn weighs_sizes(&self, unit: Unit) -> bool {
        unit == Unit::Bytes && self.cache.shape.favour != Favour::Bytes
    }

    pub(super) fn cost(&self, head: &Head, unit: Unit) -> u64 {
        match unit {
            Unit::Entries => 1,
            Unit::Bytes => head.total_bytes(&self.cache.shape),
        }
    }

    pub(super) fn used(&self, kind: LogKind, unit: Unit) -> u64 {
        match unit {
            Unit::Entries => self.log_count(kind, log::ENTRIES),
            Unit::Bytes => self.log_count(kind, log::BYTES) + self.log_count(kind, log::BODY_BYTES),
        }
    }

    /// The logs' shares of what the shard has, or, while it fills, of the entries it may have.
    pub(super) fn capacity(&self, unit: Unit, filling: bool) -> Capacity {
        let (small_used, main_used) =
            (self.used(LogKind::Small, unit), self.used(LogKind::Main, unit));
        if unit == Unit::Entries {
            // The limit is the whole cache's, and this shard has what it had when that was reached.
            // If it reckoned with more, it would always find room in the main log, and drop from
            // there, without one duel.
            let all = if filling {
                self.cache.shape.max_entries.div_ceil(self.cache.shape.shard_count)
            } else {
                small_used + main_used
            };
            let small = (all * self.setting().small_percent / 100).max(1);
            let main = all.saturating_sub(small);
            return Capacity { unit, small, small_least: small, main, small_used, main_used };
        }
        let log_bytes = self.cache.shape.log_bytes;
        let sum = |word| LogKind::BOTH.iter().map(|kind| self.log_count(*kind, word)).sum::<u64>();
        let segments = sum(log::SEGMENTS) + self.spares().len() as u64;
        let all = segments * log_bytes + sum(log::BODY_BYTES);
        let small = all * self.setting().small_percent / 100;
        // Whole segments are freed. What is spare, and what is dead or not yet written at the ends
        // of the logs, is no room for the main log: if it were, every slice would find room there,
        // admit without a duel, and then drop from the main log without one. And the small log may
        // fall short of its share by as much as it takes to free a segment, for the same reason.
        let slack = (self.spares_kept() + 2) * log_bytes;
        Capacity {
            unit,
            small,
            small_least: small.saturating_sub(2 * log_bytes).max(small / 4),
            main: all.saturating_sub(slack + small),
            small_used,
            main_used,
        }
    }
}
