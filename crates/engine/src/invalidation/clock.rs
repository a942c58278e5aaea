//! The stamp clock: a word of the file that only invalidations advance. Must not know what is
//! invalidated.
//!
//! The races: two invalidations get different values, because each replaces the value that it read.
//! A process that dies in between has only skipped a value.
//!
//! A power cut may bring back an earlier value. So each invalidation moves the clock at least to the
//! file's time, and so does the first process of each boot that opens the file for writing: it never
//! shows a value again that it had shown, as long as there is less than one invalidation per
//! microsecond.

use std::sync::atomic::Ordering;

use tuckbox_arena::mutants;

use crate::format::table;
use crate::storage::Context;

layer! {
    /// The stamp clock of a cache.
    #[derive(Clone, Copy)]
    Stamps(&'a Context)
}

impl Stamps<'_> {
    /// The offset of a word of the tables.
    pub(super) fn table_at(self, word: u64) -> u64 {
        self.arena.geometry().tables_at + word
    }

    /// What the clock shows: the stamp of an entry whose making begins now.
    #[inline]
    pub fn stamp(self) -> u64 {
        let shown = self.arena.region().load(self.table_at(table::STAMP_CLOCK), Ordering::Acquire);
        // A damaged clock. Entries that are stored before the next invalidation survive that one.
        shown.min(table::STAMPS_END - 1)
    }

    /// Advances the clock; a value that it never showed.
    pub(super) fn advance(self) -> u64 {
        let (at, region) = (self.table_at(table::STAMP_CLOCK), self.arena.region());
        let now_us = self.arena.now_us();
        loop {
            let shown = region.load(at, Ordering::Acquire);
            let next = self.after(shown, now_us);
            if region.replace(at, shown, next) {
                return next;
            }
        }
    }

    /// The next value of a clock that shows this one.
    fn after(self, shown: u64, now_us: u64) -> u64 {
        let now_us = if mutants::is_on("counting-stamps") { 0 } else { now_us };
        match shown {
            // Damaged: it would not leave room for more.
            table::STAMPS_END.. => now_us.max(1),
            shown => (shown + 1).max(now_us).min(table::STAMPS_END),
        }
    }

    /// Moves the clock at least to a value, for a copy of a cache.
    pub fn move_to(self, least: u64) {
        let (at, region) = (self.table_at(table::STAMP_CLOCK), self.arena.region());
        loop {
            let shown = region.load(at, Ordering::Acquire);
            if shown >= least || region.replace(at, shown, least) {
                return;
            }
        }
    }

    /// Moves the clock past the file's time, unless a process of this boot has done so.
    ///
    /// The races: two processes both find that nobody has; then the clock moves twice. A process dies
    /// before it has noted the boot: the next one moves the clock again.
    pub fn begin_boot(self) {
        let (at, region) = (self.table_at(table::CLOCK_BOOT), self.arena.region());
        let boot = self.arena.boot();
        if boot == 0 || region.load(at, Ordering::Acquire) != boot {
            self.advance();
            region.store(at, boot, Ordering::Release);
        }
    }
}
