//! Whether a use of the cache ended in order: how this handle begins and ends its use, and what it does
//! when the last one was cut off. The mark itself is [`use_mark`]'s; what is discarded is known above.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Arena, Membership};
use crate::error::{Error, Result};
use crate::file::CacheFile;
use crate::layout::{header, AfterPowerCut};
use crate::lock::Acquired;
use crate::process;
use crate::use_mark::{self, Begun};

/// For changes of the header, once in each boot.
pub(super) const HEADER_LOCK_LIMIT: Duration = Duration::from_secs(1);

impl Arena {
    /// What becomes of the entries after a power cut.
    pub(super) fn discards(&self) -> bool {
        self.geometry.plan.after_power_cut == AfterPowerCut::Discard
    }

    /// Marks the cache as in use by a handle that has just taken its slot.
    pub(super) fn mark_in_use(&self, file: &CacheFile) -> Result<()> {
        if !self.discards() {
            return Ok(());
        }
        // What a cut left is discarded later, see `recover_from_power_cut`.
        use_mark::begin(&self.region, self.boot, || file.sync()).map(|_: Begun| ())
    }

    /// Marks the cache as clean if this handle, which has given up its slot, was the last one.
    pub(super) fn mark_closed(&self, file: &CacheFile) {
        let is_lost = self.region.is_lost() || self.lost.load(Ordering::Acquire);
        if self.discards() && !is_lost {
            let is_anyone_alive = || process::is_anyone_alive(&self.region, &self.geometry, file);
            use_mark::end(&self.region, self.boot, is_anyone_alive, || file.sync());
        }
    }

    /// Calls `discard` if the cache is to be emptied after a power cut, and its last use was cut off by
    /// one as far as can be told. Processes that open the cache meanwhile wait. To be called before this
    /// handle is used.
    ///
    /// # Errors
    /// [`Error::CutOff`] for a handle that only reads, [`Error::LockTimeout`], and what `discard` answers.
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
        // A dead owner has discarded a part at most; all of it is discarded once more.
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

    /// How often the cache was emptied because its last use was cut off.
    pub fn discards_made(&self) -> u64 {
        self.region.get(header::DISCARDS)
    }

    /// Names the boot that this handle was opened in; 0 where there is no such thing.
    #[inline(always)]
    pub fn boot(&self) -> u64 {
        self.boot
    }
}
