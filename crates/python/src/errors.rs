//! The gate through which every error of the engine becomes a Python exception.
//!
//! Owns which error becomes which class. The classes themselves, and the tree that they form, are
//! in `tuckbox/errors.py`. An error's sentence is the engine's; what is added here is only what a
//! Python user can do about an answer of the operating system.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use pyo3::prelude::*;
use tuckbox_engine::{ArenaError, Error};

/// The classes of `tuckbox.errors` that are raised from here.
pub mod classes {
    use pyo3::import_exception;

    import_exception!(tuckbox.errors, TuckboxError);
    import_exception!(tuckbox.errors, CacheFileError);
    import_exception!(tuckbox.errors, CacheOpenError);
    import_exception!(tuckbox.errors, DirectoryMissing);
    import_exception!(tuckbox.errors, AccessDenied);
    import_exception!(tuckbox.errors, NotAFile);
    import_exception!(tuckbox.errors, NotACache);
    import_exception!(tuckbox.errors, VersionMismatch);
    import_exception!(tuckbox.errors, CacheCorrupt);
    import_exception!(tuckbox.errors, TooManyProcesses);
    import_exception!(tuckbox.errors, TooManyCaches);
    import_exception!(tuckbox.errors, CacheFull);
    import_exception!(tuckbox.errors, CacheLost);
    import_exception!(tuckbox.errors, CacheClosed);
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
    import_exception!(tuckbox.errors, InvalidLockTimeout);
    import_exception!(tuckbox.errors, InvalidVersion);
}

use classes::*;

/// "No space left on device".
const ENOSPC: i32 = 28;
/// "Is a directory".
const EISDIR: i32 = 21;
/// "Disk quota exceeded".
const EDQUOT: i32 = 122;

/// The exception for what the engine refused. `path` is the cache's, for errors that name none.
#[cold]
pub fn raised(py: Python<'_>, error: Error, path: &Path) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Arena(error) => raised_by_arena(py, error, message, path),
        Error::KeyTooLong { .. } => KeyTooLong::new_err(message),
        Error::ValueTooLarge { .. } => ValueTooLarge::new_err(message),
        Error::NotAnInteger => NotAnInteger::new_err(message),
        Error::Overflow { .. } => IntegerOverflow::new_err(message),
        Error::Full { .. } => CacheFull::new_err((ENOSPC, message, text(path))),
        Error::MaxEntriesOutOfRange { .. } => InvalidMaxEntries::new_err(message),
        // The engine may learn to refuse more: its enum is open.
        _ => TuckboxError::new_err(message),
    }
}

fn raised_by_arena(py: Python<'_>, error: ArenaError, message: String, own: &Path) -> PyErr {
    let none: Option<i32> = None;
    match error {
        ArenaError::Io { action, path, source } => {
            refused_by_system(action, &path, &source, message)
        }
        ArenaError::NoSpace { path, .. } => CacheFull::new_err((ENOSPC, message, text(&path))),
        ArenaError::NotAFile { path, .. } => {
            let errno = path.is_dir().then_some(EISDIR);
            NotAFile::new_err((errno, message, text(&path)))
        }
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

fn refused_by_system(action: &str, path: &Path, source: &io::Error, message: String) -> PyErr {
    let errno = source.raw_os_error();
    let name = text(path);
    match source.kind() {
        io::ErrorKind::NotFound => {
            let advice = "; a cache makes its file but not the directory: make that first";
            DirectoryMissing::new_err((errno, message + advice, name))
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            let advice = "; this user needs to read and write the file and its directory: \
                          change their rights, or choose another path";
            AccessDenied::new_err((errno, message + advice, name))
        }
        io::ErrorKind::StorageFull => CacheFull::new_err((errno, message, name)),
        _ if errno == Some(EDQUOT) => CacheFull::new_err((errno, message, name)),
        _ if matches!(action, "open" | "create" | "make" | "map") => {
            CacheOpenError::new_err((errno, message, name))
        }
        _ => CacheFileError::new_err((errno, message, name)),
    }
}

/// For a handle that was closed.
#[cold]
pub fn closed(path: &Path) -> PyErr {
    let name = if path.as_os_str().is_empty() { "this cache".into() } else { path.display().to_string() };
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
