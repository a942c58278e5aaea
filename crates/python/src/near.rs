//! `Near`, the base class of a near tier: a `Core` that serves its entries until a moment, which
//! Python moves on. Must not know what is behind it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::core::Core;
use crate::opened::Opened;

/// A `Core` in front of another cache. Use the subclass in `tuckbox.tiers`, which has `_missed`.
#[pyclass(frozen, subclass, extends = Core, module = "tuckbox._engine")]
pub struct Near {
    /// Until when `get` serves entries, in microseconds by the clock of the file. Namespaces share
    /// it.
    until_us: OnceLock<Arc<AtomicU64>>,
}

impl Near {
    /// Whether entries may be served now.
    #[inline(always)]
    pub fn serves(&self, opened: &Opened) -> bool {
        let until_us = self.until_us.get().map_or(0, |until| until.load(Ordering::Relaxed));
        until_us == u64::MAX || opened.cache.latest().now_us() < until_us
    }

    fn until(&self) -> &Arc<AtomicU64> {
        self.until_us.get_or_init(Arc::default)
    }
}

#[pymethods]
impl Near {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyClassInitializer<Near> {
        PyClassInitializer::from(Core::default()).add_subclass(Near { until_us: OnceLock::new() })
    }

    /// Return the time by the clock of the file, in microseconds. It goes on while the machine
    /// sleeps, and does not follow changes of the wall clock.
    fn _now_us(slf: &Bound<'_, Self>) -> PyResult<u64> {
        Ok(slf.as_super().get().opened()?.cache.latest().now_us())
    }

    /// Let `get` serve entries until a moment, in microseconds; 0 is not at all. By default, it is
    /// not at all.
    fn _serve_until(&self, time_us: u64) {
        self.until().store(time_us, Ordering::Relaxed);
    }

    /// Return whether `get` serves entries now.
    fn _serves(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(slf.get().serves(slf.as_super().get().opened()?))
    }

    /// Serve entries for as long as another handle does, whatever it is told from now on. Only the
    /// first call, before any `_serve_until`, has an effect.
    fn _serve_with(&self, other: &Bound<'_, Near>) {
        let _ = self.until_us.set(Arc::clone(other.get().until()));
    }
}
