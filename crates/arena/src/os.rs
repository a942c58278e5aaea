//! The system calls, wrapped so that the rest of the crate needs no `unsafe` for them. Takes no
//! decisions: the caller says what an error means.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::region::LockWord;

/// A call is given up after this many interruptions by signals.
const INTERRUPTIONS_MAX: u32 = 1000;
/// Attempts of a call whose error may be transient.
pub const ATTEMPTS: u32 = 3;

fn path_text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path contains a NUL byte"))
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
    open_at(libc::AT_FDCWD, path, flags, mode)
}

/// As [`open`], with a relative path from an open directory.
pub fn open_at(
    directory: RawFd,
    path: &Path,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<OwnedFd> {
    let path = path_text(path)?;
    let (flags, mode) = (flags | libc::O_CLOEXEC, libc::c_uint::from(mode));
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    owned(unsafe { libc::openat(directory, path.as_ptr(), flags, mode) })
}

/// The target of an open symbolic link.
pub fn read_link(fd: RawFd) -> io::Result<PathBuf> {
    let mut text = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the empty path is NUL-terminated, and the buffer has the length that is passed.
    let len_bytes =
        unsafe { libc::readlinkat(fd, c"".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    if len_bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    text.truncate(len_bytes as usize);
    Ok(OsString::from_vec(text).into())
}

/// The user that this process acts for.
pub fn effective_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The magic number of the file system of an open file.
pub fn file_system_kind(fd: RawFd) -> io::Result<u32> {
    // SAFETY: all-zero bytes are a valid `statfs`, which is a plain C structure.
    let mut data: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call, which fills it in.
    checked(unsafe { libc::fstatfs(fd, &mut data) })?;
    Ok(data.f_type as u32)
}

/// An unnamed file in memory.
pub fn memory_file(name: &str) -> io::Result<OwnedFd> {
    let name = path_text(Path::new(name))?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    owned(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })
}

/// Creates an unnamed file in a directory, which vanishes unless [`link_new`] names it.
pub fn nameless_file(directory: RawFd, mode: libc::mode_t) -> io::Result<OwnedFd> {
    open_at(directory, Path::new("."), libc::O_RDWR | libc::O_TMPFILE, mode)
}

/// Names an unnamed file in a directory, unless the name is taken (`EEXIST`).
pub fn link_new(fd: RawFd, directory: RawFd, to: &Path) -> io::Result<()> {
    let source = path_text(Path::new(&format!("/proc/self/fd/{fd}")))?;
    let target = path_text(to)?;
    // SAFETY: both are NUL-terminated strings that outlive the call.
    checked(unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            source.as_ptr(),
            directory,
            target.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    })
    .map(|_| ())
}

/// Renames a file within a directory, unless the name is taken (`EEXIST`).
pub fn rename_new(directory: RawFd, from: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (path_text(from)?, path_text(to)?);
    // SAFETY: both are NUL-terminated strings that outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            directory,
            source.as_ptr(),
            directory,
            target.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // The file system lacks the flag; a hard link does not replace a file either.
        Some(libc::EINVAL | libc::ENOSYS) => {
            // SAFETY: both are NUL-terminated strings that outlive the call.
            checked(unsafe {
                libc::linkat(directory, source.as_ptr(), directory, target.as_ptr(), 0)
            })?;
            remove_at(directory, from)
        }
        _ => Err(error),
    }
}

/// Removes a file from a directory.
pub fn remove_at(directory: RawFd, name: &Path) -> io::Result<()> {
    let name = path_text(name)?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    checked(unsafe { libc::unlinkat(directory, name.as_ptr(), 0) }).map(|_| ())
}

/// The limit for the length of files that this process writes.
fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call, which fills it in.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

fn status(fd: RawFd) -> Option<libc::stat> {
    // SAFETY: all-zero bytes are a valid `stat`, which is a plain C structure.
    let mut data: libc::stat = unsafe { std::mem::zeroed() };
    for _ in 0..ATTEMPTS {
        // SAFETY: the structure outlives the call, which fills it in.
        if unsafe { libc::fstat(fd, &mut data) } == 0 {
            return Some(data);
        }
        if io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
            break;
        }
    }
    None
}

/// Device and inode of an open descriptor; none if it is not open or nobody can tell. Allocates
/// nothing, so the child's side of a fork may call it.
pub fn device_and_inode(fd: RawFd) -> Option<(u64, u64)> {
    status(fd).map(|data| (data.st_dev, data.st_ino))
}

/// Length of the file behind a descriptor; none if it is not open. Async-signal-safe.
pub fn file_bytes(fd: RawFd) -> Option<u64> {
    status(fd).map(|data| data.st_size as u64)
}

/// Allocates the bytes from `offset` on, without holes, and makes the file that long. Calls
/// `fallocate` directly: where a file system lacks it, glibc's `posix_fallocate` writes zeros over
/// what another process stores there meanwhile.
pub fn allocate(fd: RawFd, offset: u64, len_bytes: u64) -> io::Result<()> {
    if offset.saturating_add(len_bytes) > file_size_limit() {
        // Asking for more would also send SIGXFSZ, which kills the process.
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    if crate::mutants::is_on("sparse") {
        // SAFETY: no memory is passed.
        let done = unsafe { libc::ftruncate(fd, (offset + len_bytes) as libc::off_t) };
        return checked(done).map(|_| ());
    }
    let mut interruptions = 0;
    loop {
        // SAFETY: no memory is passed.
        let done =
            unsafe { libc::fallocate(fd, 0, offset as libc::off_t, len_bytes as libc::off_t) };
        match checked(done) {
            // Bounded: signals may come faster than the file system allocates, and each one makes
            // it give back what it had allocated.
            Err(error)
                if error.kind() == io::ErrorKind::Interrupted
                    && interruptions < INTERRUPTIONS_MAX =>
            {
                interruptions += 1;
            }
            result => return result.map(|_| ()),
        }
    }
}

/// Waits until a file or directory is on stable storage. Succeeds on file systems that know no
/// `fsync`: they keep files in memory, or cannot be asked.
pub fn make_durable(fd: RawFd) -> io::Result<()> {
    let mut interruptions = 0;
    loop {
        // SAFETY: no memory is passed.
        match checked(unsafe { libc::fsync(fd) }) {
            Err(error)
                if error.kind() == io::ErrorKind::Interrupted
                    && interruptions < INTERRUPTIONS_MAX =>
            {
                interruptions += 1;
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
                return Ok(());
            }
            result => return result.map(|_| ()),
        }
    }
}

/// Starts reading the first bytes of a file into memory, without waiting.
///
/// Otherwise the first access to a mapping of an uncached file reads the device's whole read-ahead,
/// megabytes on some, and the next access waits for the disk again. The kernel may read less.
pub fn read_ahead(fd: RawFd, len_bytes: u64) {
    // SAFETY: no memory is passed.
    let _ =
        unsafe { libc::posix_fadvise(fd, 0, len_bytes as libc::off_t, libc::POSIX_FADV_WILLNEED) };
}

/// Maps a file shared and readable, and also writable if `writable`.
pub fn map_shared(fd: RawFd, len_bytes: usize, writable: bool) -> io::Result<*mut u8> {
    let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    // SAFETY: a new mapping at an address of the kernel's choosing; no memory of ours is affected.
    let base =
        unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, protection, libc::MAP_SHARED, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base.cast())
}

/// Keeps an open file description open as long as this process has its memory, whatever happens to
/// the descriptor: an inaccessible mapping holds it, and forked children do not inherit the
/// mapping.
pub fn map_to_keep_open(fd: RawFd) -> io::Result<*mut u8> {
    let (none, shared) = (libc::PROT_NONE, libc::MAP_SHARED);
    // SAFETY: a new mapping at an address of the kernel's choosing; no memory of ours is affected.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), KEEP_OPEN_BYTES, none, shared, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is ours, and nobody refers to its memory.
    let kept = checked(unsafe { libc::madvise(base, KEEP_OPEN_BYTES, libc::MADV_DONTFORK) });
    kept.inspect_err(|_| unmap(base.cast(), KEEP_OPEN_BYTES))?;
    Ok(base.cast())
}

/// Length of the mapping by [`map_to_keep_open`].
pub const KEEP_OPEN_BYTES: usize = 4096;

/// Removes a mapping by [`map_shared`] or [`map_to_keep_open`].
pub fn unmap(base: *mut u8, len_bytes: usize) {
    // SAFETY: called once, by the region that owns the mapping, when it is dropped.
    unsafe { libc::munmap(base.cast(), len_bytes) };
}

/// Replaces a mapping by [`map_shared`] with private zeros; whether that succeeded.
/// Async-signal-safe.
pub fn zeros_over(base: *mut u8, len_bytes: usize) -> bool {
    // SAFETY: the range is one of our mappings. Only references to atomics into it exist, and they
    // stay valid because the addresses never stop being mapped.
    let put = unsafe {
        libc::mmap(
            base.cast(),
            len_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    put != libc::MAP_FAILED
}

/// The cause of a SIGBUS.
#[derive(Debug, Clone, Copy)]
pub enum BusError {
    /// An access to this address failed.
    At(usize),
    /// A program sent the signal; no access of this thread caused it.
    Raised,
}

type MayGoOn = fn(BusError) -> bool;
static BUS_ERRORS: OnceLock<(MayGoOn, libc::sigaction)> = OnceLock::new();

/// Calls `may_go_on` at each SIGBUS from now on. If it returns false, the previous action follows.
pub fn handle_bus_errors(may_go_on: MayGoOn) {
    // SAFETY: all-zero bytes are a valid `sigaction`, which is a plain C structure.
    let (mut before, mut ours): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call, which fills it in.
    unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut before) };
    if BUS_ERRORS.set((may_go_on, before)).is_err() {
        return;
    }
    ours.sa_sigaction = on_bus_error as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the structure outlives the call. The handler only makes system calls and uses
    // atomics, and stays loaded: an extension module is never unloaded.
    unsafe { libc::sigaction(libc::SIGBUS, &ours, std::ptr::null_mut()) };
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let Some((may_go_on, before)) = BUS_ERRORS.get() else { return };
    // SAFETY: the kernel passes a valid structure, which holds an address if the code is positive.
    let error = unsafe {
        if (*info).si_code > 0 {
            BusError::At((*info).si_addr() as usize)
        } else {
            BusError::Raised
        }
    };
    // SAFETY: the address of this thread's own error number.
    let errno = unsafe { *libc::__errno_location() };
    let goes_on = may_go_on(error);
    // SAFETY: as above. The interrupted code finds its error number unchanged.
    unsafe { *libc::__errno_location() = errno };
    if goes_on {
        return;
    }
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the structure came from the system. The access is tried again and meets the
            // default action; a signal that was sent is sent again.
            unsafe {
                libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut());
                if matches!(error, BusError::Raised) {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: its `SA_SIGINFO` flag says that the handler takes these three arguments.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without `SA_SIGINFO` the handler takes the number alone.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// The half of a lock word that the kernel checks: a futex has 32 bits.
#[cfg(not(loom))]
fn low_half(word: LockWord<'_>) -> *mut u32 {
    word.as_ptr().cast::<u32>().wrapping_add(usize::from(cfg!(target_endian = "big")))
}

/// Sleeps while `word` holds `value`, at most `limit`. May wake early without a reason.
#[cfg(not(any(loom, miri)))]
pub fn futex_wait(word: LockWord<'_>, value: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as _,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    };
    // SAFETY: the word and the time outlive the call.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAIT, value, &limit) };
}

/// Always wakes early: Miri would take the kernel's load of half a word for a load of this program,
/// and loads must not be narrower than the others.
#[cfg(miri)]
pub fn futex_wait(_word: LockWord<'_>, _value: u32, _limit: Duration) {
    std::thread::yield_now();
}

/// Wakes one sleeper.
#[cfg(not(loom))]
#[cold]
pub fn futex_wake_one(word: LockWord<'_>) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE, 1) };
}

/// As the kernel's, in a loom model.
#[cfg(loom)]
pub fn futex_wait(word: LockWord<'_>, value: u32, _limit: Duration) {
    word.sleep(value);
}

/// As the kernel's, in a loom model.
#[cfg(loom)]
pub fn futex_wake_one(word: LockWord<'_>) {
    word.wake_one();
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

/// Tries to lock one byte for this open file description; whether it is locked now.
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

/// Releases a byte lock.
pub fn unlock_byte(fd: RawFd, at: u64) -> io::Result<()> {
    let lock = byte_lock(libc::F_UNLCK, at);
    // SAFETY: the structure outlives the call.
    checked(unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &lock) }).map(|_| ())
}

/// Whether another open file description has the byte locked.
pub fn byte_is_locked(fd: RawFd, at: u64) -> io::Result<bool> {
    let mut lock = byte_lock(libc::F_WRLCK, at);
    // SAFETY: the structure outlives the call, which fills it in.
    checked(unsafe { libc::fcntl(fd, libc::F_OFD_GETLK, &mut lock) })?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Seconds of a monotonic clock, cheap and coarse.
pub fn coarse_seconds() -> u64 {
    time_of(libc::CLOCK_MONOTONIC_COARSE).tv_sec as u64
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
    let time = time_of(clock);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

#[inline(always)]
fn time_of(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, which fills it in; the clocks exist on Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time
}

/// Closes a descriptor by number. For the child's side of a fork, where no more is allowed.
pub fn close_raw(fd: RawFd) {
    // SAFETY: closing allocates nothing; the caller owns the number.
    unsafe { libc::close(fd) };
}

/// Runs `prepare` before every fork, and `parent` and `child` after it on either side.
pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: the three only lock, unlock, store to atomics and close descriptors. They stay loaded
    // as long as the process: an extension module is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
