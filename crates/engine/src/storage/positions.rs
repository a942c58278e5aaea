//! Positions in the order of insertion: a word of the file that only grows. Must not know which
//! entries get one.
//!
//! The races: two insertions get different positions, because each replaces the word that it read. A
//! process that dies in between has only skipped a position.
//!
//! A power cut may bring back an earlier word. So each insertion moves it at least to the file's
//! time: as long as there is less than one insertion per microsecond, no position is given twice.

use std::sync::atomic::Ordering;

use tuckbox_arena::mutants;

use super::context::Context;
use crate::format::table;

impl Context {
    /// The last position that was given. An earlier one, if the word is damaged.
    pub fn last_position(&self) -> u64 {
        let at = self.arena.geometry().tables_at + table::LAST_POSITION;
        self.arena.region().load(at, Ordering::Acquire)
    }

    /// A position after all that were given.
    pub fn next_position(&self) -> u64 {
        let now_us = if mutants::is_on("counting-positions") { 0 } else { self.arena.now_us() };
        self.move_position(now_us)
    }

    /// Gives a position after all that were given, and not before `least`.
    pub fn move_position(&self, least: u64) -> u64 {
        let at = self.arena.geometry().tables_at + table::LAST_POSITION;
        loop {
            let last = self.last_position();
            let next = match last {
                // Damaged: it would not leave room for more.
                table::STAMPS_END.. => least.max(1),
                last => (last + 1).max(least).min(table::STAMPS_END),
            };
            if self.arena.region().replace(at, last, next) {
                return next;
            }
        }
    }
}
