//! The extension module `tuckbox._engine`.
//!
//! Translates types, errors and the GIL between Python and the engine, and takes no decision about
//! caching. Where a key becomes bytes is [`keys`], where a value does is [`codec`], where an error
//! becomes an exception is [`errors`], when the GIL is let go is [`opened`] and how [`waiter`], how
//! CPython calls what must be fast is [`fastcall`], and where a string's characters lie is
//! [`text`].

#![deny(unsafe_code)]

mod clock;
mod codec;
mod core;
mod errors;
#[allow(unsafe_code)]
mod fastcall;
mod keys;
mod output_buffer;
mod many;
mod names;
mod numbers;
mod opened;
mod reports;
mod scan;
mod scratch;
#[allow(unsafe_code)]
mod text;
mod ttl;
mod varint;
mod waiter;

/// The module's table.
#[pyo3::pymodule]
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
        super::core::install_methods(module.py())
    }
}
