//! The allocator of this program: it counts how much memory a piece of work takes at most, and
//! refuses the allocations that are to fail.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The system's allocator, counting for each thread, refusing in all.
struct Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

static REFUSES: AtomicBool = AtomicBool::new(false);
static FAILS_ON: AtomicBool = AtomicBool::new(false);
static FAIL_AT: AtomicU64 = AtomicU64::new(0);
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Refuses the allocation of this number from now on, counted from 1, and those after it if
/// `fails_on`; none for 0.
pub fn begin_to_refuse(fail_at: u64, fails_on: bool) {
    FAILS_ON.store(fails_on, Ordering::Relaxed);
    FAIL_AT.store(fail_at, Ordering::Relaxed);
    ASKED.store(0, Ordering::Relaxed);
    REFUSES.store(true, Ordering::SeqCst);
}

/// Ends what [`begin_to_refuse`] began. How many allocations were asked for.
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
    // Nothing to count for a thread that is ending.
    let _ = HELD_BYTES.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST_BYTES.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator as it is; one that is refused answers
// null, as the trait allows.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused() {
            return std::ptr::null_mut();
        }
        count(layout.size() as i64);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
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

/// Does the work on this thread, and tells by how much the memory held rose above what it was, at
/// the most.
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
