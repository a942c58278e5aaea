//! What processes count in their slots, and how many processes there are. Must not know what the
//! counts mean.

use std::sync::atomic::Ordering;

use super::{Arena, Membership};
use crate::layout::process as slot_layout;
use crate::process::{self, Counter, OwnerId, COUNTER_COUNT};

impl Arena {
    /// Adds to a counter of this process's slot, if it has one.
    #[inline(always)]
    pub fn count(&self, counter: Counter, amount: u64) {
        if let Ok(Some(owner)) = self.reader() {
            self.count_for(owner, counter, amount);
        }
    }

    /// As [`Arena::count`], for callers that already have the owner.
    #[inline(always)]
    pub fn count_for(&self, owner: OwnerId, counter: Counter, amount: u64) {
        let at = self.geometry.process_at(owner.slot()) + slot_layout::COUNTERS;
        self.region.add(at + counter as u64 * 8, amount);
    }

    /// Counts a read. Not atomic, because that would cost a tenth of the read. When several threads
    /// of a process read at once, some counts are lost.
    #[inline(always)]
    pub fn count_read(&self, owner: OwnerId, counter: Counter) {
        let at = self.geometry.process_at(owner.slot()) + slot_layout::COUNTERS;
        let count = self.region.view::<1>(at + counter as u64 * 8);
        count.set(0, count.get(0).wrapping_add(1));
    }

    /// How many processes use the cache: those with a process slot that are alive, as far as this
    /// process can tell.
    pub fn processes(&self) -> u64 {
        match &self.membership {
            Membership::File { file, .. } | Membership::Reader { file, .. } => {
                process::slots_alive(&self.region, &self.geometry, file).count() as u64
            }
            Membership::Twin { dead, .. } => {
                dead.iter().filter(|dead| !dead.load(Ordering::Acquire)).count() as u64
            }
        }
    }

    /// The sums of all process slots' counters.
    pub fn counters(&self) -> [u64; COUNTER_COUNT] {
        let mut sums = [0u64; COUNTER_COUNT];
        for slot in 0..self.geometry.process_count as u32 {
            let at = self.geometry.process_at(slot) + slot_layout::COUNTERS;
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(self.region.get(at + index as u64 * 8));
            }
        }
        sums
    }
}
