//! The handles of one process on a file share one process slot, and each of them may be closed while
//! the others work.

mod opened;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tuckbox_arena::layout::header;
use tuckbox_arena::{act_as_another_process, Acquired, Arena, Error, NativeWaiter};

/// A lock of the file that nothing else uses.
const LOCK: u64 = header::HEADER_LOCK;
const LIMIT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

/// A file of a test's own, which it opens alone: acting as another process concerns all threads.
struct Scene {
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    fn new(name: &str) -> Scene {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|broken| broken.into_inner());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let path = folder.join(format!("shared-{name}-{}.tuck", std::process::id()));
        Scene { path, _alone: alone }
    }

    fn open(&self) -> Arena {
        opened::open(&self.path, Arc::new(NativeWaiter))
    }

    /// A handle of what counts as another process: it shares nothing with those opened before or
    /// after it.
    fn open_elsewhere(&self) -> Arena {
        act_as_another_process();
        let other = self.open();
        act_as_another_process();
        other
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn handles_of_one_process_use_one_slot() {
    let scene = Scene::new("one");
    let other = scene.open_elsewhere();
    assert_eq!(other.processes(), 1);
    // More than the file has slots.
    let handles: Vec<Arena> = (0..300).map(|_| scene.open()).collect();
    let owner = handles[0].owner().unwrap();
    assert!(handles.len() as u64 > handles[0].geometry().process_count);
    assert!(handles.iter().all(|handle| handle.owner().unwrap() == owner));
    assert_ne!(other.owner().unwrap(), owner);
    assert_eq!((other.processes(), handles[7].processes()), (2, 2));
    handles[1..].iter().for_each(Arena::close);
    assert!(!other.is_dead(owner), "a handle is open");
    assert_eq!(other.processes(), 2);
    drop(handles);
    assert!(other.is_dead(owner));
    assert_eq!(other.processes(), 1);
}

#[test]
fn a_slot_is_released_with_the_last_handle_and_taken_anew() {
    let scene = Scene::new("anew");
    let (other, one) = (scene.open_elsewhere(), scene.open());
    let first = one.owner().unwrap();
    one.close();
    assert!(other.is_dead(first));
    // The closed handle still exists, with the mapping.
    let again = scene.open();
    assert!(!other.is_dead(again.owner().unwrap()) && other.is_dead(first));
    drop(one);
    assert_eq!(again.lock(LOCK, LIMIT).unwrap(), Acquired::Clean);
    assert!(matches!(other.lock(LOCK, SHORT), Err(Error::LockTimeout { .. })));
    again.unlock(LOCK);
}

#[test]
fn a_handle_that_is_closed_leaves_the_locks_of_the_others() {
    let scene = Scene::new("locks");
    let (other, one, two) = (scene.open_elsewhere(), scene.open(), scene.open());
    assert_eq!(one.lock(LOCK, LIMIT).unwrap(), Acquired::Clean);
    two.close();
    drop(two);
    let taken = other.lock(LOCK, SHORT);
    // A failure must find nobody in a lock: closing a handle waits for its operations.
    if taken.is_ok() {
        other.unlock(LOCK);
    }
    one.unlock(LOCK);
    assert!(matches!(taken, Err(Error::LockTimeout { .. })), "{taken:?}");
    assert_eq!(other.lock(LOCK, LIMIT).unwrap(), Acquired::Clean);
    other.unlock(LOCK);
}

#[test]
fn threads_that_open_and_close_take_no_lock_from_each_other() {
    let scene = Scene::new("threads");
    let other = scene.open_elsewhere();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let handle = scene.open();
                    assert_eq!(handle.lock(LOCK, LIMIT).unwrap(), Acquired::Clean);
                    handle.unlock(LOCK);
                    handle.close();
                    assert!(matches!(handle.lock(LOCK, LIMIT), Err(Error::Closed)));
                }
            });
        }
        for _ in 0..300 {
            assert_eq!(other.lock(LOCK, LIMIT).unwrap(), Acquired::Clean);
            assert!((1..=2).contains(&other.processes()));
            other.unlock(LOCK);
        }
    });
    assert_eq!(other.processes(), 1);
}

#[test]
fn an_operation_keeps_the_slot_of_a_handle_that_is_closed_meanwhile() {
    let scene = Scene::new("operation");
    let (other, one) = (scene.open_elsewhere(), scene.open());
    let owner = one.owner().unwrap();
    let operation = one.guard_operation().unwrap();
    // As a signal handler does in the thread of the operation.
    one.close();
    assert!(matches!(one.owner(), Err(Error::Closed)));
    assert!(!other.is_dead(owner));
    drop(operation);
    assert!(other.is_dead(owner));
}

/// Runs `work` in a forked child, which ends without returning.
fn forked(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child continues with this thread alone and uses nothing of the others.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        let status = i32::from(
            !std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false),
        );
        // SAFETY: the call takes no memory and ends the process at once.
        unsafe { libc::_exit(status) };
    }
    child
}

fn status_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the status outlives the call, which fills it in; the child is ours.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status
}

#[test]
fn the_handles_of_a_forked_child_share_a_slot_of_its_own() {
    let scene = Scene::new("fork");
    let (other, one, two) = (scene.open_elsewhere(), scene.open(), scene.open());
    let owner = one.owner().unwrap();
    let in_child = || {
        // The parent's slot is not the child's to release.
        let closed_first = scene.open();
        closed_first.close();
        let (mine, same) = (one.owner().unwrap(), two.owner().unwrap());
        let third = scene.open().owner().unwrap();
        mine != owner
            && (same, third) == (mine, mine)
            && !one.is_dead(owner)
            && one.processes() == 3
            && one.lock(LOCK, LIMIT).is_ok()
    };
    // The child dies with the lock.
    assert_eq!(status_of(forked(in_child)), 0);
    assert_eq!(other.lock(LOCK, LIMIT).unwrap(), Acquired::TakenOver);
    other.unlock(LOCK);
    assert!(!other.is_dead(owner) && two.owner().unwrap() == owner);
    // A child that closes all handles releases nothing of its parent.
    let closes = || {
        one.close();
        two.close();
        true
    };
    assert_eq!(status_of(forked(closes)), 0);
    assert_eq!((other.is_dead(owner), other.processes()), (false, 2));
}

#[test]
fn a_process_is_forked_while_its_threads_open_and_close() {
    let scene = Scene::new("storm");
    let (other, one) = (scene.open_elsewhere(), scene.open());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    let handle = scene.open();
                    let _ = handle.owner().unwrap();
                    handle.close();
                }
            });
        }
        for _ in 0..50 {
            let in_child = || {
                let held = one.lock(LOCK, LIMIT).is_ok();
                one.unlock(LOCK);
                held && scene.open().owner().unwrap() == one.owner().unwrap()
            };
            assert_eq!(status_of(forked(in_child)), 0);
        }
        is_over.store(true, SeqCst);
    });
    assert_eq!(other.processes(), 2);
    one.close();
    assert_eq!(other.processes(), 1);
}

/// As `cp` does: the same file has the content of a copy, whose slots name nobody here.
#[test]
fn a_file_whose_content_was_replaced_gives_a_new_handle_a_slot_of_its_own() {
    let scene = Scene::new("copied");
    let made = scene.open();
    made.close();
    let copy = std::fs::read(&scene.path).unwrap();
    let (other, one) = (scene.open_elsewhere(), scene.open());
    std::fs::write(&scene.path, &copy).unwrap();
    let new = scene.open();
    assert_eq!(new.lock(LOCK, LIMIT).unwrap(), Acquired::Clean);
    assert!(!other.is_dead(new.owner().unwrap()), "others would take its locks");
    new.unlock(LOCK);
    drop(one);
}

#[test]
fn a_write_that_the_copy_has_is_not_reported_as_lost() {
    let scene = Scene::new("superseded");
    let arena = scene.open();
    // Another thread finds out first that the file was resized, and then that it has no name.
    let _: Error = arena.mark_superseded();
    let _: Error = arena.mark_lost();
    // This thread had finished its write before.
    arena.check_not_lost().unwrap();
    assert!(arena.check_open().is_err());
}
