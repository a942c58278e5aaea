//! The layout of a new file of a given size, and whether this build can use a file. Must not know
//! what the parts hold.

use tuckbox_arena::layout::{self, FORMAT_VERSION};
use tuckbox_arena::{AfterPowerCut, Layer, Place, Plan, Space};

use super::hash::TAG_FACTOR;
use super::layout::{
    attribute, log, namespace_row, note, policy_selection, record, shadow, shard, table, tag_row,
    BUCKET_BYTES, GHOST_ROW_BYTES, INDEX_GROUP, MAX_ENTRIES_MAX, SIZE_BYTES_MIN, TRAILER_BYTES,
};
use super::leases::{maker, LeaseTables};
use super::shape::{directory_len, namespace_rows, policy_selection_bytes, shadow_len, tag_rows};
use crate::value::Config;

/// A small cache has one shard for this many bytes,
const SHARD_FOR_EACH_BYTES: u64 = 16 << 20;
/// up to this many shards;
const SHARDS_SMALL: u64 = 4;
/// a large cache has one shard for this many bytes,
const SHARD_FOR_EACH_BYTES_LARGE: u64 = 64 << 20;
/// up to this many shards.
const SHARDS_MAX: u64 = 64;
const SHARD_ENTRIES_MIN: u64 = 64;
/// A shard's share of the file is divided into this many segments,
const SEGMENTS_PER_SHARD: u64 = 256;
/// or into this many while segments are shorter than [`SEGMENT_BYTES_FEW`]: a segment should be
/// large compared with what fills it.
const SEGMENTS_PER_SHARD_FEW: u64 = 128;
const SEGMENT_BYTES_FEW: u64 = 64 << 10;

/// The layout for a cache of this size.
pub fn plan(size_bytes: u64, max_entries: u64) -> Plan {
    let by_entries = match max_entries {
        0 => SHARDS_MAX,
        entries => (entries / SHARD_ENTRIES_MIN).max(1),
    };
    let small = (size_bytes / SHARD_FOR_EACH_BYTES).clamp(1, SHARDS_SMALL);
    let large = size_bytes / SHARD_FOR_EACH_BYTES_LARGE;
    let shard_count = large.clamp(small, SHARDS_MAX).min(by_entries);
    let share_bytes = size_bytes / shard_count;
    let wanted_bytes = (share_bytes / SEGMENTS_PER_SHARD)
        .max((share_bytes / SEGMENTS_PER_SHARD_FEW).min(SEGMENT_BYTES_FEW))
        .clamp(4 << 10, 1 << 20);
    let segment_bytes = 1u64 << wanted_bytes.ilog2();
    let directory_bytes = directory_len(size_bytes, segment_bytes, shard_count) * 8;
    let table_bytes = table::TAG_ROWS
        + tag_rows(size_bytes) * tag_row::BYTES
        + namespace_rows(size_bytes) * namespace_row::BYTES;
    Plan {
        size_bytes,
        max_entries,
        features_optional: 0,
        after_power_cut: AfterPowerCut::Keep,
        segment_bytes,
        shard_count,
        shard_bytes: shard::DIRECTORY
            + directory_bytes
            + policy_selection_bytes(shadow_len(size_bytes, shard_count))
            + LeaseTables::new(size_bytes, shard_count).len_bytes(),
        // Rounded up to cache lines: other files are refused when they are opened.
        table_bytes: table_bytes.next_multiple_of(64),
        // An index and a log segment for each shard, so that every shard works even if the file
        // system becomes full at once.
        first_segments: 2 * shard_count,
    }
}

/// What the arena must know about the engine.
pub fn layer() -> Layer {
    Layer { signature: signature(), makes: is_plan }
}

/// The name of this build's file format: its version and its layout, such as
/// `1-0123456789abcdef`. Builds with other names refuse each other's files.
pub fn file_format() -> String {
    format!("{FORMAT_VERSION}-{:016x}", layout::signature(signature()))
}

/// Whether [`plan`] returns this plan for some cache. A change of `plan` therefore needs a change
/// of [`signature`].
fn is_plan(plan: &Plan) -> bool {
    let of_file = |plan: &Plan| Plan {
        features_optional: 0,
        after_power_cut: AfterPowerCut::Keep,
        first_segments: 0,
        ..plan.clone()
    };
    plan.size_bytes >= SIZE_BYTES_MIN
        && plan.max_entries <= MAX_ENTRIES_MAX
        && of_file(plan) == of_file(&self::plan(plan.size_bytes, plan.max_entries))
}

/// A hash of the engine's part of the layout, for the header's signature.
fn signature() -> u64 {
    [
        shard::BOOT,
        shard::SEARCH,
        shard::CHANGES,
        shard::DIRECTORY,
        shard::SWITCHES,
        shard::DELETES,
        shard::PINNED,
        note::EXTENT_PINNED,
        policy_selection::SHADOWS,
        shadow::ENTRIES,
        shard::INTENT_SUM,
        log::SEGMENTS,
        note::OPENED,
        BUCKET_BYTES,
        GHOST_ROW_BYTES,
        INDEX_GROUP,
        TRAILER_BYTES,
        record::SIGNATURE,
        table::TAG_ROWS,
        table::WINDOW,
        tag_row::BYTES,
        namespace_row::BYTES,
        u64::from(attribute::RESERVED_SHIFT),
        maker::ROW_BYTES,
        u64::from(TAG_FACTOR),
    ]
    .iter()
    .fold(1, |hash: u64, part| hash.wrapping_mul(31).wrapping_add(*part))
}

/// The size of a new file at `place` for which none is chosen: that of [`Config::default`], or half of
/// the space there, because others need some. In that case, also what the space is.
pub fn default_size(place: &Place) -> (u64, Option<Space>) {
    let usual_bytes = Config::default().size_bytes;
    let half_bytes = |space| (Space::total_bytes(space) / 2).max(SIZE_BYTES_MIN);
    let most = place.most_space().map(|space| (half_bytes(space), Some(space)));
    most.filter(|(half_bytes, _)| *half_bytes < usual_bytes).unwrap_or((usual_bytes, None))
}

#[cfg(test)]
mod tests {
    use tuckbox_arena::layout::SIZE_BYTES_MAX;
    use tuckbox_arena::Geometry;

    use super::*;
    use crate::format::{PolicyBits, Shape, Slot, BUCKETS_AT_FIRST};

    #[test]
    fn plans_that_this_build_never_makes_are_refused() {
        for (size_bytes, max_entries) in [(SIZE_BYTES_MIN, 0), (1 << 30, 0), (1 << 42, 7)] {
            let sound = Plan { features_optional: 1, ..plan(size_bytes, max_entries) };
            assert!(is_plan(&sound) && is_plan(&Plan { first_segments: 0, ..sound.clone() }));
            for other in [
                Plan { size_bytes: SIZE_BYTES_MIN - 1, ..sound.clone() },
                Plan { size_bytes: size_bytes * 4, ..sound.clone() },
                Plan { max_entries: u64::MAX, ..sound.clone() },
                Plan { segment_bytes: sound.segment_bytes * 2, ..sound.clone() },
                Plan { shard_count: sound.shard_count + 1, ..sound.clone() },
                Plan { shard_bytes: 64, ..sound.clone() },
                Plan { shard_bytes: 1 << 32, ..sound.clone() },
                Plan { table_bytes: 0, ..sound.clone() },
            ] {
                assert!(!is_plan(&other), "{other:?}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and much of it")]
    fn plans_leave_room_for_the_policy() {
        for size_bytes in [SIZE_BYTES_MIN, 1 << 20, 15 << 20, 64 << 20, 300_000_000, 1 << 34] {
            let plan = plan(size_bytes, 0);
            let shard_count = plan.shard_count;
            let geometry = Geometry::new(plan).unwrap();
            let least = if size_bytes >= 1 << 20 { 48 } else { 10 };
            assert!(geometry.segment_count / shard_count >= least, "{size_bytes}");
        }
        for size_bytes in (SIZE_BYTES_MIN..SIZE_BYTES_MIN * 9).step_by(997) {
            let plan = plan(size_bytes, 0);
            assert_eq!((plan.table_bytes % 64, plan.shard_bytes % 64), (0, 0), "{size_bytes}");
        }
        assert_eq!(plan(64 << 20, 100).shard_count, 1);
        assert_eq!(plan(64 << 20, 1000).shard_count, 4);
    }

    #[test]
    fn the_largest_cache_has_a_layout_that_this_build_opens() {
        for max_entries in [0, 1, MAX_ENTRIES_MAX] {
            let plan = plan(SIZE_BYTES_MAX, max_entries);
            assert!(is_plan(&plan));
            let geometry = Geometry::new(plan).unwrap();
            assert!(geometry.file_bytes_max() <= SIZE_BYTES_MAX);
            assert!(geometry.plan.shard_bytes <= 1 << 32);
            let last = geometry.segment_at(geometry.segment_count as u32 - 1);
            let slot = Slot::new(last, 0xffff, PolicyBits::new(3, 7, true, 3));
            assert_eq!((slot.offset(), slot.tag()), (last, 0xffff));
            assert!(Shape::new(&geometry).buckets_max() >= BUCKETS_AT_FIRST);
        }
        let error = Geometry::new(plan(SIZE_BYTES_MAX + 1, 0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "size 8796093022209 bytes is too large; the maximum is 8796093022208 bytes: choose a \
             smaller size"
        );
    }
}
