//! Which process is alive: locks on bytes of a file that end with their process, and what tells a
//! process from a later one with the same id. Must not know process slots.

use std::io;
use std::os::fd::IntoRawFd;
use std::path::Path;

use super::{checked, files, if_exists, namespace_inode, space};
use crate::platform::ProcessIdentity;

/// Why a process cannot show that it is alive, and what to do.
const NOT_SHOWN: &str = "there is no /proc/self/fd; mount /proc in this chroot or container, or \
    open an existing cache with read_only";

/// Does `command` with a lock of one byte, and returns the lock as the system leaves it.
fn byte_lock(fd: i32, command: libc::c_int, kind: libc::c_int, at: u64) -> io::Result<libc::flock> {
    // SAFETY: all-zero bytes are a valid `flock`, which is a plain C structure.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = at as libc::off_t;
    lock.l_len = 1;
    // SAFETY: the structure outlives the call, which may change it.
    checked(unsafe { libc::fcntl(fd, command, &mut lock) }).map(|_| lock)
}

/// Tries to lock one byte for this open file description; whether it is locked now.
pub fn try_lock_byte(fd: i32, at: u64) -> io::Result<bool> {
    match byte_lock(fd, libc::F_OFD_SETLK, libc::F_WRLCK, at) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Releases a byte lock.
pub fn unlock_byte(fd: i32, at: u64) -> io::Result<()> {
    byte_lock(fd, libc::F_OFD_SETLK, libc::F_UNLCK, at).map(|_| ())
}

/// Whether another open file description has the byte locked.
pub fn byte_is_locked(fd: i32, at: u64) -> io::Result<bool> {
    let lock = byte_lock(fd, libc::F_OFD_GETLK, libc::F_WRLCK, at)?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Opens the file of a descriptor again, for a separate open file description.
///
/// # Errors
/// The system's error, or what to do if `/proc` does not show this process.
pub fn open_again(fd: i32) -> io::Result<i32> {
    let shown = Path::new("/proc/self/fd");
    match files::open(&shown.join(fd.to_string()), libc::O_RDWR) {
        Err(_) if !shown.exists() => Err(io::Error::other(NOT_SHOWN)),
        opened => opened.map(IntoRawFd::into_raw_fd),
    }
}

/// Length of the mapping by [`keep_open`].
const KEEP_OPEN_BYTES: usize = 4096;

/// Keeps an open file description open as long as this process has its memory, whatever happens to
/// the descriptor: an inaccessible mapping holds it, and forked children do not inherit the
/// mapping. Returns its address.
pub fn keep_open(fd: i32) -> io::Result<usize> {
    if crate::mutants::is_on("lock-not-mapped") {
        return Ok(0);
    }
    let base = space::map(fd, KEEP_OPEN_BYTES, libc::PROT_NONE)?;
    // SAFETY: the mapping is ours, and nobody refers to its memory.
    checked(unsafe { libc::madvise(base.cast(), KEEP_OPEN_BYTES, libc::MADV_DONTFORK) })
        .inspect_err(|_| space::unmap(base, KEEP_OPEN_BYTES))?;
    Ok(base.addr())
}

/// Ends [`keep_open`].
pub fn stop_keeping_open(kept: usize) {
    if kept != 0 {
        space::unmap(kept as *mut u8, KEEP_OPEN_BYTES);
    }
}

/// Inode of this process's PID namespace. 0 if `/proc` shows the processes of another namespace (it
/// was not mounted again), so that process ids cannot be looked up.
fn pid_namespace() -> io::Result<u64> {
    let shown = if_exists(std::fs::read_link("/proc/self"))?;
    let is_ours = shown.is_some_and(|name| name.as_os_str() == &*std::process::id().to_string());
    if is_ours {
        namespace_inode("pid")
    } else {
        Ok(0)
    }
}

/// Start time of process `pid` in clock ticks since boot, and start of its stack (0 if hidden).
/// None if it has ended or is a zombie. An error means that nobody could tell: a process out of
/// descriptors must not take others for dead.
pub fn process_start(pid: u64) -> io::Result<Option<(u64, u64)>> {
    let text = if_exists(std::fs::read_to_string(format!("/proc/{pid}/stat")))?;
    Ok(text.and_then(|text| parse_process_start(&text)))
}

fn parse_process_start(text: &str) -> Option<(u64, u64)> {
    // The name in parentheses may itself contain spaces and parentheses.
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X" | "x") {
        return None;
    }
    let stack_start = fields.get(25).and_then(|field| field.parse().ok()).unwrap_or(0);
    Some((fields.get(19)?.parse().ok()?, stack_start))
}

/// What tells this process from others.
pub fn own_identity() -> io::Result<ProcessIdentity> {
    let pid = u64::from(std::process::id());
    let (start_ticks, stack_start) = process_start(pid)?.unwrap_or((0, 0));
    Ok([pid, start_ticks, pid_namespace()?, stack_start])
}

/// Whether a process is alive and runs the program that it ran then, as far as this namespace can
/// tell.
pub fn is_alive(recorded: ProcessIdentity) -> io::Result<bool> {
    let [pid, ticks_then, namespace_then, stack_then] = recorded;
    if namespace_then == 0 || namespace_then != pid_namespace()? {
        return Ok(false);
    }
    Ok(process_start(pid)?.is_some_and(|(start_ticks, stack_start)| {
        let is_same_program = stack_start == stack_then || stack_start == 0 || stack_then == 0;
        start_ticks == ticks_then && is_same_program
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_an_impossible_one_does_not() {
        let (start_ticks, stack_start) =
            process_start(u64::from(std::process::id())).unwrap().unwrap();
        assert!(start_ticks > 0 && stack_start > 0);
        assert_eq!(process_start(u64::MAX).unwrap(), None);
    }
}
