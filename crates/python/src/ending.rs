//! The end of the interpreter: a thread that is inside of this extension then must not meet it.
//!
//! Python up to 3.13 ends each daemon thread that asks for the GIL while the interpreter ends, by
//! unwinding its stack. Rust aborts the process if that meets one of its functions. So what runs
//! Python code or releases the GIL inside of this extension is counted. At exit, the main thread
//! waits for a limited time until no thread is inside. A thread that enters later waits without end.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// How long the end waits for threads that are inside.
const PATIENCE: Duration = Duration::from_secs(2);

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static IS_ENDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How often this thread is inside.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread ends the interpreter, and so may still come in.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// A thread is inside as long as it has this.
pub struct Inside(());

/// Enters. The thread holds the GIL.
///
/// The race: a thread counts itself, and then looks whether the end has begun; the end begins, and
/// then counts. So one of the two sees the other.
pub fn enter(py: Python<'_>) -> Inside {
    let depth = DEPTH.get();
    if depth == 0 {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if IS_ENDING.load(Ordering::SeqCst) && !ENDS.get() {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
            py.detach(|| loop {
                std::thread::park();
            });
        }
    }
    DEPTH.set(depth + 1);
    Inside(())
}

impl Drop for Inside {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Begins the end, and waits until no other thread is inside.
#[pyfunction]
fn end(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    ENDS.set(true);
    let own = usize::from(DEPTH.get() > 0);
    let began = Instant::now();
    while INSIDE.load(Ordering::SeqCst) > own && began.elapsed() < PATIENCE {
        py.detach(|| std::thread::sleep(Duration::from_millis(1)));
    }
}

/// Forgets the threads of the parent.
#[pyfunction]
fn forget_parent() {
    INSIDE.store(usize::from(DEPTH.get() > 0), Ordering::SeqCst);
}

/// Has Python call these functions.
///
/// # Errors
/// Exceptions of Python.
pub fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let end = wrap_pyfunction!(end, module)?;
    py.import("atexit")?.call_method1("register", (end,))?;
    let options = PyDict::new(py);
    options.set_item("after_in_child", wrap_pyfunction!(forget_parent, module)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&options))?;
    Ok(())
}
