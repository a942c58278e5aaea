//! How a thread of a Python program sleeps and works long: without the GIL, and ready for Ctrl-C.
//!
//! Knows nothing of caches.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tuckbox_engine::{Interrupted, Waiter};

/// How long a thread that let go of the GIL works on before it asks for signals again: to ask it
/// must have the GIL back, for which it may have to wait.
const SIGNALS_EVERY: Duration = Duration::from_millis(20);

thread_local! {
    /// When this thread, which has let go of the GIL, last asked for signals; none if it has the
    /// GIL.
    static ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs an operation without the GIL, from its beginning to its end.
pub fn detached<T: Send>(py: Python<'_>, operation: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let before = ASKED.replace(Some(Instant::now()));
        let result = operation();
        ASKED.set(before);
        result
    })
}

/// Lets other Python threads run meanwhile, and Python's signal handlers afterwards.
pub struct PythonWaiter;

impl Waiter for PythonWaiter {
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted> {
        let Some(asked) = ASKED.get() else {
            return Python::attach(|py| {
                py.detach(work);
                ask_for_signals(py)
            });
        };
        work();
        if asked.elapsed() < SIGNALS_EVERY {
            return Ok(());
        }
        // A handler has the GIL, and may use a cache itself.
        ASKED.set(None);
        let answer = Python::attach(ask_for_signals);
        ASKED.set(Some(Instant::now()));
        answer
    }

    fn finish(&self, work: &mut (dyn FnMut() + Send)) {
        // A signal's handler runs when Python goes on, which is at once.
        match ASKED.get() {
            None => Python::attach(|py| py.detach(work)),
            Some(_) => work(),
        }
    }
}

fn ask_for_signals(py: Python<'_>) -> Result<(), Interrupted> {
    // An exception that waits already is on its way out: another handler must not run on top.
    if PyErr::occurred(py) {
        return Err(Interrupted);
    }
    py.check_signals().map_err(|exception| {
        exception.restore(py);
        Interrupted
    })
}
