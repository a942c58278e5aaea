//! The engine's part of the file: shards, index segments, log segments, and the words in them. The
//! only place that defines their offsets and bits. Must not know what they are used for.
//! `docs/format.md` describes them; a test compares the two.

use tuckbox_arena::layout::HEADER_BYTES;
pub use tuckbox_arena::layout::SIZE_BYTES_MAX;
use tuckbox_arena::{AfterPowerCut, Geometry, Layer, Plan};

use crate::record::RecordHeader;
use crate::value::Favour;

pub use crate::record::flag;

/// Offsets in a shard. Readers access only the second cache line.
pub mod shard {
    /// The writers' lock.
    pub const LOCK: u64 = 0;
    /// The boot in which a writer last checked the shard's tables, see `Shard::check_tables`.
    pub const BOOT: u64 = LOCK + 8;
    /// Bits 0..32 the number of buckets, bits 32..64 a count of entries moved between buckets.
    pub const STATE: u64 = 64;
    /// Bits 0..32 count clears, bits 32..64 tell the boot of the last one. A bucket of another
    /// epoch is empty.
    pub const EPOCH: u64 = STATE + 8;
    /// Keys are sampled for policy selection if the low 32 bits of their hash are below this.
    pub const SAMPLED_BELOW: u64 = EPOCH + 8;
    /// The last version given to a record.
    pub const SEQUENCE: u64 = 128;
    /// Entries evicted.
    pub const EVICTIONS: u64 = SEQUENCE + 8;
    /// Expired entries that were removed.
    pub const EXPIRATIONS: u64 = EVICTIONS + 8;
    /// Entries lost to damage.
    pub const LOST: u64 = EXPIRATIONS + 8;
    /// Segments of the index.
    pub const INDEX_SEGMENTS: u64 = LOST + 8;
    /// Segments that hold bodies of large values.
    pub const BODY_SEGMENTS: u64 = INDEX_SEGMENTS + 8;
    /// Entries stored.
    pub const SETS: u64 = BODY_SEGMENTS + 8;
    /// Entries deleted on request.
    pub const DELETES: u64 = SETS + 8;
    /// The record that is being rewritten in place: its slot's offset, 0 for none.
    pub const INTENT: u64 = 192;
    /// Set in [`INTENT`] if only the record's number is being rewritten.
    pub const INTENT_NUMBER: u64 = 1;
    /// Spare segments for moving entries: four words, segment + 1 or 0.
    pub const SPARES: u64 = INTENT + 8;
    /// Number of words at [`SPARES`].
    pub const SPARE_COUNT: u64 = 4;
    /// The number that is being written, see [`INTENT_NUMBER`].
    pub const INTENT_SUM: u64 = SPARES + SPARE_COUNT * 8;
    /// The small log; see [`super::log`].
    pub const SMALL: u64 = 256;
    /// The main log.
    pub const MAIN: u64 = 320;
    /// Entries evicted so far: the policy's clock.
    pub const CLOCK: u64 = 384;
    /// Frequency increments since the frequencies were last halved.
    pub const INCREMENTS: u64 = CLOCK + 8;
    /// How often the frequencies were halved.
    pub const HALVINGS: u64 = INCREMENTS + 8;
    /// Admission tests in a row that the victim at the main log's tail has won.
    pub const WINS: u64 = HALVINGS + 8;
    /// The active setting of the policy.
    pub const SETTING: u64 = WINS + 8;
    /// How often the setting changed.
    pub const SWITCHES: u64 = SETTING + 8;
    /// Counters of invalidations by key hash. Reserved for leases.
    pub const INVALIDATIONS: u64 = 512;
    /// Number of words at [`INVALIDATIONS`].
    pub const INVALIDATION_COUNT: u64 = 64;
    /// The index directory: for each index segment, in order, segment + 1.
    pub const DIRECTORY: u64 = INVALIDATIONS + INVALIDATION_COUNT * 8;

    /// Words of the cache line from [`STATE`] on, which is for readers.
    pub const READERS_WORDS: usize = 8;

    /// The index of a word within that line.
    pub const fn readers_word(offset: u64) -> usize {
        (offset - STATE) as usize / 8
    }
}

/// Offsets in the shard's policy selection, which follows its index directory.
pub mod policy_selection {
    /// Number of hits that readers noted; the low bits are the next place in [`NOTED`].
    pub const NOTED_COUNT: u64 = 0;
    /// How many of these were replayed.
    pub const REPLAYED_COUNT: u64 = 64;
    /// Bits 0..32 the entries that a shadow may hold; bit 32 set if entries count by their size.
    pub const SHADOW_CAPACITY: u64 = REPLAYED_COUNT + 8;
    /// Mean bytes of an entry.
    pub const MEAN_BYTES: u64 = SHADOW_CAPACITY + 8;
    /// For each setting, by how many hits it was ahead of the active one.
    pub const REGRETS: u64 = MEAN_BYTES + 8;
    /// Sampled requests that the active setting's shadow hit but the cache did not, less the
    /// reverse, plus 2^63.
    pub const SURPLUS: u64 = 128;
    /// By how many entries the shadows' capacity is reduced for that.
    pub const SHORTENED: u64 = SURPLUS + 8;
    /// Noted hits: bits 0..32 size in units of eight bytes, bits 32..64 of the key's hash.
    pub const NOTED: u64 = 192;
    /// Number of words at [`NOTED`].
    pub const NOTED_LEN: u64 = 32;
    /// The shadow caches, one for each setting.
    pub const SHADOWS: u64 = NOTED + NOTED_LEN * 8;
    /// Number of settings.
    pub const SETTING_COUNT: u64 = 5;
}

/// Offsets in a shadow cache, which simulates one setting on a sample of the keys, without values.
pub mod shadow {
    /// Counts appends; the low bits order the entries of a log.
    pub const APPENDS: u64 = 0;
    /// Entries evicted so far.
    pub const CLOCK: u64 = 8;
    /// As in the shard.
    pub const INCREMENTS: u64 = 16;
    /// As in the shard.
    pub const HALVINGS: u64 = 24;
    /// As in the shard.
    pub const WINS: u64 = 32;
    /// A word for each entry, in no order: bits 0..2 hits, 2..5 frequency, 5 admitted, 6 in the
    /// main log, 7 taken, 8..20 cost, 20..36 [`APPENDS`] when appended, 36..48 [`CLOCK`] then,
    /// 48..64 of the hash.
    pub const ENTRIES: u64 = 64;
}

/// Offsets in a log's part of the shard.
pub mod log {
    /// The log head, where the next record goes: (segment + 1) << 32 | byte; 0 without a segment.
    pub const HEAD: u64 = 0;
    /// The log tail, the oldest record not examined yet, in the same form.
    pub const TAIL: u64 = 8;
    /// Entries whose records are in this log.
    pub const ENTRIES: u64 = 16;
    /// Bytes of these records in the log.
    pub const BYTES: u64 = 24;
    /// Bytes of their bodies, outside of the log.
    pub const BODY_BYTES: u64 = 32;
    /// Segments from tail to head.
    pub const SEGMENTS: u64 = 40;
}

/// The notes that the arena keeps for each segment.
pub mod note {
    /// The next segment of the log, segment + 1; 0 at the log head.
    pub const NEXT: u64 = 0;
    /// Bits 0..31 the end of its records once it is full, bit 31 set in the main log, bits 32..64
    /// the beginning of the first record.
    pub const EXTENT: u64 = 1;
    /// The end in [`EXTENT`].
    pub const EXTENT_END: u64 = 0x7fff_ffff;
    /// The mark of the main log in [`EXTENT`].
    pub const EXTENT_MAIN: u64 = 1 << 31;
    /// Bits 0..48 the policy's clock when it was opened, bits 48..64 the halvings (low bits).
    pub const OPENED: u64 = 2;
}

/// A bucket is one cache line: seven slots and a word.
pub const SLOTS_PER_BUCKET: u64 = 7;
/// Bytes of a bucket.
pub const BUCKET_BYTES: u64 = 64;
/// Offset of the bucket's own word: the shard's epoch when it was last emptied.
pub const BUCKET_WORD: u64 = SLOTS_PER_BUCKET * 8;
/// Bytes of a bucket's ghosts: fifteen of two bytes, and the halvings (low bits).
pub const GHOST_ROW_BYTES: u64 = 32;
/// Index segments come in threes: two of buckets and one of their ghosts, which is taken when there
/// is something to remember.
pub const INDEX_GROUP: u64 = 3;
/// Buckets of a new index.
pub const BUCKETS_AT_FIRST: u32 = 32;
/// The last two words of a log segment say where a record that crosses its end continues: the next
/// segment (+ 1) and that segment's generation.
pub const TRAILER_BYTES: u64 = 16;
/// Bytes of a record's fixed part, which never crosses the end of a segment.
pub const RECORD_SPACE_MIN: u64 = 64;
/// The highest limit of entries.
pub const MAX_ENTRIES_MAX: u64 = 1 << 40;
/// The smallest cache.
pub const SIZE_BYTES_MIN: u64 = 64 << 10;
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
const TABLE_ROW_BYTES: u64 = 16;
const SHADOW_ENTRY_FOR_EACH_BYTES: u64 = 16 << 10;
const SHADOW_LEN_MIN: u64 = 16;
const SHADOW_LEN_MAX: u64 = 64;
const SHADOW_ENTRIES_PER_ROW: u64 = 4;

/// A word of the index: where a record is, and the policy's bits.
///
/// Bits 0..2 hits since it was last examined (saturating), 2..5 frequency, 5 admitted, 6..8 the
/// halvings (low bits) when the frequency was written, 8..48 the record's offset in words, 48..64 a
/// tag of the key's hash. Zero is an empty slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u64);

impl Slot {
    /// No entry.
    pub const EMPTY: Slot = Slot(0);
    const OFFSET_BITS: u64 = 40;
    const HITS: u64 = 0b11;
    const POLICY: u64 = 0xff;

    /// A slot for the record at `offset`.
    pub fn new(offset: u64, tag: u64, policy: PolicyBits) -> Slot {
        debug_assert!(offset % 8 == 0 && offset >= HEADER_BYTES);
        Slot(tag << 48 | (offset / 8) << 8 | policy.0)
    }

    /// Whether it is empty.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The tag of the key's hash.
    #[inline(always)]
    pub fn tag(self) -> u64 {
        self.0 >> 48
    }

    /// The offset of the record.
    #[inline(always)]
    pub fn offset(self) -> u64 {
        (self.0 >> 8 & ((1 << Slot::OFFSET_BITS) - 1)) * 8
    }

    /// The policy's bits.
    pub fn policy(self) -> PolicyBits {
        PolicyBits(self.0 & Slot::POLICY)
    }

    /// Whether both lead to the same record; the policy's bits may differ.
    #[inline(always)]
    pub fn is_same_place(self, other: Slot) -> bool {
        (self.0 ^ other.0) & !Slot::POLICY == 0
    }

    /// With one more hit; none if the count is saturated.
    #[inline(always)]
    pub fn with_hit(self) -> Option<Slot> {
        (self.0 & Slot::HITS != Slot::HITS).then_some(Slot(self.0 + 1))
    }

    /// The same record with other policy bits.
    pub fn with_policy(self, policy: PolicyBits) -> Slot {
        Slot(self.0 & !Slot::POLICY | policy.0)
    }
}

const _: () = assert!(SIZE_BYTES_MAX <= 8 << Slot::OFFSET_BITS);

/// The policy's eight bits of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyBits(u64);

/// A slot keeps the halvings modulo this.
pub const HALVINGS_MODULUS: u64 = 4;
/// The highest frequency.
pub const FREQUENCY_MAX: u64 = 7;

impl PolicyBits {
    /// From its parts; the frequency saturates.
    pub fn new(hits: u64, frequency: u64, is_admitted: bool, halvings: u64) -> PolicyBits {
        let frequency = frequency.min(FREQUENCY_MAX);
        let kept = halvings % HALVINGS_MODULUS;
        PolicyBits(hits.min(3) | frequency << 2 | u64::from(is_admitted) << 5 | kept << 6)
    }

    /// Hits since the entry was last examined, 0 to 3.
    pub fn hits(self) -> u64 {
        self.0 & 3
    }

    /// Frequency when the slot was written, 0 to 7.
    pub fn frequency(self) -> u64 {
        self.0 >> 2 & 7
    }

    /// Halvings when it was written, modulo [`HALVINGS_MODULUS`].
    pub fn halvings(self) -> u64 {
        self.0 >> 6 & 3
    }

    /// Whether its reuse distance admits the entry to the main log.
    pub fn is_admitted(self) -> bool {
        self.0 >> 5 & 1 == 1
    }
}

/// A place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The segment.
    pub segment: u32,
    /// The byte within the segment.
    pub byte: u64,
}

impl Position {
    /// From a word of the file; none for 0.
    pub fn from_word(word: u64) -> Option<Position> {
        let segment = (word >> 32).checked_sub(1)?;
        Some(Position { segment: segment as u32, byte: word & 0xffff_ffff })
    }

    /// For a word of the file.
    pub fn word(self) -> u64 {
        (u64::from(self.segment) + 1) << 32 | self.byte
    }
}

/// Numbers that follow from the geometry, computed once.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// The same as a power of two.
    pub segment_shift: u32,
    /// The bits of an offset within a segment.
    segment_mask: u64,
    /// Bytes of a log segment that records may use.
    pub log_bytes: u64,
    /// Longer records may cross the end of a segment; shorter ones leave a gap there.
    pub crossing_bytes: u64,
    /// Index segments that a shard can have.
    pub directory_len: u64,
    /// Entries that a shadow cache can hold.
    pub shadow_len: u64,
    /// Number of shards.
    pub shard_count: u64,
    /// The longest value.
    pub value_bytes_max: u64,
    /// Words of the longest record in its log.
    pub record_words_max: usize,
    /// Limit of entries, 0 for none.
    pub max_entries: u64,
    /// What eviction maximises.
    pub favour: Favour,
    /// More than enough eviction batches for any write, other writers aside: twice what it takes to
    /// examine every entry of a shard and to free every segment. Bounds the work in a damaged file.
    pub batches_max: u64,
}

fn directory_len(size_bytes: u64, segment_bytes: u64, shard_count: u64) -> u64 {
    // Whole groups and whole cache lines.
    (size_bytes / segment_bytes / shard_count / 2 + 8).next_multiple_of(8 * INDEX_GROUP)
}

/// Entries of a shadow cache: policy selection takes two per cent of the smallest caches, and much
/// less of larger ones.
fn shadow_len(size_bytes: u64, shard_count: u64) -> u64 {
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

fn policy_selection_bytes(shadow_len: u64) -> u64 {
    let shadows = policy_selection::SETTING_COUNT * shadow_bytes(shadow_len);
    (policy_selection::SHADOWS + shadows).next_multiple_of(64)
}

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
    let tag_rows = (size_bytes >> 14).clamp(8, 4096);
    let namespace_rows = (size_bytes >> 16).clamp(8, 1024);
    Plan {
        size_bytes,
        max_entries,
        features_optional: 0,
        after_power_cut: AfterPowerCut::Keep,
        segment_bytes,
        shard_count,
        shard_bytes: shard::DIRECTORY
            + directory_bytes
            + policy_selection_bytes(shadow_len(size_bytes, shard_count)),
        // Rounded up to cache lines: other files are refused when they are opened.
        table_bytes: ((tag_rows + namespace_rows) * TABLE_ROW_BYTES).next_multiple_of(64),
        // An index and a log segment for each shard, so that every shard works even if the file
        // system becomes full at once.
        first_segments: 2 * shard_count,
    }
}

/// What the arena must know about the engine.
pub fn layer() -> Layer {
    Layer { signature: signature(), makes: is_plan }
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
        shard::DIRECTORY,
        shard::SWITCHES,
        shard::DELETES,
        policy_selection::SHADOWS,
        shadow::ENTRIES,
        shard::INTENT_SUM,
        log::SEGMENTS,
        note::OPENED,
        BUCKET_BYTES,
        GHOST_ROW_BYTES,
        INDEX_GROUP,
        TRAILER_BYTES,
        crate::record::SIGNATURE,
    ]
    .iter()
    .fold(1, |hash: u64, part| hash.wrapping_mul(31).wrapping_add(*part))
}

impl Shape {
    /// From the geometry of an open file.
    pub fn new(geometry: &Geometry) -> Shape {
        let plan = &geometry.plan;
        let segment_bytes = plan.segment_bytes;
        let shadow_len = shadow_len(plan.size_bytes, plan.shard_count);
        let before_directory = shard::DIRECTORY + policy_selection_bytes(shadow_len);
        let bodies_max =
            (geometry.segment_count / 4).min(RecordHeader::VALUE_BYTES_MAX / segment_bytes);
        let record_bytes_max =
            RecordHeader::longest_bytes(crate::KEY_BYTES_MAX as u64, segment_bytes, bodies_max);
        Shape {
            segment_bytes,
            record_words_max: (record_bytes_max / 8) as usize,
            segment_shift: segment_bytes.trailing_zeros(),
            segment_mask: segment_bytes - 1,
            log_bytes: segment_bytes - TRAILER_BYTES,
            crossing_bytes: segment_bytes / 16,
            directory_len: plan.shard_bytes.saturating_sub(before_directory) / 8,
            shadow_len,
            shard_count: plan.shard_count,
            value_bytes_max: bodies_max * segment_bytes,
            max_entries: plan.max_entries,
            favour: Favour::from_word(plan.features_optional),
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
        (group * INDEX_GROUP + INDEX_GROUP - 1, byte & self.segment_mask)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_its_parts() {
        let slot = Slot::new(0x12_3456_7890, 0xabcd, PolicyBits::new(2, 5, true, 7));
        assert_eq!((slot.offset(), slot.tag()), (0x12_3456_7890, 0xabcd));
        assert_eq!((slot.policy().hits(), slot.policy().frequency()), (2, 5));
        assert!(slot.policy().is_admitted());
        assert_eq!(slot.policy().halvings(), 3);
        let hit = slot.with_hit().unwrap();
        assert!(hit.is_same_place(slot) && hit.with_hit().is_none());
        assert_eq!(hit.with_policy(PolicyBits::default()).offset(), slot.offset());
    }

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
    fn the_largest_cache_has_a_layout_that_this_build_opens() {
        for max_entries in [0, 1, MAX_ENTRIES_MAX] {
            let plan = plan(SIZE_BYTES_MAX, max_entries);
            assert!(is_plan(&plan));
            let geometry = Geometry::new(plan).unwrap();
            assert!(geometry.file_bytes_max() <= SIZE_BYTES_MAX);
            assert!(geometry.plan.shard_bytes <= 1 << 32);
            let last = geometry.segment_at(geometry.segment_count as u32 - 1);
            let slot = Slot::new(last, 0xffff, PolicyBits(0xff));
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

    #[test]
    fn the_longest_value_fits_into_its_form() {
        let shape = |size_bytes| Shape::new(&Geometry::new(plan(size_bytes, 0)).unwrap());
        assert_eq!(shape(1 << 30).value_bytes_max >> 20, 255);
        for size_bytes in [1 << 38, 1 << 40, 1 << 42] {
            let most = shape(size_bytes).value_bytes_max;
            assert!((1 << 35..=RecordHeader::VALUE_BYTES_MAX).contains(&most), "{most}");
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
}
