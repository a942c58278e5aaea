//! The shard that eviction works on. Must not know which entry goes.

use std::ops::Deref;

use crate::index::Index;

/// A locked shard whose entries can be evicted.
pub struct Eviction<'a>(pub Index<'a>);

impl<'a> Deref for Eviction<'a> {
    type Target = Index<'a>;

    #[inline(always)]
    fn deref(&self) -> &Index<'a> {
        &self.0
    }
}
