//! How much memory a piece of work takes at most, counted by the allocator of this program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting for each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
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
