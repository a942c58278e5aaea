//! How a thread sleeps. The host program may hold a lock of its own (Python holds the GIL) that
//! must be released during a sleep, and may want to stop waiting on a signal. Must not know what is
//! waited for.

/// The host asked to stop waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

/// Runs work that may take long.
pub trait Waiter: Send + Sync {
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
