//! The eviction policy, all of it. The rest of the engine asks it for the policy bits of an entry
//! (`new_entry_bits`, `kept_entry_bits`), to evict for the limit of entries (`evict_to_limit`), for
//! space in the logs (`free_space`) or for a slot (`evict_from_bucket`), for housekeeping after
//! each write (`tidy`), and tells it about removed entries (`remember_removed`). Must not know how
//! records are read or written.
//!
//! New entries enter the *small* first-in-first-out log. A read only adds a hit to its slot (two
//! bits, so a hot entry stops being written). An entry is examined when it reaches the tail of its
//! log:
//!
//! * **Admission test**: an entry moves from the small to the *main* log if its frequency exceeds
//!   that of the main log's oldest entry by more than one.
//! * **Frequency** is collected from the hits at each examination, halves over time, and outlives
//!   the entry in a ghost.
//! * **Reuse distance** also admits: a key passes if it returns within 0.7 of the time for which
//!   the main log's oldest entry has been idle.
//! * **Second chance**: the main log's oldest entry with a hit returns to the log head with one hit
//!   less.
//! * **Policy selection**: each shard chooses among five settings of these rules by shadow caches,
//!   which simulate them on a sample of its keys.
//! * **Sizes**: if the byte limit binds, frequencies are compared per byte, depending on the
//!   favour.
//! * **Compaction**: while the logs hold much dead space, live entries move and none is dropped.
//!
//! Sources, reasons and figures are in `docs/eviction.md`. Everything read from the file may be
//! damaged: each loop has a budget.

mod admission;
mod age;
mod budget;
mod capacity;
mod compact;
mod evict;
mod ghosts;
mod notes;
mod policy_bits;
mod policy_selection;
mod setting;
mod shadow;
mod tail;
mod target;
mod tidy;
mod worth;

pub use self::budget::{IfStuck, EVICTION_BATCH};
pub use self::notes::sample_hit;
pub use self::target::Eviction;
