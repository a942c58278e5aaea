//! The clocks.
//!
//! Owns the choice of clocks. Must not know what was timed.

use std::thread;
use std::time::Duration;

use rustix::time::{clock_gettime, ClockId, Timespec};

const TIMER_SAMPLES: usize = 1_000;

/// The system's monotonic clock, the same in all processes, in nanoseconds.
#[inline]
pub(crate) fn clock_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// The CPU time of this process, user and system, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

#[inline]
fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits until the monotonic clock has reached `start_ns`.
pub(crate) fn sleep_until(start_ns: u64) {
    while let Some(left_ns @ 1..) = start_ns.checked_sub(clock_ns()) {
        thread::sleep(Duration::from_nanos(left_ns));
    }
}

/// The differences of pairs of clock readings with nothing between them.
pub(crate) fn timer_ns() -> Vec<u64> {
    let pair = |_| {
        let started_ns = clock_ns();
        clock_ns() - started_ns
    };
    (0..TIMER_SAMPLES).map(pair).collect()
}
