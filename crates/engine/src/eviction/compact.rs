//! Compaction: live entries of a log with much dead space move to the log head, so that dead space
//! costs no entry. Must not judge entries by their use.

use super::budget::{Budget, IfStuck};
use super::Eviction;
use crate::format::{log, LogKind, Slot};

/// Dead space of at least one part in this many of the logs is compacted before anything is
/// dropped.
const DEAD_PART: u64 = 8;

impl Eviction<'_> {
    /// A log with much dead space.
    pub(super) fn log_to_compact(&self) -> Option<LogKind> {
        let log_bytes = self.cx.shape.log_bytes;
        let (mut all, mut dead_all, mut worst) = (0, 0, None);
        for kind in LogKind::ALL {
            let segments = self.log_count(kind, log::SEGMENTS);
            // In most caches, nothing is pinned.
            if segments == 0 {
                continue;
            }
            let head = self.head_cursor(kind);
            let unwritten = head.map_or(0, |head| log_bytes.saturating_sub(head.byte));
            let written = (segments * log_bytes).saturating_sub(unwritten);
            let dead = written.saturating_sub(self.log_count(kind, log::BYTES));
            all += written;
            dead_all += dead;
            if segments >= 2 && worst.is_none_or(|(most, _)| dead > most) {
                worst = Some((dead, kind));
            }
        }
        let is_much = dead_all * DEAD_PART >= all && dead_all >= 2 * log_bytes;
        worst.filter(|(dead, _)| is_much && *dead >= log_bytes).map(|(_, kind)| kind)
    }

    /// Moves the oldest pinned entry to its log head, if that will gain a segment. False if not.
    pub(super) fn compact_pinned(&self, budget: &mut Budget) -> bool {
        self.pinned_is_worth_compacting() && self.compact_one(LogKind::Pinned, budget)
    }

    /// Moves the oldest live entry of a log to the log head. False if there is none.
    pub(super) fn compact_one(&self, kind: LogKind, budget: &mut Budget) -> bool {
        let Some(candidate) = self.candidate(kind, budget) else { return budget.steps == 0 };
        let bits = self.kept_entry_bits(Slot(self.region().get(candidate.found.at)));
        if budget.if_stuck == IfStuck::Drop && kind != LogKind::Pinned {
            self.move_entry(&candidate, kind, bits);
        } else if self.try_move_entry(&candidate, kind, bits).is_none() {
            return false;
        }
        budget.spend();
        true
    }
}
