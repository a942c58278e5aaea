//! The length of the file: how this handle learns it, notices that it shrank, and grows it. Must
//! not know who owns which segment.

use std::sync::atomic::Ordering;

use super::{Arena, Membership};
use crate::error::{Error, Result};
use crate::hooks::{self, Point};

/// Growth takes at least this much at a time, so that a busy cache seldom calls the system,
const GROWTH_BYTES_MIN: u64 = 128 << 10;
/// and at most this much, so that no single write waits long for it.
const GROWTH_BYTES_MAX: u64 = 1 << 20;

impl Arena {
    /// The present length of the file. A file that became shorter is lost.
    fn file_bytes(&self) -> Result<u64> {
        // Loaded first: another thread of this process may grow the file meanwhile and raise this.
        let usable_bytes = self.region.usable_bytes();
        let file_bytes = match &self.membership {
            Membership::File { file, .. } | Membership::Reader { file, .. } => file.len_bytes()?,
            Membership::Twin { file_bytes, .. } => file_bytes.load(Ordering::Acquire),
        };
        if file_bytes < usable_bytes {
            // Tuckbox never shortens a file. Other handles lose what they have behind the cut.
            return Err(self.mark_lost());
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

    /// Checks that the file is not shorter than before: an owner that met the end of the file under
    /// a lock will not release the lock.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn check_not_truncated(&self) -> Result<()> {
        match self.file_bytes() {
            // A daemon that closed its descriptors cannot tell.
            Err(_) if !self.lost.load(Ordering::Acquire) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Learns whether another process has grown the file. For offsets beyond the usable part.
    #[cold]
    pub fn refresh_length(&self) {
        if let Ok(file_bytes) = self.file_bytes() {
            self.region.set_usable(file_bytes);
        }
    }

    /// How many segments the file has, as far as this handle knows. Never shrinks.
    ///
    /// Others may have grown the file and taken the new segments. So this bounds what can be taken
    /// without a system call ([`Arena::refresh_length`]), but not a search for what an owner holds
    /// ([`Arena::segments_of`]).
    #[inline(always)]
    pub fn segments_present(&self) -> u32 {
        self.region.usable_segments()
    }

    /// Lengthens the file by some segments. False if it is fully grown.
    ///
    /// Takes no lock. The race: two processes grow the file at once. They ask the kernel for the
    /// same bytes, or for bytes behind each other's; either way the file is longer afterwards. So
    /// nobody waits for a stopped grower, and a dead one leaves nothing to repair.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the file system is full; the cache continues with what it has.
    pub fn grow(&self) -> Result<bool> {
        let before = self.segments_present();
        if u64::from(before) == self.geometry.segment_count {
            return Ok(false);
        }
        // Another process may have grown the file.
        self.region.set_usable(self.file_bytes()?);
        if self.segments_present() > before {
            return Ok(true);
        }
        hooks::reach(Point::GrowthBegun);
        let segment_bytes = self.geometry.plan.segment_bytes;
        let step_bytes = (self.region.usable_bytes() / 128)
            .clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX)
            .next_multiple_of(segment_bytes);
        let from = self.geometry.pool_at + u64::from(before) * segment_bytes;
        let to = (from + step_bytes).min(self.geometry.file_bytes_max());
        let grown = match self.allocate(from, to - from) {
            // No space for a whole step: a single segment may still fit.
            Err(Error::NoSpace { .. }) if step_bytes > segment_bytes => {
                self.allocate(from, segment_bytes)
            }
            other => other,
        };
        self.region.set_usable(self.file_bytes()?);
        grown?;
        self.region.use_huge_pages(from);
        Ok(self.segments_present() > before)
    }
}
