//! The rows of makers: which process makes the value of which key. Must not know values.
//!
//! A row is taken only under its shard's lock, and released without it. It is never evicted. The
//! rows of dead makers are found when their key is wanted, or when all rows are taken.

use std::sync::atomic::Ordering;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::Claim;

use crate::error::Result;
use crate::format::{maker, KeyHash};
use crate::storage::{Context, Shard};

/// A row with a maker.
#[derive(Debug, Clone, Copy)]
pub struct MakerRow {
    /// Where its claim is.
    pub claim_at: u64,
    /// The claim's word.
    pub word: u64,
}

impl Context {
    /// The rows of a shard that are taken, with the hashes of their keys. Needs no lock.
    fn makers(&self, shard_at: u64) -> impl Iterator<Item = (KeyHash, MakerRow)> + '_ {
        let tables_at = self.lease_tables_at(shard_at);
        let row = move |at: u64| {
            let (region, claim_at) = (self.arena.region(), tables_at + at + maker::CLAIM);
            // First: a row is named before it is claimed.
            let word = region.load(claim_at, Ordering::Acquire);
            let hash = KeyHash(region.get(tables_at + at + maker::HASH));
            (word != 0).then_some((hash, MakerRow { claim_at, word }))
        };
        self.shape.leases.rows_at().filter_map(row)
    }

    /// The row of the key's maker, dead or alive. Needs no lock.
    pub fn maker_of(&self, shard_at: u64, hash: KeyHash) -> Option<MakerRow> {
        let is_its = |(of, _): &(KeyHash, MakerRow)| *of == hash;
        self.makers(shard_at).find(is_its).map(|(_, row)| row)
    }
}

impl Shard<'_> {
    /// Whether a live process makes the value of the key. Frees the row of a dead one.
    pub fn is_being_made(&self, hash: KeyHash) -> bool {
        let arena = self.arena();
        let Some(row) = self.cx.maker_of(self.at, hash) else { return false };
        if arena.is_claimed(row.word) {
            return !tuckbox_arena::mutants::is_on("two-makers");
        }
        arena.release_word(row.claim_at, row.word);
        false
    }

    /// Takes a row for the key, which has none. A claim of nothing if live makers have all rows.
    pub fn claim_row(&self, hash: KeyHash) -> Result<Claim> {
        let Some(at) = self.free_row().or_else(|| self.free_row_of_the_dead()) else {
            return Ok(self.arena().claim_nothing());
        };
        self.region().set(at + maker::HASH, hash.0);
        hooks::reach(Point::MakerNamed);
        // A version is used up for it: no two claims of a row have the same.
        Ok(self.arena().claim(at + maker::CLAIM, self.next_version())?)
    }

    fn free_row(&self) -> Option<u64> {
        let tables_at = self.cx.lease_tables_at(self.at);
        let is_free = |at: &u64| self.region().load(at + maker::CLAIM, Ordering::Acquire) == 0;
        self.cx.shape.leases.rows_at().map(|at| tables_at + at).find(is_free)
    }

    /// Frees the rows of makers that died, and finds one of them.
    #[cold]
    fn free_row_of_the_dead(&self) -> Option<u64> {
        let arena = self.arena();
        // Many rows may be of one owner, and each question is a system call.
        let mut lives = None;
        for (_, row) in self.cx.makers(self.at) {
            let owner = (row.word as u32) << 1;
            if lives == Some(owner) {
                continue;
            }
            if arena.is_claimed(row.word) {
                lives = Some(owner);
            } else {
                arena.release_word(row.claim_at, row.word);
            }
        }
        self.free_row()
    }
}
