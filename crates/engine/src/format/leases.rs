//! The tables of a shard that leases use: counters of invalidations, then rows of makers. Must not
//! know what they are used for.

use super::hash::KeyHash;

/// Offsets in a row.
pub mod maker {
    /// The hash of the key. Of no meaning while [`CLAIM`] is zero.
    pub const HASH: u64 = 0;
    /// The claim of the process that makes the value; 0: the row is free.
    pub const CLAIM: u64 = HASH + 8;
    /// Bytes of a row.
    pub const ROW_BYTES: u64 = CLAIM + 8;
}

/// A small cache has a counter for this many bytes,
const COUNTER_FOR_EACH_BYTES: u64 = 2 << 10;
/// up to this many: ten deletes of other keys refuse 0.24 % of the makers;
const COUNTERS_SMALL: u64 = 4 << 10;
/// a large cache has one for this many bytes,
const COUNTER_FOR_EACH_BYTES_LARGE: u64 = 16 << 10;
/// up to this many.
const COUNTERS_MAX: u64 = 64 << 10;
/// A row for this many bytes of a shard's share.
const ROW_FOR_EACH_BYTES: u64 = 16 << 10;
const ROWS_MIN: u64 = 4;
const ROWS_MAX: u64 = 256;
const LINE_BYTES: u64 = 64;

/// The lengths of both tables of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTables {
    /// Counters of invalidations: whole cache lines of them.
    pub counters: u64,
    /// Rows of makers: whole cache lines of them.
    pub rows: u64,
}

impl LeaseTables {
    /// For each shard of a cache of this size.
    pub fn new(size_bytes: u64, shard_count: u64) -> LeaseTables {
        let shard_count = shard_count.max(1);
        let small = (size_bytes / COUNTER_FOR_EACH_BYTES).min(COUNTERS_SMALL);
        let counters = (size_bytes / COUNTER_FOR_EACH_BYTES_LARGE).min(COUNTERS_MAX).max(small);
        let rows = (size_bytes / shard_count / ROW_FOR_EACH_BYTES).clamp(ROWS_MIN, ROWS_MAX);
        let (per_line, rows_per_line) = (LINE_BYTES / 8, LINE_BYTES / maker::ROW_BYTES);
        LeaseTables {
            counters: (counters / shard_count / per_line).max(1) * per_line,
            rows: rows / rows_per_line * rows_per_line,
        }
    }

    /// Bytes of both tables.
    pub fn len_bytes(self) -> u64 {
        self.counters * 8 + self.rows * maker::ROW_BYTES
    }

    /// The offset of a key's counter, from the start of the tables.
    #[inline(always)]
    pub fn counter_at(self, hash: KeyHash) -> u64 {
        ((u64::from(hash.first()) * self.counters) >> 32) * 8
    }

    /// The offsets of the rows, from the start of the tables.
    pub fn rows_at(self) -> impl Iterator<Item = u64> {
        (0..self.rows).map(move |row| self.counters * 8 + row * maker::ROW_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole_lines_and_a_small_part_of_the_cache() {
        for shift in 16..43 {
            for shard_count in [1, 4, 16, 64] {
                let size_bytes = 1u64 << shift;
                let tables = LeaseTables::new(size_bytes, shard_count);
                assert_eq!(tables.len_bytes() % LINE_BYTES, 0);
                let most = COUNTERS_MAX.min(size_bytes / COUNTER_FOR_EACH_BYTES);
                assert!(tables.counters * shard_count <= most.max(8 * shard_count));
                for hash in [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX] {
                    assert!(tables.counter_at(KeyHash(hash)) < tables.counters * 8);
                }
                assert!(tables.rows_at().all(|at| at < tables.len_bytes()));
            }
        }
        assert_eq!(LeaseTables::new(64 << 10, 1), LeaseTables { counters: 32, rows: 4 });
        assert_eq!(LeaseTables::new(1 << 20, 1), LeaseTables { counters: 512, rows: 64 });
        assert_eq!(LeaseTables::new(8 << 20, 1), LeaseTables { counters: 4_096, rows: 256 });
        assert_eq!(LeaseTables::new(64 << 20, 4), LeaseTables { counters: 1_024, rows: 256 });
        assert_eq!(LeaseTables::new(1 << 30, 16), LeaseTables { counters: 4_096, rows: 256 });
    }
}
