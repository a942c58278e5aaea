//! The file's own clock: wall clock microseconds since 1970 at the file's first use in this boot,
//! advanced by the boot clock from then on. Owns the clock rows. Must not know expiries.
//!
//! Changes of the wall clock therefore do not affect expiries, and time asleep counts. Each boot
//! has a row with its anchor. Time namespaces, whose boot clocks are offset, share that row if the
//! system tells the offset, and have a row of their own otherwise. A new anchor is never before the
//! latest recorded file time, so the clock does not run backwards over a reboot.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use twox_hash::XxHash3_64;

use crate::layout::header;
use crate::platform::{clock, TimeFrame};
use crate::region::{fence, Region};

/// Where the time comes from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The machine's clocks and the file's anchor.
    #[default]
    System,
    /// A file time in microseconds that a test sets.
    Manual(Arc<AtomicU64>),
}

/// Whether a clock can have shown this time: before the year 2540. A damaged later time would leave
/// no room for any expiry as long as the file exists.
fn is_plausible(time_us: u64) -> bool {
    time_us < 1 << 54
}

/// Seconds of a monotonic clock, cheap and coarse.
pub fn coarse_seconds() -> u64 {
    clock::coarse_seconds()
}

/// Microseconds of a monotonic clock and of the wall clock, cheap and coarse. The first does not go
/// on while the machine sleeps, and the second may be set: whoever asks whether a time has passed
/// asks both.
#[inline(always)]
pub fn coarse_us() -> (u64, u64) {
    clock::coarse_us()
}

/// The boot and time namespace of this process, which identify a clock row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockDomain {
    /// Tells this boot from others; never 0.
    pub boot: u64,
    /// Whether the system told the boot. Otherwise all boots look the same.
    is_boot_known: bool,
    /// The reference of this process's boot clock.
    frame: TimeFrame,
}

impl ClockDomain {
    /// The domain of this process.
    ///
    /// # Errors
    /// The system's error, if it cannot tell. A system without boot id or namespaces is no error.
    pub fn now() -> io::Result<ClockDomain> {
        let id = clock::boot_id()?;
        let boot = XxHash3_64::oneshot(&id).max(1);
        let boot = crate::hooks::pretended_boot().unwrap_or(boot);
        Ok(ClockDomain { boot, is_boot_known: !id.is_empty(), frame: clock::time_frame()? })
    }

    /// The domain of the participants of a twin.
    pub fn twin() -> ClockDomain {
        ClockDomain { boot: 1, is_boot_known: true, frame: TimeFrame { namespace: 0, ahead_us: 0 } }
    }

    /// As `boot`, for callers that must tell two boots apart.
    ///
    /// # Errors
    /// The system has no boot id.
    pub fn known_boot(self) -> io::Result<u64> {
        let missing = || format!("after_power_cut=\"discard\" {}", clock::NO_BOOT_ID);
        self.is_boot_known.then_some(self.boot).ok_or_else(|| io::Error::other(missing()))
    }
}

/// The checksum in a row's last word: a damaged anchor would move all expiries at once.
fn row_check(boot: u64, namespace: u64, anchor_us: u64) -> u64 {
    let words = [boot, namespace, anchor_us].map(u64::to_ne_bytes);
    XxHash3_64::oneshot(words.as_flattened())
}

/// The anchor of this boot and time namespace, if it has a row. Takes no lock, so a process that is
/// stopped while it holds the lock does not keep others from opening the file.
pub fn known_anchor_us(region: &Region, domain: ClockDomain) -> Option<u64> {
    let ClockDomain { boot, frame, .. } = domain;
    for row in 0..header::CLOCK_ROW_COUNT {
        let at = header::CLOCK_ROWS + row * header::CLOCK_ROW_BYTES;
        let is_ours =
            || region.load(at, Ordering::Acquire) == boot && region.get(at + 8) == frame.namespace;
        if !is_ours() {
            continue;
        }
        let stored_us = region.get(at + 16);
        let is_whole = region.get(at + 24) == row_check(boot, frame.namespace, stored_us);
        let anchor_us = stored_us.wrapping_sub(frame.ahead_us);
        fence(Ordering::Acquire);
        // A replaced row gets its namespace before its anchor: if the namespace is still ours, so
        // was the anchor.
        if is_ours() && is_whole && is_plausible(clock::boot_time_us().wrapping_add(anchor_us)) {
            return Some(anchor_us);
        }
    }
    None
}

/// The anchor for a new row: file time continues from the wall clock, or from the latest recorded
/// time if that is later. A read-only handle, which creates no row, uses it directly.
pub fn new_anchor_us(region: &Region) -> u64 {
    let last_seen_us = Some(region.get(header::LAST_SEEN_US)).filter(|us| is_plausible(*us));
    let now_us = clock::wall_time_us().max(last_seen_us.unwrap_or(0));
    now_us.wrapping_sub(clock::boot_time_us())
}

/// How many rows were created. A read-only handle looks for its row again when this changes.
pub fn rows_made(region: &Region) -> u64 {
    region.load(header::CLOCK_NEXT, Ordering::Acquire)
}

/// Finds or creates the row of this boot and time namespace. Returns its anchor: file time is boot
/// clock plus anchor. The caller holds the lock of the rows.
pub fn anchor_us(region: &Region, domain: ClockDomain) -> u64 {
    if let Some(anchor_us) = known_anchor_us(region, domain) {
        return anchor_us;
    }
    let ClockDomain { boot, frame, .. } = domain;
    let anchor_us = new_anchor_us(region);
    let row = region.get(header::CLOCK_NEXT) % header::CLOCK_ROW_COUNT;
    let at = header::CLOCK_ROWS + row * header::CLOCK_ROW_BYTES;
    // Cleared first: after a death between these stores the row belongs to no boot.
    region.store(at, 0, Ordering::Release);
    let stored_us = anchor_us.wrapping_add(frame.ahead_us);
    region.store(at + 8, frame.namespace, Ordering::Release);
    region.store(at + 16, stored_us, Ordering::Release);
    region.store(at + 24, row_check(boot, frame.namespace, stored_us), Ordering::Release);
    region.store(at, boot, Ordering::Release);
    region.store(header::CLOCK_NEXT, row + 1, Ordering::Release);
    anchor_us
}

/// Records a file time for the next boot.
pub fn record_time(region: &Region, now_us: u64) {
    let last_seen_us = region.get(header::LAST_SEEN_US);
    if now_us > last_seen_us || !is_plausible(last_seen_us) {
        region.store(header::LAST_SEEN_US, now_us, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::HEADER_BYTES;

    fn domain() -> ClockDomain {
        ClockDomain::now().unwrap()
    }

    #[test]
    fn the_same_boot_finds_its_row_again() {
        let region = Region::heap(HEADER_BYTES);
        let first = anchor_us(&region, domain());
        assert_eq!(anchor_us(&region, domain()), first);
        assert_eq!(region.get(header::CLOCK_NEXT), 1);
    }

    #[test]
    fn the_clock_does_not_run_back_over_a_reboot() {
        let region = Region::heap(HEADER_BYTES);
        let future_us = clock::wall_time_us() + 3_600_000_000;
        record_time(&region, future_us);
        // The row belongs to another boot.
        region.set(header::CLOCK_ROWS, 1);
        let anchor_us = anchor_us(&region, domain());
        let now_us = clock::boot_time_us().wrapping_add(anchor_us);
        assert!(now_us >= future_us);
    }

    #[test]
    fn a_damaged_time_is_not_believed() {
        let region = Region::heap(HEADER_BYTES);
        let sound = anchor_us(&region, domain());
        region.set(header::CLOCK_ROWS + 16, sound ^ 1 << 40);
        region.set(header::LAST_SEEN_US, 0xff << 56);
        let again = anchor_us(&region, domain());
        assert!(again.abs_diff(sound) < 60_000_000, "{again} instead of {sound}");
        assert_eq!(known_anchor_us(&region, domain()), Some(again));
        let now_us = clock::boot_time_us().wrapping_add(again);
        record_time(&region, now_us);
        assert_eq!(region.get(header::LAST_SEEN_US), now_us);
    }

    #[test]
    fn more_boots_than_rows_replace_the_oldest() {
        let region = Region::heap(HEADER_BYTES);
        anchor_us(&region, domain());
        for row in 0..header::CLOCK_ROW_COUNT {
            region.set(header::CLOCK_ROWS + row * header::CLOCK_ROW_BYTES, 1000 + row);
        }
        anchor_us(&region, domain());
        let second = header::CLOCK_ROWS + header::CLOCK_ROW_BYTES;
        assert_eq!(region.get(second), domain().boot);
    }
}
