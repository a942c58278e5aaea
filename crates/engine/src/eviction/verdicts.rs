//! Carries out the verdicts on the oldest entries of the two logs. Must not know the rules, nor when
//! space is needed.

use super::budget::Budget;
use super::candidate::Candidate;
use super::capacity::{Capacity, Unit};
use super::tail::{Reason, RecordState};
use super::Eviction;
use crate::format::{shard, LogKind, PolicyBits, RecordHeader, Slot};
use crate::policy::{self, Facts, Logs, Verdict};
use crate::value::Favour;

/// With this frequency an entry enters the main log without the admission test, if there is space.
const DIRECT_ADMISSION_FREQUENCY: u64 = 3;

/// The main log as the admission test sees it.
struct MainLog<'s, 'a> {
    shard: &'s Eviction<'a>,
    /// In what the test counts: entries, or bytes if sizes matter.
    unit: Unit,
}

impl Logs for MainLog<'_, '_> {
    type Entry = Candidate;

    fn favour(&self) -> Favour {
        self.shard.cx.shape.favour
    }

    fn mean_cost(&self) -> u64 {
        self.shard.mean_cost(self.unit)
    }

    fn is_large(&self, cost: u64) -> bool {
        // In means of the main log.
        let most = match self.favour() {
            Favour::Hits => 1,
            Favour::Balanced | Favour::Bytes => 4,
        };
        let used = self.shard.used(LogKind::Main, self.unit);
        let entries = self.shard.used(LogKind::Main, Unit::Entries);
        self.unit == Unit::Bytes && cost.saturating_mul(entries) > used.saturating_mul(most)
    }

    fn oldest_first<'s>(
        &'s self,
        oldest: &'s Candidate,
    ) -> impl Iterator<Item = Option<Facts>> + 's {
        let shard = self.shard;
        let facts = |frequency: u64, header: &RecordHeader| Facts {
            hits: 0,
            frequency,
            is_admitted: false,
            cost: shard.cost(header, self.unit),
        };
        let mut end = shard.end_of(oldest.position, oldest.header.log_bytes);
        let behind = std::iter::from_fn(move || {
            let at = end.and_then(|at| shard.next_record(LogKind::Main, at))?;
            let Some(keyed) = shard.keyed_record(at) else {
                end = Some(shard.end_of_cut_off(at)?);
                return Some(None);
            };
            match shard.state_of(&keyed) {
                RecordState::Live(found) => {
                    end = shard.end_of(at, keyed.header.log_bytes);
                    Some(Some(facts(shard.halved(found.slot, at), &keyed.header)))
                }
                RecordState::Dead(after) => {
                    end = Some(after);
                    Some(None)
                }
                RecordState::Unreadable => None,
            }
        });
        std::iter::once(Some(facts(oldest.frequency, &oldest.header))).chain(behind)
    }
}

impl Eviction<'_> {
    /// What the rules know of an entry, with its slot's bits as they are now.
    fn facts(&self, entry: &Candidate, unit: Unit) -> Facts {
        let bits = Slot(self.region().get(entry.found.at)).policy();
        Facts::new(bits, entry.frequency, self.cost(&entry.header, unit))
    }

    fn bits_of(&self, facts: Facts) -> PolicyBits {
        self.bits(facts.hits, facts.frequency, facts.is_admitted)
    }

    fn mean_cost(&self, unit: Unit) -> u64 {
        self.used(LogKind::Main, unit) / self.used(LogKind::Main, Unit::Entries).max(1)
    }

    /// In what the rules count where this unit limits the cache.
    fn compared_in(&self, unit: Unit) -> Unit {
        if self.weighs_sizes(unit) {
            Unit::Bytes
        } else {
            Unit::Entries
        }
    }

    /// The victim: the main log's oldest entry that leaves it. None if there is no entry, or the
    /// budget is spent.
    pub(super) fn victim<'b>(&self, budget: &'b mut Budget) -> Option<&'b Candidate> {
        // Of one batch, several entries are compared with the same victim.
        let is_known = |known: &Candidate| {
            self.is_still_oldest(known) && self.facts(known, Unit::Bytes).hits == 0
        };
        if !budget.victim.as_ref().is_some_and(is_known) {
            budget.victim = self.find_victim(budget);
        }
        budget.victim.as_ref()
    }

    fn find_victim(&self, budget: &mut Budget) -> Option<Candidate> {
        loop {
            let candidate = self.candidate(LogKind::Main, budget)?;
            let facts = self.facts(&candidate, Unit::Bytes);
            let is_cheap = || self.is_kept_as_cheap(&candidate, facts, budget.unit);
            let Verdict::GoesRound(after) = policy::main_oldest(facts, is_cheap) else {
                return Some(candidate);
            };
            if facts.hits > 0 {
                self.count_increments(1);
            }
            self.set_word(shard::WINS, 0);
            self.move_entry(&candidate, LogKind::Main, self.bits_of(after));
            if !budget.spend() {
                return None;
            }
        }
    }

    fn is_kept_as_cheap(&self, victim: &Candidate, facts: Facts, unit: Unit) -> bool {
        if !self.weighs_sizes(unit) {
            return false;
        }
        // Drawn from the place, so the result stays the same until the entry moves.
        let generation = self.arena().generation(victim.position.segment);
        let chance = victim.hash.chance(victim.offset ^ generation.rotate_left(40));
        let favour = self.cx.shape.favour;
        policy::is_kept_as_cheap(favour, facts, self.mean_cost(Unit::Bytes), chance)
    }

    /// Carries out the verdict on the small log's oldest entry. It stays there if the budget is
    /// spent before there is a victim to compare it with.
    pub(super) fn leave_small(
        &self,
        candidate: &mut Candidate,
        capacity: &Capacity,
        budget: &mut Budget,
    ) {
        let facts = self.facts(candidate, self.compared_in(budget.unit));
        let hits = facts.hits;
        let facts = match policy::small_oldest(self.setting(), facts) {
            Verdict::GoesRound(after) => {
                self.count_increments(1);
                self.move_entry(candidate, LogKind::Small, self.bits_of(after));
                return;
            }
            Verdict::Leaves(facts) => facts,
        };
        // In bytes, the space may have been left by an entry of many times the mean. It is for
        // entries that were read a few times, not for whichever comes next. Before the first
        // eviction the main log was never filled and takes all.
        let is_new = self.word(shard::CLOCK) == 0;
        let is_frequent =
            budget.unit == Unit::Entries || facts.frequency >= DIRECT_ADMISSION_FREQUENCY;
        let may_fill = is_new || is_frequent && budget.free_moves > 0;
        let has_space = may_fill
            && capacity.main_used + self.cost(&candidate.header, capacity.unit) <= capacity.main;
        if has_space {
            budget.free_moves = budget.free_moves.saturating_sub(1);
        }
        let passes = match capacity.main != 0 {
            true if has_space => true,
            true => match self.passes_admission_test(facts, budget) {
                Some(passes) => passes,
                None if budget.must_gain => false,
                None => return,
            },
            false => false,
        };
        if hits > 0 {
            self.count_increments(hits);
        }
        if !passes {
            // Its hits are part of the frequency by now.
            let slot = Slot(self.region().get(candidate.found.at));
            self.store_slot(candidate.found.at, slot.with_policy(self.bits_of(facts)));
            candidate.frequency = facts.frequency;
            self.drop_oldest(candidate, Reason::Evicted);
            return;
        }
        self.move_entry(candidate, LogKind::Main, self.bits(0, facts.frequency, false));
        // If the budget is spent first, the main log exceeds its share and evicts next.
        while self.used(LogKind::Main, capacity.unit) > capacity.main {
            let Some(victim) = self.victim(budget) else { break };
            self.drop_oldest(victim, Reason::Evicted);
            if !budget.spend() {
                break;
            }
        }
    }

    /// Whether an entry passes the admission test. None if the budget is spent before there is a
    /// victim.
    fn passes_admission_test(&self, entry: Facts, budget: &mut Budget) -> Option<bool> {
        let unit = self.compared_in(budget.unit);
        let Some(victim) = self.victim(budget) else {
            return (self.used(LogKind::Main, Unit::Entries) == 0).then_some(true);
        };
        let main = MainLog { shard: self, unit };
        let facts = self.facts(victim, unit);
        let verdict = policy::admission(&main, entry, victim, facts, self.word(shard::WINS));
        self.set_word(shard::WINS, verdict.wins);
        if verdict.victim_goes_round {
            self.move_entry(victim, LogKind::Main, self.bits(0, victim.frequency, false));
        }
        Some(verdict.passes)
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
            let main = MainLog { shard: &shard, unit: Unit::Bytes };
            let needed = |cost: u64| policy::rules::frequency_of_victims(&main, &victim, cost);
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
