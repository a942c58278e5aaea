//! The extension module `tuckbox._engine`.
//!
//! Converts types and errors between Python and the engine, and releases the GIL. Decides nothing
//! about caching.
//!
//! - `core`: the methods of `Cache`; [`get_set`]: `get` and `set`; [`many`]: those on many keys
//! - [`keys`]: keys to bytes and back; [`codec`]: values to bytes and back
//! - [`numbers`]: numbers of other libraries; [`advice`]: what to do about other types
//! - [`errors`]: engine errors to exceptions
//! - [`opened`]: when the GIL is released; [`waiter`]: how
//! - [`fastcall`]: how CPython calls `get` and `set`; [`text`]: the characters of a `str`

#![deny(unsafe_code)]

mod advice;
mod choices;
mod clock;
mod codec;
mod core;
mod errors;
#[allow(unsafe_code)]
mod fastcall;
mod get_set;
mod keys;
mod many;
mod names;
mod numbers;
mod opened;
mod output_buffer;
mod reports;
mod scan;
mod scratch;
#[allow(unsafe_code)]
mod text;
mod ttl;
mod varint;
mod waiter;

/// The module's contents.
// No free-threaded Python has run the tests: with `gil_used`, one turns its GIL on.
#[pyo3::pymodule(gil_used = true)]
mod _engine {
    #[pymodule_export]
    use super::clock::ManualClock;
    #[pymodule_export]
    use super::core::Core;
    #[pymodule_export]
    use super::scan::Scan;
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::get_set::install_methods(module.py())
    }
}
