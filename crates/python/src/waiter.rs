//! Long work and waiting without the GIL, with handling of signals such as Ctrl-C.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tuckbox_engine::{Interrupted, Waiter};

use crate::ending;

/// How often a thread without the GIL checks for signals. Each check takes the GIL, and may have
/// to wait for it.
const SIGNALS_EVERY: Duration = Duration::from_millis(20);

thread_local! {
    /// When this thread last checked for signals, if it has released the GIL; `None` if it holds
    /// the GIL.
    static CHECKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// See [`Waiter::brief`].
    static BRIEF: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Call a function whose cache operations must not wait, for event loops.
///
/// An operation in it that meets a lock raises `tuckbox.brief.Locked`. One that would have to
/// repair, or to copy a value longer than 128 KiB, raises `tuckbox.brief.WouldBlock`. Neither has
/// changed anything.
///
/// Args:
///     spin_s: For how many seconds an operation may spin for a lock.
///     function: What to call, with the other arguments.
///
/// Returns:
///     What the function returns.
///
/// Raises:
///     WouldBlock: See above; and whatever the function raises.
///
/// Example:
///     >>> briefly(0.0, cache.set, "user:42", "Ada", ttl=60)
///     >>> briefly(0.0, cache.get, "user:42")
///     'Ada'
#[pyfunction]
#[pyo3(signature = (spin_s, function, /, *args, **kwargs))]
pub fn briefly<'py>(
    spin_s: f64,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    struct Restored(Option<Duration>);
    impl Drop for Restored {
        fn drop(&mut self) {
            BRIEF.set(self.0);
        }
    }
    let spin_for = Duration::try_from_secs_f64(spin_s).unwrap_or_default();
    let _restored = Restored(BRIEF.replace(Some(spin_for)));
    function.call(args, kwargs)
}

/// Return whether the operations of this thread must be brief now.
///
/// Returns:
///     True inside of a call of `briefly`.
///
/// Example:
///     >>> is_brief(), briefly(0.0, is_brief)
///     (False, True)
#[pyfunction]
pub fn is_brief() -> bool {
    BRIEF.get().is_some()
}

/// Lets other Python threads run, in the middle of long work that needs the GIL.
#[cold]
pub fn let_others_run(py: Python<'_>) {
    let _inside = ending::enter(py);
    py.detach(|| ());
}

/// Runs an operation without the GIL.
pub fn detached<T: Send>(py: Python<'_>, operation: impl FnOnce() -> T + Send) -> T {
    let _inside = ending::enter(py);
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
    fn brief(&self) -> Option<Duration> {
        BRIEF.get()
    }

    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted> {
        let Some(checked) = CHECKED.get() else {
            return Python::attach(|py| {
                let _inside = ending::enter(py);
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
            None => Python::attach(|py| {
                let _inside = ending::enter(py);
                py.detach(work);
            }),
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
