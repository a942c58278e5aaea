//! The lock that shows that a process is alive, as long as the process has it. Must not know what
//! a slot records.

use std::io;
use std::sync::atomic::Ordering;

use super::forks::{ClosedInChild, FORKS};
use crate::platform::{files, forks, liveness};

/// An open file of its own, whose byte lock shows that the slot's owner is alive. A forked child
/// closes it, so that the parent's death is visible while the child lives. A mapping keeps it open
/// too, for daemons that close all their descriptors.
#[derive(Debug)]
pub struct LivenessLock {
    pub(super) fd: i32,
    /// What keeps the file open without the descriptor. A child does not inherit it.
    kept: usize,
    listed: ClosedInChild,
    forks: u64,
}

impl LivenessLock {
    /// Opens the file again; none if this process has too many liveness locks. The caller holds the
    /// fork lock.
    pub fn open(file: i32) -> io::Result<Option<LivenessLock>> {
        let fd = liveness::open_again(file)?;
        // Needed when the lock is closed.
        let Some(status) = files::status(fd) else {
            let error = io::Error::last_os_error();
            forks::close(fd);
            return Err(error);
        };
        let kept = liveness::keep_open(fd).inspect_err(|_| forks::close(fd))?;
        let forks = FORKS.load(Ordering::Relaxed);
        let listed = ClosedInChild::list(fd, status.id);
        if listed.is_none() {
            liveness::stop_keeping_open(kept);
            forks::close(fd);
        }
        Ok(listed.map(|listed| LivenessLock { fd, kept, listed, forks }))
    }

    /// Whether it was opened by this process, not inherited over a fork.
    pub fn is_of_this_process(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// Whether other code has left the descriptor alone.
    pub fn is_open(&self) -> bool {
        self.listed.is_open(self.fd)
    }
}

impl Drop for LivenessLock {
    fn drop(&mut self) {
        // After a fork the child has closed the number, which may now be another file's.
        if self.is_of_this_process() {
            self.listed.end(self.fd);
            liveness::stop_keeping_open(self.kept);
        }
    }
}
