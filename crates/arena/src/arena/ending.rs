//! How this handle begins and ends a use of the cache, and detects that a power cut ended the last
//! one. Must not know how the mark works ([`use_mark`]), or what is discarded (the layer above).

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Arena, Membership};
use crate::error::{Error, Result};
use crate::file::CacheFile;
use crate::layout::{header, AfterPowerCut};
use crate::lock::Acquired;
use crate::process;
use crate::use_mark;

/// The longest wait for the header's lock.
pub(super) const HEADER_LOCK_LIMIT: Duration = Duration::from_secs(1);

impl Arena {
    /// Whether the entries are discarded after a power cut.
    pub(super) fn discards(&self) -> bool {
        self.geometry.plan.after_power_cut == AfterPowerCut::Discard
    }

    /// Marks the cache as in use by this process, which has just taken its slot.
    pub(super) fn mark_in_use(&self, file: &CacheFile) -> Result<()> {
        if !self.discards() {
            return Ok(());
        }
        // After a cut the mark stays until `recover_from_power_cut` has discarded the entries.
        use_mark::begin(&self.region, self.boot, || file.sync())
    }

    /// Marks the cache as clean if no process uses it any more. This one has released its slot.
    pub(super) fn mark_closed(&self, file: &CacheFile) {
        let is_lost =
            self.region.is_lost() || self.lost.load(Ordering::Acquire) || self.is_superseded();
        if self.discards() && !is_lost {
            let alive = || process::slots_alive(&self.region, &self.geometry, file);
            let is_anyone_alive = || alive().next().is_some();
            use_mark::end(&self.region, self.boot, is_anyone_alive, || file.sync());
        }
    }

    /// Calls `discard` if a power cut ended the last use and the cache must be emptied then. Other
    /// processes that open the cache wait meanwhile. Must be called before this handle is used.
    ///
    /// # Errors
    /// [`Error::CutOff`] for a read-only handle, [`Error::LockTimeout`], and the errors of
    /// `discard`.
    pub fn recover_from_power_cut<E: From<Error>>(
        &self,
        discard: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if !self.discards() || !use_mark::is_cut_off(&self.region, self.boot) {
            return Ok(());
        }
        if let Membership::Reader { .. } = self.membership {
            return Err(Error::CutOff { path: self.path.clone() }.into());
        }
        // A dead owner may have discarded a part; everything is discarded again.
        let _: Acquired = self.lock(header::HEADER_LOCK, HEADER_LOCK_LIMIT)?;
        let is_cut_off = use_mark::is_cut_off(&self.region, self.boot);
        let discarded = if is_cut_off { discard() } else { Ok(()) };
        if is_cut_off && discarded.is_ok() {
            self.region.add(header::DISCARDS, 1);
            use_mark::recovered(&self.region, self.boot);
        }
        self.unlock(header::HEADER_LOCK);
        discarded
    }

    /// How often the cache was emptied after a power cut.
    pub fn discards_made(&self) -> u64 {
        self.region.get(header::DISCARDS)
    }

    /// The boot in which this handle was opened; 0 if unknown.
    #[inline(always)]
    pub fn boot(&self) -> u64 {
        self.boot
    }
}
