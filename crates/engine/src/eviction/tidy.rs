//! Housekeeping after each write. Must not know what was written.

use super::budget::{Budget, IfStuck};
use super::capacity::Unit;
use super::Eviction;
use crate::format::{log, LogKind, Slot};

/// Most entries examined after a write,
const TIDY_STEPS: u32 = 8;
/// and most of these to have a segment ready for the next one.
const EVICT_STEPS: u32 = 4;

impl Eviction<'_> {
    /// Does a little housekeeping after each write, so that no write has to do much.
    pub fn tidy(&self) {
        // Where nothing is evicted, all entries are pinned.
        if !self.cx.shape.evicts {
            return;
        }
        let mut steps = TIDY_STEPS;
        let shape = &self.cx.shape;
        let pinned = self.log_count(LogKind::Pinned, log::SEGMENTS);
        let share_bytes = shape.segments_each.saturating_sub(pinned) * shape.log_bytes;
        // Once segments are scarce, the share in bytes moves with every segment that is opened or
        // freed: that is no space to fill.
        let has_segments = !self.pool_is_scarce();
        for (unit, share) in [(Unit::Entries, shape.max_entries_each), (Unit::Bytes, share_bytes)] {
            if share > 0 && (unit == Unit::Entries || has_segments) {
                self.fill_main(unit, share, &mut steps);
            }
        }
        // Not the entry that was just written, which may be the only one in the small log.
        let older = self.used(LogKind::Small, Unit::Entries).saturating_sub(1) as u32;
        let steps = steps.min(EVICT_STEPS).min(older);
        // For a shard under its quota others evict, once it needs space.
        if steps > 0
            && !self.has_segment_ready()
            && !self.cx.is_under_quota(self.index)
            && !self.make_segment_ready()
        {
            self.free_space(steps, IfStuck::Stop, 0);
        }
    }

    /// While the cache fills, all entries are in the small log. Before it is full, the oldest move
    /// to the main log without the admission test, as long as there is space.
    fn fill_main(&self, unit: Unit, share: u64, steps: &mut u32) {
        let mut budget = Budget::new(*steps, IfStuck::Stop, unit);
        let capacity = self.capacity(unit, true);
        let is_filling = (capacity.small_used + capacity.main_used) * 4 > share * 3;
        while is_filling
            && budget.steps > 0
            && self.used(LogKind::Small, unit) > capacity.small
            && self.used(LogKind::Main, unit) < capacity.main
        {
            let Some(candidate) = self.candidate(LogKind::Small, &mut budget) else { break };
            let slot = Slot(self.region().get(candidate.found.at));
            let bits = self.bits(slot.policy().hits(), candidate.frequency, false);
            if self.try_move_entry(&candidate, LogKind::Main, bits).is_none() {
                break;
            }
            budget.spend();
        }
        *steps = budget.steps;
    }
}
