//! Makes the system's allocator keep its pages while a pass runs.
//!
//! Owns those settings. Must not choose another allocator: contestants use the default of Rust
//! programs.
//!
//! A program that drops each answer before the next get reuses the same pages. The host keeps the
//! answers of a stretch and drops them all at once. Without this module, each answer would be in
//! new pages, whose faults cost more than the copy. glibc would then return pages to the kernel or
//! not, depending on what is above them on the heap.

#![allow(unsafe_code)]

use std::hint::black_box;

/// Smaller than allocations for which the allocator requests separate pages from the kernel.
const TOUCHED_BYTES: usize = 1 << 20;
const HEADER_BYTES: u64 = 8;
const ALIGNMENT_BYTES: u64 = 16;

/// Makes the allocator keep freed memory. Does nothing if it is not glibc's.
pub(crate) fn keep_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const THRESHOLD_BYTES_MOST: libc::c_int = 32 << 20;
        // SAFETY: no other thread runs yet, and any number is a valid setting. The first is the
        // highest accepted value: smaller allocations do not get separate pages.
        let taken = unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD_BYTES_MOST) == 1
                && libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) == 1
        };
        assert!(taken, "the allocator takes its settings");
    }
}

/// The heap memory of an allocation of `bytes`; 0 bytes are not allocated.
pub(crate) fn chunk_bytes(bytes: u64) -> usize {
    match bytes {
        0 => 0,
        _ => (bytes + HEADER_BYTES).next_multiple_of(ALIGNMENT_BYTES) as usize,
    }
}

/// Ensures that `bytes` of the heap are free and mapped.
pub(crate) fn touch(bytes: usize) {
    let chunks = bytes.div_ceil(TOUCHED_BYTES);
    // Ones, because the allocator does not write zeros to new pages.
    let touched: Vec<Vec<u8>> = (0..chunks).map(|_| vec![1; TOUCHED_BYTES]).collect();
    black_box(touched);
}

/// Returns free memory to the kernel, so that this process has only the memory that it uses.
pub(crate) fn give_pages_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time and does not move allocations.
    unsafe {
        libc::malloc_trim(0);
    }
}
