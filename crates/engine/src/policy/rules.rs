//! The rules of the policy, as verdicts: what becomes of the oldest entry of a log. Must not know how
//! a verdict is carried out. The rules and their reasons are in `docs/explanation/eviction.md`.
//!
//! The same rules run over the logs of the file and over those of the shadow caches: see [`Logs`].

use super::ghosts::Ghost;
use super::setting::Setting;
use crate::format::PolicyBits;
use crate::value::Favour;

/// Frequencies halve after this many increments per entry.
const HALVE_AFTER: u64 = 5;
/// The factor of the reuse distance rule, in tenths.
const REUSE_TENTHS: u64 = 7;
/// By how much a frequency must be exceeded.
const MARGIN: u64 = 1;
/// What a short reuse distance adds to the frequency of an entry that is too large to be admitted
/// by it.
const REUSE_BONUS: u64 = 2;
/// Most records that a large new entry is compared with, dead ones included.
const RECORDS_MAX: usize = 8;
/// With a balanced favour, one part in this many of a hit's worth goes by its bytes; the rest is
/// equal for all.
const BYTES_PART: u64 = 16;
/// So many admission tests may be lost in a row against the tail of the main log before the victim
/// there moves to the log head; tests of larger entries count more. Otherwise a dead key with
/// another key's ghost would block the main log forever, and a small one would shield large ones
/// behind it.
const WINS_MAX: u64 = 64;

/// What the rules know of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Hits since it was last examined.
    pub hits: u64,
    /// Its frequency, halved up to now.
    pub frequency: u64,
    /// Whether its reuse distance or its hits admit it to the main log. A large entry only gets a
    /// bonus for that.
    pub is_admitted: bool,
    /// What it takes: 1 if sizes do not matter.
    pub cost: u64,
}

impl Facts {
    /// Of an entry with these bits, and its frequency up to now.
    pub fn new(bits: PolicyBits, frequency: u64, cost: u64) -> Facts {
        Facts { hits: bits.hits(), frequency, is_admitted: bits.is_admitted(), cost }
    }
}

/// A main log whose oldest entry is compared with new ones.
pub trait Logs {
    /// An entry of the main log.
    type Entry;

    /// What eviction maximises.
    fn favour(&self) -> Favour;
    /// The mean cost of the main log's entries.
    fn mean_cost(&self) -> u64;
    /// Whether an entry of this cost is too large for its reuse distance alone.
    fn is_large(&self, cost: u64) -> bool;
    /// The main log's entries from this one on, oldest first; none for each dead record.
    fn oldest_first<'s>(
        &'s self,
        oldest: &'s Self::Entry,
    ) -> impl Iterator<Item = Option<Facts>> + 's;
}

/// The verdict on the oldest entry of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It moves to the head of its log, with these facts.
    GoesRound(Facts),
    /// It leaves its log: to the main log or out of the cache.
    Leaves(Facts),
}

/// The verdict of the admission test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Whether the entry is promoted to the main log; otherwise it is evicted.
    pub passes: bool,
    /// Admission tests in a row that were lost against the tail of the main log; one against a
    /// larger entry counts as many times as the victim is smaller.
    pub wins: u64,
    /// Whether the victim moves to the head of the main log.
    pub victim_goes_round: bool,
}

/// The frequency of a new entry, and whether its reuse distance admits it to the main log. `idle`
/// tells how many entries were evicted since the main log's oldest entry was appended.
pub fn newcomer(
    setting: &Setting,
    ghost: Option<Ghost>,
    small_entries: impl FnOnce() -> u64,
    idle: impl FnOnce() -> Option<u64>,
) -> (u64, bool) {
    let Some(ghost) = ghost else { return (1, false) };
    // Entries evicted since the key last entered the small log.
    let distance = || ghost.age.saturating_add(small_entries()).saturating_mul(10);
    let is_admitted = setting.reuse_distance
        && !ghost.from_main
        && idle().is_some_and(|idle| distance() < idle.saturating_mul(REUSE_TENTHS));
    (ghost.frequency + 1, is_admitted)
}

/// Whether all frequencies are halved after this many increments. Not before the first eviction.
pub fn halves(increments: u64, entries: u64, clock: u64) -> bool {
    increments >= HALVE_AFTER * entries.max(1) && clock > 0
}

/// Whether the small log gives up an entry next: with one step more it would exceed its share, or
/// the main log is empty.
pub fn small_is_first(small_used: u64, step: u64, small_share: u64, main_used: u64) -> bool {
    small_used + step > small_share || main_used == 0
}

/// The verdict on the small log's oldest entry.
pub fn small_oldest(setting: &Setting, entry: Facts) -> Verdict {
    let Facts { hits, frequency, is_admitted, .. } = entry;
    if setting.is_clock && hits > 0 {
        return Verdict::GoesRound(Facts { hits: hits - 1, frequency: frequency + 1, ..entry });
    }
    let is_admitted = is_admitted || hits >= setting.promote_at_hits;
    Verdict::Leaves(Facts { hits: 0, frequency: frequency + hits, is_admitted, ..entry })
}

/// The verdict on the main log's oldest entry. `is_cheap` tells whether it is kept for another
/// round without a hit.
pub fn main_oldest(entry: Facts, is_cheap: impl FnOnce() -> bool) -> Verdict {
    let Facts { hits, frequency, .. } = entry;
    if hits > 0 {
        let entry = Facts { hits: hits - 1, frequency: frequency + 1, ..entry };
        return Verdict::GoesRound(Facts { is_admitted: false, ..entry });
    }
    match is_cheap() {
        true => Verdict::GoesRound(Facts { is_admitted: false, ..entry }),
        false => Verdict::Leaves(entry),
    }
}

/// Whether an entry without a hit is kept for another round because it takes fewer bytes for its
/// frequency than a mean entry. Random, so that it stays for a time in proportion to its frequency
/// per byte, as in GDSF (Cherkasova 1998), without a word or an order of its own.
pub fn is_kept_as_cheap(favour: Favour, entry: Facts, mean_cost: u64, chance: u64) -> bool {
    let price = entry.cost / entry.frequency.max(1);
    // The `rounds` of `docs/explanation/eviction.md`, in quarters.
    let rounds = match favour {
        Favour::Hits => 16,
        Favour::Balanced | Favour::Bytes => 2,
    };
    let most = mean_cost.saturating_mul(rounds) / 4;
    price < mean_cost && ((u128::from(chance) * u128::from(most)) >> 64) as u64 >= price
}

/// The admission test of an entry against the main log's oldest one, after `wins`
/// lost tests.
pub fn admission<L: Logs>(
    logs: &L,
    entry: Facts,
    oldest: &L::Entry,
    victim: Facts,
    wins: u64,
) -> Admission {
    let passed = Admission { passes: true, wins: 0, victim_goes_round: false };
    if entry.is_admitted && !logs.is_large(entry.cost) {
        return passed;
    }
    let (cost, victim_cost) = (entry.cost, victim.cost.max(1));
    // In hundredths: the frequency of the bytes that the entry would displace.
    let margin = MARGIN * 100 * cost.min(victim.cost) / victim_cost;
    let needed = frequency_of_victims(logs, oldest, cost) + margin;
    let bonus = if entry.is_admitted { REUSE_BONUS } else { 0 };
    if (entry.frequency + bonus) * 100 > needed {
        return passed;
    }
    // Small entries at the tail rightly win against large ones, but must not shield what lies
    // behind them for long.
    let wins = wins.saturating_add((cost / victim_cost).max(1));
    let victim_goes_round = wins >= WINS_MAX;
    Admission { passes: false, wins: if victim_goes_round { 0 } else { wins }, victim_goes_round }
}

/// The frequency, in hundredths, of what `cost` from the oldest entry on would displace, weighted
/// by the worth of its hits relative to that of an entry of this cost.
pub fn frequency_of_victims<L: Logs>(logs: &L, oldest: &L::Entry, cost: u64) -> u64 {
    let mean = logs.mean_cost();
    let worth = |cost: u64| u128::from(worth_of_hit(logs.favour(), cost, mean));
    let (mut covered, mut needed) = (0, 0);
    for victim in logs.oldest_first(oldest).take(RECORDS_MAX) {
        let Some(victim) = victim else { continue };
        // Divided by the entry's worth only at the end: one small victim against a very large entry
        // would round to nothing, many would not.
        let share = (cost - covered).min(victim.cost);
        needed += u128::from(victim.frequency * 100) * u128::from(share) * worth(victim.cost)
            / u128::from(victim.cost.max(1));
        covered += victim.cost;
        if covered >= cost {
            break;
        }
    }
    // Victims further back are taken to be like these. Otherwise the largest entry would win
    // against the many small ones that it displaces.
    let needed = needed.saturating_mul(cost.into()) / u128::from(covered.min(cost).max(1));
    // Not the maximum: the caller adds a margin.
    u64::try_from(needed.div_ceil(worth(cost))).unwrap_or(u64::MAX / 2)
}

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
