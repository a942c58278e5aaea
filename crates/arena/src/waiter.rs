//! How a thread sleeps. The host program may hold a lock of its own (Python holds the GIL) that
//! must be released during a sleep, and may want to stop waiting on a signal. Must not know what is
//! waited for.

use std::time::Duration;

/// The longest value that a brief operation copies.
pub const BRIEF_BYTES: usize = 128 << 10;

/// The host asked to stop waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

/// Runs work that may take long.
pub trait Waiter: Send + Sync {
    /// If the present operation of this thread must be brief: how long it may spin for a lock. It
    /// then fails with [`Error::WouldBlock`](crate::Error::WouldBlock) instead of sleeping,
    /// repairing, or copying a value longer than [`BRIEF_BYTES`].
    fn brief(&self) -> Option<Duration> {
        None
    }

    /// Runs `work` once with the host's own lock released.
    ///
    /// # Errors
    /// [`Interrupted`] if the host wants the operation to end. `work` has run all the same.
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted>;

    /// As [`Waiter::run`], but without asking whether the host wants to stop: the operation ends
    /// with the work anyway.
    fn finish(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }
}

/// For hosts without a lock of their own.
#[derive(Debug, Default, Clone, Copy)]
pub struct NativeWaiter;

impl Waiter for NativeWaiter {
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted> {
        work();
        Ok(())
    }
}
