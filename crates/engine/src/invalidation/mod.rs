//! Invalidation: entries that are missing though they are in the file, because a tag of theirs was
//! evicted. Owns the stamp clock, the rows of tags and namespaces, and the verdict on an entry. Must
//! not know how entries are found.
//!
//! An entry with tags has a stamp: what the stamp clock showed when its making began. To evict a tag
//! advances the clock and writes its new value into the tag's row. An entry is valid if no row of
//! its tags has a later value than its stamp.

mod clock;
mod judge;
mod rows;

pub use self::judge::{state_at, State};
pub use self::rows::{rows, Watched, SHARD_OF_NAMESPACES};
