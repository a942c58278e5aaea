//! The extension module `tuckbox._engine`.
//!
//! Converts types and errors between Python and the engine, and releases the GIL. Decides nothing
//! about caching.
//!
//! - `core`: the methods of `Cache`; [`get_set`]: `get` and `set`; [`many`]: those on many keys
//! - [`terms`]: how a value is stored; [`spaces`]: keys in namespaces
//! - [`gate`]: changes that pass a gate; [`passage`]: the most common one in one call
//! - [`keys`]: keys to bytes and back; [`codec`]: values to bytes and back
//! - [`leases`]: who makes a value; [`near`]: a near tier
//! - [`local`]: objects that this process keeps; [`gil_cell`]: a value under the GIL
//! - [`objects`]: what stores values that are not plain
//! - [`numbers`]: numbers of other libraries; [`advice`]: what to do about other types
//! - [`errors`]: engine errors to exceptions
//! - [`opened`]: when the GIL is released; [`waiter`]: how; [`ending`]: the end of the interpreter
//! - `hooks`: functions for tests, in builds with that feature
//! - [`explain`]: advice in errors of other methods
//! - [`fastcall`]: how CPython calls `get`, `set` and `put`; [`text`]: the characters of a `str`

#![deny(unsafe_code)]

mod advice;
mod choices;
mod clock;
mod codec;
mod core;
mod dumps;
mod ending;
mod errors;
#[allow(unsafe_code)]
mod explain;
#[allow(unsafe_code)]
mod fastcall;
mod gate;
mod get_set;
#[allow(unsafe_code)]
mod gil_cell;
#[cfg(feature = "hooks")]
mod hooks;
mod keys;
mod leases;
mod local;
mod many;
mod names;
mod near;
mod numbers;
mod objects;
mod opened;
#[allow(unsafe_code)]
mod output_buffer;
mod passage;
mod reports;
mod scan;
mod scratch;
mod spaces;
mod terms;
#[allow(unsafe_code)]
mod text;
mod ttl;
mod varint;
mod waiter;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The module's contents.
// No free-threaded Python has run the tests: with `gil_used`, one turns its GIL on.
#[pyo3::pymodule(gil_used = true)]
mod _engine {
    #[pymodule_export]
    use super::clock::ManualClock;
    #[pymodule_export]
    use super::core::Core;
    #[pymodule_export]
    use super::near::Near;
    #[pymodule_export]
    use super::passage::Passage;
    #[pymodule_export]
    use super::scan::Scan;
    #[pymodule_export]
    use super::waiter::{briefly, is_brief};
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::only_one_interpreter(module.py())?;
        #[cfg(feature = "hooks")]
        super::hooks::install(module)?;
        super::ending::install(module)?;
        super::passage::install_methods(module.py())?;
        super::get_set::install_methods(module.py())
    }
}

/// Refuses all interpreters of a process but the first that imports the module: the exceptions and
/// types that the code remembers are those of one interpreter.
///
/// # Errors
/// `ImportError`.
fn only_one_interpreter(py: Python<'_>) -> PyResult<()> {
    // Each interpreter has its own `sys`.
    static FIRST: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let sys = py.import("sys")?;
    if FIRST.get_or_init(py, || sys.clone().unbind()).is(&sys) {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "tuckbox works in one interpreter of a process, and another one has imported it: run each \
         in a process of its own (mod_wsgi: WSGIApplicationGroup %{GLOBAL})",
    ))
}

#[cfg(all(test, not(feature = "hooks")))]
mod tests {
    use pyo3::prelude::*;

    #[test]
    fn a_build_without_features_has_no_functions_for_tests() {
        Python::attach(|py| {
            let module = pyo3::wrap_pymodule!(super::_engine)(py).into_bound(py);
            let names: Vec<String> = module.dir().unwrap().extract().unwrap();
            assert!(names.iter().any(|name| name == "Core"));
            let private = |name: &&String| name.starts_with('_') && !name.starts_with("__");
            assert_eq!(names.iter().filter(private).collect::<Vec<_>>(), [""; 0]);
        });
    }
}
