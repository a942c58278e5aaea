//! How much one slice of eviction may do, so that no write does much of it and no damaged file makes
//! it go on for ever.

use super::capacity::Unit;
use super::SLICE;

/// Attempts without gain before entries are dropped that should have been moved.
const PATIENCE: u64 = 16;
/// Of so many entries looked at, one may move to the main log without a duel.
const FREE_MOVE_EACH: u32 = 8;

/// What to do about an entry that is to be moved, so that its segment becomes free, when there is no
/// room to move it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfStuck {
    /// Leave it: others may give a segment.
    Stop,
    /// Drop it: they did not.
    Drop,
}

impl IfStuck {
    /// After so many attempts that gained nothing.
    pub fn after(attempts: u64) -> IfStuck {
        if attempts < PATIENCE {
            IfStuck::Stop
        } else {
            IfStuck::Drop
        }
    }
}

/// Counts what a slice may still do.
pub(super) struct Budget {
    pub(super) steps: u32,
    pub(super) if_stuck: IfStuck,
    pub(super) unit: Unit,
    /// Whether an entry has to go when the budget is spent, whatever its hits: a write that waits for
    /// room looks at a whole slice of entries, and shall not go round and round. Who only tidies up
    /// leaves what it began to the next one.
    pub(super) must_gain: bool,
    /// Moves to the main log, without a duel, while that has room: after the setting has changed it
    /// can have much, and no write shall do all of it.
    pub(super) free_moves: u32,
    /// What the newcomer takes, in the small log. The main log does not give way to one that is
    /// larger than the small log's share before that is empty.
    pub(super) wanted_bytes: u64,
}

impl Budget {
    pub(super) fn new(steps: u32, if_stuck: IfStuck, unit: Unit) -> Budget {
        let free_moves = 1 + steps / FREE_MOVE_EACH;
        Budget { steps, if_stuck, unit, must_gain: steps >= SLICE, free_moves, wanted_bytes: 0 }
    }

    pub(super) fn spend(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }
}
