//! The extension module `tuckbox._engine`.
//!
//! Translates types, errors and the GIL between Python and the engine, and takes no decision about
//! caching. Where a key becomes bytes is [`keys`], where a value does is [`codec`], where an error
//! becomes an exception is [`errors`], and where the GIL is let go is [`waiter`] and, for long
//! copies, [`core`].

#![forbid(unsafe_code)]

mod clock;
mod codec;
mod core;
mod errors;
mod keys;
mod many;
mod names;
mod numbers;
mod reports;
mod scan;
mod scratch;
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
}
