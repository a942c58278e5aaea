//! Converts engine errors to Python exceptions.
//!
//! The exception classes are in `tuckbox/errors.py`. The messages are the engine's; only advice
//! about errors of the operating system is added here.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use tuckbox_engine::{ArenaError, Error, Rights};

use crate::names;

/// The classes of `tuckbox.errors` that are raised from here.
pub mod classes {
    use pyo3::import_exception;

    import_exception!(tuckbox.errors, TuckboxError);
    import_exception!(tuckbox.errors, CacheFileError);
    import_exception!(tuckbox.errors, CacheOpenError);
    import_exception!(tuckbox.errors, DirectoryMissing);
    import_exception!(tuckbox.errors, FileExists);
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
    import_exception!(tuckbox.errors, EntryRefused);
    import_exception!(tuckbox.errors, NotAnInteger);
    import_exception!(tuckbox.errors, IntegerOverflow);
    import_exception!(tuckbox.errors, InvalidTTL);
    import_exception!(tuckbox.errors, InvalidSize);
    import_exception!(tuckbox.errors, InvalidMaxEntries);
    import_exception!(tuckbox.errors, InvalidFavour);
    import_exception!(tuckbox.errors, InvalidAfterPowerCut);
    import_exception!(tuckbox.errors, InvalidLockTimeout);
    import_exception!(tuckbox.errors, InvalidArgument);
    import_exception!(tuckbox.errors, InvalidTag);
    import_exception!(tuckbox.errors, InvalidVersion);
    import_exception!(tuckbox.brief, WouldBlock);
    import_exception!(tuckbox.brief, Locked);
}

use classes::*;

/// A boxed Python exception. It is one word long, so that the results of a `get` stay in registers.
pub struct Raised(Box<PyErr>);

/// The result of functions that `get` and `set` call.
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

// Values of `errno` for errors that do not come from the operating system.
/// "No such file or directory".
const ENOENT: i32 = 2;
/// "File exists".
const EEXIST: i32 = 17;
/// "Is a directory".
const EISDIR: i32 = 21;
/// "No space left on device".
const ENOSPC: i32 = 28;
/// "Operation not supported".
const EOPNOTSUPP: i32 = 95;

/// Converts the error of an operation. `path` is used for errors that have none.
#[cold]
pub fn raised(py: Python<'_>, error: Error, path: &Path) -> PyErr {
    let message = error.to_string();
    convert(py, error, message, path, raised_by_operation)
}

/// As [`raised`], for an operation on one key, which a message about the entry names.
#[cold]
pub fn raised_for_key(py: Python<'_>, error: Error, path: &Path, key: &Bound<'_, PyAny>) -> PyErr {
    let mut message = error.to_string();
    if matches!(
        error,
        Error::KeyTooLong { .. }
            | Error::ValueTooLarge { .. }
            | Error::NotAnInteger
            | Error::Overflow { .. }
    ) {
        message = format!("key {}: {message}", names::of_object(key));
    }
    convert(py, error, message, path, raised_by_operation)
}

fn raised_by_operation(
    errno: Option<i32>,
    _: io::ErrorKind,
    message: String,
    name: OsString,
) -> PyErr {
    CacheFileError::new_err((errno, message, name))
}

/// Converts the error of an open with these rights.
#[cold]
pub fn raised_by_open(py: Python<'_>, error: Error, path: &Path, rights: Rights) -> PyErr {
    let by_system: BySystem =
        if rights.read_only { raised_by_system_reading } else { raised_by_system };
    let message = error.to_string();
    convert(py, error, message, path, by_system)
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
            let advice = "; this user must be able to read and write the file and to create files \
                          in its directory: change the permissions, or choose another path";
            AccessDenied::new_err((errno, message + advice, name))
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            let advice = "; choose a path on another file system, or pass read_only=True";
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
            let advice = "; this user must be able to read the file: ask its owner to share it \
                          with a group of this user";
            AccessDenied::new_err((errno, message + advice, name))
        }
        _ => raised_by_system(errno, kind, message, name),
    }
}

/// Converts an error of the operating system: its number and kind, the message, the file.
type BySystem = fn(Option<i32>, io::ErrorKind, String, OsString) -> PyErr;

fn convert(
    py: Python<'_>,
    error: Error,
    message: String,
    path: &Path,
    by_system: BySystem,
) -> PyErr {
    match error {
        Error::Arena(error) => convert_arena(py, error, message, path, by_system),
        Error::KeyTooLong { .. } => KeyTooLong::new_err(message),
        Error::ValueTooLarge { .. } => ValueTooLarge::new_err(message),
        Error::NotAnInteger => NotAnInteger::new_err(message),
        Error::Overflow { .. } => IntegerOverflow::new_err(message),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(message),
        Error::NotReopened { path, .. } | Error::ScanLost { path } => {
            let none: Option<i32> = None;
            CacheLost::new_err((none, message, text(&path)))
        }
        Error::Full { .. } => CacheFull::new_err((ENOSPC, message, text(path))),
        Error::NoRoom { path, .. } => CacheFull::new_err((ENOSPC, message, text(&path))),
        Error::MaxEntriesOutOfRange { .. } => InvalidMaxEntries::new_err(message),
        // The enum is non-exhaustive.
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
        ArenaError::NotGrowable { path } => {
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
        ArenaError::Missing { path } | ArenaError::Moved { path } => {
            FileMissing::new_err((ENOENT, message, text(&path)))
        }
        ArenaError::Exists { path } => FileExists::new_err((EEXIST, message, text(&path))),
        ArenaError::CutOff { path } => CacheOpenError::new_err((none, message, text(&path))),
        ArenaError::ReadOnly { .. } => CacheReadOnly::new_err(message),
        ArenaError::NotACache { path, .. } => NotACache::new_err((none, message, text(&path))),
        ArenaError::VersionMismatch { path, .. } => {
            VersionMismatch::new_err((none, message, text(&path)))
        }
        ArenaError::Damaged { path, .. } => CacheCorrupt::new_err((none, message, text(&path))),
        ArenaError::SizeTooSmall { .. }
        | ArenaError::SizeTooLarge { .. }
        | ArenaError::SizeBeyondSpace { .. } => InvalidSize::new_err(message),
        ArenaError::TooManyProcesses { path, .. } => {
            TooManyProcesses::new_err((none, message, text(&path)))
        }
        ArenaError::TooManyFiles { .. } => TooManyCaches::new_err((none, message, text(own))),
        ArenaError::LockTimeout { .. } => LockTimeout::new_err(message),
        ArenaError::WouldBlock { is_locked: true } => Locked::new_err(message),
        ArenaError::WouldBlock { is_locked: false } => WouldBlock::new_err(message),
        // The waiter set the exception of the signal handler as the current exception.
        ArenaError::Interrupted => {
            PyErr::take(py).unwrap_or_else(|| TuckboxError::new_err(message))
        }
        ArenaError::Closed => closed(own),
        ArenaError::Lost { path } | ArenaError::Superseded { path } => {
            CacheLost::new_err((none, message, text(&path)))
        }
        // The enum is non-exhaustive.
        _ => TuckboxError::new_err(message),
    }
}

/// The exception for a closed handle.
#[cold]
pub fn closed(path: &Path) -> PyErr {
    let name =
        if path.as_os_str().is_empty() { "this cache".into() } else { path.display().to_string() };
    CacheClosed::new_err(format!("{name} is closed; open it again to use it"))
}

/// The exception for a handle whose `__init__` never ran.
#[cold]
pub fn never_opened() -> PyErr {
    CacheClosed::new_err(
        "this cache was never opened; a subclass that defines __init__ must call super().__init__",
    )
}

fn text(path: &Path) -> OsString {
    path.as_os_str().to_owned()
}
