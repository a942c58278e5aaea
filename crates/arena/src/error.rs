//! What can go wrong between a program and its cache file. Every variant says what happened and to
//! what; `Display` adds what to do. Knows nothing of keys and values: those errors are the engine's.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The result of an operation on the arena.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was attempted, as a verb: "open", "map".
        action: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The file system has no room for the file or for its next segments.
    #[error(
        "no space left for {path}, which needs {wanted_bytes} more bytes; \
         free some space, or create the cache with a smaller size"
    )]
    NoSpace {
        /// The cache file.
        path: PathBuf,
        /// How many more bytes were asked for.
        wanted_bytes: u64,
    },
    /// The file system cannot allocate space before it is written to.
    #[error(
        "{path} is on a file system without fallocate, so the cache cannot reserve space to grow; \
         choose a directory on ext4, XFS, Btrfs or tmpfs, for example in /dev/shm"
    )]
    NoFallocate {
        /// The file that was to be created, opened or lengthened.
        path: PathBuf,
    },
    /// The path leads to something that is not a regular file.
    #[error("{path} is {kind}, not a cache file; give the path of a file")]
    NotAFile {
        /// What was to be opened.
        path: PathBuf,
        /// What it is, with its article: "a directory".
        kind: &'static str,
    },
    /// Somebody else could have put the file there, or can change it or take it away. It was not
    /// changed.
    #[error("{path} is not safe to use: {reason}; {remedy}")]
    Unsafe {
        /// The file that was to be opened.
        path: PathBuf,
        /// What about it, or about its directory.
        reason: String,
        /// What to do, with the command to run if there is one.
        remedy: String,
    },
    /// The file system keeps its files on another machine, or shares them with some.
    #[error(
        "{path} is on {kind}, which other machines can use too, and they would not share the \
         cache's memory or locks; choose a directory on a local disk, or in /dev/shm"
    )]
    NetworkFileSystem {
        /// The file that was to be opened.
        path: PathBuf,
        /// The kind of file system.
        kind: String,
    },
    /// There is no file, and a read-only open makes none.
    #[error(
        "{path} does not exist, and read_only does not create it; \
         open it without read_only first"
    )]
    Missing {
        /// The file that was to be opened.
        path: PathBuf,
    },
    /// The machine stopped while the cache was in use. Its entries are to be discarded, and a handle that
    /// only reads cannot do that.
    #[error(
        "the machine stopped while {path} was in use, so its entries are to be discarded, and opening \
         it read-only cannot do that: let a process that writes to it open it first"
    )]
    CutOff {
        /// The cache file.
        path: PathBuf,
    },
    /// A change was asked of a handle that only reads. Nothing was changed.
    #[error(
        "{path} was opened with read_only; nothing was changed: open it without read_only to write"
    )]
    ReadOnly {
        /// The cache file.
        path: PathBuf,
    },
    /// A file that Tuckbox did not make. It was not changed.
    #[error(
        "{path} is not a Tuckbox cache ({reason}); it was not changed: choose another path, \
         or remove the file if it is not needed"
    )]
    NotACache {
        /// The foreign file.
        path: PathBuf,
        /// How one can tell.
        reason: &'static str,
    },
    /// A cache of a format that this version cannot use. It was not changed.
    #[error(
        "{path} has format {found}, but this version of Tuckbox reads format {known}; \
         it was not changed: use another path, or remove the file to start with an empty cache"
    )]
    VersionMismatch {
        /// The cache file.
        path: PathBuf,
        /// What the file says.
        found: String,
        /// What this build knows.
        known: String,
    },
    /// A cache whose fixed part does not prove itself. It was not changed.
    #[error(
        "{path} is damaged ({what}); it was not changed: remove the file to start with an \
         empty cache"
    )]
    Damaged {
        /// The cache file.
        path: PathBuf,
        /// Which part, and how one can tell.
        what: &'static str,
    },
    /// A size for which no cache can be laid out.
    #[error("size {asked_bytes} bytes is too small; the minimum is {least_bytes} bytes")]
    SizeTooSmall {
        /// What was asked for.
        asked_bytes: u64,
        /// The smallest size that works.
        least_bytes: u64,
    },
    /// Every process slot of the file is taken by a live process.
    #[error(
        "all {slots} process slots of {path} are in use; close a process or handle that has it \
         open, or create the cache with a larger size"
    )]
    TooManyProcesses {
        /// The cache file.
        path: PathBuf,
        /// How many slots it has.
        slots: u32,
    },
    /// More handles in one process than can be made safe over `fork`.
    #[error(
        "this process already has {limit} caches open, the maximum; share one handle instead"
    )]
    TooManyHandles {
        /// The limit of open handles in one process.
        limit: usize,
    },
    /// A live process held the lock for the whole time limit. Nothing was changed.
    #[error(
        "waited {waited:?} for a lock that a live process still holds (it may be stopped); \
         nothing was changed: try again, or raise lock_timeout"
    )]
    LockTimeout {
        /// How long was waited.
        waited: Duration,
    },
    /// The program that embeds the cache asked to stop waiting. Nothing was changed.
    #[error("interrupted while waiting for a lock; nothing was changed")]
    Interrupted,
    /// This process was forked in the middle of an operation, by a handler of the program that embeds the
    /// cache. Nothing was changed in the child; the parent goes on.
    #[error(
        "this process was forked during an operation; nothing was changed: try again"
    )]
    Forked,
    /// The handle was closed.
    #[error("this cache is closed; open it again to use it")]
    Closed,
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
