//! Limits for one batch of eviction, so that no write does much of it, and a damaged file cannot
//! make it endless; and what one step of a batch found that the next one needs. Must not judge
//! entries.

use super::candidate::{Candidate, Keyed};
use super::capacity::Unit;
use crate::format::LogKind;

/// Entries examined in one batch, before the lock is released.
pub const EVICTION_BATCH: u32 = 64;
/// Attempts without gain before entries that should have been moved are dropped.
const ATTEMPTS_BEFORE_DROP: u64 = 16;
/// One in this many examined entries may move to the main log without the admission test.
const FREE_MOVE_EACH: u32 = 8;

/// What to do with an entry that must move to free its segment, if there is no space to move it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfStuck {
    /// Leave it: other shards may free a segment.
    Stop,
    /// Drop it: they did not.
    Drop,
}

impl IfStuck {
    /// The choice after this many attempts without gain.
    pub fn after(attempts: u64) -> IfStuck {
        if attempts < ATTEMPTS_BEFORE_DROP {
            IfStuck::Stop
        } else {
            IfStuck::Drop
        }
    }
}

/// What a batch may still do.
pub(super) struct Budget {
    pub(super) steps: u32,
    pub(super) if_stuck: IfStuck,
    pub(super) unit: Unit,
    /// Whether an entry must be evicted when the batch ends, whatever its hits: a write that waits
    /// for space must not circle through a hot cache. Housekeeping leaves the rest to the next
    /// write.
    pub(super) must_gain: bool,
    /// Moves to the main log without the admission test while it has space. A new setting can leave
    /// it much space, and no write should fill all of it.
    pub(super) free_moves: u32,
    /// What the new entry takes in the small log. If that is more than the small log's share, the
    /// small log is emptied before the main log evicts.
    pub(super) wanted_bytes: u64,
    /// The main log's oldest entry, if it was found to leave next.
    pub(super) victim: Option<Candidate>,
    /// For each log, the record behind the last candidate.
    pub(super) next: [Option<Keyed>; LogKind::COUNT],
}

impl Budget {
    pub(super) fn new(steps: u32, if_stuck: IfStuck, unit: Unit) -> Budget {
        let (must_gain, free_moves) = (steps >= EVICTION_BATCH, 1 + steps / FREE_MOVE_EACH);
        let (wanted_bytes, victim, next) = (0, None, [None; LogKind::COUNT]);
        Budget { steps, if_stuck, unit, must_gain, free_moves, wanted_bytes, victim, next }
    }

    pub(super) fn spend(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }
}
