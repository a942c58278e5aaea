//! The shard that eviction works on. Must not know which entry goes.

use crate::index::Index;

layer! {
    /// A locked shard whose entries can be evicted.
    Eviction(Index<'a>)
}
