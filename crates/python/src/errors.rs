//! The gate through which every error of the engine becomes a Python exception.
//!
//! Owns which error becomes which class. The classes themselves, and the tree that they form, are
//! in `tuckbox/errors.py`. An error's sentence is the engine's; what is added here is only what a
//! Python user can do about an answer of the operating system.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use tuckbox_engine::{ArenaError, Error, Rights};

/// The classes of `tuckbox.errors` that are raised from here.
pub mod classes {
    use pyo3::import_exception;

    import_exception!(tuckbox.errors, TuckboxError);
    import_exception!(tuckbox.errors, CacheFileError);
    import_exception!(tuckbox.errors, CacheOpenError);
    import_exception!(tuckbox.errors, DirectoryMissing);
    import_exception!(tuckbox.errors, FileMissing);
    import_exception!(tuckbox.errors, AccessDenied);
    import_exception!(tuckbox.errors, UnsafeFile);
    import_exception!(tuckbox.errors, NetworkFileSystem);
    import_exception!(tuckbox.errors, NotAFile);
    import_exception!(tuckbox.errors, NotACache);
    import_exception!(tuckbox.errors, VersionMismatch);
    import_exception!(tuckbox.errors, CacheCorrupt);
    import_exception!(tuckbox.errors, TooManyProcesses);
    import_exception!(tuckbox.errors, TooManyCaches);
    import_exception!(tuckbox.errors, CacheFull);
    import_exception!(tuckbox.errors, CacheLost);
    import_exception!(tuckbox.errors, CacheClosed);
    import_exception!(tuckbox.errors, CacheReadOnly);
    import_exception!(tuckbox.errors, LockTimeout);
    import_exception!(tuckbox.errors, KeyTypeError);
    import_exception!(tuckbox.errors, KeyTooLong);
    import_exception!(tuckbox.errors, ValueTypeError);
    import_exception!(tuckbox.errors, ValueTooLarge);
    import_exception!(tuckbox.errors, EntryCorrupt);
    import_exception!(tuckbox.errors, NotAnInteger);
    import_exception!(tuckbox.errors, IntegerOverflow);
    import_exception!(tuckbox.errors, InvalidTTL);
    import_exception!(tuckbox.errors, InvalidSize);
    import_exception!(tuckbox.errors, InvalidMaxEntries);
    import_exception!(tuckbox.errors, InvalidFavour);
    import_exception!(tuckbox.errors, InvalidLockTimeout);
    import_exception!(tuckbox.errors, InvalidVersion);
}

use classes::*;

/// A Python exception on its way out, one word long: the results that are handed through on the
/// way of a get stay in registers.
pub struct Raised(Box<PyErr>);

/// The result of what is on the way of a get or set.
pub type Quick<T> = Result<T, Raised>;

impl From<PyErr> for Raised {
    #[cold]
    fn from(error: PyErr) -> Raised {
        Raised(Box::new(error))
    }
}

impl From<Raised> for PyErr {
    #[cold]
    fn from(raised: Raised) -> PyErr {
        *raised.0
    }
}

// Numbers that Python programs compare `errno` with, for answers that are not the system's own.
/// "No such file or directory".
const ENOENT: i32 = 2;
/// "Is a directory".
const EISDIR: i32 = 21;
/// "No space left on device".
const ENOSPC: i32 = 28;
/// "Operation not supported".
const EOPNOTSUPP: i32 = 95;

/// The exception for what an operation was refused for. `path` is the cache's, for errors that
/// name none.
#[cold]
pub fn raised(py: Python<'_>, error: Error, path: &Path) -> PyErr {
    convert(py, error, path, |errno, _, message, name| {
        CacheFileError::new_err((errno, message, name))
    })
}

/// The exception for why a cache could not be opened with these rights.
#[cold]
pub fn raised_by_open(py: Python<'_>, error: Error, path: &Path, rights: Rights) -> PyErr {
    let by_system: BySystem =
        if rights.read_only { raised_by_system_reading } else { raised_by_system };
    convert(py, error, path, by_system)
}

fn raised_by_system(
    errno: Option<i32>,
    kind: io::ErrorKind,
    message: String,
    name: OsString,
) -> PyErr {
    match kind {
        io::ErrorKind::NotFound => {
            DirectoryMissing::new_err((errno.or(Some(ENOENT)), message, name))
        }
        io::ErrorKind::PermissionDenied => {
            let advice = "; this user must be able to read and write the file, and to make files \
                          in its directory: change the rights, or choose another path";
            AccessDenied::new_err((errno, message + advice, name))
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            let advice = "; choose a path on another file system, or open the cache read-only";
            AccessDenied::new_err((errno, message + advice, name))
        }
        _ => CacheOpenError::new_err((errno, message, name)),
    }
}

fn raised_by_system_reading(
    errno: Option<i32>,
    kind: io::ErrorKind,
    message: String,
    name: OsString,
) -> PyErr {
    match kind {
        io::ErrorKind::PermissionDenied => {
            let advice = "; this user must be able to read the file: let its owner share it with \
                          a group of this user";
            AccessDenied::new_err((errno, message + advice, name))
        }
        _ => raised_by_system(errno, kind, message, name),
    }
}

/// The exception for an answer of the operating system: its number and kind, a sentence, the file.
type BySystem = fn(Option<i32>, io::ErrorKind, String, OsString) -> PyErr;

fn convert(py: Python<'_>, error: Error, path: &Path, by_system: BySystem) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Arena(error) => convert_arena(py, error, message, path, by_system),
        Error::KeyTooLong { .. } => KeyTooLong::new_err(message),
        Error::ValueTooLarge { .. } => ValueTooLarge::new_err(message),
        Error::NotAnInteger => NotAnInteger::new_err(message),
        Error::Overflow { .. } => IntegerOverflow::new_err(message),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(message),
        Error::Full { .. } => CacheFull::new_err((ENOSPC, message, text(path))),
        Error::MaxEntriesOutOfRange { .. } => InvalidMaxEntries::new_err(message),
        // The engine may learn to refuse more: its enum is open.
        _ => TuckboxError::new_err(message),
    }
}

fn convert_arena(
    py: Python<'_>,
    error: ArenaError,
    message: String,
    own: &Path,
    by_system: BySystem,
) -> PyErr {
    let none: Option<i32> = None;
    match error {
        ArenaError::Io { path, source, .. } => {
            let (errno, kind) = (source.raw_os_error(), source.kind());
            match kind {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    CacheFull::new_err((errno, message, text(&path)))
                }
                _ => by_system(errno, kind, message, text(&path)),
            }
        }
        ArenaError::NoSpace { path, .. } => CacheFull::new_err((ENOSPC, message, text(&path))),
        ArenaError::NoFallocate { path } => {
            CacheOpenError::new_err((EOPNOTSUPP, message, text(&path)))
        }
        ArenaError::NotAFile { path, .. } => {
            let errno = path.is_dir().then_some(EISDIR);
            NotAFile::new_err((errno, message, text(&path)))
        }
        ArenaError::Unsafe { path, .. } => UnsafeFile::new_err((none, message, text(&path))),
        ArenaError::NetworkFileSystem { path, .. } => {
            NetworkFileSystem::new_err((none, message, text(&path)))
        }
        ArenaError::Missing { path } => FileMissing::new_err((ENOENT, message, text(&path))),
        ArenaError::ReadOnly { .. } => CacheReadOnly::new_err(message),
        ArenaError::NotACache { path, .. } => NotACache::new_err((none, message, text(&path))),
        ArenaError::VersionMismatch { path, .. } => {
            VersionMismatch::new_err((none, message, text(&path)))
        }
        ArenaError::Damaged { path, .. } => CacheCorrupt::new_err((none, message, text(&path))),
        ArenaError::SizeTooSmall { .. } => InvalidSize::new_err(message),
        ArenaError::TooManyProcesses { path, .. } => {
            TooManyProcesses::new_err((none, message, text(&path)))
        }
        ArenaError::TooManyHandles { .. } => TooManyCaches::new_err((none, message, text(own))),
        ArenaError::LockTimeout { .. } => LockTimeout::new_err(message),
        // The waiter left the exception of the signal's handler where Python keeps exceptions.
        ArenaError::Interrupted => {
            PyErr::take(py).unwrap_or_else(|| TuckboxError::new_err(message))
        }
        ArenaError::Closed => closed(own),
        ArenaError::Lost { path } => CacheLost::new_err((none, message, text(&path))),
        // As above.
        _ => TuckboxError::new_err(message),
    }
}

/// For a handle that was closed.
#[cold]
pub fn closed(path: &Path) -> PyErr {
    let name =
        if path.as_os_str().is_empty() { "this cache".into() } else { path.display().to_string() };
    CacheClosed::new_err(format!("{name} is closed in this program; open it again to use it"))
}

/// For a handle whose `__init__` never ran.
#[cold]
pub fn never_opened() -> PyErr {
    CacheClosed::new_err(
        "this cache was never opened: a subclass that defines __init__ must call super().__init__",
    )
}

fn text(path: &Path) -> OsString {
    path.as_os_str().to_owned()
}
