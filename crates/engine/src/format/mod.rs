//! The form of everything that the engine keeps in the file: where each word is, the bits of a word,
//! and the bytes of an entry. Must not know how any of it is used, nor access the file.

pub mod attributes;
pub mod draft;
pub mod expiry;
pub mod hash;
pub mod layout;
pub mod leases;
pub mod plan;
pub mod record;
pub mod shape;
pub mod words;

pub use self::attributes::{NewAttributes, StoredAttributes, POSITION_OPEN};
pub use self::draft::{Draft, Extras};
pub use self::hash::{Hasher, KeyHash, RecordPlace};
pub use self::layout::{
    flag, gate, log, namespace_row, note, policy_selection, shadow, shard, table, tag_row,
    BUCKETS_AT_FIRST, BUCKET_BYTES, BUCKET_WORD, GHOST_ROW_BYTES, MAX_ENTRIES_MAX,
    RECORD_SPACE_MIN, SIZE_BYTES_MIN, SLOTS_PER_BUCKET, TRAILER_BYTES,
};
pub use self::leases::{maker, LeaseTables};
pub use self::record::{Body, RecordHeader, Sequence};
pub use self::shape::{
    bucket_of, choices_of, most_bodies, other_choices, shadow_bytes, shadow_rows, Shape,
    NO_EVICTION, ORDERED,
};
pub use self::words::{
    segment_of, IndexState, LogKind, PolicyBits, Position, Slot, FREQUENCY_MAX, HALVINGS_MODULUS,
};
