//! Private files: the calls that open, name and examine them. Must not know who may use a file
//! (`trust.rs`) or how a path is followed (`directory.rs`).

use std::ffi::{CString, OsString};
use std::fs::{File, FileType, Metadata, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{checked, ATTEMPTS};
use crate::error::{Error, Result};
use crate::platform::{FileId, Rights};

fn path_text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path contains a NUL byte"))
}

fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    let fd = checked(result)?;
    // SAFETY: the call that made `fd` succeeded, and nothing else owns the descriptor yet.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a file with the given flags (`O_CLOEXEC` is added). A new file is private.
pub(super) fn open(path: &Path, flags: libc::c_int) -> io::Result<OwnedFd> {
    open_at(libc::AT_FDCWD, path, flags)
}

/// As [`open`], with a relative path from an open directory.
pub(super) fn open_at(directory: i32, path: &Path, flags: libc::c_int) -> io::Result<OwnedFd> {
    let (path, flags) = (path_text(path)?, flags | libc::O_CLOEXEC);
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    owned(unsafe { libc::openat(directory, path.as_ptr(), flags, 0o600 as libc::c_uint) })
}

/// The target of an open symbolic link.
pub(super) fn read_link(fd: i32) -> io::Result<PathBuf> {
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
pub(super) fn effective_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The number by which the system knows an open file.
pub fn descriptor(file: &File) -> i32 {
    file.as_raw_fd()
}

/// Creates an unnamed file in memory.
pub fn memory_file(name: &str) -> io::Result<File> {
    let name = path_text(Path::new(name))?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    owned(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) }).map(File::from)
}

/// A path by which other processes of this user open a file of this process.
pub fn shown_path(fd: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()))
}

/// Opens a file by its [`shown_path`].
pub fn open_shown(path: &Path) -> io::Result<File> {
    open(path, libc::O_RDWR).map(File::from)
}

/// Names an unnamed file in a directory, unless the name is taken (`EEXIST`).
pub(super) fn link_new(fd: i32, directory: i32, to: &Path) -> io::Result<()> {
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
pub(super) fn rename_new(directory: i32, from: &Path, to: &Path) -> io::Result<()> {
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
pub(super) fn remove_at(directory: i32, name: &Path) -> io::Result<()> {
    let name = path_text(name)?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    checked(unsafe { libc::unlinkat(directory, name.as_ptr(), 0) }).map(|_| ())
}

fn status(fd: i32) -> Option<libc::stat> {
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
pub fn file_id(fd: i32) -> Option<FileId> {
    status(fd).map(|data| [data.st_dev, data.st_ino])
}

/// Length of the file behind a descriptor; none if it is not open. Async-signal-safe.
pub fn file_bytes(fd: i32) -> Option<u64> {
    status(fd).map(|data| data.st_size as u64)
}

/// What is known of an open file.
///
/// # Errors
/// The system's error, if it does not pass. A closed descriptor stays closed.
pub fn metadata(file: &File) -> io::Result<Metadata> {
    let mut data = file.metadata();
    for _ in 1..ATTEMPTS {
        match &data {
            Err(error) if error.raw_os_error() != Some(libc::EBADF) => data = file.metadata(),
            _ => break,
        }
    }
    data
}

/// Device and inode of a file.
pub fn identify(data: &Metadata) -> FileId {
    [data.dev(), data.ino()]
}

/// How many names a file has.
pub fn links(data: &Metadata) -> u64 {
    data.nlink()
}

/// Whether a file belongs to the user that this process acts for.
pub fn belongs_to_us(data: &Metadata) -> bool {
    data.uid() == effective_user()
}

/// What a file is that is neither a regular file, a directory nor a symbolic link.
pub fn special_kind(kind: FileType) -> &'static str {
    match () {
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

/// Sets the mode of a new file regardless of the umask, and its group.
pub fn set_rights(file: &File, path: &Path, rights: Rights) -> Result<()> {
    let mode = match rights.group {
        None => 0o600,
        Some(group) => {
            // The group first: members of the old group must not get access in between.
            std::os::unix::fs::fchown(file, None, Some(group))
                .map_err(|source| Error::io("set the group of", path, source))?;
            0o660
        }
    };
    file.set_permissions(Permissions::from_mode(mode))
        .map_err(|source| Error::io("set the permissions of", path, source))
}

/// Overwrites bytes of a file.
pub fn overwrite(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, at)
}
