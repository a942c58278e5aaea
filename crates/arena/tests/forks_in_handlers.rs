//! Host code forks while an operation waits, as a Python signal handler may. Parent and child both
//! continue the operation, each in its own name.

mod opened;

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::layout::header;
use tuckbox_arena::{Acquired, Interrupted, NativeWaiter, Waiter};

use opened::open;

/// Forks at the first sleep.
struct Forking {
    child: AtomicI32,
    is_over: Arc<AtomicBool>,
}

impl Waiter for Forking {
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted> {
        work();
        if self.child.load(SeqCst) < 0 {
            // SAFETY: the child continues with this thread alone and uses nothing of the others.
            self.child.store(unsafe { libc::fork() }, SeqCst);
            self.is_over.store(true, SeqCst);
        }
        Ok(())
    }
}

#[test]
fn a_child_that_was_forked_while_it_waited_locks_in_its_own_name() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("forks-{}.tuck", std::process::id()));
    // A lock of the file that nothing else uses.
    let (lock, limit) = (header::HEADER_LOCK, Duration::from_secs(20));
    let is_over = Arc::new(AtomicBool::new(false));
    let forking = Arc::new(Forking { child: AtomicI32::new(-1), is_over: Arc::clone(&is_over) });
    let (holder, waiting) = (open(&path, Arc::new(NativeWaiter)), open(&path, forking.clone()));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(holder.lock(lock, limit).unwrap(), Acquired::Clean);
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            holder.unlock(lock);
        });
        let taken = waiting.lock(lock, limit);
        if forking.child.load(SeqCst) == 0 {
            // The child dies with the lock.
            // SAFETY: the call takes no memory and ends the process at once.
            unsafe { libc::_exit(if taken.is_ok() { 7 } else { 8 }) };
        }
        taken
    });
    let taken = taken.unwrap();
    waiting.unlock(lock);
    let mut status = 0;
    // SAFETY: the status outlives the call, which fills it in; the child is ours.
    unsafe { libc::waitpid(forking.child.load(SeqCst), &mut status, 0) };
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7));
    // If the child had locked in the parent's name, the lock would never be free again.
    let after = waiting.lock(lock, Duration::from_secs(2)).unwrap();
    waiting.unlock(lock);
    // Whichever locks first, the parent takes over from the child exactly once.
    let takeovers = [taken, after].iter().filter(|one| **one == Acquired::TakenOver).count();
    assert_eq!(takeovers, 1);
}
