//! Eviction on demand: for an entry, for bytes, or for a slot in a bucket. Decides which log gives
//! up entries. Must not know what is stored instead.

use super::budget::{Budget, IfStuck, EVICTION_BATCH};
use super::capacity::Unit;
use super::tail::Reason;
use super::Eviction;
use crate::format::{log, shard, KeyHash, LogKind, Slot};
use crate::index::Found;
use crate::policy::small_is_first;

impl Eviction<'_> {
    /// Segments that hold entries of this shard.
    fn segments_held(&self) -> u64 {
        let logs: u64 = LogKind::ALL.iter().map(|kind| self.log_count(*kind, log::SEGMENTS)).sum();
        logs.saturating_add(self.word(shard::BODY_SEGMENTS))
    }

    /// Frees space for an entry of `wanted_bytes` by examining at most `steps` entries, until a
    /// segment is gained. False if there is nothing to examine, or nothing could be done.
    pub fn free_space(&self, steps: u32, if_stuck: IfStuck, wanted_bytes: u64) -> bool {
        let mut budget = Budget { wanted_bytes, ..Budget::new(steps, if_stuck, Unit::Bytes) };
        let evictions = self.word(shard::EVICTIONS);
        let held = self.segments_held();
        // At most one segment: with large entries, a whole batch may be all that the shard has. A
        // caller that needs more asks again.
        // Looked up again only after a move: what eviction drops leaves hardly any dead space.
        let mut to_compact = self.log_to_compact();
        while budget.steps > 0 && self.segments_held() >= held {
            let more = match to_compact {
                Some(kind) => {
                    let more = self.compact_one(kind, &mut budget)
                        || kind == LogKind::Pinned && self.evict_one(&mut budget);
                    to_compact = self.log_to_compact();
                    more
                }
                None => self.evict_one(&mut budget) || self.compact_pinned(&mut budget),
            };
            let is_empty = !more && if_stuck == IfStuck::Drop;
            if is_empty && (self.shrink_if_empty() || self.free_empty_logs()) {
                return true;
            }
            if !more {
                return budget.steps < steps || self.word(shard::EVICTIONS) != evictions;
            }
        }
        true
    }

    /// Evicts until one more entry is within the limit. False if the batch was not enough, or this
    /// shard has nothing to evict.
    pub fn evict_to_limit(&self) -> bool {
        let most = self.cx.shape.max_entries;
        let mut budget = Budget::new(EVICTION_BATCH, IfStuck::Drop, Unit::Entries);
        while most != 0 && self.cx.entry_count() >= most {
            if budget.steps == 0 || !self.evict_one(&mut budget) {
                return false;
            }
        }
        true
    }

    /// Drops the entry with the fewest hits in the first bucket of a hash, and returns its slot.
    /// For an index that has no other way to free a slot. None if all are pinned.
    pub fn evict_from_bucket(&self, hash: KeyHash) -> Option<u64> {
        let bucket = self.choices(hash).0;
        let hits = |slot: &Slot| (slot.policy().hits(), slot.policy().frequency());
        let may_go = |slot: &Slot| {
            let at = self.cx.position_of(slot.offset());
            at.is_none_or(|at| self.log_of(at.segment) != LogKind::Pinned)
        };
        let slots = self.taken_slots(bucket).into_iter().filter(|(_, slot)| may_go(slot));
        let (at, slot) = slots.min_by_key(|(_, slot)| hits(slot))?;
        match (self.load_header(slot.offset()), self.hash_of(slot)) {
            (Some(header), Some(hash)) => {
                self.remove(hash, &Found { at, slot }, &header);
                self.add_word(shard::EVICTIONS, 1);
            }
            _ => {
                self.store_slot(at, Slot::EMPTY);
                self.add_word(shard::LOST, 1);
            }
        }
        Some(at)
    }

    /// Evicts an entry, or moves one on its way there. False if there is none.
    fn evict_one(&self, budget: &mut Budget) -> bool {
        let capacity = self.capacity(budget.unit, false);
        let least = match budget.wanted_bytes > capacity.small && budget.unit == Unit::Bytes {
            true => 0,
            false => capacity.small_min,
        };
        let small_first = small_is_first(capacity.small_used, 1, least, capacity.main_used);
        if small_first {
            if let Some(mut candidate) = self.candidate(LogKind::Small, budget) {
                self.leave_small(&mut candidate, &capacity, budget);
                budget.spend();
                return true;
            }
        }
        let oldest = |budget: &mut Budget| match budget.must_gain && budget.steps == 0 {
            true => self.candidate(LogKind::Main, budget),
            false => None,
        };
        let entry = match self.victim(budget).copied().or_else(|| oldest(budget)) {
            None if small_first || budget.steps == 0 => return budget.steps == 0,
            None => self.candidate(LogKind::Small, budget),
            victim => victim,
        };
        let Some(entry) = entry else { return false };
        self.drop_oldest(&entry, Reason::Evicted);
        budget.spend();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Cache, Config, Place, Ttl, Value};

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn housekeeping_drops_nothing_that_was_hit() {
        let config = Config { size_bytes: 1 << 20, ..Config::default() };
        let cache = Cache::open(&Place::Private, &config).unwrap();
        for key in 0..20_000u64 {
            cache.set(&key.to_le_bytes(), Value::bytes(&[7; 160]), Ttl::Never).unwrap();
        }
        let mut buffer = Buffer::new();
        for key in (0..20_000u64).cycle().take(60_000) {
            cache.get(&key.to_le_bytes(), &mut buffer).unwrap();
        }
        let shard = cache.writes().lock(0).unwrap();
        let evictions = || shard.word(shard::EVICTIONS);
        let before = evictions();
        (0..20).for_each(|_| _ = shard.free_space(4, IfStuck::Stop, 0));
        assert_eq!(evictions(), before);
        // A write that waits is served.
        (0..4).for_each(|_| _ = shard.free_space(EVICTION_BATCH, IfStuck::Stop, 0));
        assert!(evictions() > before);
    }
}
