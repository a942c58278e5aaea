//! How a thread of a Python program sleeps and works long: without the GIL, and ready for Ctrl-C.
//!
//! Knows nothing of caches.

use pyo3::prelude::*;
use tuckbox_engine::{Interrupted, Waiter};

/// Lets other Python threads run meanwhile, and Python's signal handlers afterwards.
pub struct PythonWaiter;

impl Waiter for PythonWaiter {
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted> {
        Python::attach(|py| {
            py.detach(work);
            // An exception that waits already is on its way out: another handler must not run
            // on top of it.
            if PyErr::occurred(py) {
                return Err(Interrupted);
            }
            py.check_signals().map_err(|exception| {
                exception.restore(py);
                Interrupted
            })
        })
    }
}
