//! Errors of cache operations. An operation that fails changes nothing. Must not know the host's
//! exceptions.

use std::path::PathBuf;

/// The result of an operation on the cache.
pub type Result<T> = std::result::Result<T, Error>;

/// Makes a vector at least this long, if there is memory for it.
///
/// # Errors
/// [`Error::OutOfMemory`]; the vector is unchanged.
#[cold]
pub(crate) fn lengthen<T: Default + Clone>(items: &mut Vec<T>, len: usize) -> Result<()> {
    let more = len.saturating_sub(items.len());
    let wanted_bytes = len * size_of::<T>();
    if !tuckbox_arena::mutants::is_on("aborting-buffers") {
        items.try_reserve(more).map_err(|_| Error::OutOfMemory { wanted_bytes })?;
    }
    items.resize(items.len() + more, T::default());
    Ok(())
}

/// The error of a brief operation that has long work to do.
#[cold]
pub(crate) fn would_block() -> Error {
    tuckbox_arena::Error::WouldBlock { is_locked: false }.into()
}

/// Makes room for more items.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<()> {
    let wanted_bytes = more * size_of::<T>();
    items.try_reserve(more).map_err(|_| Error::OutOfMemory { wanted_bytes })
}

fn named(path: &std::path::Path) -> String {
    if path.as_os_str().is_empty() {
        "this cache".into()
    } else {
        path.display().to_string()
    }
}

fn limit(max_entries: u64) -> String {
    if max_entries == 0 {
        String::new()
    } else {
        format!(" and {max_entries} entries")
    }
}

fn why(evicts: bool) -> &'static str {
    if evicts {
        "all of its entries are pinned"
    } else {
        "it evicts no entries"
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the file, its locks or its processes.
    #[error(transparent)]
    Arena(#[from] tuckbox_arena::Error),
    /// The key is too long.
    #[error("key is {len_bytes} bytes long, and the limit is {most_bytes} bytes; shorten it, or use a digest of it")]
    KeyTooLong {
        /// Its length.
        len_bytes: usize,
        /// The longest allowed.
        most_bytes: usize,
    },
    /// The value does not fit even into an empty cache.
    #[error(
        "value is {len_bytes} bytes long, and the limit of this cache is {most_bytes} bytes; \
         resize the cache, or store less"
    )]
    ValueTooLarge {
        /// Its length.
        len_bytes: usize,
        /// The longest that this cache accepts.
        most_bytes: usize,
    },
    /// A tag is empty or too long.
    #[error("a tag must have 1 to {most_bytes} bytes of UTF-8, and one has {len_bytes}; use another name, or a digest of it")]
    TagLength {
        /// Its length.
        len_bytes: usize,
        /// The longest allowed.
        most_bytes: usize,
    },
    /// An entry has too many tags.
    #[error("an entry can have {most} tags, and {count} were given; use fewer")]
    TooManyTags {
        /// How many were given.
        count: usize,
        /// The most allowed.
        most: usize,
    },
    /// The value to increment is not a 64-bit integer.
    #[error("the entry does not hold a 64-bit integer, so incr and decr cannot change it")]
    NotAnInteger,
    /// The sum is outside of the range of 64-bit integers.
    #[error("{current} + {delta} does not fit a 64-bit integer; the entry was not changed")]
    Overflow {
        /// The present number.
        current: i64,
        /// The number to add.
        delta: i64,
    },
    /// No space could be freed: other shards' locks were held, or the file system is full.
    #[error(
        "no room for {wanted_bytes} bytes (the file system is full, or other processes hold the \
         space); nothing was changed: try again, or free some space"
    )]
    Full {
        /// How many bytes were needed.
        wanted_bytes: u64,
    },
    /// The cache is full of entries that are never evicted.
    #[error(
        "{} is full: it has no room for {wanted_bytes} bytes more within {size_bytes} bytes{}, and \
         {}; nothing was changed: delete entries, or give it a larger size with resize",
        named(path), limit(*max_entries), why(*evicts)
    )]
    NoRoom {
        /// The cache file.
        path: PathBuf,
        /// How many bytes were needed.
        wanted_bytes: u64,
        /// Byte limit of the cache.
        size_bytes: u64,
        /// Limit of entries, 0 for none.
        max_entries: u64,
        /// Whether the cache evicts entries that are not pinned.
        evicts: bool,
        /// Whether expired and invalid entries were searched for. A search that found none is not
        /// repeated until it may find some.
        was_searched: bool,
    },
    /// This process has not enough memory for a copy or a record. Nothing was changed.
    #[error(
        "this process could not allocate {wanted_bytes} bytes; nothing was changed: free some \
         memory, or raise the process's memory limit"
    )]
    OutOfMemory {
        /// How many bytes were needed.
        wanted_bytes: usize,
    },
    /// The file behind a handle was removed or replaced, and what is at its path now cannot be opened.
    #[error("{path} was truncated, removed or replaced, and cannot be opened again: {reason}")]
    NotReopened {
        /// The cache file.
        path: PathBuf,
        /// Why it cannot be opened.
        reason: Box<Error>,
    },
    /// A private cache has no path at which a new file could be.
    #[error("a private cache cannot be resized; use a cache with a path")]
    NotResizable,
    /// Another live handle asks for other settings, so the file keeps its own.
    #[error(
        "another program that has it open asks for other settings; give all programs the same, or \
         call resize"
    )]
    Rival,
    /// The file was removed or replaced during an iteration.
    #[error("{path} was removed or replaced during the iteration; start the iteration again")]
    ScanLost {
        /// The cache file.
        path: PathBuf,
    },
    /// The limit of entries is out of range.
    #[error("max_entries is {given}; it must be between 1 and {most}")]
    MaxEntriesOutOfRange {
        /// The given limit.
        given: u64,
        /// The highest allowed.
        most: u64,
    },
}
