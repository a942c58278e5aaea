//! A clock that a test moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tuckbox_engine::Clock;

/// The time of a cache that is opened with it, in seconds since 1970. It stands still unless it is
/// moved, and moves forward only. For tests.
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

    /// The time in seconds since 1970.
    fn now(&self) -> f64 {
        self.now_us.load(Ordering::Relaxed) as f64 / 1e6
    }

    /// Moves the time forward.
    fn advance(&self, seconds: f64) -> PyResult<()> {
        self.now_us.fetch_add(microseconds(seconds)?, Ordering::Relaxed);
        Ok(())
    }
}

impl ManualClock {
    /// As the engine takes it.
    pub fn clock(&self) -> Clock {
        Clock::Manual(Arc::clone(&self.now_us))
    }
}

fn microseconds(seconds: f64) -> PyResult<u64> {
    if (0.0..1e12).contains(&seconds) {
        return Ok((seconds * 1e6).round() as u64);
    }
    Err(PyValueError::new_err(format!("seconds must lie between 0 and 1e12, got {seconds}")))
}
