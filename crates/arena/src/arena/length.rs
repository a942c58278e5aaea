//! How long the file is: how this handle learns of it, notices that it became shorter, and lengthens
//! it. Knows nothing of who has which segment.

use std::sync::atomic::Ordering;

use super::{Arena, Membership};
use crate::error::{Error, Result};
use crate::hooks::{self, Point};

/// Growth takes at least this much at a time, so that a busy cache does not ask the system often,
const GROWTH_BYTES_LEAST: u64 = 128 << 10;
/// and at most this much, so that no single write waits long for it.
const GROWTH_BYTES_MOST: u64 = 1 << 20;

impl Arena {
    /// How long the file is. One that became shorter is lost.
    fn file_bytes(&self) -> Result<u64> {
        // First: another thread of this process may lengthen the file meanwhile, and say so.
        let usable_bytes = self.region.usable_bytes();
        let file_bytes = match &self.membership {
            Membership::File { file, .. } | Membership::Reader { file, .. } => file.len_bytes()?,
            Membership::Twin { file_bytes, .. } => file_bytes.load(Ordering::Acquire),
        };
        if file_bytes < usable_bytes {
            // No cache is ever made shorter. What others still have behind the cut, they lose.
            return Err(self.lose());
        }
        Ok(file_bytes)
    }

    fn allocate(&self, offset: u64, len_bytes: u64) -> Result<()> {
        match &self.membership {
            Membership::File { file, .. } => file.allocate(offset, len_bytes),
            Membership::Reader { .. } => Err(Error::ReadOnly { path: self.path.clone() }),
            Membership::Twin { file_bytes, .. } => {
                file_bytes.fetch_max(offset + len_bytes, Ordering::AcqRel);
                Ok(())
            }
        }
    }

    /// Makes sure that the file is at least as long as it was: who met its end while it held a lock
    /// will not let go of it.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn look_for_cut(&self) -> Result<()> {
        match self.file_bytes() {
            // A daemon that closed its descriptors cannot tell.
            Err(_) if !self.lost.load(Ordering::Acquire) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Looks whether another process has lengthened the file. For offsets beyond what is usable.
    #[cold]
    pub fn look_at_length(&self) {
        if let Ok(file_bytes) = self.file_bytes() {
            self.region.set_usable(file_bytes);
        }
    }

    /// How many segments the file has, as far as this handle knows: others may have made it longer
    /// since, and taken what is behind. So this bounds what can be taken without asking the system
    /// ([`Arena::look_at_length`]), and never a search for what somebody has: see
    /// [`Arena::segments_of`]. Grows, never shrinks.
    #[inline(always)]
    pub fn segments_present(&self) -> u32 {
        self.region.usable_segments()
    }

    /// Lengthens the file by some segments. False if it is as long as it may get.
    ///
    /// Takes no lock: two that lengthen it at once ask the kernel for the same bytes, or for bytes
    /// behind each other, and either leaves a longer file. So nobody waits for a grower that is
    /// stopped, and one that dies leaves nothing to mend.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the file system is full; the cache goes on with what it has.
    pub fn grow(&self) -> Result<bool> {
        let before = self.segments_present();
        // Another process may have grown it: its length says so.
        self.region.set_usable(self.file_bytes()?);
        if self.segments_present() > before {
            return Ok(true);
        }
        if u64::from(before) == self.geometry.segment_count {
            return Ok(false);
        }
        hooks::reach(Point::GrowthBegun);
        let segment_bytes = self.geometry.plan.segment_bytes;
        let step_bytes = (self.region.usable_bytes() / 128)
            .clamp(GROWTH_BYTES_LEAST, GROWTH_BYTES_MOST)
            .next_multiple_of(segment_bytes);
        let from = self.geometry.pool_at + u64::from(before) * segment_bytes;
        let to = (from + step_bytes).min(self.geometry.file_bytes_max());
        let grown = match self.allocate(from, to - from) {
            // Not room for a whole step: a single segment may still fit.
            Err(Error::NoSpace { .. }) if step_bytes > segment_bytes => {
                self.allocate(from, segment_bytes)
            }
            other => other,
        };
        self.region.set_usable(self.file_bytes()?);
        grown?;
        Ok(self.segments_present() > before)
    }
}
