//! Which entries stay. The whole policy is in this module. The rest of the engine asks it with which
//! bits an entry enters or stays ([`Shard::admit`], [`Shard::keep`]), to make way for one entry
//! ([`Shard::make_way`]), room in the logs ([`Shard::make_room`]) or in a bucket
//! ([`Shard::displace`]), to do a little of that after each write ([`Shard::tidy`]), and tells it
//! what is removed ([`Shard::let_go`]).
//!
//! Two first-in-first-out logs: a *small* one, where newcomers wait, and a *main* one. A read only
//! adds a hit to its slot (two bits, so a hot entry stops being written to). An entry is judged
//! when it comes to the tail of its log:
//!
//! * **Duel** (the idea of TinyLFU, Einziger, Friedman and Manes 2017): who leaves the small log
//!   enters the main log only if its frequency beats that of the main log's oldest entry by more
//!   than one. The margin keeps loops from churning the main log.
//! * **Frequency** is collected from the hits when an entry is looked at, halves as time goes by,
//!   and outlives the entry in a ghost. It counts "was hit since it was last looked at", which
//!   filters bursts, and it needs no shared counter that reads would have to write.
//! * **Reuse distance** (the idea of LIRS, Jiang and Zhang 2002, read off log positions): a
//!   newcomer whose ghost was dropped from the small log a shorter time ago than 0.7 times what
//!   the main log's oldest entry has gone without being touched, is the better one whatever the
//!   counts say. A ghost from the main log has no such distance: it would start at its eviction.
//! * **Second chance** (CLOCK): the main log's oldest entry, if it was hit, goes to the log's head
//!   with one hit less instead of duelling.
//! * **Tournament**: the small log's share and which of these rules hold is a setting, and each
//!   shard chooses between five of them by what they would hit on a sample of its keys.
//!
//! Sizes: when the limit of entries binds, every entry counts one; when bytes are short, its bytes,
//! and the newcomer has to beat the frequency per byte of those that it displaces, unless the cache
//! was made to favour bytes; unless it was to favour hits, a sixteenth of what a hit is worth goes by
//! its bytes. An entry of the main log that is small for its frequency goes round instead of going, by
//! chance, as often as it is cheap, or once it has kept out many times its bytes.
//!
//! The method as a whole, its sources and figures are in `docs/eviction.md`. Everything that is read
//! from the file bounds nothing by itself: each loop has a budget.
//!
//! While a log's segments hold much dead space (overwritten, deleted, expired), what lives is
//! moved to the head and nothing is dropped: dead space shall not cost an entry.

mod age;
mod budget;
mod capacity;
mod compact;
mod duel;
mod ghosts;
mod passage;
mod room;
mod setting;
mod shadow;
mod tail;
mod tidy;
mod tournament;

pub use self::budget::IfStuck;
use crate::value::Favour;

/// Entries that are looked at before the lock is let go.
pub const SLICE: u32 = 64;
/// Frequencies halve after this many increments for each entry.
const HALVE_AFTER: u64 = 5;
/// The reuse-distance rule, in tenths.
const REUSE_TENTHS: u64 = 7;
/// By how much a frequency must be beaten.
const MARGIN: u64 = 1;
/// Where nothing is favoured, one part in so many of what a hit is worth goes by its bytes, and the rest
/// is the same for all.
const BYTES_PART: u64 = 16;
/// Duels that a victim may win in a row before it is moved to the head; against larger entries,
/// times its own bytes. Without this a dead key whose frequency came from another's ghost would
/// block the main log for ever, and a small one shield large ones behind it.
const WINS_MOST: u64 = 64;

/// What a hit of an entry is worth that takes `cost`, where the mean is `mean`: only beside that of
/// another one.
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
