//! How a thread may sleep. The program that embeds the cache may hold a lock of its own (Python
//! holds the GIL) that must not be held meanwhile, and may want to stop waiting on a signal.

/// The embedding program asked to give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

/// Runs work that may take long.
pub trait Waiter: Send + Sync {
    /// Runs `work` once, letting go of the host's own lock meanwhile.
    ///
    /// # Errors
    /// [`Interrupted`] if the host wants the operation to end. `work` has run all the same.
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted>;

    /// Runs `work` once as [`Waiter::run`] does, and does not ask whether the host wants to end the
    /// operation: it is over when the work is.
    fn finish(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }
}

/// For programs without a lock of their own.
#[derive(Debug, Default, Clone, Copy)]
pub struct NativeWaiter;

impl Waiter for NativeWaiter {
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted> {
        work();
        Ok(())
    }
}
