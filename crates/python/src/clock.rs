//! A clock for tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tuckbox_engine::Clock;

/// A clock for tests: `Core(path, clock=clock)` uses its time instead of the system's.
///
/// The time, in seconds since 1970, changes only by `advance`, and only forward.
///
/// Args:
///     now_s: The time to start at, in seconds since 1970.
///
/// Example:
///     >>> clock = ManualClock(1000.0)
///     >>> clock.advance(5)
///     >>> clock.now()
///     1005.0
#[pyclass(frozen, module = "tuckbox._engine")]
pub struct ManualClock {
    now_us: Arc<AtomicU64>,
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (now_s=1_000_000_000.0))]
    fn new(now_s: f64) -> PyResult<ManualClock> {
        Ok(ManualClock { now_us: Arc::new(AtomicU64::new(microseconds(now_s)?)) })
    }

    /// Return the time, in seconds since 1970.
    fn now(&self) -> f64 {
        self.now_us.load(Ordering::Relaxed) as f64 / 1e6
    }

    /// Move the time forward by `seconds`.
    fn advance(&self, seconds: f64) -> PyResult<()> {
        self.now_us.fetch_add(microseconds(seconds)?, Ordering::Relaxed);
        Ok(())
    }
}

impl ManualClock {
    /// The clock for the engine.
    pub fn clock(&self) -> Clock {
        Clock::Manual(Arc::clone(&self.now_us))
    }
}

fn microseconds(seconds: f64) -> PyResult<u64> {
    if (0.0..1e12).contains(&seconds) {
        return Ok((seconds * 1e6).round() as u64);
    }
    Err(PyValueError::new_err(format!("seconds must be at least 0 and below 1e12, got {seconds}")))
}
