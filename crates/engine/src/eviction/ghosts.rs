//! Ghosts: what the policy remembers of keys that were evicted or removed. Must not decide what
//! follows from it.
//!
//! Each bucket of the index has a row of fifteen ghosts of two bytes, newest first: a fingerprint
//! of the key, its last frequency, and its last log. A ghost needs no time stamp: at position `j`
//! it was added about `(j + 1/2) x rows` evictions ago.
//!
//! Rows are in segments of their own, which are taken at the first eviction or when the pool is
//! nearly empty: while all entries fit, there is nothing to remember. A row without a segment
//! remembers nothing.

use tuckbox_arena::region::Region;

use super::target::Eviction;
use crate::format::{bucket_of, shard, KeyHash};

/// Ghosts in a row; its sixteenth part is the number of halvings when it was last used.
const ROW_LEN: usize = 15;
const MAIN_MARK: u16 = 1 << 3;
const FREQUENCY_MASK: u16 = 0b111;

/// What is remembered of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ghost {
    /// Its frequency, halved since then as often as all others.
    pub frequency: u64,
    /// Whether it was evicted from the main log.
    pub from_main: bool,
    /// About how many entries were evicted since.
    pub age: u64,
}

/// A row of ghosts, copied from the file.
pub(super) struct Row {
    at: u64,
    ghosts: [u16; ROW_LEN],
    halvings: u16,
}

impl Row {
    /// Reads the row at an offset and halves its frequencies up to now.
    pub(super) fn load(region: &Region, at: u64, halvings: u64) -> Row {
        let words: [u64; 4] = region.view(at).words();
        let mut parts = [0u16; ROW_LEN + 1];
        for (index, part) in parts.iter_mut().enumerate() {
            *part = (words[index / 4] >> (index % 4 * 16)) as u16;
        }
        let mut ghosts = [0u16; ROW_LEN];
        ghosts.copy_from_slice(&parts[..ROW_LEN]);
        let halvings = halvings as u16;
        let passed = halvings.wrapping_sub(parts[ROW_LEN]).min(7);
        if passed > 0 {
            for ghost in &mut ghosts {
                let frequency = (*ghost & FREQUENCY_MASK) >> passed;
                *ghost = *ghost & !FREQUENCY_MASK | frequency;
            }
        }
        Row { at, ghosts, halvings }
    }

    /// Writes the row back.
    pub(super) fn store(&self, region: &Region) {
        let mut words = [0u64; 4];
        for (index, part) in self.ghosts.iter().chain([&self.halvings]).enumerate() {
            words[index / 4] |= u64::from(*part) << (index % 4 * 16);
        }
        region.copy_in(self.at, &words);
    }

    /// Removes and returns a ghost, if it is in this row, one of `rows`.
    pub(super) fn take(&mut self, fingerprint: u16, rows: u64) -> Option<Ghost> {
        let place = self.ghosts.iter().position(|ghost| ghost >> 4 == fingerprint)?;
        let ghost = self.ghosts[place];
        self.ghosts.copy_within(place + 1.., place);
        self.ghosts[ROW_LEN - 1] = 0;
        Some(Ghost {
            frequency: u64::from(ghost & FREQUENCY_MASK),
            from_main: ghost & MAIN_MARK != 0,
            age: (2 * place as u64 + 1) * rows / 2,
        })
    }

    /// Adds a ghost. In a full row it replaces the oldest of those with the lowest frequency.
    pub(super) fn put(&mut self, fingerprint: u16, frequency: u64, from_main: bool) {
        let frequency_of = |ghost: u16| if ghost == 0 { 0 } else { 1 + (ghost & FREQUENCY_MASK) };
        let (out, _) = self
            .ghosts
            .iter()
            .enumerate()
            .rev()
            .min_by_key(|(_, ghost)| frequency_of(**ghost))
            .expect("a row is not empty");
        self.ghosts.copy_within(0..out, 1);
        let mark = if from_main { MAIN_MARK } else { 0 };
        self.ghosts[0] = fingerprint << 4 | mark | frequency.min(7) as u16;
    }
}

impl Eviction<'_> {
    fn ghost_row(&self, hash: KeyHash) -> Option<Row> {
        let bucket = bucket_of(hash.first(), self.index_state().buckets());
        let at = self.cx.ghosts_at(self.at, bucket)?;
        Some(Row::load(self.region(), at, self.word(shard::HALVINGS)))
    }

    /// Removes and returns the ghost of a key, if there is one.
    pub fn take_ghost(&self, hash: KeyHash) -> Option<Ghost> {
        let mut row = self.ghost_row(hash)?;
        let rows = u64::from(self.index_state().buckets());
        let ghost = row.take(hash.fingerprint(), rows)?;
        row.store(self.region());
        Some(ghost)
    }

    /// Remembers a key that leaves the cache, if it has a row.
    pub fn put_ghost(&self, hash: KeyHash, frequency: u64, from_main: bool) {
        let Some(mut row) = self.ghost_row(hash) else { return };
        row.put(hash.fingerprint(), frequency, from_main);
        row.store(self.region());
    }

    /// Makes sure that an evicted key has a row while the pool has segments, which is so if the
    /// limit of entries binds. If the byte limit binds, the logs have done it.
    #[inline]
    pub fn prepare_ghost(&self, hash: KeyHash) {
        let bucket = self.choices(hash).0;
        if !self.has_ghosts_of(bucket) && !self.pool_is_scarce() {
            self.open_ghosts(bucket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Config, Place, Ttl, Value};

    fn row() -> Row {
        Row { at: 0, ghosts: [0; ROW_LEN], halvings: 0 }
    }

    #[test]
    fn a_ghost_comes_back_with_its_frequency_and_age() {
        let mut row = row();
        row.put(7, 5, true);
        row.put(8, 1, false);
        let ghost = row.take(7, 10).unwrap();
        assert_eq!((ghost.frequency, ghost.from_main, ghost.age), (5, true, 15));
        assert_eq!(row.take(7, 10), None);
        assert_eq!(row.take(8, 10).unwrap().age, 5);
    }

    #[test]
    fn a_full_row_forgets_the_oldest_of_the_lowest_frequency() {
        let mut row = row();
        row.put(100, 3, false);
        for fingerprint in 1..ROW_LEN as u16 {
            row.put(fingerprint, 1, false);
        }
        row.put(50, 1, false);
        assert_eq!(row.take(1, 1), None);
        assert_eq!(row.take(100, 1).unwrap().frequency, 3);
        assert!(row.take(2, 1).is_some());
    }

    #[test]
    fn frequencies_are_halved_as_often_as_all_others() {
        let region = Region::heap(4096);
        let mut row = Row { at: 64, ..row() };
        row.put(9, 6, false);
        row.store(&region);
        assert_eq!(Row::load(&region, 64, 1).take(9, 1).unwrap().frequency, 3);
        assert_eq!(Row::load(&region, 64, 60_000).take(9, 1).unwrap().frequency, 0);
    }

    /// Entries evicted for their bytes are remembered as well as those evicted for their number.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn every_bucket_of_a_full_cache_has_ghosts() {
        for (size_bytes, max_entries) in
            [(64 << 10, None), (1 << 20, None), (40 << 20, None), (8 << 20, Some(3_000))]
        {
            let config = Config { size_bytes, max_entries, ..Config::default() };
            let cache = Cache::open(&Place::Private, &config).unwrap();
            let mut number = 0u64;
            while cache.stats().evictions < 20_000 {
                for _ in 0..1_000 {
                    number += 1;
                    let key = number.to_le_bytes();
                    cache.set(&key, Value::bytes(&[7; 160]), Ttl::Never).unwrap();
                }
            }
            for index in 0..cache.cx.shape.shard_count {
                let shard = cache.writes().lock(index).unwrap();
                let missing =
                    (0..shard.bucket_count()).find(|bucket| !shard.has_ghosts_of(*bucket));
                assert_eq!(missing, None, "shard {index} of a cache of {size_bytes} bytes");
            }
        }
    }
}
