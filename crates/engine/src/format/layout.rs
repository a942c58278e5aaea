//! The engine's part of the file: offsets in shards, index segments and log segments, and the flags
//! of records. Must not know what they are used for. `docs/explanation/format.md` describes them; a
//! test compares the two.

/// Offsets in a shard. Readers access only the second cache line, and those that keep what they read
/// also [`CHANGES`](shard::CHANGES).
pub mod shard {
    /// The writers' lock.
    pub const LOCK: u64 = 0;
    /// The boot in which a writer last checked the shard's tables, see `Audit::check_tables`.
    pub const BOOT: u64 = LOCK + 8;
    /// No entry of the pinned log expires before this moment, as far as [`SEARCHED`] is valid.
    pub const SOONEST: u64 = BOOT + 8;
    /// What the stamp clock showed when the last whole search for entries to collect began; 0 for none.
    pub const SEARCHED: u64 = SOONEST + 8;
    /// The number of the search that goes on; 0 if an entry that expires was stored since.
    pub const SEARCH: u64 = SEARCHED + 8;
    /// Counts acquisitions and releases of the lock: odd while it is held, or its owner has died.
    pub const CHANGES: u64 = SEARCH + 8;
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
    /// The log of entries that are never evicted, as far from the others as they from each other.
    pub const PINNED: u64 = 384;
    /// The most bytes of records for which that log was found to have room.
    pub const PINNED_MOST: u64 = PINNED + 48;
    /// Entries evicted so far: the policy's clock.
    pub const CLOCK: u64 = PINNED_MOST + 8;
    /// Frequency increments since the frequencies were last halved.
    pub const INCREMENTS: u64 = CLOCK + 8;
    /// How often the frequencies were halved.
    pub const HALVINGS: u64 = INCREMENTS + 8;
    /// Admission tests in a row that were lost against the main log's tail; larger entries count more.
    pub const WINS: u64 = HALVINGS + 8;
    /// The active setting of the policy.
    pub const SETTING: u64 = WINS + 8;
    /// How often the setting changed.
    pub const SWITCHES: u64 = SETTING + 8;
    /// [`EPOCH`] from before it was [`HIDDEN`].
    pub const FORMER_EPOCH: u64 = SWITCHES + 8;
    /// The [`EPOCH`] of a shard whose entries a successor of the file has, or is about to have.
    pub const HIDDEN: u64 = u64::MAX;
    /// The index directory: for each index segment, in order, segment + 1. Policy selection follows,
    /// and the tables of [`super::super::leases`] are last.
    pub const DIRECTORY: u64 = 512;

    /// Words of the cache line from [`STATE`] on, which is for readers.
    pub const READERS_WORDS: usize = 8;

    /// The index of a word within that line.
    pub const fn readers_word(offset: u64) -> usize {
        (offset - STATE) as usize / 8
    }
}

/// Offsets in the tables that all shards share. The rows of namespaces follow those of tags.
pub mod table {
    /// The stamp clock: only grows, with each invalidation, and never repeats a value.
    pub const STAMP_CLOCK: u64 = 0;
    /// The boot in which a process last moved the stamp clock past the file's time.
    pub const CLOCK_BOOT: u64 = STAMP_CLOCK + 8;
    /// The era of namespaces without a row.
    pub const BASE_ERA: u64 = CLOCK_BOOT + 8;
    /// The last position given to an entry of an ordered cache; only grows.
    pub const LAST_POSITION: u64 = BASE_ERA + 8;
    /// The gate; see [`super::gate`].
    pub const GATE: u64 = LAST_POSITION + 8;
    /// The last number given to a change that passes the gate, or to who has closed it.
    pub const LAST_NUMBER: u64 = GATE + 8;
    /// The sum of what these have added: a signed number.
    pub const WEIGHT: u64 = LAST_NUMBER + 8;
    /// The rows of tags.
    pub const TAG_ROWS: u64 = 64;
    /// Rows, from a name's first one on, among which its own can be; fewer if there are fewer.
    pub const WINDOW: u64 = 16;
    /// The clock, the stamps of entries and their positions are below this; a later value is damaged.
    pub const STAMPS_END: u64 = 1 << 60;
}

/// Bits of the gate's word. The others count how often it was closed.
pub mod gate {
    /// The bits that tell its state.
    pub const STATES: u64 = 3;
    /// Changes pass.
    pub const OPEN: u64 = 0;
    /// None may begin; some may be under way.
    pub const CLOSING: u64 = 1;
    /// None passes, because somebody changes entries.
    pub const CLOSED: u64 = 2;
    /// None passes, and nobody changes anything.
    pub const LEFT: u64 = 3;
    /// One closing.
    pub const TURN: u64 = 4;
    /// What a change that has begun, and has not ended, adds to the weight.
    pub const BEGUN: i64 = 1 << (64 - ABOVE_WEIGHT);
    /// How many bits of the weight's word count such changes.
    pub const ABOVE_WEIGHT: u32 = 16;
}

/// Offsets in the row of a tag.
pub mod tag_row {
    /// The hash of the name; 0 in a row that is not taken.
    pub const TAG: u64 = 0;
    /// Entries with an earlier stamp are invalid.
    pub const INVALIDATED: u64 = 8;
    /// Entries with an earlier stamp are stale.
    pub const STALED: u64 = 16;
    /// Bytes of a row; the last word is reserved.
    pub const BYTES: u64 = 32;
}

/// Offsets in the row of a namespace.
pub mod namespace_row {
    /// The hash of the name; 0 in a row that is not taken.
    pub const NAMESPACE: u64 = 0;
    /// The era, which is part of each key of the namespace.
    pub const ERA: u64 = 8;
    /// Bytes of a row.
    pub const BYTES: u64 = 16;
}

/// Bits of a record's attributes word.
pub mod attribute {
    /// Bits 0..16: bytes of the tags.
    pub const TAGS_BYTES_BITS: u32 = 16;
    /// Bits 16..24: number of tags.
    pub const TAG_COUNT_BITS: u32 = 8;
    /// Has a word with the time for which the entry is kept as a stale one.
    pub const STALE: u64 = 1 << 24;
    /// Has a word with the time that its making took.
    pub const MADE: u64 = 1 << 25;
    /// Is not evicted.
    pub const PINNED: u64 = 1 << 26;
    /// Has a word with its position in the order of insertion.
    pub const ORDERED: u64 = 1 << 27;
    /// All other bits are zero.
    pub const RESERVED_SHIFT: u32 = 28;
    /// Most words before the tags, the attributes word included.
    pub const WORDS_MAX: u64 = 5;
    /// Most bytes of the tags, in whole words.
    pub const TAGS_BYTES_MAX: u64 = (crate::TAGS_MAX * (crate::TAG_BYTES_MAX + 1)) as u64;
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
    /// Bits 0..30 the end of its records once it is full, bit 30 set in the log of pinned entries,
    /// bit 31 in the main log, bits 32..64 the beginning of the first record.
    pub const EXTENT: u64 = 1;
    /// The end in [`EXTENT`].
    pub const EXTENT_END: u64 = 0x3fff_ffff;
    /// The mark of the log of pinned entries in [`EXTENT`].
    pub const EXTENT_PINNED: u64 = 1 << 30;
    /// The mark of the main log in [`EXTENT`].
    pub const EXTENT_MAIN: u64 = 1 << 31;
    /// Bits 0..48 the policy's clock when it was opened, bits 48..64 the halvings (low bits).
    pub const OPENED: u64 = 2;
    /// Bits 0..31 how many records that a slot leads to have a part in it, bit 31 set if a segment
    /// behind it was freed, bits 32..64 the previous segment of the log, segment + 1. The segment at
    /// the log tail has no previous one.
    pub const LIVE: u64 = 3;
    /// The number in [`LIVE`].
    pub const LIVE_RECORDS: u64 = 0x7fff_ffff;
    /// A number from here on says that the segment was not counted since the machine started. No
    /// segment has as many records.
    pub const LIVE_UNKNOWN: u64 = 1 << 29;
    /// What an uncounted segment begins with: records that leave it do not make it look counted.
    pub const LIVE_UNCOUNTED: u64 = 1 << 30;
    /// Set in [`LIVE`] if a segment behind this one was freed.
    pub const LIVE_GAP: u64 = 1 << 31;
}

/// Limits of a record, and the flags of its word 0.
pub mod record {
    /// Must change whenever the form of a record or the hash of a key changes.
    pub const SIGNATURE: u64 = 8;
    /// Maximum number of words up to the form, and the attributes word.
    pub const WORDS_MAX: u64 = 5;
    /// Words of the body list for each body.
    pub const BODY_WORDS: u64 = 3;
    /// Bits of a value's length.
    pub const LONG_VALUE_BITS: u32 = 36;
    /// The longest value whose length fits in a form.
    pub const VALUE_BYTES_MAX: u64 = (1 << LONG_VALUE_BITS) - 1;

    /// Bytes of the longest record in its log: the longest key, nearly a segment of its value, all
    /// attributes, and the list of its bodies.
    pub fn bytes_max(key_bytes: u64, segment_bytes: u64, body_count: u64) -> u64 {
        use super::attribute::{TAGS_BYTES_MAX, WORDS_MAX as ATTRIBUTE_WORDS_MAX};
        let payload_bytes = (key_bytes + segment_bytes).next_multiple_of(8) + TAGS_BYTES_MAX;
        (WORDS_MAX + ATTRIBUTE_WORDS_MAX + BODY_WORDS * body_count) * 8 + payload_bytes
    }
}

/// Flags of word 0.
pub mod flag {
    /// Has an expiry word.
    pub const EXPIRY: u64 = 1;
    /// The value is the number word.
    pub const NUMBER: u64 = 2;
    /// Its form is a whole word, for long keys and values.
    pub const LONG: u64 = 4;
    /// All flags.
    pub const ALL: u64 = EXPIRY | NUMBER | LONG;
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
