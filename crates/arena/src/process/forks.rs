//! What a fork must not tear or pass on: the fork count, the lock that is held across a fork, and
//! the descriptors that a child closes. Must not know what the descriptors are for.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use crate::platform::{files, forks, FileId};

/// Number of forks that led to this process. A handle with another number was inherited.
pub static FORKS: AtomicU64 = AtomicU64::new(1);

static IS_REGISTERED: Once = Once::new();

/// Held while a process slot is taken, used or given back, and across a fork: a child must not be
/// born while a thread of its parent changes a slot.
static FORK_LOCK: Mutex<()> = Mutex::new(());
thread_local! {
    static HELD_OVER_FORK: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

fn fork_lock() -> MutexGuard<'static, ()> {
    IS_REGISTERED.call_once(|| forks::at_fork(lock_for_fork, unlock_after_fork, close_inherited));
    FORK_LOCK.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// A value that is accessed only while [`FORK_LOCK`] is held.
#[derive(Debug)]
pub struct ForkMutex<T>(Mutex<T>);

impl<T> ForkMutex<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> ForkMutex<T> {
        ForkMutex(Mutex::new(value))
    }

    /// Calls `act` while the fork lock and the value are locked.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        // Locals drop in reverse order, so the inner mutex is free before the fork lock: a child
        // forked in between would inherit it locked by a thread that does not exist there.
        let _fork_lock = fork_lock();
        self.within(act)
    }

    /// As [`ForkMutex::with`], inside another one's.
    pub fn within<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let mut held = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        act(&mut held)
    }
}

extern "C" fn lock_for_fork() {
    let held = FORK_LOCK.lock().unwrap_or_else(|broken| broken.into_inner());
    HELD_OVER_FORK.with(|place| *place.borrow_mut() = Some(held));
}

extern "C" fn unlock_after_fork() {
    HELD_OVER_FORK.with(|place| *place.borrow_mut() = None);
}

/// The child's side of a fork. May only close descriptors and store to atomics.
extern "C" fn close_inherited() {
    unlock_after_fork();
    FORKS.fetch_add(1, Ordering::Relaxed);
    for (place, listed) in DESCRIPTORS.iter().enumerate() {
        let fd = listed.swap(-1, Ordering::Relaxed);
        if fd >= 0 && !crate::mutants::is_on("lock-inherited") {
            ClosedInChild(place).close(fd);
        }
    }
}

/// The most descriptors that a child closes.
pub const CLOSED_IN_CHILD_MAX: usize = 1024;
static DESCRIPTORS: [AtomicI32; CLOSED_IN_CHILD_MAX] =
    [const { AtomicI32::new(-1) }; CLOSED_IN_CHILD_MAX];
/// The file of each descriptor. A daemon that closed all descriptors may have reused the number for
/// another file, which is not ours to close.
static FILES: [[AtomicU64; 2]; CLOSED_IN_CHILD_MAX] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; CLOSED_IN_CHILD_MAX];

/// The place of a descriptor in the list of those that a forked child closes.
#[derive(Debug, Clone, Copy)]
pub struct ClosedInChild(usize);

impl ClosedInChild {
    /// Lists a descriptor of a file; none if the list is full. The caller holds the fork lock.
    pub fn list(fd: i32, file: FileId) -> Option<ClosedInChild> {
        let free = |listed: &AtomicI32| {
            listed.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let place = DESCRIPTORS.iter().position(free)?;
        FILES[place].iter().zip(file).for_each(|(word, id)| word.store(id, Ordering::Relaxed));
        Some(ClosedInChild(place))
    }

    /// Whether the descriptor still leads to its file. One system call, no allocation.
    pub fn is_open(self, fd: i32) -> bool {
        let listed = FILES[self.0].each_ref().map(|id| id.load(Ordering::Relaxed));
        files::status(fd).is_some_and(|status| status.id == listed)
    }

    /// Removes the descriptor from the list and closes it.
    pub fn end(self, fd: i32) {
        DESCRIPTORS[self.0].store(-1, Ordering::Relaxed);
        self.close(fd);
    }

    fn close(self, fd: i32) {
        if self.is_open(fd) {
            forks::close(fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A fork happens while the fork lock is free; the inner mutex must be free then, too.
    #[test]
    #[cfg_attr(miri, ignore = "asks the system for a word before each fork")]
    fn a_fork_mutex_is_free_while_the_fork_lock_is() {
        let (guarded, is_over) = (ForkMutex::new(0u64), AtomicBool::new(false));
        let is_free = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    guarded.with(|count| *count += 1);
                }
            });
            // Wait until the other thread is running.
            while guarded.with(|count| *count == 0) {}
            let is_free = (0..100_000).all(|_| {
                let _fork_lock = fork_lock();
                let free = guarded.0.try_lock().is_ok();
                free
            });
            is_over.store(true, Ordering::Relaxed);
            is_free
        });
        assert!(is_free, "a forked child would never get the lock");
    }
}
