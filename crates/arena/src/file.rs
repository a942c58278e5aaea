//! Opens and creates the file. Must not know what is in it.
//!
//! A new file is laid out without a name (or under a temporary one, where the file system has no
//! unnamed files), synced, and then named. So nobody opens half a cache, a death while creating
//! leaves nothing behind, and a power cut leaves a whole cache or none. A file that Tuckbox did not
//! create is never written to.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result, Space};
use crate::os;
use crate::trust::{Directory, Rights};

/// How often opening starts again because the file was replaced meanwhile.
const ATTEMPTS: u32 = 64;
/// How often, and for how long, to wait until a second hard link disappears.
const LINK_CHECKS: u32 = 5;
const LINK_PAUSE: Duration = Duration::from_millis(1);

/// Whether a file is still the one at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStatus {
    /// Still in place, as far as can be told.
    InPlace,
    /// The path leads to another file.
    Replaced,
    /// The file has no name left and disappears with its last user.
    Removed,
}

/// An open file, and which one it is.
#[derive(Debug)]
pub struct CacheFile {
    /// None only while the value is dropped.
    file: Option<File>,
    /// The path; for a file without a name, its future path.
    path: PathBuf,
    /// The temporary name to remove if the file is given up, if it has one.
    temporary: Option<PathBuf>,
    /// Whether the file has the name in `path`.
    is_named: bool,
    device: u64,
    inode: u64,
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { action, path: path.into(), source }
}

fn refuse_kind(data: &Metadata, path: &Path) -> Result<()> {
    let kind = data.file_type();
    let kind = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(Error::NotAFile { path: path.into(), kind })
}

/// All the space that a file on the file system of `fd` could have; none if that is unknown.
fn space(fd: RawFd) -> Option<Space> {
    let found = os::file_system(fd).ok()?;
    let limit = Some(found.total_bytes).filter(|bytes| *bytes > 0);
    let limit = limit.map(|total_bytes| Space::FileSystem { total_bytes });
    let memory = os::memory_bytes().filter(|_| found.is_memory());
    let memory = memory.map(|total_bytes| Space::Memory { total_bytes });
    limit.into_iter().chain(memory).min_by_key(|space| space.total_bytes())
}

/// Refuses a size that a new file could never reach. Space that others use now does not matter.
fn require_space(fd: RawFd, path: &Path, size_bytes: u64) -> Result<()> {
    match space(fd) {
        Some(space) if space.total_bytes() < size_bytes => {
            Err(Error::SizeBeyondSpace { path: path.into(), asked_bytes: size_bytes, space })
        }
        _ => Ok(()),
    }
}

impl CacheFile {
    fn new(fd: OwnedFd, path: &Path) -> Result<(CacheFile, Metadata)> {
        let file = File::from(fd);
        let data = file.metadata().map_err(|error| io_error("examine", path, error))?;
        refuse_kind(&data, path)?;
        let (device, inode) = (data.dev(), data.ino());
        let (file, path) = (Some(file), path.into());
        let file = CacheFile { device, inode, file, path, temporary: None, is_named: false };
        Ok((file, data))
    }

    /// Opens an existing file if it is safe to use; none if there is no file.
    pub fn open(directory: &Directory, rights: Rights) -> Result<Option<CacheFile>> {
        let path = directory.path();
        let refused = |error| io_error("open", path, error);
        let follow = if crate::mutants::is_on("follow") { 0 } else { libc::O_NOFOLLOW };
        // Examines the file without opening it: opening a device or a named pipe has side effects.
        let look = || match os::open_at(directory.fd(), directory.name(), libc::O_PATH | follow, 0)
        {
            Ok(fd) => File::from(fd).metadata().map(Some).map_err(refused),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(refused(error)),
        };
        let mut link_checks = 0;
        for _ in 0..ATTEMPTS {
            let Some(before) = look()? else { return Ok(None) };
            refuse_kind(&before, path)?;
            let access = if rights.read_only { libc::O_RDONLY } else { libc::O_RDWR };
            let flags = access | follow | libc::O_NONBLOCK;
            let fd = match os::open_at(directory.fd(), directory.name(), flags, 0) {
                Ok(fd) => fd,
                Err(error) => match error.raw_os_error() {
                    // Replaced or removed meanwhile.
                    Some(libc::ENOENT | libc::ELOOP | libc::EISDIR | libc::ENXIO) => continue,
                    _ => return Err(refused(error)),
                },
            };
            let (mut file, data) = CacheFile::new(fd, path)?;
            file.is_named = true;
            // The name must still lead to this file and be its only one: a second name that came
            // and went could have made us open another file of this user.
            let Some(after) = look()? else { continue };
            let is_one = |one: &Metadata| (one.dev(), one.ino()) == (file.device, file.inode);
            if !is_one(&before) || !is_one(&after) {
                continue;
            }
            let most = [before, data, after].into_iter().max_by_key(MetadataExt::nlink);
            let data = most.expect("there are three");
            // Where a new file cannot be renamed without replacing another, it has two names for an
            // instant.
            if data.nlink() > 1 && link_checks < LINK_CHECKS {
                link_checks += 1;
                std::thread::sleep(LINK_PAUSE);
                continue;
            }
            directory.check_file(file.fd(), &data, rights)?;
            return Ok(Some(file));
        }
        Err(Error::Unsafe {
            path: path.into(),
            reason: "another process keeps replacing it".into(),
            remedy: "stop that process, or choose another path".into(),
        })
    }

    /// Opens the unnamed file of another process of this user through `/proc/PID/fd`.
    pub fn open_shown(path: &Path) -> Result<CacheFile> {
        let fd = os::open(path, libc::O_RDWR, 0).map_err(|error| io_error("open", path, error))?;
        let (file, data) = CacheFile::new(fd, path)?;
        if data.nlink() != 0 || data.uid() != os::effective_user() {
            return Err(Error::Unsafe {
                path: path.into(),
                reason: "it is not a private cache of this user".into(),
                remedy: "open a cache file by its path".into(),
            });
        }
        Ok(file)
    }

    /// Creates an unnamed file of `len_bytes` bytes in memory, which may grow to `size_bytes`.
    ///
    /// # Errors
    /// [`Error::SizeBeyondSpace`], [`Error::NoSpace`], [`Error::Io`].
    pub fn private(len_bytes: u64, size_bytes: u64) -> Result<CacheFile> {
        let path = Path::new("(private cache)");
        let fd = os::memory_file("tuckbox").map_err(|error| io_error("create", path, error))?;
        require_space(fd.as_raw_fd(), path, size_bytes)?;
        let (file, _) = CacheFile::new(fd, path)?;
        file.set_rights(Rights::default())?;
        file.allocate(0, len_bytes)?;
        Ok(file)
    }

    /// Creates a file of `len_bytes` bytes in a directory, unnamed or under a temporary name. It
    /// may grow to `size_bytes`.
    ///
    /// # Errors
    /// [`Error::SizeBeyondSpace`], [`Error::Unsafe`], [`Error::NoSpace`], [`Error::NoFallocate`],
    /// [`Error::Io`].
    pub fn create(
        directory: &Directory,
        len_bytes: u64,
        size_bytes: u64,
        rights: Rights,
    ) -> Result<CacheFile> {
        let path = directory.path();
        directory.check_directory(os::effective_user(), rights)?;
        require_space(directory.fd(), path, size_bytes)?;
        let file = match os::nameless_file(directory.fd(), 0o600) {
            Ok(fd) => CacheFile::new(fd, path)?.0,
            // The directory is not writable, or its file system has no unnamed files.
            Err(_) => CacheFile::create_named(directory)?,
        };
        match file.set_rights(rights).and_then(|()| file.allocate(0, len_bytes)) {
            Ok(()) => Ok(file),
            Err(error) => {
                file.discard(directory);
                Err(error)
            }
        }
    }

    /// Creates a file under a temporary name.
    fn create_named(directory: &Directory) -> Result<CacheFile> {
        let name = directory.name().display();
        let random = getrandom::u64().unwrap_or_else(|_| os::boot_time_us());
        let temporary = PathBuf::from(format!(".{name}.{random:016x}.new"));
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let fd = os::open_at(directory.fd(), &temporary, flags, 0o600)
            .map_err(|error| io_error("create", directory.path(), error))?;
        match CacheFile::new(fd, directory.path()) {
            Ok((mut file, _)) => {
                file.temporary = Some(temporary);
                Ok(file)
            }
            Err(error) => {
                let _ = os::remove_at(directory.fd(), &temporary);
                Err(error)
            }
        }
    }

    /// Sets the mode of a new file regardless of the umask, and its group.
    fn set_rights(&self, rights: Rights) -> Result<()> {
        let mode = match rights.group {
            None => 0o600,
            Some(group) => {
                // The group first: members of the old group must not get access in between.
                std::os::unix::fs::fchown(self.file(), None, Some(group))
                    .map_err(|error| io_error("set the group of", &self.path, error))?;
                0o660
            }
        };
        self.file()
            .set_permissions(Permissions::from_mode(mode))
            .map_err(|error| io_error("set the permissions of", &self.path, error))
    }

    /// Syncs a file from [`CacheFile::create`], then gives it its name. If another process has
    /// taken the name, removes the new file and returns false.
    pub fn publish(&mut self, directory: &Directory) -> Result<bool> {
        let durable = match crate::mutants::is_on("early-name") {
            true => Ok(()),
            false => os::make_durable(self.fd()),
        };
        let published = durable.and_then(|()| match &self.temporary {
            Some(temporary) => os::rename_new(directory.fd(), temporary, directory.name()),
            None => os::link_new(self.fd(), directory.fd(), directory.name()),
        });
        match published {
            Ok(()) => {
                directory.make_durable();
                self.temporary = None;
                self.is_named = true;
                Ok(true)
            }
            Err(error) => {
                self.discard(directory);
                match error.raw_os_error() {
                    Some(libc::EEXIST) => Ok(false),
                    _ if crate::mutants::is_on("ignored-error") => Ok(true),
                    _ => Err(io_error("create", directory.path(), error)),
                }
            }
        }
    }

    /// The temporary name to remove if the file is given up, if it has one.
    pub fn temporary_name(&self) -> Option<PathBuf> {
        self.temporary.clone()
    }

    /// Removes a file that never got its name.
    fn discard(&self, directory: &Directory) {
        if let Some(temporary) = &self.temporary {
            // Safe to ignore: the name of a leftover file says what it is.
            let _ = os::remove_at(directory.fd(), temporary);
        }
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("it is there until it is dropped")
    }

    /// Refuses a file that could not grow later because its file system lacks `fallocate`.
    /// Allocates a byte that exists, so nothing changes.
    ///
    /// # Errors
    /// [`Error::NoFallocate`].
    pub fn require_fallocate(&self) -> Result<()> {
        match self.allocate(0, 1) {
            Err(error @ Error::NoFallocate { .. }) => Err(error),
            // Other errors may no longer occur when the file has to grow.
            _ => Ok(()),
        }
    }

    /// Allocates the bytes, without holes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::NoFallocate`], [`Error::Lost`] if the descriptor leads to
    /// another file.
    pub fn allocate(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.len_bytes()?;
        os::allocate(self.fd(), offset, len_bytes).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
                Error::NoSpace { path: self.path.clone(), wanted_bytes: len_bytes }
            }
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => Error::NoFallocate { path: self.path.clone() },
            _ => io_error("allocate space for", &self.path, error),
        })
    }

    /// Waits until the whole file is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Lost`] if the descriptor no longer leads to this file.
    pub fn sync(&self) -> Result<()> {
        self.len_bytes()?;
        os::make_durable(self.fd()).map_err(|error| io_error("sync", &self.path, error))
    }

    /// The present length of the file.
    ///
    /// # Errors
    /// [`Error::Lost`] if the descriptor was closed by other code and reused for another file.
    pub fn len_bytes(&self) -> Result<u64> {
        let lost = || Error::Lost { path: self.path.clone() };
        let mut data = self.file().metadata();
        for _ in 1..os::ATTEMPTS {
            // A closed descriptor stays closed. Other errors may pass, and a shard that cannot
            // learn the length would evict.
            match &data {
                Err(error) if error.raw_os_error() != Some(libc::EBADF) => {}
                _ => break,
            }
            data = self.file().metadata();
        }
        let data = data.map_err(|_| lost())?;
        if (data.dev(), data.ino()) != (self.device, self.inode) {
            return Err(lost());
        }
        Ok(data.len())
    }

    /// Overwrites an existing word by a plain write, without the mapping.
    ///
    /// # Errors
    /// [`Error::Lost`] if the file no longer has the word, [`Error::Io`].
    pub fn overwrite(&self, at: u64, word: u64) -> Result<()> {
        if self.len_bytes()? < at + 8 {
            return Err(Error::Lost { path: self.path.clone() });
        }
        self.file()
            .write_all_at(&word.to_ne_bytes(), at)
            .map_err(|error| io_error("write to", &self.path, error))
    }

    /// Whether the file is still the one at its path.
    ///
    /// A missing file alone does not mean that the cache was lost: a process that has changed its
    /// root directory does not find it either. Creating a new cache at the path makes the
    /// difference visible.
    pub fn path_status(&self) -> PathStatus {
        if !self.is_named {
            return PathStatus::InPlace;
        }
        // Other code may have closed the descriptor; then only the path can tell.
        match self.file().metadata() {
            Ok(data) if (data.dev(), data.ino()) != (self.device, self.inode) => {}
            Ok(data) if data.nlink() == 0 => return PathStatus::Removed,
            _ => {}
        }
        match std::fs::symlink_metadata(&self.path) {
            Ok(data) if (data.dev(), data.ino()) != (self.device, self.inode) => {
                PathStatus::Replaced
            }
            _ => PathStatus::InPlace,
        }
    }

    /// The descriptor.
    pub fn fd(&self) -> i32 {
        self.file().as_raw_fd()
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        // A daemon that closed all descriptors may have reused the number for another file, which
        // is not ours to close.
        if self.len_bytes().is_err() {
            if let Some(file) = self.file.take() {
                let _ = file.into_raw_fd();
            }
        }
    }
}
