//! A value that is replaced while other threads use it. Must not know what the value is.
//!
//! Reading it costs one load. So nobody knows who still uses a former value, and all former values
//! live as long as this one.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The latest of several values.
pub struct Latest<T> {
    /// From a box that only `drop` takes back.
    newest: AtomicPtr<Link<T>>,
    owns: PhantomData<Link<T>>,
}

struct Link<T> {
    value: T,
    /// As `Latest::newest`; null for the first value.
    former: *mut Link<T>,
}

// SAFETY: it owns its values, and hands out shared references from any thread.
unsafe impl<T: Send + Sync> Send for Latest<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Latest<T> {}

impl<T> Latest<T> {
    /// With its first value.
    pub fn new(value: T) -> Latest<T> {
        let first = Box::new(Link { value, former: std::ptr::null_mut() });
        Latest { newest: AtomicPtr::new(Box::into_raw(first)), owns: PhantomData }
    }

    /// The latest value.
    #[inline(always)]
    pub fn get(&self) -> &T {
        // SAFETY: the link came from a box, was complete before it was stored, and is freed only in
        // `drop`, when no reference to `self` is left.
        unsafe { &(*self.newest.load(Ordering::Acquire)).value }
    }

    /// Replaces the value if `known` is still the latest. The race: another thread replaces it, too. One
    /// compare-and-swap succeeds; the other thread drops its own value, which nobody has seen. An
    /// address is never used for a second value, because no value is freed before `self` is.
    ///
    /// Returns the latest value then, and
    /// whether it is the new one. Drops `new` otherwise.
    pub fn replace(&self, known: &T, new: T) -> (&T, bool) {
        let former = self.newest.load(Ordering::Acquire);
        // SAFETY: as in `get`.
        let is_known = std::ptr::eq(unsafe { &(*former).value }, known);
        let link = Box::into_raw(Box::new(Link { value: new, former }));
        let (release, acquire) = (Ordering::AcqRel, Ordering::Acquire);
        if is_known && self.newest.compare_exchange(former, link, release, acquire).is_ok() {
            return (self.get(), true);
        }
        // SAFETY: the box was made above, and nobody has seen it.
        drop(unsafe { Box::from_raw(link) });
        (self.get(), false)
    }
}

impl<T> Drop for Latest<T> {
    fn drop(&mut self) {
        let mut next = *self.newest.get_mut();
        while !next.is_null() {
            // SAFETY: each link came from a box, and the chain holds it once.
            let link = unsafe { Box::from_raw(next) };
            next = link.former;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn former_values_live_as_long_as_the_last_one() {
        let counted = Arc::new(());
        let latest = Latest::new((1, Arc::clone(&counted)));
        let first = latest.get();
        assert!(latest.replace(first, (2, Arc::clone(&counted))).1);
        let (second, is_new) = latest.replace(first, (3, Arc::clone(&counted)));
        assert_eq!((first.0, second.0, is_new), (1, 2, false), "another thread was faster");
        assert_eq!(Arc::strong_count(&counted), 3);
        drop(latest);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn of_many_threads_one_replaces_a_value() {
        let latest = Latest::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        loop {
                            let known = latest.get();
                            if latest.replace(known, known + 1).1 {
                                break;
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(*latest.get(), 400);
    }
}
