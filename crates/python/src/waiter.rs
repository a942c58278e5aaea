//! Long work and waiting without the GIL, with handling of signals such as Ctrl-C.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tuckbox_engine::{Interrupted, Waiter};

/// How often a thread without the GIL checks for signals. Each check takes the GIL, and may have
/// to wait for it.
const SIGNALS_EVERY: Duration = Duration::from_millis(20);

thread_local! {
    /// When this thread last checked for signals, if it has released the GIL; `None` if it holds
    /// the GIL.
    static CHECKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs an operation without the GIL.
pub fn detached<T: Send>(py: Python<'_>, operation: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let before = CHECKED.replace(Some(Instant::now()));
        let result = operation();
        CHECKED.set(before);
        result
    })
}

/// Waits without the GIL, then runs Python's signal handlers.
pub struct PythonWaiter;

impl Waiter for PythonWaiter {
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted> {
        let Some(checked) = CHECKED.get() else {
            return Python::attach(|py| {
                py.detach(work);
                check_signals(py)
            });
        };
        work();
        if checked.elapsed() < SIGNALS_EVERY {
            return Ok(());
        }
        // A signal handler holds the GIL, and may itself use a cache.
        CHECKED.set(None);
        let result = Python::attach(check_signals);
        CHECKED.set(Some(Instant::now()));
        result
    }

    fn finish(&self, work: &mut (dyn FnMut() + Send)) {
        // No check: Python runs the signal handlers when the operation returns.
        match CHECKED.get() {
            None => Python::attach(|py| py.detach(work)),
            Some(_) => work(),
        }
    }
}

fn check_signals(py: Python<'_>) -> Result<(), Interrupted> {
    // With an exception already pending, no further handler may run.
    if PyErr::occurred(py) {
        return Err(Interrupted);
    }
    py.check_signals().map_err(|exception| {
        exception.restore(py);
        Interrupted
    })
}
