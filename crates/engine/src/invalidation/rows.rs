//! The rows of tags and of namespaces. Owns how the row of a name is found, taken and read. Must not
//! know entries.
//!
//! A name has its row among [`table::WINDOW`] ones, the first of which follows from its hash. The row
//! is taken when the name is first invalidated, and kept as long as the file exists. If all rows of
//! the window have other names, the name shares its first row: what invalidates one of the two
//! invalidates both.
//!
//! Rows are read without a lock, and changed under the lock of a shard, so that a resize, which holds
//! all locks, misses no change. Different tags may have different locks; namespaces have the same.
//! The races:
//!
//! - *Two writers take rows*: by compare-and-swap of the hash. The one that loses goes on with what is
//!   there now, which may be its own name.
//! - *A reader looks while a row is taken*: an empty row means that the name was never invalidated,
//!   so this read came first. A row without a value yet invalidates nothing.
//! - *A window becomes full*: a name without a row then shares one, and its entries may become
//!   invalid. It never gets a row of its own afterwards, because rows are not freed.
//! - *A writer dies*: it has changed nothing, or taken a row, or finished.
//! - *A reader has copied an entry whose tag is evicted now*: if it looks at the row after the
//!   eviction has returned, it finds the new value; otherwise the read came first.

use std::sync::atomic::Ordering;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;

use super::clock::Stamps;
use crate::format::{namespace_row, table, tag_row};
use crate::storage::Context;

layer! {
    /// The rows of a cache.
    #[derive(Clone, Copy)]
    Rows(Stamps<'a>)
}

/// The shard under whose lock the rows of namespaces are changed.
pub const SHARD_OF_NAMESPACES: u64 = 0;

/// Which rows: the same code for both kinds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tags,
    Namespaces,
}

/// The row of a name.
enum Row {
    /// Its own, or the one that it shares, by its offset in the file.
    At(u64),
    /// It has none: an empty row for it.
    Free(u64),
}

/// A word of the file by its offset, and the value that it had.
pub type Watched = (u64, u64);

/// The hash of a tag's or a namespace's name: the same in every copy of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameHash(u64);

/// The rows of a cache.
pub fn rows(cx: &Context) -> Rows<'_> {
    Rows(Stamps(cx))
}

impl<'a> Rows<'a> {
    /// Hashes a name. By the cache's id, which a resized file keeps, not by the file's own key.
    pub fn name_hash(self, name: &[u8]) -> NameHash {
        NameHash(self.name_hasher.bytes(name).max(1))
    }

    /// The shard under whose lock a tag's row is changed.
    pub fn shard_of_tag(self, tag: NameHash) -> u64 {
        tag.0 % self.shape.shard_count
    }

    /// How many rows a name's own can be among.
    fn window(self, kind: Kind) -> u64 {
        table::WINDOW.min(match kind {
            Kind::Tags => self.shape.tag_rows,
            Kind::Namespaces => self.shape.namespace_rows,
        })
    }

    fn row_at(self, kind: Kind, row: u64) -> u64 {
        self.table_at(match kind {
            Kind::Tags => self.shape.tag_row_at(row),
            Kind::Namespaces => self.shape.namespace_row_at(row),
        })
    }

    /// The row of a name.
    fn find(self, kind: Kind, name: NameHash) -> Row {
        let first = name.0 >> 32;
        for row in first..first + self.window(kind) {
            let at = self.row_at(kind, row);
            match self.arena.region().load(at, Ordering::Acquire) {
                0 => return Row::Free(at),
                hash if hash == name.0 => return Row::At(at),
                _ => {}
            }
        }
        Row::At(self.row_at(kind, first))
    }

    /// The row of a name, which gets one if it has none. The caller holds the name's lock.
    fn take(self, kind: Kind, name: NameHash, prepare: impl Fn(u64)) -> u64 {
        loop {
            match self.find(kind, name) {
                Row::At(at) => return at,
                Row::Free(at) => {
                    prepare(at);
                    if self.arena.region().replace(at, 0, name.0) {
                        hooks::reach(Point::RowTaken);
                        return at;
                    }
                }
            }
        }
    }

    /// Stores a value in a word of a row, unless it has a later one. One from beyond the clock is
    /// damaged.
    fn raise(self, at: u64, value: u64) {
        loop {
            let found = self.arena.region().load(at, Ordering::Acquire);
            let is_later = found >= value && found <= self.stamp();
            if is_later || self.arena.region().replace(at, found, value) {
                return;
            }
        }
    }

    /// Invalidates all entries with this tag that are there now, or makes them stale. The caller
    /// holds the lock of [`Rows::shard_of_tag`].
    pub fn evict(self, tag: NameHash, soft: bool) {
        let row = self.take(Kind::Tags, tag, |_| ());
        let value = self.advance();
        hooks::reach(Point::StampAdvanced);
        if mutants::is_on("eviction-forgotten") {
            return;
        }
        self.raise(row + if soft { tag_row::STALED } else { tag_row::INVALIDATED }, value);
    }

    /// The latest invalidation of a tag, and the latest that made its entries stale; 0 if none.
    pub(super) fn evictions_of(self, tag: NameHash) -> (u64, u64) {
        let Row::At(at) = self.find(Kind::Tags, tag) else { return (0, 0) };
        let word = |word| self.arena.region().load(at + word, Ordering::Acquire);
        if mutants::is_on("full-rows-forget") && word(tag_row::TAG) != tag.0 {
            return (0, 0);
        }
        (word(tag_row::INVALIDATED), word(tag_row::STALED))
    }

    /// Whether the entries of a tag that have this stamp are invalid.
    pub fn is_evicted_since(self, tag: NameHash, stamp: u64) -> bool {
        self.evictions_of(tag).0 > stamp
    }

    /// The era of a namespace, at least 1: a value that the clock shows before any invalidation.
    pub fn era(self, name: NameHash) -> u64 {
        let at = match self.find(Kind::Namespaces, name) {
            Row::At(at) => at + namespace_row::ERA,
            Row::Free(_) => self.table_at(table::BASE_ERA),
        };
        self.arena.region().load(at, Ordering::Acquire).max(1)
    }

    /// As [`Rows::era`], and adds the words that change when another era begins.
    pub fn watch_era(self, name: NameHash, watched: &mut Vec<Watched>) -> u64 {
        let at = match self.find(Kind::Namespaces, name) {
            Row::At(at) => at + namespace_row::ERA,
            Row::Free(at) => {
                watched.push((at, 0));
                self.table_at(table::BASE_ERA)
            }
        };
        let era = self.arena.region().load(at, Ordering::Acquire);
        watched.push((at, era));
        era.max(1)
    }

    /// Adds the words that change when one of these tags is evicted.
    pub fn watch_tags<'t>(self, tags: impl Iterator<Item = &'t [u8]>, watched: &mut Vec<Watched>) {
        for tag in tags {
            match self.find(Kind::Tags, self.name_hash(tag)) {
                Row::Free(at) => watched.push((at, 0)),
                Row::At(at) => watched.extend(
                    [at + tag_row::INVALIDATED, at + tag_row::STALED]
                        .map(|word| (word, self.arena.region().load(word, Ordering::Acquire))),
                ),
            }
        }
    }

    /// Gives a namespace an era that it never had. The caller holds the lock of
    /// [`SHARD_OF_NAMESPACES`].
    pub fn advance_era(self, name: NameHash) -> u64 {
        let era = self.advance();
        self.set_era(name, era);
        era
    }

    fn set_era(self, name: NameHash, era: u64) {
        // Before the row has the name: a reader would find era 0 there.
        let first = |at: u64| self.arena.region().set(at + namespace_row::ERA, era);
        let at = self.take(Kind::Namespaces, name, first) + namespace_row::ERA;
        self.raise(at, era);
    }

    /// Continues the clock and the eras of another file, in one that nobody else uses yet. The caller
    /// holds all locks of the other one. The rows of tags begin empty: no invalid entry is copied.
    ///
    /// If names may have shared rows there, every namespace gets an era that it never had. Otherwise a
    /// name that had the era of another one's row could meet that era again, after it had others.
    pub fn continue_from(self, former: Rows<'_>) {
        self.move_to(former.stamp());
        let base_era = match former.may_share_eras() {
            true => self.advance(),
            false => former.arena.region().get(former.table_at(table::BASE_ERA)),
        };
        self.arena.region().set(self.table_at(table::BASE_ERA), base_era);
        if former.may_share_eras() && !mutants::is_on("shared-eras-kept") {
            return;
        }
        for (name, era) in former.namespaces(former.shape.namespace_rows) {
            if name.0 != 0 && matches!(self.find(Kind::Namespaces, name), Row::Free(_)) {
                self.set_era(name, era);
            }
        }
    }

    /// This many rows of namespaces, from the first one on: names, 0 if free, and eras.
    fn namespaces(self, count: u64) -> impl Iterator<Item = (NameHash, u64)> + use<'a> {
        (0..count).map(move |row| {
            let at = self.row_at(Kind::Namespaces, row);
            let region = self.arena.region();
            (NameHash(region.get(at)), region.get(at + namespace_row::ERA))
        })
    }

    /// Whether a namespace may share a row: all rows of a window are taken.
    fn may_share_eras(self) -> bool {
        let window = self.window(Kind::Namespaces);
        let (mut in_a_row, mut most_in_a_row) = (0, 0);
        for (name, _) in self.namespaces(self.shape.namespace_rows + window) {
            in_a_row = if name.0 == 0 { 0 } else { in_a_row + 1 };
            most_in_a_row = in_a_row.max(most_in_a_row);
        }
        most_in_a_row >= window
    }
}
