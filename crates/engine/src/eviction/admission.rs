//! The admission test: an entry that leaves the small log against the main log's oldest entry. Must
//! not know when space is needed. The rules and their reasons are in `docs/eviction.md`.

use super::budget::Budget;
use super::capacity::{Capacity, Unit};
use super::tail::{Candidate, Reason, RecordState};
use super::target::Eviction;
use super::worth::{worth_of_hit, MARGIN, WINS_MAX};
use crate::format::{shard, LogKind, RecordHeader, Slot};
use crate::value::Favour;

/// What a short reuse distance adds to the frequency of an entry that is too large to be admitted
/// by it.
const REUSE_BONUS: u64 = 2;
/// With this frequency an entry enters the main log without the admission test, if there is space.
const DIRECT_ADMISSION_FREQUENCY: u64 = 3;
/// Most victims that a large new entry is compared with.
const VICTIMS_MAX: usize = 8;

impl Eviction<'_> {
    /// The victim: the main log's oldest entry without a hit. Entries with a hit move to the log
    /// head with one hit less, cheap ones unchanged. None if there is no entry, or the budget is
    /// spent.
    pub(super) fn victim(&self, budget: &mut Budget) -> Option<Candidate> {
        loop {
            let candidate = self.candidate(LogKind::Main, budget)?;
            let bits = Slot(self.region().get(candidate.found.at)).policy();
            let bits = if bits.hits() > 0 {
                self.count_increments(1);
                self.bits(bits.hits() - 1, candidate.frequency + 1, false)
            } else if self.is_kept_as_cheap(&candidate, budget.unit) {
                self.bits(0, candidate.frequency, false)
            } else {
                return Some(candidate);
            };
            self.set_word(shard::WINS, 0);
            self.move_entry(&candidate, LogKind::Main, bits);
            if !budget.spend() {
                return None;
            }
        }
    }

    /// Whether an entry without a hit is kept for another round because it takes fewer bytes for
    /// its frequency than a mean entry. Random, so that it stays for a time in proportion to its
    /// frequency per byte, as in GDSF (Cherkasova 1998), without a word or an order of its own.
    fn is_kept_as_cheap(&self, victim: &Candidate, unit: Unit) -> bool {
        if !self.weighs_sizes(unit) {
            return false;
        }
        let entries = self.used(LogKind::Main, Unit::Entries).max(1);
        let mean = self.used(LogKind::Main, Unit::Bytes) / entries;
        let price = self.cost(&victim.header, Unit::Bytes) / victim.frequency.max(1);
        let most = mean.saturating_mul(self.rounds_quarters()) / 4;
        // Drawn from the place, so the result stays the same until the entry moves.
        let generation = self.arena().generation(victim.position.segment);
        let chance = victim.hash.chance(victim.offset ^ generation.rotate_left(40));
        price < mean && ((u128::from(chance) * u128::from(most)) >> 64) as u64 >= price
    }

    /// The `rounds` of `docs/eviction.md`, in quarters.
    fn rounds_quarters(&self) -> u64 {
        match self.cx.shape.favour {
            Favour::Hits => 16,
            Favour::Balanced | Favour::Bytes => 2,
        }
    }

    /// Judges an entry that leaves the small log. It stays there if the budget is spent before
    /// there is a victim to compare it with.
    pub(super) fn leave_small(
        &self,
        mut candidate: Candidate,
        capacity: &Capacity,
        budget: &mut Budget,
    ) {
        let bits = Slot(self.region().get(candidate.found.at)).policy();
        let mut is_admitted = bits.is_admitted();
        if bits.hits() > 0 && self.setting().is_clock {
            self.count_increments(1);
            let bits = self.bits(bits.hits() - 1, candidate.frequency + 1, is_admitted);
            self.move_entry(&candidate, LogKind::Small, bits);
            return;
        }
        if bits.hits() > 0 {
            is_admitted |= bits.hits() >= self.setting().promote_at_hits;
            candidate.frequency += bits.hits();
        }
        // In bytes, the space may have been left by an entry of many times the mean. It is for
        // entries that were read a few times, not for whichever comes next. Before the first
        // eviction the main log was never filled and takes all.
        let is_new = self.word(shard::CLOCK) == 0;
        let is_frequent =
            budget.unit == Unit::Entries || candidate.frequency >= DIRECT_ADMISSION_FREQUENCY;
        let may_fill = is_new || is_frequent && budget.free_moves > 0;
        let has_space = may_fill
            && capacity.main_used + self.cost(&candidate.header, capacity.unit) <= capacity.main;
        if has_space {
            budget.free_moves = budget.free_moves.saturating_sub(1);
        }
        let wins = match capacity.main != 0 {
            true if has_space => true,
            true => match self.passes_admission_test(&candidate, is_admitted, budget) {
                Some(wins) => wins,
                None if budget.must_gain => false,
                None => return,
            },
            false => false,
        };
        if bits.hits() > 0 {
            self.count_increments(bits.hits());
        }
        if !wins {
            // Its hits are part of the frequency by now.
            let slot = Slot(self.region().get(candidate.found.at));
            let bits = self.bits(0, candidate.frequency, is_admitted);
            self.store_slot(candidate.found.at, slot.with_policy(bits));
            self.drop_entry(&candidate, Reason::Evicted);
            self.advance_past(&candidate);
            return;
        }
        let frequency = candidate.frequency;
        self.move_entry(&candidate, LogKind::Main, self.bits(0, frequency, false));
        // If the budget is spent first, the main log exceeds its share and evicts next.
        while self.used(LogKind::Main, capacity.unit) > capacity.main {
            let Some(victim) = self.victim(budget) else { break };
            self.drop_entry(&victim, Reason::Evicted);
            self.advance_past(&victim);
            if !budget.spend() {
                break;
            }
        }
    }

    /// Whether an entry passes the admission test. None if the budget is spent before there is a
    /// victim.
    fn passes_admission_test(
        &self,
        candidate: &Candidate,
        is_admitted: bool,
        budget: &mut Budget,
    ) -> Option<bool> {
        let Some(victim) = self.victim(budget) else {
            return (self.used(LogKind::Main, Unit::Entries) == 0).then_some(true);
        };
        if is_admitted && !self.is_large(&candidate.header, budget.unit) {
            self.set_word(shard::WINS, 0);
            return Some(true);
        }
        // In hundredths: the frequency of the bytes that the candidate would displace.
        let unit = if self.weighs_sizes(budget.unit) { Unit::Bytes } else { Unit::Entries };
        let (cost, victim_cost) =
            (self.cost(&candidate.header, unit), self.cost(&victim.header, unit));
        let margin = MARGIN * 100 * cost.min(victim_cost) / victim_cost.max(1);
        let needed = self.frequency_of_victims(&victim, cost, unit) + margin;
        let bonus = if is_admitted { REUSE_BONUS } else { 0 };
        if (candidate.frequency + bonus) * 100 > needed {
            self.set_word(shard::WINS, 0);
            return Some(true);
        }
        // Small entries at the tail rightly win against large ones, but must not shield what lies
        // behind them for long.
        self.add_word(shard::WINS, (cost / victim_cost.max(1)).max(1));
        if self.word(shard::WINS) >= WINS_MAX {
            self.set_word(shard::WINS, 0);
            let bits = self.bits(0, victim.frequency, false);
            self.move_entry(&victim, LogKind::Main, bits);
        }
        Some(false)
    }

    /// An entry of more than this many means is too large for its reuse distance alone.
    fn large_means(&self) -> u64 {
        match self.cx.shape.favour {
            Favour::Hits => 1,
            Favour::Balanced | Favour::Bytes => 4,
        }
    }

    /// Whether an entry is many times the mean of the main log, if the byte limit binds.
    fn is_large(&self, header: &RecordHeader, unit: Unit) -> bool {
        let used = self.used(LogKind::Main, unit);
        let entries = self.used(LogKind::Main, Unit::Entries);
        self.weighs_sizes(unit)
            && self.cost(header, unit).saturating_mul(entries)
                > used.saturating_mul(self.large_means())
    }

    /// The frequency, in hundredths, of what `cost` bytes from `first` on would displace, weighted
    /// by the worth of its hits relative to the candidate's.
    fn frequency_of_victims(&self, first: &Candidate, cost: u64, unit: Unit) -> u64 {
        let mean = self.used(LogKind::Main, unit) / self.used(LogKind::Main, Unit::Entries).max(1);
        let worth = |cost: u64| u128::from(worth_of_hit(self.cx.shape.favour, cost, mean));
        // Divided by the candidate's worth only at the end: one small victim against a very large
        // candidate would round to nothing, many would not.
        let displaced = |frequency: u64, share: u64, victim_cost: u64| {
            u128::from(frequency * 100) * u128::from(share) * worth(victim_cost)
                / u128::from(victim_cost.max(1))
        };
        let mut covered = self.cost(&first.header, unit);
        let mut needed = displaced(first.frequency, cost.min(covered), covered);
        let mut position = self.end_of(first.position, first.header.log_bytes);
        let mut seen = 1;
        while covered < cost && seen < VICTIMS_MAX {
            let Some(at) = position.and_then(|at| self.next_record(LogKind::Main, at)) else {
                break;
            };
            match self.inspect_record(LogKind::Main, at) {
                RecordState::Live(next) => {
                    let next_cost = self.cost(&next.header, unit);
                    let share = (cost - covered).min(next_cost);
                    needed += displaced(next.frequency, share, next_cost);
                    covered += next_cost;
                    seen += 1;
                    position = self.end_of(at, next.header.log_bytes);
                }
                RecordState::Dead(end) => {
                    seen += 1;
                    position = Some(end);
                }
                RecordState::Unreadable => break,
            }
        }
        // Victims further back are taken to be like these. Otherwise the largest candidate would
        // win against the many small ones that it displaces.
        let needed = needed.saturating_mul(cost.into()) / u128::from(covered.min(cost).max(1));
        // Not the maximum: the caller adds a margin.
        u64::try_from(needed.div_ceil(worth(cost))).unwrap_or(u64::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eviction::IfStuck;
    use crate::{Cache, Config, Place, Ttl, Value};

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_larger_entry_needs_a_higher_frequency() {
        for favour in [Favour::Balanced, Favour::Hits] {
            let config = Config { size_bytes: 1 << 20, favour, ..Config::default() };
            let cache = Cache::open(&Place::Private, &config).unwrap();
            for key in 0..20_000u64 {
                cache.set(&key.to_le_bytes(), Value::bytes(&[7; 160]), Ttl::Never).unwrap();
            }
            let shard = cache.writes().lock(0).unwrap();
            let mut budget = Budget::new(4, IfStuck::Stop, Unit::Bytes);
            let victim = shard.candidate(LogKind::Main, &mut budget).unwrap();
            let cost = shard.cost(&victim.header, Unit::Bytes);
            let needed = |cost: u64| shard.frequency_of_victims(&victim, cost, Unit::Bytes);
            let one = needed(cost);
            assert_eq!(one, victim.frequency * 100);
            assert!(one > 0, "nobody was asked for");
            // The same for an entry a few bytes larger, and far more for one that displaces
            // thousands.
            let costs: Vec<u64> =
                [0, 1, 8, 80, 800, 800_000].iter().map(|more| cost + more).collect();
            let most: Vec<u64> = costs.iter().map(|cost| needed(*cost)).collect();
            assert!(most.is_sorted(), "{most:?} for {costs:?}");
            assert!(most[5] >= 12 * one, "{most:?}");
        }
    }
}
