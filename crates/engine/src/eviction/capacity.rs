//! What the logs may hold, in entries or bytes, and what they hold. Must not know which entry to
//! evict.

use super::Eviction;
use crate::format::{log, shard, LogKind, RecordHeader};
use crate::policy::{active_setting, Setting, SETTINGS};
use crate::value::Favour;

/// The limit that binds, in which the policy counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Entries,
    Bytes,
}

/// Shares and use of the logs.
pub(super) struct Capacity {
    pub(super) unit: Unit,
    /// The small log's share.
    pub(super) small: u64,
    /// What the small log keeps before the main log evicts.
    pub(super) small_min: u64,
    /// The main log's share.
    pub(super) main: u64,
    pub(super) small_used: u64,
    pub(super) main_used: u64,
}

impl Eviction<'_> {
    /// The active setting.
    pub(super) fn setting(&self) -> &'static Setting {
        &SETTINGS[active_setting(self.word(shard::SETTING))]
    }

    /// Whether a large entry must be read more often than a small one.
    pub(super) fn weighs_sizes(&self, unit: Unit) -> bool {
        unit == Unit::Bytes && self.cx.shape.favour != Favour::Bytes
    }

    pub(super) fn cost(&self, header: &RecordHeader, unit: Unit) -> u64 {
        match unit {
            Unit::Entries => 1,
            Unit::Bytes => header.total_bytes(&self.cx.shape),
        }
    }

    #[inline(always)]
    pub(super) fn used(&self, kind: LogKind, unit: Unit) -> u64 {
        match unit {
            Unit::Entries => self.log_count(kind, log::ENTRIES),
            Unit::Bytes => self.log_count(kind, log::BYTES) + self.log_count(kind, log::BODY_BYTES),
        }
    }

    /// The logs' shares of the shard's present space or, while it fills, of its entries to come.
    pub(super) fn capacity(&self, unit: Unit, filling: bool) -> Capacity {
        let (small_used, main_used) =
            (self.used(LogKind::Small, unit), self.used(LogKind::Main, unit));
        if unit == Unit::Entries {
            // The limit is for the whole cache, and this shard has what it had when the limit was
            // reached. With more, it would always find space in the main log and never run the
            // admission test.
            let all = match filling {
                true => {
                    self.cx.shape.max_entries_each.saturating_sub(self.used(LogKind::Pinned, unit))
                }
                false => small_used + main_used,
            };
            let small = (all * self.setting().small_percent / 100).max(1);
            let main = all.saturating_sub(small);
            return Capacity { unit, small, small_min: small, main, small_used, main_used };
        }
        let log_bytes = self.cx.shape.log_bytes;
        let sum = |word| LogKind::BOTH.iter().map(|kind| self.log_count(*kind, word)).sum::<u64>();
        let segments = sum(log::SEGMENTS) + self.spare_count();
        let all = segments * log_bytes + sum(log::BODY_BYTES);
        let small = all * self.setting().small_percent / 100;
        // Eviction frees whole segments. Spare segments and the dead or unwritten ends of the logs
        // are no space for the main log: otherwise every batch would fill it without the admission
        // test. For the same reason the small log may fall short of its share by what it takes to
        // free a segment.
        let slack = (self.cx.shape.spares_kept + 2) * log_bytes;
        Capacity {
            unit,
            small,
            small_min: small.saturating_sub(2 * log_bytes).max(small / 4),
            main: all.saturating_sub(slack + small),
            small_used,
            main_used,
        }
    }
}
