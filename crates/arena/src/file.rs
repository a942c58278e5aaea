//! Opening and creating the file. A new file is laid out completely without a name (or, where the
//! file system knows no such files, under a temporary one) and then put into place, so that nobody
//! ever opens half a cache and a death while creating leaves nothing behind; a file that is not
//! ours is never written to.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::os;

/// Whether a file is still the one at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As far as can be told.
    InPlace,
    /// It is elsewhere, and another file is in its place.
    Replaced,
    /// No directory has it any more: when its last user has gone, it is.
    Removed,
}

/// An open file and which one it is.
#[derive(Debug)]
pub struct CacheFile {
    /// None only while it is being dropped.
    file: Option<File>,
    /// Where it is; for a file that has no name yet, where it shall be.
    path: PathBuf,
    has_name: bool,
    device: u64,
    inode: u64,
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { action, path: path.into(), source }
}

impl CacheFile {
    fn new(fd: OwnedFd, path: &Path) -> Result<CacheFile> {
        let file = File::from(fd);
        let data = file.metadata().map_err(|error| io_error("examine", path, error))?;
        let kind = data.file_type();
        let kind = match () {
            () if kind.is_file() => None,
            () if kind.is_dir() => Some("a directory"),
            () if kind.is_fifo() => Some("a named pipe"),
            () if kind.is_socket() => Some("a socket"),
            () => Some("a device"),
        };
        if let Some(kind) = kind {
            return Err(Error::NotAFile { path: path.into(), kind });
        }
        let (device, inode) = (data.dev(), data.ino());
        Ok(CacheFile { device, inode, file: Some(file), path: path.into(), has_name: true })
    }

    /// Opens what is there; none if nothing is.
    pub fn open(path: &Path) -> Result<Option<CacheFile>> {
        // Not blocking: opening a named pipe would otherwise wait for its other end.
        let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        match os::open(path, flags, 0) {
            Ok(fd) => CacheFile::new(fd, path).map(Some),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(None),
                Some(libc::EISDIR) => {
                    Err(Error::NotAFile { path: path.into(), kind: "a directory" })
                }
                Some(libc::ELOOP) => {
                    Err(Error::NotAFile { path: path.into(), kind: "a symbolic link" })
                }
                Some(libc::ENXIO) => Err(Error::NotAFile { path: path.into(), kind: "a socket" }),
                _ => Err(io_error("open", path, error)),
            },
        }
    }

    /// Opens a file that another process shows under its `/proc/PID/fd`.
    pub fn open_shown(path: &Path) -> Result<CacheFile> {
        let fd = os::open(path, libc::O_RDWR, 0).map_err(|error| io_error("open", path, error))?;
        let mut file = CacheFile::new(fd, path)?;
        file.has_name = false;
        Ok(file)
    }

    /// A new file of `len_bytes` bytes in memory, without a name.
    pub fn private(len_bytes: u64) -> Result<CacheFile> {
        let path = Path::new("(private cache)");
        let fd = os::memory_file("tuckbox").map_err(|error| io_error("create", path, error))?;
        let mut file = CacheFile::new(fd, path)?;
        file.has_name = false;
        file.allocate(0, len_bytes)?;
        Ok(file)
    }

    /// A new file of `len_bytes` bytes beside `path`, under a name that nobody else uses.
    pub fn create_beside(path: &Path, len_bytes: u64) -> Result<CacheFile> {
        let parent = parent_of(path);
        if !parent.is_dir() {
            let source = io::Error::new(
                io::ErrorKind::NotFound,
                format!("the directory {} does not exist; create it first", parent.display()),
            );
            return Err(io_error("create", path, source));
        }
        let file = match os::nameless_file(parent, 0o600) {
            Ok(fd) => {
                let mut file = CacheFile::new(fd, path)?;
                file.has_name = false;
                file
            }
            // The directory cannot be written to, or its file system knows no nameless files.
            Err(_) => CacheFile::create_named(path, parent)?,
        };
        let made = file
            .file()
            .set_permissions(std::fs::Permissions::from_mode(0o600))
            .map_err(|error| io_error("set the permissions of", path, error))
            .and_then(|()| file.allocate(0, len_bytes));
        match made {
            Ok(()) => Ok(file),
            Err(error) => {
                file.discard();
                Err(match error {
                    // The error shall name what the user asked for, not our temporary name.
                    Error::NoSpace { wanted_bytes, .. } => {
                        Error::NoSpace { path: path.into(), wanted_bytes }
                    }
                    other => other,
                })
            }
        }
    }

    /// A new file under a name that nobody else uses.
    fn create_named(path: &Path, parent: &Path) -> Result<CacheFile> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let random = getrandom::u64().unwrap_or_else(|_| os::boot_time_us());
        let temporary = parent.join(format!(".{name}.{random:016x}.new"));
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let fd =
            os::open(&temporary, flags, 0o600).map_err(|error| io_error("create", path, error))?;
        CacheFile::new(fd, &temporary)
    }

    /// Gives a file from [`CacheFile::create_beside`] its name. False if the name was taken
    /// meanwhile; the new file is gone then.
    pub fn settle(&mut self, path: &Path) -> Result<bool> {
        let settled = if self.has_name {
            os::rename_new(&self.path, path)
        } else {
            os::link_new(self.fd(), path)
        };
        match settled {
            Ok(()) => {
                self.path = path.into();
                self.has_name = true;
                Ok(true)
            }
            Err(error) => {
                self.discard();
                match error.raw_os_error() {
                    Some(libc::EEXIST) => Ok(false),
                    _ => Err(io_error("create", path, error)),
                }
            }
        }
    }

    /// The temporary name to remove if the file is given up; none if it has no name at all.
    pub fn leftover(&self) -> Option<PathBuf> {
        self.has_name.then(|| self.path.clone())
    }

    /// Removes a file that never got its name.
    pub fn discard(&self) {
        if let Some(leftover) = self.leftover() {
            // Nothing depends on it; a leftover carries a name that says what it is.
            let _ = std::fs::remove_file(leftover);
        }
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("it is there until it is dropped")
    }

    /// Makes sure that the bytes exist, without holes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Lost`] if the descriptor no longer leads to this file.
    pub fn allocate(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.len_bytes()?;
        os::allocate(self.fd(), offset, len_bytes).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
                Error::NoSpace { path: self.path.clone(), wanted_bytes: len_bytes }
            }
            _ => io_error("allocate space for", &self.path, error),
        })
    }

    /// How long the file is now.
    ///
    /// # Errors
    /// [`Error::Lost`] if the descriptor was closed behind our back and given to another file.
    pub fn len_bytes(&self) -> Result<u64> {
        let lost = || Error::Lost { path: self.path.clone() };
        let data = self.file().metadata().map_err(|_| lost())?;
        if (data.dev(), data.ino()) != (self.device, self.inode) {
            return Err(lost());
        }
        Ok(data.len())
    }

    /// Writes a word that is there already, past any mapping.
    ///
    /// # Errors
    /// [`Error::Lost`] if the file no longer has it, [`Error::Io`].
    pub fn overwrite(&self, at: u64, word: u64) -> Result<()> {
        if self.len_bytes()? < at + 8 {
            return Err(Error::Lost { path: self.path.clone() });
        }
        self.file()
            .write_all_at(&word.to_ne_bytes(), at)
            .map_err(|error| io_error("write to", &self.path, error))
    }

    /// Whether it is still the one at its path.
    ///
    /// A path at which nothing is tells nothing: a process that has changed its root directory does
    /// not find it either. Whoever makes a new cache there makes it tell.
    pub fn standing(&self) -> Standing {
        if !self.has_name {
            return Standing::InPlace;
        }
        // The descriptor may have been closed behind our back; then the path alone tells.
        match self.file().metadata() {
            Ok(data) if (data.dev(), data.ino()) != (self.device, self.inode) => {}
            Ok(data) if data.nlink() == 0 => return Standing::Removed,
            _ => {}
        }
        match std::fs::symlink_metadata(&self.path) {
            Ok(data) if (data.dev(), data.ino()) != (self.device, self.inode) => Standing::Replaced,
            _ => Standing::InPlace,
        }
    }

    /// The descriptor's number.
    pub fn fd(&self) -> i32 {
        self.file().as_raw_fd()
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        // A daemon that closed all descriptors may have given the number to another file, which is
        // not ours to close.
        if self.len_bytes().is_err() {
            if let Some(file) = self.file.take() {
                let _ = file.into_raw_fd();
            }
        }
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
