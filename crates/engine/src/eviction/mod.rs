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
mod policy_bits;
mod policy_selection;
mod setting;
mod shadow;
mod tail;
mod tidy;

pub use self::budget::IfStuck;
use crate::value::Favour;

/// Entries examined in one batch, before the lock is released.
pub const EVICTION_BATCH: u32 = 64;
/// Frequencies halve after this many increments per entry.
const HALVE_AFTER: u64 = 5;
/// The factor of the reuse distance rule, in tenths.
const REUSE_TENTHS: u64 = 7;
/// By how much a frequency must be exceeded.
const MARGIN: u64 = 1;
/// With a balanced favour, one part in this many of a hit's worth goes by its bytes; the rest is
/// equal for all.
const BYTES_PART: u64 = 16;
/// Admission tests that a victim may win in a row before it moves to the log head; against larger
/// entries, times its own bytes. Otherwise a dead key with another key's ghost would block the main
/// log forever, and a small one would shield large ones behind it.
const WINS_MAX: u64 = 64;

/// The worth of a hit of an entry with this cost, for comparison with another one.
fn worth_of_hit(favour: Favour, cost: u64, mean: u64) -> u64 {
    match favour {
        Favour::Balanced => mean.saturating_mul(BYTES_PART - 1).saturating_add(cost).max(1),
        Favour::Hits | Favour::Bytes => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_worth_a_little_unless_hits_are_favoured() {
        let balanced = |cost| worth_of_hit(Favour::Balanced, cost, 100);
        assert_eq!((balanced(0), balanced(100), balanced(1_700)), (1_500, 1_600, 3_200));
        assert_eq!(worth_of_hit(Favour::Hits, 1_700, 100), worth_of_hit(Favour::Hits, 1, 100));
        assert!(worth_of_hit(Favour::Balanced, 0, 0) > 0);
        assert_eq!(worth_of_hit(Favour::Balanced, u64::MAX, u64::MAX), u64::MAX);
    }
}
