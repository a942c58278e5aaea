//! The gate: words of the file by which one party, who has a lock of its own, keeps all others from
//! changing entries, and by which all count what they store. Must not know what is counted.
//!
//! A change *passes* if the gate is open and has not been closed since the party looked. It is compared
//! under the shard's lock. Who closes the gate marks it as closing, takes the lock of each shard once,
//! and marks it as closed: then no change that saw it open is still under way. In the end it opens the
//! gate, or marks it as left: then it is as closed, but nobody needs to wait for its opening.
//!
//! The races:
//! - *A change and a closing.* Either the change had its shard's lock first, and is complete when the
//!   closer gets that lock; or it gets the lock afterwards, and so sees the mark.
//! - *A gate that was opened again* has another value, because each closing counts. So a change that
//!   looked before is refused.
//! - *A death* of a closer leaves the gate closing or closed. All changes are refused until the next
//!   holder of the closer's own lock opens it. If it was closing, that one passes the locks again.
//! - *A death in a change* leaves the entry as it was or as it should be: a change writes a new record.
//!   Nobody knows which, and so the weight. So a change that adds to it counts itself in the same word
//!   from before its entry until after it. Whoever closes the gate sees a count that is left, and must
//!   add up the weight again.
//! - *A number* is taken after the gate was seen open. If its change passes, all numbers of former holders
//!   are lower, and all of later ones higher. One that is refused has only skipped a number.

use std::sync::atomic::Ordering;

use super::context::Context;
use crate::format::{gate, table};

impl Context {
    fn in_tables(&self, offset: u64) -> u64 {
        self.arena.geometry().tables_at + offset
    }

    /// The gate's word: see [`gate`].
    pub fn gate(&self) -> u64 {
        self.arena.region().load(self.in_tables(table::GATE), Ordering::Acquire)
    }

    /// Replaces the gate's word. For the one party that may.
    pub fn set_gate(&self, word: u64) {
        self.arena.region().store(self.in_tables(table::GATE), word, Ordering::Release);
    }

    /// A number after all that were given.
    pub fn next_number(&self) -> u64 {
        self.arena.region().add(self.in_tables(table::LAST_NUMBER), 1).wrapping_add(1)
    }

    /// The last number that was given.
    pub fn last_number(&self) -> u64 {
        self.arena.region().get(self.in_tables(table::LAST_NUMBER))
    }

    /// Adds to the weight, and returns it, without the count of changes that have begun.
    pub fn weigh(&self, delta: i64) -> i64 {
        let (region, at) = (self.arena.region(), self.in_tables(table::WEIGHT));
        let before = if delta == 0 { region.get(at) } else { region.add(at, delta as u64) };
        (before as i64).wrapping_add(delta) << gate::ABOVE_WEIGHT >> gate::ABOVE_WEIGHT
    }

    /// Whether a change has begun that has not ended. If the gate is closed, its process has died.
    pub fn has_begun(&self) -> bool {
        self.arena.region().get(self.in_tables(table::WEIGHT)) as i64 != self.weigh(0)
    }

    /// Replaces the weight. For who has closed the gate.
    pub fn set_weight(&self, weight: i64) {
        self.arena.region().set(self.in_tables(table::WEIGHT), weight as u64);
    }

    /// Gives this new file, which nobody else uses yet, the numbers and the weight of a former one. Its
    /// gate has the same state, but a change that looked at the former file's does not pass.
    pub fn continue_gate(&self, former: &Context) {
        let region = self.arena.region();
        region.set(self.in_tables(table::GATE), former.gate().wrapping_add(gate::TURN));
        region.set(self.in_tables(table::LAST_NUMBER), former.last_number());
        let weight = former.arena.region().get(former.in_tables(table::WEIGHT));
        region.set(self.in_tables(table::WEIGHT), weight);
    }
}
