//! The constants of the policy, and the worth of a hit. Must not know entries.

use crate::value::Favour;

/// Frequencies halve after this many increments per entry.
pub(super) const HALVE_AFTER: u64 = 5;
/// The factor of the reuse distance rule, in tenths.
pub(super) const REUSE_TENTHS: u64 = 7;
/// By how much a frequency must be exceeded.
pub(super) const MARGIN: u64 = 1;
/// With a balanced favour, one part in this many of a hit's worth goes by its bytes; the rest is
/// equal for all.
const BYTES_PART: u64 = 16;
/// Admission tests that a victim may win in a row before it moves to the log head; against larger
/// entries, times its own bytes. Otherwise a dead key with another key's ghost would block the main
/// log forever, and a small one would shield large ones behind it.
pub(super) const WINS_MAX: u64 = 64;

/// The worth of a hit of an entry with this cost, for comparison with another one.
pub(super) fn worth_of_hit(favour: Favour, cost: u64, mean: u64) -> u64 {
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
