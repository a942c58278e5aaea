//! What an operation on the cache can refuse, and why. Whatever is refused changes nothing.

/// The result of an operation on the cache.
pub type Result<T> = std::result::Result<T, Error>;

/// Makes a vector at least so long, if there is memory for it.
///
/// # Errors
/// [`Error::OutOfMemory`]; the vector is as it was.
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

/// Why an operation was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something about the file, its locks or its processes.
    #[error(transparent)]
    Arena(#[from] tuckbox_arena::Error),
    /// The key is longer than any key may be.
    #[error("key is {len_bytes} bytes long, and the limit is {most_bytes} bytes; shorten it, or use a digest of it")]
    KeyTooLong {
        /// Its length.
        len_bytes: usize,
        /// The longest that is allowed.
        most_bytes: usize,
    },
    /// The value could not be held even by an empty cache.
    #[error("value is {len_bytes} bytes long, and the limit of this cache is {most_bytes} bytes; create the cache with a larger size, or store less")]
    ValueTooLarge {
        /// Its length.
        len_bytes: usize,
        /// The longest that this cache takes.
        most_bytes: usize,
    },
    /// `incr` met a value that is not an integer of 64 bits.
    #[error("the entry does not hold a 64-bit integer, so incr and decr cannot change it")]
    NotAnInteger,
    /// The sum would leave the range of 64-bit integers.
    #[error("{current} + {delta} does not fit a 64-bit integer; the entry was not changed")]
    Overflow {
        /// What the entry holds.
        current: i64,
        /// What was to be added.
        delta: i64,
    },
    /// No room could be made: other shards' locks were held, or the file system is full.
    #[error("no room for {wanted_bytes} bytes (the file system is full, or other processes hold the space); nothing was changed: try again, or free some space")]
    Full {
        /// How many bytes were wanted.
        wanted_bytes: u64,
    },
    /// This process has no memory for what it was to copy or to make. Nothing was changed.
    #[error("this process could not allocate {wanted_bytes} bytes; nothing was changed: free some memory, or raise the process's memory limit")]
    OutOfMemory {
        /// How many bytes were wanted.
        wanted_bytes: usize,
    },
    /// The limit of entries is out of range.
    #[error("max_entries is {given}; it must be between 1 and {most}")]
    MaxEntriesOutOfRange {
        /// What was given.
        given: u64,
        /// The highest that is allowed.
        most: u64,
    },
}
