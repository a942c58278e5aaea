//! Numbers that follow from a file's geometry, and where its tables put what. Must not know the
//! content of the tables.

use tuckbox_arena::Geometry;

use super::hash::{choices_apart, KeyHash};
use super::layout::{
    namespace_row, policy_selection, record, shadow, shard, table, tag_row, BUCKET_BYTES,
    GHOST_ROW_BYTES, INDEX_GROUP, TRAILER_BYTES,
};
use super::leases::LeaseTables;
use crate::value::Favour;

/// Set in a file whose entries are never evicted.
pub const NO_EVICTION: u64 = 1 << 2;

/// Set in a file that keeps the order of insertion.
pub const ORDERED: u64 = 1 << 3;

const SHADOW_ENTRY_FOR_EACH_BYTES: u64 = 16 << 10;
const SHADOW_LEN_MIN: u64 = 16;
const SHADOW_LEN_MAX: u64 = 64;
const SHADOW_ENTRIES_PER_ROW: u64 = 4;

/// Numbers that follow from the geometry, computed once.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// The same as a power of two.
    pub segment_shift: u32,
    /// Bytes of a log segment that records may use.
    pub log_bytes: u64,
    /// Longer records may cross the end of a segment; shorter ones leave a gap there.
    pub crossing_bytes: u64,
    /// Index segments that a shard can have.
    pub directory_len: u64,
    /// Entries that a shadow cache can hold.
    pub shadow_len: u64,
    /// Rows of tags.
    pub tag_rows: u64,
    /// Rows of namespaces.
    pub namespace_rows: u64,
    /// The tables of a shard for leases.
    pub leases: LeaseTables,
    /// Number of shards.
    pub shard_count: u64,
    /// A shard's share of the segments.
    pub segments_each: u64,
    /// Spare segments that a shard keeps: two, because a record of nearly a segment may follow
    /// another before the first one's old segment is free. A cache of few segments cannot afford
    /// two, unless it can evict nothing to get one back.
    pub spares_kept: u64,
    /// The longest value.
    pub value_bytes_max: u64,
    /// Words of the longest record in its log.
    pub record_words_max: usize,
    /// Limit of entries, 0 for none.
    pub max_entries: u64,
    /// A shard's share of that.
    pub max_entries_each: u64,
    /// What eviction maximises.
    pub favour: Favour,
    /// Whether entries are evicted at all.
    pub evicts: bool,
    /// Whether entries have a position in the order of insertion.
    pub is_ordered: bool,
    /// Whether a record needs nothing besides its key and value: entries are evicted, without order.
    pub is_plain: bool,
    /// More than enough eviction batches for any write, other writers aside: twice what it takes to
    /// examine every entry of a shard and to free every segment. Bounds the work in a damaged file.
    pub batches_max: u64,
}

/// With at least this many segments, a shard keeps two spare ones.
const SEGMENTS_FOR_TWO_SPARES: u64 = 32;
/// A value fills at most seven eighths of the segments: the index is in the rest.
const BODIES_OF_EIGHT: u64 = 7;
/// Segments that a shard keeps even if it has no entry: the first of its index, two spare ones, and
/// the head of each log.
const KEPT_PER_SHARD: u64 = 5;
/// Segments for the record that lists the bodies.
const KEPT_FOR_RECORD: u64 = 3;

/// The most bodies of a value in a file of this many segments.
pub fn most_bodies(segment_count: u64, shard_count: u64) -> u64 {
    let kept = KEPT_PER_SHARD * shard_count + KEPT_FOR_RECORD;
    let most = (segment_count * BODIES_OF_EIGHT / 8).min(segment_count.saturating_sub(kept));
    most.max(segment_count / 4)
}

/// Entries of a shard's index directory.
pub fn directory_len(size_bytes: u64, segment_bytes: u64, shard_count: u64) -> u64 {
    // Whole groups and whole cache lines.
    (size_bytes / segment_bytes / shard_count / 2 + 8).next_multiple_of(8 * INDEX_GROUP)
}

/// The fewest rows: the tables of the smallest cache take 256 bytes.
const ROWS_MIN: u64 = 4;

/// Rows of tags.
pub fn tag_rows(size_bytes: u64) -> u64 {
    (size_bytes >> 14).clamp(ROWS_MIN, 1 << 16)
}

/// Rows of namespaces.
pub fn namespace_rows(size_bytes: u64) -> u64 {
    (size_bytes >> 16).clamp(ROWS_MIN, 1 << 12)
}

/// Entries of a shadow cache: policy selection takes two per cent of the smallest caches, and much
/// less of larger ones.
pub fn shadow_len(size_bytes: u64, shard_count: u64) -> u64 {
    (size_bytes / shard_count.max(1) / SHADOW_ENTRY_FOR_EACH_BYTES)
        .clamp(SHADOW_LEN_MIN, SHADOW_LEN_MAX)
        / SHADOW_ENTRIES_PER_ROW
        * SHADOW_ENTRIES_PER_ROW
}

/// Ghost rows of a shadow cache with this many entries.
pub fn shadow_rows(shadow_len: u64) -> u64 {
    shadow_len / SHADOW_ENTRIES_PER_ROW
}

/// Bytes of a shadow cache with this many entries.
pub fn shadow_bytes(shadow_len: u64) -> u64 {
    shadow::ENTRIES + shadow_len * 8 + shadow_rows(shadow_len) * GHOST_ROW_BYTES
}

/// Bytes of a shard's policy selection, with shadow caches of this many entries.
pub fn policy_selection_bytes(shadow_len: u64) -> u64 {
    let shadows = policy_selection::SETTING_COUNT * shadow_bytes(shadow_len);
    (policy_selection::SHADOWS + shadows).next_multiple_of(64)
}

impl Shape {
    /// From the geometry of an open file.
    pub fn new(geometry: &Geometry) -> Shape {
        let plan = &geometry.plan;
        let segment_bytes = plan.segment_bytes;
        let shadow_len = shadow_len(plan.size_bytes, plan.shard_count);
        let segments_each = geometry.segment_count / plan.shard_count;
        let leases = LeaseTables::new(plan.size_bytes, plan.shard_count);
        let beside_directory =
            shard::DIRECTORY + policy_selection_bytes(shadow_len) + leases.len_bytes();
        let bodies_max = most_bodies(geometry.segment_count, plan.shard_count)
            .min(record::VALUE_BYTES_MAX / segment_bytes);
        let record_bytes_max =
            record::bytes_max(crate::KEY_BYTES_MAX as u64, segment_bytes, bodies_max);
        let evicts = plan.features_optional & NO_EVICTION == 0;
        Shape {
            segment_bytes,
            record_words_max: (record_bytes_max / 8) as usize,
            segment_shift: segment_bytes.trailing_zeros(),
            log_bytes: segment_bytes - TRAILER_BYTES,
            crossing_bytes: segment_bytes / 16,
            directory_len: plan.shard_bytes.saturating_sub(beside_directory) / 8,
            shadow_len,
            tag_rows: tag_rows(plan.size_bytes),
            namespace_rows: namespace_rows(plan.size_bytes),
            leases,
            shard_count: plan.shard_count,
            segments_each,
            spares_kept: 1 + u64::from(segments_each >= SEGMENTS_FOR_TWO_SPARES || !evicts),
            value_bytes_max: bodies_max * segment_bytes,
            max_entries: plan.max_entries,
            max_entries_each: plan.max_entries.div_ceil(plan.shard_count),
            favour: Favour::from_word(plan.features_optional),
            evicts,
            is_ordered: plan.features_optional & ORDERED != 0,
            is_plain: plan.features_optional & (ORDERED | NO_EVICTION) == 0,
            batches_max: 1_000
                + 2 * geometry.segment_count
                + plan.size_bytes / plan.shard_count / 512,
        }
    }

    /// Whether a record of a log can begin or end at this byte of a segment.
    pub fn is_place(&self, byte: u64) -> bool {
        byte % 8 == 0 && byte <= self.log_bytes
    }

    /// The offset of a shard's policy selection.
    #[inline]
    pub fn policy_selection_at(&self, shard_at: u64) -> u64 {
        shard_at + shard::DIRECTORY + self.directory_len * 8
    }

    /// The offset of a tag's row, in the tables; `row` is taken modulo their number.
    #[inline]
    pub fn tag_row_at(&self, row: u64) -> u64 {
        table::TAG_ROWS + row % self.tag_rows * tag_row::BYTES
    }

    /// The offset of a namespace's row, likewise.
    #[inline]
    pub fn namespace_row_at(&self, row: u64) -> u64 {
        self.tag_row_at(0)
            + self.tag_rows * tag_row::BYTES
            + row % self.namespace_rows * namespace_row::BYTES
    }

    /// The most buckets that a shard's index can have.
    pub fn buckets_max(&self) -> u32 {
        let most = self.directory_len / INDEX_GROUP * self.buckets_per_group();
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Buckets whose ghosts share a segment.
    pub fn buckets_per_group(&self) -> u64 {
        self.segment_bytes / GHOST_ROW_BYTES
    }

    /// The index directory entry of a bucket, and its byte, which
    /// [`Region::line_in_segment`](tuckbox_arena::Region::line_in_segment) takes modulo the
    /// segment's length.
    #[inline(always)]
    pub fn bucket_place(&self, bucket: u32) -> (u64, u64) {
        let byte = u64::from(bucket) * BUCKET_BYTES;
        let segment = byte >> self.segment_shift;
        // Every second bucket segment is followed by one of ghosts.
        (segment + segment / 2, byte)
    }

    /// The index directory entry of a bucket's ghosts, and their byte.
    pub fn ghosts_place(&self, bucket: u32) -> (u64, u64) {
        let byte = u64::from(bucket) * GHOST_ROW_BYTES;
        let group = byte >> self.segment_shift;
        (group * INDEX_GROUP + INDEX_GROUP - 1, byte & (self.segment_bytes - 1))
    }

    /// Whether this index directory entry is for ghosts, which need not exist.
    pub fn has_ghosts(index: u64) -> bool {
        index % INDEX_GROUP == INDEX_GROUP - 1
    }
}

/// The bucket of a hash in an index of `count` buckets: linear hashing, in which the buckets below
/// `count - 2^level` have been split already. The first bucket if there are none.
#[inline(always)]
pub fn bucket_of(hash: u32, count: u32) -> u32 {
    // Only a damaged file has none; `| 1` handles that without a branch.
    let mask = (1u32 << (count | 1).ilog2()) - 1;
    let wide = hash & (mask << 1 | 1);
    if wide < count {
        wide
    } else {
        hash & mask
    }
}

/// The two buckets that an entry may be in, in an index of `count` buckets; the first bucket if
/// there are none.
#[inline(always)]
pub fn choices_of(hash: KeyHash, count: u32) -> (u32, u32) {
    (bucket_of(hash.first(), count), bucket_of(hash.second(), count))
}

/// The bucket that is the other choice of an entry with this tag in `bucket`, in an index of `count`
/// buckets. A second one if its number has a bit that a bucket not split yet does not tell: the
/// entry's hash decides between them.
pub fn other_choices(bucket: u32, tag: u64, count: u32) -> (u32, Option<u32>) {
    let level = 1u32 << (count | 1).ilog2();
    let next_split = count.max(1) - level;
    let other = bucket ^ choices_apart(tag);
    let low = other & (level - 1);
    if low >= next_split {
        return (low, None);
    }
    match bucket < next_split || bucket >= level {
        true => (other & (level << 1).wrapping_sub(1), None),
        false => (low, Some(low + level)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::plan;
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and much of it")]
    fn every_bucket_and_its_ghosts_have_a_place_of_their_own() {
        for size_bytes in [64 << 10, 1 << 20, 64 << 20, 1 << 30] {
            let shape = Shape::new(&Geometry::new(plan(size_bytes, 0)).unwrap());
            let mut places = std::collections::HashSet::new();
            for bucket in 0..shape.buckets_max().min(1 << 16) {
                let (index, byte) = shape.bucket_place(bucket);
                let at = byte % shape.segment_bytes;
                assert!(index < shape.directory_len && !Shape::has_ghosts(index));
                assert!(at + BUCKET_BYTES <= shape.segment_bytes);
                assert!(places.insert((index, at)));
                let (index, at) = shape.ghosts_place(bucket);
                assert!(index < shape.directory_len && Shape::has_ghosts(index));
                assert!(at + GHOST_ROW_BYTES <= shape.segment_bytes);
                assert!(places.insert((index, at)));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and much of it")]
    fn a_split_divides_one_bucket_and_leaves_the_others() {
        assert!((0..100).all(|hash| bucket_of(hash, 0) == 0 && bucket_of(hash, 1) == 0));
        for count in 32..300u32 {
            let split = count - (1 << count.ilog2());
            for hash in (0..5000u32).map(|n| n.wrapping_mul(0x9e37_79b9)) {
                let (before, after) = (bucket_of(hash, count), bucket_of(hash, count + 1));
                assert!(before < count && (after == before || (before == split && after == count)));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and much of it")]
    fn a_tag_tells_one_choice_from_the_other() {
        for count in 32..300u32 {
            let mut unsure = 0;
            for number in 0..5000u64 {
                let hash = KeyHash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let (first, second) = choices_of(hash, count);
                for (bucket, wanted) in [(first, second), (second, first)] {
                    let (one, other) = other_choices(bucket, hash.tag(), count);
                    assert!(one == wanted || other == Some(wanted), "{number} of {count}");
                    assert!(one < count && other.is_none_or(|other| other < count));
                    unsure += u32::from(other.is_some());
                }
            }
            assert!(unsure < 4_000 && (unsure > 0) != count.is_power_of_two(), "{unsure}, {count}");
        }
    }

    #[test]
    fn the_longest_value_fits_into_its_form() {
        let shape = |size_bytes| Shape::new(&Geometry::new(plan(size_bytes, 0)).unwrap());
        assert_eq!(shape(1 << 30).value_bytes_max >> 20, 893);
        for size_bytes in [1 << 38, 1 << 40, 1 << 42] {
            let most = shape(size_bytes).value_bytes_max;
            assert!((1 << 35..=record::VALUE_BYTES_MAX).contains(&most), "{most}");
        }
    }
}
