//! `Near`, the base class of a near tier: a `Core` that serves its entries until a moment, which
//! Python moves on. Must not know what is behind it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tuckbox_engine::coarse_us;

use crate::core::Core;

/// A moment by both clocks.
type Moment = (u64, u64);

/// A `Core` in front of another cache. Its subclasses are in `tuckbox.tiers`.
#[pyclass(frozen, subclass, extends = Core, module = "tuckbox._engine")]
pub struct Near {
    /// Namespaces share it.
    until: OnceLock<Arc<Until>>,
}

/// Until when `get` serves entries, by both coarse clocks: one of them goes on while the machine
/// sleeps, and the other is not set back. Two stores are not one: between them, a reader may see the
/// old end by one clock and the new one by the other, and serves until the earlier of the two.
#[derive(Default)]
struct Until {
    monotonic_us: AtomicU64,
    wall_us: AtomicU64,
}

impl Until {
    /// Serves for so much longer than a moment.
    fn set(&self, (monotonic_us, wall_us): Moment, left_us: u64) {
        self.monotonic_us.store(monotonic_us.saturating_add(left_us), Ordering::Release);
        self.wall_us.store(wall_us.saturating_add(left_us), Ordering::Release);
    }
}

/// Whether a moment has not come yet.
#[inline(always)]
pub fn is_ahead(moment: Moment) -> bool {
    let (monotonic_us, wall_us) = coarse_us();
    monotonic_us < moment.0 && wall_us < moment.1
}

impl Near {
    /// Until when entries may be served that are read after this. Whoever has read one asks
    /// [`is_ahead`] then: the process may have been stopped in between, and the tier cleared.
    #[inline(always)]
    pub fn served_until(&self) -> Moment {
        let until = self.until.get();
        until.map_or((0, 0), |until| {
            // Acquire: an entry that is read later is one of which the end was known.
            let wall_us = until.wall_us.load(Ordering::Acquire);
            (until.monotonic_us.load(Ordering::Acquire), wall_us)
        })
    }

    fn until(&self) -> &Arc<Until> {
        self.until.get_or_init(Arc::default)
    }
}

#[pymethods]
impl Near {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyClassInitializer<Near> {
        PyClassInitializer::from(Core::default()).add_subclass(Near { until: OnceLock::new() })
    }

    /// Return the time by the clock of the file, in microseconds. It goes on while the machine
    /// sleeps, and does not follow changes of the wall clock.
    fn _now_us(slf: &Bound<'_, Self>) -> PyResult<u64> {
        Ok(slf.as_super().get().opened()?.cache.latest().now_us())
    }

    /// Let `get` serve entries until a moment, in microseconds by the clock of the file; 0, the
    /// default, is not at all.
    fn _serve_until(slf: &Bound<'_, Self>, time_us: u64) -> PyResult<()> {
        // First: a process that is stopped in between serves for less, not for longer.
        let moment = coarse_us();
        let now_us = Near::_now_us(slf)?;
        slf.get().until().set(moment, time_us.saturating_sub(now_us));
        Ok(())
    }

    /// Return until when entries may be served that are read after this, for `_is_ahead`.
    fn _served_until(&self) -> Moment {
        self.served_until()
    }

    /// Return whether a moment of `_served_until` has not come yet.
    #[staticmethod]
    fn _is_ahead(moment: Moment) -> bool {
        is_ahead(moment)
    }

    /// Serve entries for as long as another handle does, whatever it is told from now on. Only
    /// the first call, before any `_serve_until`, has an effect.
    fn _serve_with(&self, other: &Bound<'_, Near>) {
        let _ = self.until.set(Arc::clone(other.get().until()));
    }
}
