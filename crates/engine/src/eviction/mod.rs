//! Eviction: carries out what [`crate::policy`] decides about the entries of a locked shard. Must
//! not know how records are read or written on request.
//!
//! The rest of the engine asks for the policy bits of an entry (`new_entry_bits`,
//! `kept_entry_bits`), to evict for the limit of entries (`evict_to_limit`), for space in the logs
//! (`free_space`) or for a slot (`evict_from_bucket`), for housekeeping after each write (`tidy`),
//! and tells about removed entries (`remember_removed`). Everything read from the file may be
//! damaged: each loop has a budget.

mod age;
mod budget;
mod candidate;
mod capacity;
mod compact;
mod evict;
mod ghosts;
mod notes;
mod policy_bits;
mod replay;
mod tail;
mod tidy;
mod verdicts;

pub use self::budget::{IfStuck, EVICTION_BATCH};
pub use self::notes::sample_hit;
use crate::index::Index;

layer! {
    /// A locked shard whose entries can be evicted.
    Eviction(Index<'a>)
}
