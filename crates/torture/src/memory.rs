//! The allocator of this program. It measures the peak memory of a piece of work, and refuses the
//! allocations that should fail.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The system's allocator. It counts memory per thread and refuses in all threads.
struct Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

static REFUSES: AtomicBool = AtomicBool::new(false);
static FAILS_ON: AtomicBool = AtomicBool::new(false);
static FAIL_AT: AtomicU64 = AtomicU64::new(0);
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Starts to count allocations from 1, and refuses number `fail_at`, with `fails_on` also all later
/// ones. 0 refuses none.
pub fn begin_to_refuse(fail_at: u64, fails_on: bool) {
    FAILS_ON.store(fails_on, Ordering::Relaxed);
    FAIL_AT.store(fail_at, Ordering::Relaxed);
    ASKED.store(0, Ordering::Relaxed);
    REFUSES.store(true, Ordering::SeqCst);
}

/// Ends the effect of [`begin_to_refuse`]. Returns the number of allocations since then.
pub fn end_to_refuse() -> u64 {
    REFUSES.store(false, Ordering::SeqCst);
    ASKED.load(Ordering::Relaxed)
}

fn is_refused() -> bool {
    if !REFUSES.load(Ordering::Relaxed) {
        return false;
    }
    let number = ASKED.fetch_add(1, Ordering::Relaxed) + 1;
    let at = FAIL_AT.load(Ordering::Relaxed);
    number == at || (at != 0 && number > at && FAILS_ON.load(Ordering::Relaxed))
}

thread_local! {
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
    static MOST_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    // A thread that is ending does not count any more.
    let _ = HELD_BYTES.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST_BYTES.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: every call goes unchanged to the system's allocator; a refused one returns null, as the
// trait allows.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused() {
            return std::ptr::null_mut();
        }
        count(layout.size() as i64);
        // SAFETY: the caller's promises are those that the system's allocator needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, len_bytes: usize) -> *mut u8 {
        if is_refused() {
            return std::ptr::null_mut();
        }
        count(len_bytes as i64 - layout.size() as i64);
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(address, layout, len_bytes) }
    }
}

/// Does the work on this thread. Also returns the peak of this thread's memory above its start.
pub fn most_bytes_of<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let before = HELD_BYTES.get();
    MOST_BYTES.set(before);
    let result = work();
    (result, (MOST_BYTES.get() - before).max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_counted_though_it_is_given_back() {
        let (_, bytes) = most_bytes_of(|| drop(std::hint::black_box(vec![1u8; 1_000_000])));
        assert!((1_000_000..1_100_000).contains(&bytes), "{bytes}");
    }
}
