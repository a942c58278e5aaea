//! A value that one thread at a time uses, and that nobody waits for. Must not know what the value is.
//!
//! Costs two plain stores, where a mutex costs two locked instructions: a fifth of a get that a kept
//! object answers. Contains the unsafe code for it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

/// A value for the thread that holds the GIL.
#[derive(Default)]
pub struct GilCell<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives the value to one thread at a time.
unsafe impl<T: Send> Sync for GilCell<T> {}

/// Gives the value back, also after a panic.
struct Taken<'a>(&'a AtomicBool);

impl Drop for Taken<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> GilCell<T> {
    /// With this value.
    pub fn new(value: T) -> GilCell<T> {
        GilCell { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Uses the value. None if it is in use: by another thread, to which `work` gave the GIL, or by
    /// this one, if `work` ran Python code.
    #[inline(always)]
    pub fn with<R>(&self, _py: Python<'_>, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        // The GIL orders the two steps: no other thread comes in between.
        #[cfg(not(Py_GIL_DISABLED))]
        let was_taken = {
            let was_taken = self.is_taken.load(Ordering::Acquire);
            self.is_taken.store(true, Ordering::Relaxed);
            was_taken
        };
        #[cfg(Py_GIL_DISABLED)]
        let was_taken = self.is_taken.swap(true, Ordering::Acquire);
        if was_taken {
            return None;
        }
        let _taken = Taken(&self.is_taken);
        // SAFETY: whoever finds the value taken does not use it, and it is taken until `_taken` is
        // dropped.
        Some(work(unsafe { &mut *self.value.get() }))
    }
}
