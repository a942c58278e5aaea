//! The file's time for this handle: the clock row that it uses, and the current time. Must not know
//! how rows are written and checked ([`clock`]), or expiries.

use std::sync::atomic::Ordering;

use super::ending::HEADER_LOCK_LIMIT;
use super::{Arena, Membership};
use crate::clock::{self, Clock, ClockDomain};
use crate::error::Result;
use crate::layout::header as words;
use crate::lock::Acquired;
use crate::platform;

impl Arena {
    /// Sets the clock of a read-only handle: by the row of this boot, or, until there is one, as a
    /// new row would have it.
    pub(super) fn refresh_clock(&self) {
        let Membership::Reader { rows_made: last, .. } = &self.membership else { return };
        let rows_made = clock::rows_made(&self.region);
        if last.load(Ordering::Relaxed) == rows_made {
            return;
        }
        let Ok(domain) = ClockDomain::now() else { return };
        let known = clock::known_anchor_us(&self.region, domain);
        let anchor_us = known.unwrap_or_else(|| clock::new_anchor_us(&self.region));
        self.anchor_us.store(anchor_us, Ordering::Relaxed);
        last.store(rows_made, Ordering::Relaxed);
    }

    pub(super) fn init_clock(&self, domain: ClockDomain) -> Result<()> {
        let anchor_us = match clock::known_anchor_us(&self.region, domain) {
            Some(anchor_us) => anchor_us,
            None => {
                // A dead owner can only have left a half written row, which `anchor_us` allows for.
                let _: Acquired = self.lock(words::HEADER_LOCK, HEADER_LOCK_LIMIT)?;
                let anchor_us = clock::anchor_us(&self.region, domain);
                self.unlock(words::HEADER_LOCK);
                anchor_us
            }
        };
        self.anchor_us.store(anchor_us, Ordering::Relaxed);
        clock::record_time(&self.region, self.now_us());
        Ok(())
    }

    /// The file's time in microseconds since 1970.
    #[inline]
    pub fn now_us(&self) -> u64 {
        match &self.host.clock {
            Clock::System => {
                platform::clock::boot_time_us().wrapping_add(self.anchor_us.load(Ordering::Relaxed))
            }
            Clock::Manual(now_us) => now_us.load(Ordering::Relaxed),
        }
    }

    /// Records the time for the next boot.
    pub fn record_time(&self) {
        clock::record_time(&self.region, self.now_us());
    }
}
