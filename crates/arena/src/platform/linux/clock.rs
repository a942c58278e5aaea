//! Time: the machine's clocks, and what tells one boot and one time namespace from another. Must not
//! know the clock rows of the file.

use std::io;

use super::{if_exists, namespace_inode};
use crate::platform::TimeFrame;

/// Why [`boot_id`] is empty, and what to do.
pub const NO_BOOT_ID: &str = "needs /proc/sys/kernel/random/boot_id; mount /proc";

/// Identifies this boot of the machine; empty if the system does not tell.
///
/// # Errors
/// The system's error, if it cannot tell.
pub fn boot_id() -> io::Result<Vec<u8>> {
    Ok(if_exists(std::fs::read("/proc/sys/kernel/random/boot_id"))?.unwrap_or_default())
}

/// Seconds of a monotonic clock, cheap and coarse.
pub fn coarse_seconds() -> u64 {
    time_of(libc::CLOCK_MONOTONIC_COARSE).tv_sec as u64
}

/// Microseconds of a monotonic clock and of the wall clock, cheap and coarse.
#[inline(always)]
pub fn coarse_us() -> (u64, u64) {
    (clock_us(libc::CLOCK_MONOTONIC_COARSE), clock_us(libc::CLOCK_REALTIME_COARSE))
}

/// Microseconds since boot, including time asleep.
pub fn boot_time_us() -> u64 {
    clock_us(libc::CLOCK_BOOTTIME)
}

/// Microseconds since 1970 by the wall clock.
pub fn wall_time_us() -> u64 {
    clock_us(libc::CLOCK_REALTIME)
}

#[inline(always)]
fn clock_us(clock: libc::clockid_t) -> u64 {
    let time = time_of(clock);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

#[inline(always)]
fn time_of(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, which fills it in; the clocks exist on Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time
}

/// The frame of this process: the machine's, wherever the system tells the offset of our time
/// namespace.
///
/// # Errors
/// The system's error, if it cannot tell.
pub fn time_frame() -> io::Result<TimeFrame> {
    let namespace = namespace_inode("time")?;
    if namespace == 0 {
        // A kernel without time namespaces, or a `/proc` that does not show us.
        let is_shown = if_exists(std::fs::metadata("/proc/self/ns"))?.is_some();
        return Ok(TimeFrame { namespace: if is_shown { 0 } else { u64::MAX }, ahead_us: 0 });
    }
    // The offsets are those of our children's namespace, which need not be ours.
    let ours = namespace_inode("time_for_children")? == namespace;
    let text = match ours {
        true => if_exists(std::fs::read_to_string("/proc/self/timens_offsets"))?,
        false => None,
    };
    Ok(match text.as_deref().and_then(boot_offset_us) {
        Some(offset_us) => TimeFrame { namespace: 0, ahead_us: offset_us as u64 },
        None => TimeFrame { namespace, ahead_us: 0 },
    })
}

/// The boot clock's offset in microseconds, from lines of clock name, seconds and nanoseconds.
fn boot_offset_us(text: &str) -> Option<i64> {
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let fields = lines.find(|fields| fields.first() == Some(&"boottime"))?;
    let [_, seconds, nanoseconds] = fields[..] else { return None };
    let (seconds, nanoseconds): (i64, i64) = (seconds.parse().ok()?, nanoseconds.parse().ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(nanoseconds / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_the_boot_clock() {
        let text = "monotonic          -7         0\nboottime           -3   1500000\n";
        assert_eq!(boot_offset_us(text), Some(-2_998_500));
        assert_eq!(boot_offset_us("monotonic 1 2\n"), None);
        assert_eq!(boot_offset_us("boottime x 2\n"), None);
        assert_eq!(boot_offset_us("boottime 9223372036854775807 0\n"), None);
    }
}
