//! Forks: functions that run around them, and what a child may do. Must not know what a child
//! inherits.

/// Runs `prepare` before every fork, and `parent` and `child` after it on either side.
pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: the three only lock, unlock, store to atomics and close descriptors. They stay loaded
    // as long as the process: an extension module is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// Closes a descriptor by number. Also for the child's side of a fork, where little else is allowed.
pub fn close(fd: i32) {
    // SAFETY: closing allocates nothing; the caller owns the number.
    unsafe { libc::close(fd) };
}
