//! Opening and creating the file. A new file is laid out completely under a temporary name and
//! then moved into place, so that nobody ever opens half a cache; a file that is not ours is never
//! written to.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::os;

/// An open file and which one it is.
#[derive(Debug)]
pub struct CacheFile {
    file: File,
    path: PathBuf,
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
        Ok(CacheFile { device: data.dev(), inode: data.ino(), file, path: path.into() })
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
        CacheFile::new(fd, path)
    }

    /// A new file of `len_bytes` bytes in memory, without a name.
    pub fn private(len_bytes: u64) -> Result<CacheFile> {
        let path = Path::new("(private cache)");
        let fd = os::memory_file("tuckbox").map_err(|error| io_error("create", path, error))?;
        let file = CacheFile::new(fd, path)?;
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
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let random = getrandom::u64().unwrap_or_else(|_| os::boot_time_us());
        let temporary = parent.join(format!(".{name}.{random:016x}.new"));
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let fd =
            os::open(&temporary, flags, 0o600).map_err(|error| io_error("create", path, error))?;
        let file = CacheFile::new(fd, &temporary)?;
        let made = file
            .file
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

    /// Gives a file from [`CacheFile::create_beside`] its name. False if the name was taken
    /// meanwhile; the new file is gone then.
    pub fn settle(&mut self, path: &Path) -> Result<bool> {
        match os::rename_new(&self.path, path) {
            Ok(()) => {
                self.path = path.into();
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

    /// Removes a file that never got its name.
    pub fn discard(&self) {
        // Nothing depends on it; a leftover carries a name that says what it is.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Makes sure that the bytes exist, without holes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Lost`] if the descriptor no longer leads to this file.
    pub fn allocate(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.len_bytes()?;
        os::allocate(self.file.as_raw_fd(), offset, len_bytes).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
                    Error::NoSpace { path: self.path.clone(), wanted_bytes: len_bytes }
                }
                _ => io_error("allocate space for", &self.path, error),
            }
        })
    }

    /// How long the file is now.
    ///
    /// # Errors
    /// [`Error::Lost`] if the descriptor was closed behind our back and given to another file.
    pub fn len_bytes(&self) -> Result<u64> {
        let lost = || Error::Lost { path: self.path.clone() };
        let data = self.file.metadata().map_err(|_| lost())?;
        if (data.dev(), data.ino()) != (self.device, self.inode) {
            return Err(lost());
        }
        Ok(data.len())
    }

    /// The descriptor's number.
    pub fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
