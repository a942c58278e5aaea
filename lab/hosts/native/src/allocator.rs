//! Keeps the system's allocator from giving pages back to the kernel between two blocks.
//!
//! Owns that setting. Must not choose another allocator: contestants run on the one that Rust
//! programs have.
//!
//! A program that drops each answer before it asks for the next gets the same pages again. The
//! host keeps the answers of a block and drops them all at once; glibc would then return their pages
//! or not, depending on what lies above them on the heap, and for values of 2 MB the faults of the
//! next block would be two thirds of what a copy takes. That would be the host's doing, and chance.

#![allow(unsafe_code)]

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

/// Gives back what is free, so that the memory of this process is what it holds.
pub(crate) fn give_pages_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time; what is allocated stays where it is.
    unsafe {
        libc::malloc_trim(0);
    }
}
