//! The clock of the fuzz targets: each call returns one microsecond more. So an input does the same
//! whatever the time is, and an input that fails once fails always.
//!
//! `build.rs` redirects all calls of `clock_gettime` here. The fuzzer itself calls it from the C++
//! library, and sees the real time.

use std::sync::atomic::{AtomicI64, Ordering};

const BEGIN_US: i64 = 1_700_000_000_000_000;
static NOW_US: AtomicI64 = AtomicI64::new(BEGIN_US);

#[repr(C)]
pub struct Time {
    seconds: i64,
    nanoseconds: i64,
}

/// Resets the clock. Call it before each input.
pub fn restart() {
    NOW_US.store(BEGIN_US, Ordering::Relaxed);
}

#[no_mangle]
extern "C" fn __wrap_clock_gettime(_clock: i32, time: *mut Time) -> i32 {
    let now_us = NOW_US.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller supplies the memory, as for the system call.
    unsafe {
        *time = Time { seconds: now_us / 1_000_000, nanoseconds: now_us % 1_000_000 * 1_000 }
    };
    0
}
