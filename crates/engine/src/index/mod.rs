//! The index of each shard: which slot leads to the record of a key. Must not know which entry is
//! worth keeping.

mod buckets;
mod entries;
mod growth;
mod lookup;

pub use self::buckets::{Found, Index};
pub use self::lookup::{Lookup, ReadersLine, TaggedSlot};
