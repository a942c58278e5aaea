//! The system calls, each wrapped so that the rest of the crate needs no `unsafe` for them.
//! Takes no decision: what an error means is for the caller to say.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

fn path_text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path holds a NUL byte"))
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    let fd = checked(result)?;
    // SAFETY: the call that made `fd` succeeded, and nobody else knows the number yet.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a file with the given flags (`O_CLOEXEC` is added) and mode.
pub fn open(path: &Path, flags: libc::c_int, mode: libc::mode_t) -> io::Result<OwnedFd> {
    let path = path_text(path)?;
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    owned(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, libc::c_uint::from(mode)) })
}

/// A file in memory without a name in any directory.
pub fn memory_file(name: &str) -> io::Result<OwnedFd> {
    let name = path_text(Path::new(name))?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    owned(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })
}

/// Opens a new file without a name in a directory, which vanishes unless [`link_new`] names it.
pub fn nameless_file(directory: &Path, mode: libc::mode_t) -> io::Result<OwnedFd> {
    open(directory, libc::O_RDWR | libc::O_TMPFILE, mode)
}

/// Gives a nameless file its name, unless something has it already (`EEXIST`).
pub fn link_new(fd: RawFd, to: &Path) -> io::Result<()> {
    let source = path_text(Path::new(&format!("/proc/self/fd/{fd}")))?;
    let target = path_text(to)?;
    // SAFETY: both are NUL-terminated strings that outlive the call.
    checked(unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            source.as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    })
    .map(|_| ())
}

/// Moves a file to `to` unless something is there already (`EEXIST`).
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (path_text(from)?, path_text(to)?);
    // SAFETY: both are NUL-terminated strings that outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            source.as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // A file system without the flag: a hard link does not replace either.
        Some(libc::EINVAL | libc::ENOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        _ => Err(error),
    }
}

/// How long a file of this process may get.
fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call, which fills it in.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

/// Device and inode of an open descriptor; none if it is not open. Takes no memory, so that the
/// child's side of a fork may call it.
pub fn device_and_inode(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: all-zero bytes are a valid `stat`, which is a plain C structure.
    let mut data: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call, which fills it in.
    (unsafe { libc::fstat(fd, &mut data) } == 0).then_some((data.st_dev, data.st_ino))
}

/// Allocates the bytes from `offset` on and makes the file that long, without holes.
pub fn allocate(fd: RawFd, offset: u64, len_bytes: u64) -> io::Result<()> {
    if offset.saturating_add(len_bytes) > file_size_limit() {
        // Asking for more would not only fail: it would send the signal SIGXFSZ, which kills.
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    loop {
        // SAFETY: no memory is passed.
        let code =
            unsafe { libc::posix_fallocate(fd, offset as libc::off_t, len_bytes as libc::off_t) };
        match code {
            0 => return Ok(()),
            libc::EINTR => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Maps a file shared, readable and writable.
pub fn map_shared(fd: RawFd, len_bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: a new mapping at an address of the kernel's choosing; no memory of ours is affected.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base.cast())
}

/// Ends a mapping that [`map_shared`] made.
pub fn unmap(base: *mut u8, len_bytes: usize) {
    // SAFETY: called once, by the region that owns the mapping, when it is dropped.
    unsafe { libc::munmap(base.cast(), len_bytes) };
}

/// The half of a word that the kernel looks at: a futex has 32 bits.
fn low_half(word: &AtomicU64) -> *mut u32 {
    word.as_ptr().cast::<u32>().wrapping_add(usize::from(cfg!(target_endian = "big")))
}

/// Sleeps while `word` holds `value`, `limit` at most. Wakes early for no reason at times.
pub fn futex_wait(word: &AtomicU64, value: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    };
    // SAFETY: the word and the time outlive the call.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAIT, value, &limit) };
}

/// Wakes one sleeper.
pub fn futex_wake_one(word: &AtomicU64) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE, 1) };
}

fn byte_lock(kind: libc::c_int, at: u64) -> libc::flock {
    // SAFETY: all-zero bytes are a valid `flock`, which is a plain C structure.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = at as libc::off_t;
    lock.l_len = 1;
    lock
}

/// Tries to lock one byte for this open file description; whether it now is.
pub fn try_lock_byte(fd: RawFd, at: u64) -> io::Result<bool> {
    let lock = byte_lock(libc::F_WRLCK, at);
    // SAFETY: the structure outlives the call.
    match checked(unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &lock) }) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Gives up a byte lock.
pub fn unlock_byte(fd: RawFd, at: u64) -> io::Result<()> {
    let lock = byte_lock(libc::F_UNLCK, at);
    // SAFETY: the structure outlives the call.
    checked(unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &lock) }).map(|_| ())
}

/// Whether another open file description holds the byte.
pub fn byte_is_locked(fd: RawFd, at: u64) -> io::Result<bool> {
    let mut lock = byte_lock(libc::F_WRLCK, at);
    // SAFETY: the structure outlives the call, which fills it in.
    checked(unsafe { libc::fcntl(fd, libc::F_OFD_GETLK, &mut lock) })?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Microseconds since boot, including time asleep.
pub fn boot_time_us() -> u64 {
    clock_us(libc::CLOCK_BOOTTIME)
}

/// Microseconds since 1970 by the wall clock.
pub fn wall_time_us() -> u64 {
    clock_us(libc::CLOCK_REALTIME)
}

fn clock_us(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, which fills it in; both clocks exist on Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// Closes a descriptor by number. For the child's side of a fork, where only this may be done.
pub fn close_raw(fd: RawFd) {
    // SAFETY: closing takes no memory; the caller owns the number.
    unsafe { libc::close(fd) };
}

/// Runs `prepare` before every fork, and `parent` and `child` after it on either side.
pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: the three only lock, unlock, store to atomics and close descriptors, and they stay
    // loaded as long as the process, since an extension module is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
