//! Memory and disk space: mapping a file, and reserving space for it to grow. Must not know what is
//! in the file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::trust::parent_of;
use super::{cgroups, checked, files, repeated};
use crate::error::Space;
use crate::platform::NotAllocated;

/// Bytes of a huge page on most systems.
pub const HUGE_BYTES: usize = 2 << 20;
/// Not in `libc` for every C library.
const MADV_COLLAPSE: libc::c_int = 25;

/// Maps a file shared and readable, and also writable if `writable`. The address is a multiple of
/// [`HUGE_BYTES`] if the mapping is that long, so that the kernel can use huge pages.
pub fn map_shared(fd: i32, len_bytes: usize, writable: bool) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
    if len_bytes < HUGE_BYTES {
        return map(fd, len_bytes, protection);
    }
    let reserved_bytes = len_bytes + HUGE_BYTES;
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let reserved = new_mapping(reserved_bytes, libc::PROT_NONE, anonymous, -1)?;
    let lead_bytes = reserved.align_offset(HUGE_BYTES);
    let base = reserved.wrapping_add(lead_bytes);
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: the range lies in the reservation above, and only this function knows its address.
    let mapped = unsafe { libc::mmap(base.cast(), len_bytes, protection, flags, fd, 0) };
    if mapped == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        unmap(reserved, reserved_bytes);
        return Err(error);
    }
    // The system keeps whole pages.
    let end = base.wrapping_add(len_bytes.next_multiple_of(page_bytes()));
    let rest_bytes = HUGE_BYTES - lead_bytes - (end as usize - base as usize - len_bytes);
    for (part, part_bytes) in [(reserved, lead_bytes), (end, rest_bytes)] {
        if part_bytes > 0 {
            unmap(part, part_bytes);
        }
    }
    Ok(base)
}

/// Maps a file shared, with this protection.
pub(super) fn map(fd: i32, len_bytes: usize, protection: libc::c_int) -> io::Result<*mut u8> {
    new_mapping(len_bytes, protection, libc::MAP_SHARED, fd)
}

fn new_mapping(
    len_bytes: usize,
    protection: libc::c_int,
    flags: libc::c_int,
    fd: i32,
) -> io::Result<*mut u8> {
    // SAFETY: a new mapping at an address of the kernel's choosing; no memory of ours is affected.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, protection, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base.cast())
}

fn page_bytes() -> usize {
    // SAFETY: no memory is passed.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Has the kernel put a part of a file in memory into huge pages, for all processes that map it by
/// [`map_shared`]. Both arguments are multiples of [`HUGE_BYTES`], and the file has these bytes. False
/// if asking for other parts is of no use: a kernel before 6.1, a file system on a disk, or too little
/// contiguous free memory.
pub fn use_huge_pages(base: *mut u8, len_bytes: usize) -> bool {
    // SAFETY: the range is in one of our mappings, and no byte of it changes.
    match checked(unsafe { libc::madvise(base.cast(), len_bytes, MADV_COLLAPSE) }) {
        Ok(_) => true,
        // A page was in use. This part keeps its small pages.
        Err(error) => error.raw_os_error() == Some(libc::EAGAIN),
    }
}

/// The error if nothing more can be mapped.
pub fn no_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

/// Removes a mapping, or a part of one.
pub fn unmap(base: *mut u8, len_bytes: usize) {
    // SAFETY: called once, by the only owner of these addresses, which uses them no more.
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

/// The limit for the length of files that this process writes.
fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call, which fills it in.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

/// Allocates the bytes from `offset` on, without holes, and makes the file that long. Calls
/// `fallocate` directly: where a file system lacks it, glibc's `posix_fallocate` writes zeros over
/// what another process stores there meanwhile.
pub fn allocate(fd: i32, offset: u64, len_bytes: u64) -> Result<(), NotAllocated> {
    if offset.saturating_add(len_bytes) > file_size_limit() {
        // Asking for more would also send SIGXFSZ, which kills the process.
        return Err(NotAllocated::Full);
    }
    let (from, len) = (offset as libc::off_t, len_bytes as libc::off_t);
    let done = match crate::mutants::is_on("sparse") {
        // SAFETY: no memory is passed.
        true => checked(unsafe { libc::ftruncate(fd, from + len) }).map(|_| ()),
        // SAFETY: no memory is passed.
        false => repeated(|| unsafe { libc::fallocate(fd, 0, from, len) }),
    };
    done.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => NotAllocated::Full,
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => NotAllocated::NotGrowable,
        _ => NotAllocated::Other(error),
    })
}

/// Waits until a file or directory is on stable storage. Succeeds on file systems that know no
/// `fsync`: they keep files in memory, or cannot be asked.
pub fn make_durable(fd: i32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    match repeated(|| unsafe { libc::fsync(fd) }) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => Ok(()),
        result => result,
    }
}

/// Starts reading the first bytes of a file into memory, without waiting.
///
/// Otherwise the first access to a mapping of an uncached file reads the device's whole read-ahead,
/// megabytes on some, and the next access waits for the disk again. The kernel may read less.
pub fn read_ahead(fd: i32, len_bytes: u64) {
    // SAFETY: no memory is passed.
    let _ =
        unsafe { libc::posix_fadvise(fd, 0, len_bytes as libc::off_t, libc::POSIX_FADV_WILLNEED) };
}

/// A file system.
pub(super) struct FileSystem {
    /// Its magic number.
    pub kind: u32,
    /// The length of its data, used or free; 0 if it has no limit or does not tell.
    total_bytes: u64,
}

/// The file system of an open file.
pub(super) fn file_system(file: &File) -> io::Result<FileSystem> {
    // SAFETY: all-zero bytes are a valid `statfs`, which is a plain C structure.
    let mut data: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call, which fills it in.
    checked(unsafe { libc::fstatfs(file.as_raw_fd(), &mut data) })?;
    let total_bytes = data.f_blocks.saturating_mul(data.f_frsize as u64);
    Ok(FileSystem { kind: data.f_type as u32, total_bytes })
}

/// Bytes of this machine's memory, and of its swap space; none if the system does not tell.
fn memory_bytes() -> Option<(u64, u64)> {
    // SAFETY: all-zero bytes are a valid `sysinfo`, which is a plain C structure.
    let mut data: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call, which fills it in.
    checked(unsafe { libc::sysinfo(&mut data) }).ok()?;
    let bytes = |units: u64| units.saturating_mul(u64::from(data.mem_unit));
    Some((bytes(data.totalram), bytes(data.totalswap))).filter(|(memory, _)| *memory > 0)
}

/// All the space that a file on the file system of `file` could have; none if that is unknown.
pub fn most(file: &File) -> Option<Space> {
    let found = file_system(file).ok()?;
    let limit = Some(found.total_bytes).filter(|bytes| *bytes > 0);
    let limit = limit.map(|total_bytes| Space::FileSystem { total_bytes });
    // Where unnamed files are in memory, too.
    if found.kind != libc::TMPFS_MAGIC as u32 {
        return limit;
    }
    let (memory_bytes, swap_bytes) = memory_bytes().unzip();
    let with_swap = |bytes: u64| bytes.saturating_add(swap_bytes.unwrap_or(0));
    let memory = memory_bytes.map(|bytes| Space::Memory { total_bytes: with_swap(bytes) });
    let container =
        cgroups::memory_limit().map(|bytes| Space::Container { total_bytes: with_swap(bytes) });
    [limit, memory, container].into_iter().flatten().min_by_key(|space| space.total_bytes())
}

/// As [`most`], for a file at `path`, which need not exist; none if its directory cannot be opened.
pub fn most_at(path: &Path) -> Option<Space> {
    most(&files::open(parent_of(path), libc::O_PATH | libc::O_DIRECTORY).ok()?)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Bytes of addresses that this process has in use.
    fn used_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').next().unwrap().parse::<usize>().unwrap() * page_bytes()
    }

    #[test]
    fn mappings_begin_where_huge_pages_do_and_leave_nothing() {
        let file = File::open("/proc/self/exe").unwrap();
        let mut lengths = vec![];
        for huge in [HUGE_BYTES, 3 * HUGE_BYTES] {
            lengths.extend([huge - 4096, huge, huge + 1, huge + 4096]);
        }
        let before_bytes = used_bytes();
        for length in lengths.iter().cycle().take(5000) {
            let base = map_shared(file.as_raw_fd(), *length, false).unwrap();
            assert!(*length < HUGE_BYTES || base as usize % HUGE_BYTES == 0, "{length}: {base:?}");
            unmap(base, *length);
        }
        // Other threads reserve some, too. What is reserved for a mapping is 2 MiB longer than it.
        let left_bytes = used_bytes().saturating_sub(before_bytes);
        assert!(left_bytes < 1 << 30, "{left_bytes} bytes of addresses are left");
    }
}
