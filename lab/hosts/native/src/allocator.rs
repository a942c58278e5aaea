//! Has the system's allocator keep its pages while a pass runs.
//!
//! Owns those settings. Must not choose another allocator: contestants run on the one that Rust
//! programs have.
//!
//! A program that drops each answer before it asks for the next gets the same pages again. The host
//! keeps the answers of a stretch and drops them all at once. Without this module each answer would
//! lie in new pages, whose faults cost more than the copy, and glibc would return pages or not,
//! depending on what lies above them on the heap.

#![allow(unsafe_code)]

use std::hint::black_box;

/// Below the size from which the allocator asks the kernel for pages of their own.
const TOUCHED_BYTES: usize = 1 << 20;
const HEADER_BYTES: u64 = 8;
const ALIGNMENT_BYTES: u64 = 16;

/// Has freed memory kept. Where the allocator is not glibc's, nothing is done.
pub(crate) fn keep_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const THRESHOLD_BYTES_MOST: libc::c_int = 32 << 20;
        // SAFETY: no other thread runs yet, and any number is a valid setting. The first is the
        // highest that is taken: what is smaller does not get pages of its own.
        let taken = unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD_BYTES_MOST) == 1
                && libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) == 1
        };
        assert!(taken, "the allocator takes its settings");
    }
}

/// What an allocation of `bytes` takes from the heap; nothing is not allocated.
pub(crate) fn chunk_bytes(bytes: u64) -> usize {
    match bytes {
        0 => 0,
        _ => (bytes + HEADER_BYTES).next_multiple_of(ALIGNMENT_BYTES) as usize,
    }
}

/// Has `bytes` of the heap free, with pages that are there.
pub(crate) fn touch(bytes: usize) {
    let chunks = bytes.div_ceil(TOUCHED_BYTES);
    // Ones: the allocator would not write zeros to pages that are new.
    let touched: Vec<Vec<u8>> = (0..chunks).map(|_| vec![1; TOUCHED_BYTES]).collect();
    black_box(touched);
}

/// Gives back what is free, so that the memory of this process is what it holds.
pub(crate) fn give_pages_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time; what is allocated stays where it is.
    unsafe {
        libc::malloc_trim(0);
    }
}
