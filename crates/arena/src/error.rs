//! What can go wrong between a program and its cache file. Every variant says what happened and to
//! what; `Display` adds what to do. Must not know keys and values: those errors are the engine's.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::layout;
use crate::platform::advice;

/// The result of an operation on the arena.
pub type Result<T> = std::result::Result<T, Error>;

/// All the space that a file could have if it were alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Space {
    /// The length of its file system.
    #[error("its file system has space for only {total_bytes} bytes")]
    FileSystem {
        /// In bytes, as the file system says.
        total_bytes: u64,
    },
    /// This machine's memory, because the file is kept there.
    #[error(
        "it is kept in memory, and this machine has only {total_bytes} bytes of memory and swap \
         space"
    )]
    Memory {
        /// In bytes, with the swap space.
        total_bytes: u64,
    },
    /// The memory of this process's container or service, because the file is kept there.
    #[error(
        "it is kept in memory, and this container or service may use only {total_bytes} bytes of \
         memory and swap space"
    )]
    Container {
        /// In bytes, with the machine's swap space.
        total_bytes: u64,
    },
}

impl Space {
    /// The space in bytes.
    pub fn total_bytes(self) -> u64 {
        match self {
            Space::FileSystem { total_bytes }
            | Space::Memory { total_bytes }
            | Space::Container { total_bytes } => total_bytes,
        }
    }

    /// How the file at `path` could get more space, as the end of a sentence; empty if that depends.
    pub fn remedy(self, path: &Path) -> &'static str {
        match self {
            Space::FileSystem { .. } => advice::more_space(path),
            Space::Memory { .. } | Space::Container { .. } => "",
        }
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The attempted action, as a verb: "open", "map".
        action: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file system has no space for the file or for its next segments.
    #[error(
        "no space left for {path}, which needs {wanted_bytes} more bytes; \
         free some space, or create the cache with a smaller size"
    )]
    NoSpace {
        /// The cache file.
        path: PathBuf,
        /// How many more bytes were needed.
        wanted_bytes: u64,
    },
    /// The file system cannot allocate space before it is written.
    #[error("{path} {}", advice::NOT_GROWABLE)]
    NotGrowable {
        /// The file to create, open or lengthen.
        path: PathBuf,
    },
    /// The path leads to something that is not a regular file.
    #[error("{path} is {kind}, not a cache file; give the path of a file")]
    NotAFile {
        /// The path to open.
        path: PathBuf,
        /// What it is, with its article: "a directory".
        kind: &'static str,
    },
    /// Another user could have put the file there, or can change or remove it. It was not changed.
    #[error("{path} is not safe to use: {reason}; {remedy}")]
    Unsafe {
        /// The file to open.
        path: PathBuf,
        /// What is unsafe about it, or about its directory.
        reason: String,
        /// What to do, with a command to run if there is one.
        remedy: String,
    },
    /// The file system keeps its files on another machine, or shares them with other machines.
    #[error(
        "{path} is on {kind}, which other machines can use too, and they would not share the \
         cache's memory or locks; choose {}",
        advice::LOCAL_FOLDERS
    )]
    NetworkFileSystem {
        /// The file to open.
        path: PathBuf,
        /// The kind of file system.
        kind: String,
    },
    /// A file that is not at its path, and therefore cannot be replaced.
    #[error(
        "{path} was moved, or the root directory was changed: open the cache at its new path to \
         resize it"
    )]
    Moved {
        /// Where it was opened.
        path: PathBuf,
    },
    /// There is no file, and a read-only open creates none.
    #[error(
        "{path} does not exist, and read_only does not create it; \
         open it without read_only first"
    )]
    Missing {
        /// The file to open.
        path: PathBuf,
    },
    /// There is a file at the path of a copy.
    #[error("{} exists, and a copy replaces no file; remove it first, or give another path", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The machine stopped while the cache was in use. Its entries must be discarded, which a
    /// read-only handle cannot do.
    #[error(
        "the machine stopped while {path} was in use, so its entries must be discarded, which \
         read_only cannot do; open it without read_only first"
    )]
    CutOff {
        /// The cache file.
        path: PathBuf,
    },
    /// A change through a read-only handle. Nothing was changed.
    #[error(
        "{path} was opened with read_only; nothing was changed: open it without read_only to write"
    )]
    ReadOnly {
        /// The cache file.
        path: PathBuf,
    },
    /// A file that Tuckbox did not create. It was not changed.
    #[error(
        "{path} is not a Tuckbox cache ({reason}); it was not changed: choose another path, \
         or remove the file if it is not needed"
    )]
    NotACache {
        /// The foreign file.
        path: PathBuf,
        /// How this was recognised.
        reason: &'static str,
    },
    /// A cache in a format that this version cannot use. It was not changed.
    #[error(
        "{path} has format {found}, but this version of Tuckbox reads format {known}; \
         it was not changed: use another path, or remove the file to start with an empty cache"
    )]
    VersionMismatch {
        /// The cache file.
        path: PathBuf,
        /// The format of the file.
        found: String,
        /// The format of this build.
        known: String,
    },
    /// A cache whose fixed part does not match its checksum, or holds impossible values. It was not
    /// changed.
    #[error(
        "{path} is damaged ({what}); it was not changed: remove the file to start with an \
         empty cache"
    )]
    Damaged {
        /// The cache file.
        path: PathBuf,
        /// Which part is damaged, and how this was recognised.
        what: &'static str,
    },
    /// A size that is too small for a cache.
    #[error("size {asked_bytes} bytes is too small; the minimum is {least_bytes} bytes")]
    SizeTooSmall {
        /// The requested size.
        asked_bytes: u64,
        /// The smallest size that works.
        least_bytes: u64,
    },
    /// A size that no cache can have.
    #[error(
        "size {asked_bytes} bytes is too large; the maximum is {most_bytes} bytes: choose a \
         smaller size"
    )]
    SizeTooLarge {
        /// The requested size.
        asked_bytes: u64,
        /// The largest size of a cache.
        most_bytes: u64,
    },
    /// A size that a new file could never reach where it is to be created.
    #[error(
        "size {asked_bytes} bytes is too large for {path}: {space}; choose a smaller size{}",
        .space.remedy(.path)
    )]
    SizeBeyondSpace {
        /// The file to create.
        path: PathBuf,
        /// The requested size.
        asked_bytes: u64,
        /// What limits the file.
        space: Space,
    },
    /// Live processes hold all process slots of the file.
    #[error(
        "{path} is already used by {slots} processes, the maximum for its size; end one of them, \
         open it with read_only{}", more_processes(.slots)
    )]
    TooManyProcesses {
        /// The cache file.
        path: PathBuf,
        /// How many slots the file has.
        slots: u32,
    },
    /// More files in one process than can be kept safe over `fork`.
    #[error("this process already has {limit} cache files open, the maximum; close one first")]
    TooManyFiles {
        /// The limit of open files in one process.
        limit: usize,
    },
    /// A live process held the lock for the whole time limit. Nothing was changed.
    #[error(
        "waited {waited:?} for a lock that a live process still holds (it may be stopped); \
         nothing was changed: try again, or raise lock_timeout"
    )]
    LockTimeout {
        /// How long the operation waited.
        waited: Duration,
    },
    /// A brief operation would have to wait or to work for long; see `Waiter::brief`.
    #[error("the operation would block; run it in a thread")]
    WouldBlock {
        /// Whether a live process or thread holds a lock. If not, there is long work to do.
        is_locked: bool,
    },
    /// The host program asked to stop waiting. Nothing was changed.
    #[error("interrupted while waiting for a lock; nothing was changed")]
    Interrupted,
    /// Host code forked this process in the middle of an operation. Nothing was changed in the
    /// child; the parent continues.
    #[error("this process was forked during an operation; nothing was changed: try again")]
    Forked,
    /// The handle was closed.
    #[error("this cache is closed; open it again to use it")]
    Closed,
    /// The file behind a handle was copied into another one, which has its name now.
    #[error("the cache file {path} was resized; open it again")]
    Superseded {
        /// The cache file.
        path: PathBuf,
    },
    /// The file behind a handle is no longer the one it was opened on.
    #[error(
        "the cache file {path} was truncated, removed or replaced, or its descriptor was closed; \
         open it again"
    )]
    Lost {
        /// The cache file.
        path: PathBuf,
    },
}

/// How a cache gets more process slots than these.
fn more_processes(slots: &u32) -> String {
    match layout::more_processes_than(u64::from(*slots)) {
        Some((size_bytes, count)) => {
            let size_mib = size_bytes >> 20;
            format!(", or resize it to size \"{size_mib} MiB\" or more, for {count} processes")
        }
        None => String::new(),
    }
}

impl Error {
    /// Makes errors of the system at an action: "open", "map".
    pub(crate) fn cannot<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl Fn(io::Error) -> Error + Copy + 'a {
        move |source| Error::Io { action, path: path.into(), source }
    }
}
