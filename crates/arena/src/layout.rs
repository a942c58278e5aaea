//! Where things are in the file: the only place that defines an offset of the arena.
//!
//! ```text
//! header page | process slots | segment tables | shards | tables | pool of segments ...
//! ```
//!
//! All numbers are 64-bit words in the machine's byte order. A cache cannot be moved to a machine
//! of another kind: the header's byte-order mark refuses it. Must not know what is inside a shard,
//! a table or a segment; that is the layer above.

use crate::error::{Error, Result};
use crate::free_map::FreeMap;
use crate::region::Pool;

/// The header page: constants of this file, then words that change.
pub const HEADER_BYTES: u64 = 4096;
/// The first eight bytes.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"Tuckbox\x1a");
/// The format that this build writes and reads.
pub const FORMAT_VERSION: u64 = 1;
/// Reads differently on a machine of the other byte order.
pub const BYTE_ORDER_MARK: u64 = 0x0102_0304_0506_0708;

/// The largest cache. The layer above has 40 bits for an offset, in units of eight bytes.
pub const SIZE_BYTES_MAX: u64 = 1 << 43;

/// Offsets in the header page. The first five fields keep their place in every version (frozen
/// prefix).
pub mod header {
    use super::HEADER_BYTES;

    /// [`super::MAGIC`].
    pub const MAGIC: u64 = 0;
    /// [`super::FORMAT_VERSION`].
    pub const FORMAT_VERSION: u64 = MAGIC + 8;
    /// [`super::BYTE_ORDER_MARK`].
    pub const BYTE_ORDER: u64 = FORMAT_VERSION + 8;
    /// A hash of all sizes and offsets that two builds must share.
    pub const LAYOUT_SIGNATURE: u64 = BYTE_ORDER + 8;
    /// Random, 16 bytes; tells two caches apart.
    pub const CACHE_ID: u64 = LAYOUT_SIGNATURE + 8;
    /// Random, 16 bytes; keys the hash of keys and the checksums.
    pub const HASH_KEY: u64 = CACHE_ID + 16;
    /// Features that a reader must know; an unknown bit refuses the file. See
    /// [`super::AfterPowerCut`].
    pub const FEATURES_REQUIRED: u64 = HASH_KEY + 16;
    /// Features that a reader may ignore.
    pub const FEATURES_OPTIONAL: u64 = FEATURES_REQUIRED + 8;
    /// The byte limit; the file never grows past it.
    pub const SIZE_BYTES: u64 = FEATURES_OPTIONAL + 8;
    /// The limit of entries, 0 for none. Belongs to the layer above.
    pub const MAX_ENTRIES: u64 = SIZE_BYTES + 8;
    /// Bytes in a segment, a power of two.
    pub const SEGMENT_BYTES: u64 = MAX_ENTRIES + 8;
    /// Segments in the pool when the file has its full length.
    pub const SEGMENT_COUNT: u64 = SEGMENT_BYTES + 8;
    /// Number of shards.
    pub const SHARD_COUNT: u64 = SEGMENT_COUNT + 8;
    /// Bytes from one shard to the next.
    pub const SHARD_BYTES: u64 = SHARD_COUNT + 8;
    /// Bytes of the tables that all shards share.
    pub const TABLE_BYTES: u64 = SHARD_BYTES + 8;
    /// Number of process slots.
    pub const PROCESS_COUNT: u64 = TABLE_BYTES + 8;
    /// When the file was created, in microseconds since 1970.
    pub const CREATED_US: u64 = PROCESS_COUNT + 8;
    /// Checksum of all bytes before it.
    pub const CHECKSUM: u64 = CREATED_US + 8;
    /// End of the part that never changes.
    pub const FIXED_END: u64 = CHECKSUM + 8;

    /// Whether the last use of the cache was closed in order, see `use_mark`. It has a sector of
    /// its own, so that a power cut leaves the last mark that was synced.
    pub const USE_MARK: u64 = 512;
    /// How often the cache was emptied after a power cut.
    pub const DISCARDS: u64 = USE_MARK + 8;

    /// Lock word of the use mark and of the clock rows.
    pub const HEADER_LOCK: u64 = 1024;
    /// The latest file time that a process recorded, in microseconds.
    pub const LAST_SEEN_US: u64 = HEADER_LOCK + 64;
    /// Which clock row is replaced next.
    pub const CLOCK_NEXT: u64 = LAST_SEEN_US + 8;
    /// The clock rows: one for each boot and time namespace that used the file recently.
    pub const CLOCK_ROWS: u64 = CLOCK_NEXT + 8;
    /// Number of clock rows.
    pub const CLOCK_ROW_COUNT: u64 = 8;
    /// A clock row: boot (hash of the boot id, 0 for none), time namespace, anchor, checksum of
    /// these.
    pub const CLOCK_ROW_BYTES: u64 = 32;
    /// End of the words that change.
    pub const CHANGING_END: u64 = CLOCK_ROWS + CLOCK_ROW_COUNT * CLOCK_ROW_BYTES;

    const _: () = assert!(FIXED_END <= USE_MARK && DISCARDS + 8 <= HEADER_LOCK);
    const _: () = assert!(CHANGING_END <= HEADER_BYTES);
}

/// Offsets in a process slot.
pub mod process {
    /// Bits 0..32 the incarnation, bit 32 set while the slot is taken.
    pub const STATE: u64 = 0;
    /// Process id, in the namespace of [`PID_NAMESPACE`].
    pub const PID: u64 = STATE + 8;
    /// When the process started, in clock ticks since boot.
    pub const START_TICKS: u64 = PID + 8;
    /// Inode of the process's PID namespace.
    pub const PID_NAMESPACE: u64 = START_TICKS + 8;
    /// Where the process's stack begins, which an `exec` changes; 0 if unknown.
    pub const STACK_START: u64 = PID_NAMESPACE + 8;
    /// Three words of the layer above: what the handle's user asked of the file, 0 for nothing.
    pub const WISHES: u64 = STACK_START + 8;
    /// Number of words at [`WISHES`].
    pub const WISH_COUNT: u64 = 3;
    /// Eight counters, see `Counter`; never reset.
    pub const COUNTERS: u64 = 64;
    /// Bytes of a process slot.
    pub const SLOT_BYTES: u64 = COUNTERS + 64;
}

/// Words for each segment, each kind in an array over all segments.
pub mod segment {
    /// Counts the uses of the segment.
    pub const GENERATION: u64 = 0;
    /// The owner: see `segments::Owner`.
    pub const OWNER: u64 = 1;
    /// Four words whose meaning belongs to the layer above.
    pub const NOTES: u64 = 2;
    /// Words for each segment.
    pub const WORD_COUNT: u64 = 6;
}

/// What happens to the entries if the machine stopped before the cache was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub enum AfterPowerCut {
    /// They are kept. Entries that were deleted or overwritten shortly before may come back,
    /// because the kernel writes pages to the disk in any order.
    #[default]
    Keep,
    /// All are discarded.
    Discard,
}

impl AfterPowerCut {
    /// Every bit of [`header::FEATURES_REQUIRED`] that this build knows.
    pub(crate) const KNOWN_FEATURES: u64 = 1;

    pub(crate) fn features(self) -> u64 {
        u64::from(self == AfterPowerCut::Discard)
    }

    pub(crate) fn from_features(features: u64) -> AfterPowerCut {
        match features & AfterPowerCut::KNOWN_FEATURES {
            0 => AfterPowerCut::Keep,
            _ => AfterPowerCut::Discard,
        }
    }
}

/// What the layer above asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Byte limit of the file.
    pub size_bytes: u64,
    /// Stored and returned; 0 for none.
    pub max_entries: u64,
    /// Features of the layer above that a reader may ignore. Stored and returned.
    pub features_optional: u64,
    /// What happens to the entries after a power cut.
    pub after_power_cut: AfterPowerCut,
    /// Bytes in a segment, a power of two, at least 4096.
    pub segment_bytes: u64,
    /// Number of shards, at least 1.
    pub shard_count: u64,
    /// Bytes for each shard, a multiple of 64.
    pub shard_bytes: u64,
    /// Bytes of tables that the shards share, a multiple of 64.
    pub table_bytes: u64,
    /// Segments that must exist from the start.
    pub first_segments: u64,
}

/// What the arena must know about the layer above before it opens a file.
#[derive(Debug, Clone, Copy)]
pub struct Layer {
    /// A hash of the upper layer's part of the layout.
    pub signature: u64,
    /// Whether the layer creates files of this plan. Any other plan means damage: the parts may be
    /// too small for the layer. `first_segments` is 0, because no file stores it.
    pub makes: fn(&Plan) -> bool,
}

/// A private copy of the header's sizes and positions. All bounds are computed from this copy
/// alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// See [`Plan`]; after `open` the file's numbers, not the requested ones.
    pub plan: Plan,
    /// Number of process slots.
    pub process_count: u64,
    /// Segments in the pool when the file has its full length.
    pub segment_count: u64,
    /// Where the process slots begin.
    pub processes_at: u64,
    /// Where the segment tables begin.
    pub segments_at: u64,
    /// The map of free segments, behind the words of the tables.
    pub free_map: FreeMap,
    /// Where the shards begin.
    pub shards_at: u64,
    /// Where the shared tables begin.
    pub tables_at: u64,
    /// Where the pool begins; a multiple of 4096.
    pub pool_at: u64,
    segment_shift: u32,
    /// The bits of an offset within a segment.
    segment_mask: u64,
}

/// Number of process slots of caches from these sizes on.
const PROCESS_COUNTS: [(u64, u64); 3] = [(0, 32), (1 << 20, 128), (16 << 20, 1024)];

fn process_count_for(size_bytes: u64) -> u64 {
    let fitting = PROCESS_COUNTS.iter().rfind(|(least_bytes, _)| *least_bytes <= size_bytes);
    fitting.map_or(0, |(_, count)| *count)
}

/// The least size of a cache with more process slots than `count`, and how many it has.
pub fn more_processes_than(count: u64) -> Option<(u64, u64)> {
    PROCESS_COUNTS.into_iter().find(|(_, more)| *more > count)
}

impl Geometry {
    /// Lays out a file.
    ///
    /// # Errors
    /// [`Error::SizeTooSmall`] when not even the first segments fit, [`Error::SizeTooLarge`].
    pub fn new(plan: Plan) -> Result<Geometry> {
        if plan.size_bytes > SIZE_BYTES_MAX {
            let asked_bytes = plan.size_bytes;
            return Err(Error::SizeTooLarge { asked_bytes, most_bytes: SIZE_BYTES_MAX });
        }
        let process_count = process_count_for(plan.size_bytes);
        let processes_at = HEADER_BYTES;
        let segments_at = processes_at + process_count * process::SLOT_BYTES;
        let fixed_bytes = segments_at + plan.shard_count * plan.shard_bytes + plan.table_bytes;
        let map_of = |segment_count: u64| {
            FreeMap::new(segments_at + segment_count * segment::WORD_COUNT * 8, segment_count)
        };
        let table_bytes_of = |segment_count: u64| {
            let words_bytes = segment_count * segment::WORD_COUNT * 8;
            (words_bytes + map_of(segment_count).len_bytes()).next_multiple_of(64)
        };
        let place = |segment_count: u64| {
            (fixed_bytes + table_bytes_of(segment_count)).next_multiple_of(4096)
        };
        // Table length and segment count depend on each other; this estimate is a few segments too
        // high at most.
        let each_bytes = plan.segment_bytes + segment::WORD_COUNT * 8;
        let mut segment_count = plan.size_bytes.saturating_sub(fixed_bytes) / each_bytes;
        while segment_count > 0
            && place(segment_count) + segment_count * plan.segment_bytes > plan.size_bytes
        {
            segment_count -= 1;
        }
        if segment_count < plan.first_segments {
            let least_bytes = place(plan.first_segments) + plan.first_segments * plan.segment_bytes;
            return Err(Error::SizeTooSmall { asked_bytes: plan.size_bytes, least_bytes });
        }
        let shards_at = segments_at + table_bytes_of(segment_count);
        let tables_at = shards_at + plan.shard_count * plan.shard_bytes;
        Ok(Geometry {
            process_count,
            segment_count,
            processes_at,
            segments_at,
            free_map: map_of(segment_count),
            shards_at,
            tables_at,
            pool_at: place(segment_count),
            segment_shift: plan.segment_bytes.trailing_zeros(),
            segment_mask: plan.segment_bytes - 1,
            plan,
        })
    }

    /// Length of the file when it is fully grown.
    pub fn file_bytes_max(&self) -> u64 {
        self.pool_at + self.segment_count * self.plan.segment_bytes
    }

    /// Where a segment begins.
    #[inline(always)]
    pub fn segment_at(&self, segment: u32) -> u64 {
        self.pool_at + (u64::from(segment) << self.segment_shift)
    }

    /// The segment of a file offset and the byte within it; none if the offset lies before the
    /// pool. The segment need not exist, see
    /// [`Arena::segments_present`](crate::Arena::segments_present).
    #[inline(always)]
    pub fn place_of(&self, offset: u64) -> Option<(u64, u64)> {
        let in_pool = offset.checked_sub(self.pool_at)?;
        Some((in_pool >> self.segment_shift, in_pool & self.segment_mask))
    }

    pub(crate) fn pool(&self) -> Pool {
        let segment_count = self.segment_count as u32;
        // The generation: a read loads it twice.
        let words_at = self.segment_word_at(segment::GENERATION, 0);
        Pool { at: self.pool_at, words_at, segment_shift: self.segment_shift, segment_count }
    }

    /// Where a shard begins.
    #[inline(always)]
    pub fn shard_at(&self, shard: u64) -> u64 {
        self.shards_at + shard * self.plan.shard_bytes
    }

    /// Where a word of a segment is. `word` is one of [`segment`].
    #[inline(always)]
    pub fn segment_word_at(&self, word: u64, segment: u32) -> u64 {
        self.segments_at + (word * self.segment_count + u64::from(segment)) * 8
    }

    /// Where a process slot begins.
    pub fn process_at(&self, slot: u32) -> u64 {
        self.processes_at + u64::from(slot) * process::SLOT_BYTES
    }
}

/// A hash of all that two builds must share, so that a build with another layout refuses the file.
/// `above` is the same for the layer above.
pub fn signature(above: u64) -> u64 {
    let parts = [
        FORMAT_VERSION,
        HEADER_BYTES,
        header::FIXED_END,
        header::USE_MARK,
        header::HEADER_LOCK,
        header::CHANGING_END,
        process::COUNTERS,
        process::SLOT_BYTES,
        segment::WORD_COUNT,
        FreeMap::new(0, 1 << 20).len_bytes(),
        std::mem::size_of::<usize>() as u64,
        above,
    ];
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| {
        (hash ^ part).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(size_bytes: u64, segment_bytes: u64) -> Plan {
        Plan {
            size_bytes,
            max_entries: 0,
            features_optional: 0,
            after_power_cut: AfterPowerCut::Keep,
            segment_bytes,
            shard_count: 1,
            shard_bytes: 2048,
            table_bytes: 1024,
            first_segments: 3,
        }
    }

    #[test]
    fn a_file_never_exceeds_its_size_and_wastes_little() {
        for (size_bytes, segment_bytes) in
            [(64 << 10, 4096), (1 << 20, 16384), (64 << 20, 262_144), (5_000_001, 65536)]
        {
            let geometry = Geometry::new(plan(size_bytes, segment_bytes)).unwrap();
            assert!(geometry.file_bytes_max() <= size_bytes);
            assert!(size_bytes - geometry.file_bytes_max() < segment_bytes + 8192);
            assert_eq!(geometry.place_of(geometry.pool_at), Some((0, 0)));
            assert_eq!(geometry.place_of(geometry.pool_at - 1), None);
            let last = geometry.segment_count - 1;
            assert_eq!(geometry.place_of(geometry.segment_at(last as u32) + 7), Some((last, 7)));
            assert_eq!(geometry.place_of(geometry.file_bytes_max()), Some((last + 1, 0)));
        }
    }

    #[test]
    fn a_size_below_the_least_is_refused_and_the_least_works() {
        let Err(Error::SizeTooSmall { least_bytes, .. }) = Geometry::new(plan(10_000, 4096)) else {
            panic!("10,000 bytes were taken");
        };
        assert!(Geometry::new(plan(least_bytes, 4096)).is_ok());
        assert!(Geometry::new(plan(least_bytes - 1, 4096)).is_err());
    }
}
