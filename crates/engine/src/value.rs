//! The types that go in and out.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::clock::Clock;
use tuckbox_arena::{AfterPowerCut, NativeWaiter, Rights, Waiter};

use crate::error::{lengthen, Error, Result};
use crate::record::Head;

/// What a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Bytes, with a tag below [`crate::VALUE_TAG_COUNT`] whose meaning is the caller's.
    Bytes {
        /// The caller's mark, stored with the bytes at no cost.
        tag: u8,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// An integer, which `incr` can change in place.
    Int(i64),
}

impl<'a> Value<'a> {
    /// Bytes with tag 0.
    pub fn bytes(bytes: &'a [u8]) -> Value<'a> {
        Value::Bytes { tag: 0, bytes }
    }

    /// Length in bytes; 8 for an integer.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            Value::Bytes { bytes, .. } => bytes.len(),
            Value::Int(_) => 8,
        }
    }
}

/// How long an entry is to live, from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// Until it is evicted, deleted or overwritten.
    Never,
    /// At most this many microseconds. Zero means that it is expired at once.
    Us(u64),
}

impl From<Duration> for Ttl {
    fn from(duration: Duration) -> Ttl {
        Ttl::Us(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

/// An entry, as a read found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The value, in the caller's buffer.
    pub value: Value<'a>,
    /// When it expires, in microseconds since 1970 by the file's clock; none if it does not.
    pub expiry_us: Option<u64>,
    /// Names this state of the entry, in 63 bits: 28 of a count of the shard's writes, and 35 of a
    /// sum of what it holds, in case the count comes round.
    pub version: u64,
    /// Whether the value is in the buffer's [`Landing`].
    pub has_landed: bool,
}

/// A key with its entry, as a scan found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its entry.
    pub entry: Entry<'a>,
}

/// Where reads put what they copy out of shared memory. Keep one and use it again: it grows to
/// the largest record read and is not shrunk.
#[derive(Default)]
pub struct Buffer {
    pub(crate) head: Head,
    /// When the entry expires, [`crate::record::expiry::NEVER_US`] if it does not.
    pub(crate) expiry_us: u64,
    /// The sum of what the record in it holds.
    pub(crate) content: u64,
    pub(crate) record: Vec<u64>,
    /// The value, if it is longer than a segment and was not landed.
    pub(crate) value: Vec<u8>,
    /// Why the last read was refused. Here because an error is long, and a box for it would want memory.
    pub(crate) refusal: Option<Error>,
    landing: Option<Box<dyn Landing>>,
    has_landed: bool,
}

/// Memory that a user wants values in which are longer than a segment: without one they are copied
/// into the [`Buffer`], and by him once more to where he wants them.
pub trait Landing: Send {
    /// Whether it takes values with this tag.
    fn takes(&self, tag: u8) -> bool;

    /// Makes memory for a value of `len_bytes`, and has it filled by calling `fill` once; whether
    /// that succeeded. What landed before is gone.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    fn land(&mut self, len_bytes: usize, fill: &mut dyn FnMut(&mut [u8]) -> bool) -> Result<bool>;

    /// What landed last.
    fn landed(&self) -> &[u8];

    /// Itself, for [`Buffer::landing`].
    fn as_any(&mut self) -> &mut dyn Any;
}

impl Buffer {
    /// An empty buffer.
    pub fn new() -> Buffer {
        Buffer::default()
    }

    /// An empty buffer with memory of its user's for large values. Reads of a key without a lock
    /// use it; what is read under one, or by a scan, comes into the buffer.
    pub fn with_landing(landing: Box<dyn Landing>) -> Buffer {
        Buffer { landing: Some(landing), ..Buffer::default() }
    }

    /// The landing, if there is one of this type.
    pub fn landing<T: Landing + 'static>(&mut self) -> Option<&mut T> {
        self.landing.as_mut()?.as_any().downcast_mut()
    }

    /// Why the last read was refused.
    #[cold]
    pub(crate) fn take_refusal(&mut self) -> Error {
        self.refusal.take().expect("a read that is refused says why")
    }

    /// Makes sure that the buffer can take a large value.
    pub(crate) fn make_room(&mut self, head: &Head) -> Result<()> {
        self.has_landed = false;
        lengthen(&mut self.value, head.value_bytes as usize)
    }

    /// Has a large value filled in, by a function that is given its record and its memory; whether
    /// that succeeded.
    pub(crate) fn land(&mut self, mut fill: impl FnMut(&[u64], &mut [u8]) -> bool) -> Result<bool> {
        let head = self.head;
        let len_bytes = head.value_bytes as usize;
        if let Some(landing) = self.landing.as_mut().filter(|landing| landing.takes(head.tag)) {
            self.has_landed = true;
            return landing.land(len_bytes, &mut |memory| fill(&self.record, memory));
        }
        self.make_room(&head)?;
        Ok(fill(&self.record, &mut self.value))
    }

    /// The bytes of a large value, and whether they have landed.
    pub(crate) fn large_value(&self) -> (&[u8], bool) {
        match &self.landing {
            Some(landing) if self.has_landed => (landing.landed(), true),
            _ => (&self.value[..self.head.value_bytes as usize], false),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Buffer").field("head", &self.head).finish_non_exhaustive()
    }
}

/// What eviction favours where bytes are short and values are of many sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Favour {
    /// Many reads that hit, and many bytes that need not be made again.
    #[default]
    Balanced,
    /// As many reads that hit as can be: many small entries rather than few large ones.
    Hits,
    /// As many bytes that need not be made again as can be: an entry's size does not matter.
    Bytes,
}

impl Favour {
    /// For a word of the file.
    pub(crate) fn word(self) -> u64 {
        match self {
            Favour::Balanced => 0,
            Favour::Hits => 1,
            Favour::Bytes => 2,
        }
    }

    /// From a word of the file. Any that is not known is as good as the first: it decides nothing
    /// but what goes first.
    pub(crate) fn from_word(word: u64) -> Favour {
        match word & 3 {
            1 => Favour::Hits,
            2 => Favour::Bytes,
            _ => Favour::Balanced,
        }
    }
}

/// How to open a cache.
#[derive(Clone)]
pub struct Config {
    /// Byte limit of the file. Used when the file is made; an existing file keeps its own.
    pub size_bytes: u64,
    /// Limit of entries, if any. Used when the file is made; an existing file keeps its own.
    pub max_entries: Option<u64>,
    /// What eviction favours. Used when the file is made; an existing file keeps its own.
    pub favour: Favour,
    /// What becomes of the entries if the machine stopped while the cache was in use. Used when the file
    /// is made; an existing file keeps its own.
    pub after_power_cut: AfterPowerCut,
    /// Whether the file is only read, and the group that shares it, if any. For a path alone: a
    /// private cache is its owner's.
    pub rights: Rights,
    /// How long a write waits for a lock at most.
    pub lock_limit: Duration,
    /// Where the time comes from.
    pub clock: Clock,
    /// What threads sleep through.
    pub waiter: Arc<dyn Waiter>,
}

impl Default for Config {
    /// 64 MiB, no limit of entries, for its owner alone, one second for locks, the system's clock.
    fn default() -> Config {
        Config {
            size_bytes: 64 << 20,
            max_entries: None,
            favour: Favour::default(),
            after_power_cut: AfterPowerCut::default(),
            rights: Rights::default(),
            lock_limit: Duration::from_secs(1),
            clock: Clock::System,
            waiter: Arc::new(NativeWaiter),
        }
    }
}

/// Numbers about a cache. Counts are sums over all processes since the file was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Entries present, including expired ones not yet collected.
    pub entries: u64,
    /// Bytes of the records of these entries, keys and record headers included.
    pub entry_bytes: u64,
    /// Length of the file now.
    pub file_bytes: u64,
    /// Length that the file will not exceed.
    pub size_bytes: u64,
    /// Limit of entries, 0 for none.
    pub max_entries: u64,
    /// What eviction favours.
    pub favour: Favour,
    /// What becomes of the entries if the machine stopped while the cache was in use.
    pub after_power_cut: AfterPowerCut,
    /// How often that emptied the cache.
    pub discards: u64,
    /// Reads that found their entry.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Entries stored.
    pub sets: u64,
    /// Entries deleted on request.
    pub deletes: u64,
    /// Entries that gave way to others.
    pub evictions: u64,
    /// Expired entries that were collected.
    pub expirations: u64,
    /// Entries lost to damage: found damaged and dropped, or counted and not found.
    pub lost_entries: u64,
    /// Locks taken over from dead processes.
    pub takeovers: u64,
    /// Reads that met a change too often and went on under the lock.
    pub reads_under_lock: u64,
    /// Reads that gave up and answered a miss.
    pub reads_given_up: u64,
    /// Records whose checksum did not match when read.
    pub checksum_mismatches: u64,
    /// Number of shards.
    pub shards: u64,
    /// Bytes in a segment.
    pub segment_bytes: u64,
    /// Segments in the file now. Each is one of the following.
    pub segments: u64,
    /// Segments that nobody has.
    pub segments_free: u64,
    /// Segments of the logs.
    pub segments_log: u64,
    /// Segments of the indexes.
    pub segments_index: u64,
    /// Segments that are filled by large values.
    pub segments_body: u64,
    /// Segments that shards keep for moving entries.
    pub segments_spare: u64,
    /// Segments that some process is filling now.
    pub segments_building: u64,
}

/// Entries that a shard has lost, all for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The shard.
    pub shard: u64,
    /// How many of its entries.
    pub entries: u64,
    /// Why, as a sentence about one entry.
    pub reason: &'static str,
}

/// What `check` found: what is sound, what was lost and mended, and what each segment is for.
///
/// Every segment of the file was met exactly once: it is free, in one log, in one index directory,
/// a body of one value, a spare, or being filled. (They are counted shard by shard: while others
/// write, the counts may not be of the same moment.)
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Entries that were proved: reachable, in bounds, checksum right, under the right slot.
    pub entries: u64,
    /// Bytes of their records.
    pub entry_bytes: u64,
    /// Entries that are gone: damaged and dropped now, or counted and not found. Of a shard that
    /// had to be emptied, as many as it counted.
    pub lost_entries: u64,
    /// Of which shard they were, and why they are gone.
    pub losses: Vec<Loss>,
    /// Of these, entries that were damaged and have been dropped.
    pub damaged_entries: u64,
    /// Segments that a shard owned and could not reach, freed now.
    pub leaked_segments: u64,
    /// Counters that did not match the recount, corrected now.
    pub wrong_counts: u64,
    /// Segments that nobody has.
    pub segments_free: u64,
    /// Segments of the logs.
    pub segments_log: u64,
    /// Segments of the indexes.
    pub segments_index: u64,
    /// Segments that are filled by large values.
    pub segments_body: u64,
    /// Segments that shards keep for moving entries.
    pub segments_spare: u64,
    /// Segments that some process is filling now.
    pub segments_building: u64,
    /// What was found, one sentence each; at most a hundred.
    pub findings: Vec<String>,
}

impl CheckReport {
    /// Whether nothing was found wrong.
    pub fn is_sound(&self) -> bool {
        self.lost_entries == 0 && self.leaked_segments == 0 && self.wrong_counts == 0
    }
}
