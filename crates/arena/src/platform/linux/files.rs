//! Private files: the calls that open, name and examine them. Must not know who may use a file
//! (`trust.rs`) or how a path is followed (`directory.rs`).

use std::ffi::{CString, OsString};
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{checked, ATTEMPTS};
use crate::error::{Error, Result};
use crate::platform::{FileId, FileStatus, Rights};

fn path_text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path contains a NUL byte"))
}

fn owned(result: libc::c_int) -> io::Result<File> {
    let fd = checked(result)?;
    // SAFETY: the call that made `fd` succeeded, and nothing else owns the descriptor yet.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Opens a file with the given flags (`O_CLOEXEC` is added). A new file is private.
pub(super) fn open(path: &Path, flags: libc::c_int) -> io::Result<File> {
    open_at(libc::AT_FDCWD, path, flags)
}

/// As [`open`], with a relative path from an open directory.
pub(super) fn open_at(directory: i32, path: &Path, flags: libc::c_int) -> io::Result<File> {
    let (path, flags) = (path_text(path)?, flags | libc::O_CLOEXEC);
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    owned(unsafe { libc::openat(directory, path.as_ptr(), flags, 0o600 as libc::c_uint) })
}

/// Creates a folder that only this user can enter.
pub(super) fn create_folder_at(directory: i32, name: &Path) -> io::Result<()> {
    let name = path_text(name)?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    checked(unsafe { libc::mkdirat(directory, name.as_ptr(), 0o700) }).map(|_| ())
}

/// Sets the mode of an open file or directory, also of one that can only be examined.
pub(super) fn set_mode(fd: i32, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(format!("/proc/self/fd/{fd}"), Permissions::from_mode(mode))
}

/// The target of an open symbolic link.
pub(super) fn read_link(fd: i32) -> io::Result<PathBuf> {
    let mut text = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the empty path is NUL-terminated, and the buffer has the length that is passed.
    let len_bytes =
        unsafe { libc::readlinkat(fd, c"".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    text.truncate(checked(len_bytes as libc::c_int)? as usize);
    Ok(OsString::from_vec(text).into())
}

/// The user that this process acts for.
pub(super) fn effective_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Keeps a file open until its descriptor, which this returns, is closed by number.
pub fn keep(file: File) -> i32 {
    file.into_raw_fd()
}

/// Creates a folder that only this user can enter.
///
/// # Errors
/// Those of the system; `AlreadyExists` if there is anything of this name.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Creates an unnamed file in memory.
pub fn memory_file(name: &str) -> io::Result<File> {
    let name = path_text(Path::new(name))?;
    // The wheels run with glibc 2.17, which does not have `memfd_create`.
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC) };
    owned(fd as libc::c_int)
}

/// A path by which other processes of this user open a file of this process.
pub fn shown_path(fd: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()))
}

/// Opens a file by its [`shown_path`].
pub fn open_shown(path: &Path) -> io::Result<File> {
    open(path, libc::O_RDWR)
}

/// Names an unnamed file in a directory, unless the name is taken (`EEXIST`).
pub(super) fn link_new(fd: i32, directory: i32, to: &Path) -> io::Result<()> {
    link(Path::new(&format!("/proc/self/fd/{fd}")), directory, to, libc::AT_SYMLINK_FOLLOW)
}

/// Gives a file another name in a directory, unless the name is taken (`EEXIST`). `from` may be in
/// the directory, or absolute.
fn link(from: &Path, directory: i32, to: &Path, flags: libc::c_int) -> io::Result<()> {
    let (source, target) = (path_text(from)?, path_text(to)?);
    // SAFETY: both are NUL-terminated strings that outlive the call.
    let result =
        unsafe { libc::linkat(directory, source.as_ptr(), directory, target.as_ptr(), flags) };
    checked(result).map(|_| ())
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
    match checked(result as libc::c_int) {
        // The file system lacks the flag; a hard link does not replace a file either.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
            link(from, directory, to, 0).and_then(|()| remove_at(directory, from))
        }
        renamed => renamed.map(|_| ()),
    }
}

/// Renames a file within a directory over another one.
pub(super) fn rename_over(directory: i32, from: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (path_text(from)?, path_text(to)?);
    // SAFETY: both are NUL-terminated strings that outlive the call.
    let result = unsafe { libc::renameat(directory, source.as_ptr(), directory, target.as_ptr()) };
    checked(result).map(|_| ())
}

/// Removes a file from a directory.
pub(super) fn remove_at(directory: i32, name: &Path) -> io::Result<()> {
    let name = path_text(name)?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    checked(unsafe { libc::unlinkat(directory, name.as_ptr(), 0) }).map(|_| ())
}

/// Which file an open descriptor leads to; none if it is not open or nobody can tell. Allocates
/// nothing: a signal handler and the child's side of a fork may call it.
pub fn status(fd: i32) -> Option<FileStatus> {
    // SAFETY: all-zero bytes are a valid `stat`, which is a plain C structure.
    let mut data: libc::stat = unsafe { std::mem::zeroed() };
    for _ in 0..ATTEMPTS {
        // SAFETY: the structure outlives the call, which fills it in.
        if unsafe { libc::fstat(fd, &mut data) } == 0 {
            return Some(FileStatus {
                id: [data.st_dev, data.st_ino],
                len_bytes: data.st_size as u64,
                links: data.st_nlink as u64,
            });
        }
        // A closed descriptor stays closed; other errors may pass.
        if io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
            break;
        }
    }
    None
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

/// What a file is, with its article; none for a regular file.
pub fn special_kind(data: &Metadata) -> Option<&'static str> {
    let kind = data.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_symlink() => Some("a symbolic link"),
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a named pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

/// Sets the mode of a new file regardless of the umask, and its group.
pub fn set_rights(file: &File, path: &Path, rights: Rights) -> Result<()> {
    let mode = match rights.group {
        None => 0o600,
        Some(group) => {
            // The group first: members of the old group must not get access in between.
            std::os::unix::fs::fchown(file, None, Some(group))
                .map_err(Error::cannot("set the group of", path))?;
            0o660
        }
    };
    file.set_permissions(Permissions::from_mode(mode))
        .map_err(Error::cannot("set the permissions of", path))
}

/// Gives a new file the mode and the group of another one, which their user may have changed.
pub fn copy_rights(file: &File, path: &Path, other: &Metadata) -> Result<()> {
    let group = file.metadata().map_err(Error::cannot("examine", path))?.gid();
    if group != other.gid() {
        std::os::unix::fs::fchown(file, None, Some(other.gid()))
            .map_err(Error::cannot("set the group of", path))?;
    }
    file.set_permissions(Permissions::from_mode(other.mode() & 0o777))
        .map_err(Error::cannot("set the permissions of", path))
}

/// Overwrites bytes of a file.
pub fn overwrite(fd: i32, at: u64, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer has the length that is passed.
    let written =
        unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), at as libc::off_t) };
    match written {
        -1 => Err(io::Error::last_os_error()),
        count if count as usize == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
