//! The clocks.
//!
//! Owns which clocks are read. Must not know what was timed.

use std::time::Instant;

use rustix::time::{clock_gettime, ClockId};

const TIMER_SAMPLES: usize = 1_000;

/// The nanoseconds since `started`, of a clock that never runs back.
#[inline]
pub(crate) fn elapsed_ns(started: Instant) -> u64 {
    started.elapsed().as_nanos() as u64
}

/// The CPU time of this process, user and system, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Pairs of clock readings with nothing between them.
pub(crate) fn timer_ns() -> Vec<u64> {
    (0..TIMER_SAMPLES).map(|_| elapsed_ns(Instant::now())).collect()
}
