//! The types of arguments and results. Must not know how they are stored.

use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::clock::Clock;
use tuckbox_arena::{AfterPowerCut, NativeWaiter, Rights, Waiter};

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Bytes with a tag below [`crate::VALUE_TAG_COUNT`], whose meaning is the caller's.
    Bytes {
        /// The caller's tag, stored at no cost.
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

/// The time to live of an entry, from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// Until it is evicted, deleted or overwritten.
    Never,
    /// At most this many microseconds. Zero: expired at once.
    Us(u64),
}

impl From<Duration> for Ttl {
    fn from(duration: Duration) -> Ttl {
        Ttl::Us(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

/// What an entry can have in addition to its value and its time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes<'a> {
    /// Names by which `evict` invalidates the entry: at most [`crate::TAGS_MAX`], of 1 to
    /// [`crate::TAG_BYTES_MAX`] bytes each.
    pub tags: &'a [&'a str],
    /// How long the entry is kept as a stale one past its time to live; none if not at all.
    pub stale: Option<Ttl>,
    /// How long it took to make the value, in microseconds.
    pub made_us: Option<u64>,
    /// Whether it is never evicted: it leaves the cache by its time to live, a tag or a delete.
    pub is_pinned: bool,
    /// What the stamp clock showed when the making began; none for now. Evictions of its tags since
    /// then make the entry invalid.
    pub stamp: Option<u64>,
}

impl Attributes<'_> {
    /// Whether there are any: an entry without them takes less space.
    pub fn are_none(&self) -> bool {
        let Attributes { tags, stale, made_us, is_pinned, stamp: _ } = self;
        tags.is_empty() && stale.is_none() && made_us.is_none() && !is_pinned
    }
}

/// What a lease on a key has seen of it: the reasons for which its value must not be stored later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Basis {
    /// The version of the entry, fresh or stale; none if there was none.
    pub version: Option<u64>,
    /// The key's counter of invalidations.
    pub invalidations: u64,
    /// The shard's epoch, which a clear moves.
    pub epoch: u64,
    /// What the stamp clock showed, for evictions of tags.
    pub stamp: u64,
}

/// The condition for storing a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition<'a> {
    /// Always.
    #[default]
    Always,
    /// Only if there is no entry.
    Absent,
    /// Only if there is one.
    Present,
    /// Only if there is one of this version.
    Version(u64),
    /// Only if nothing invalidated the key since, and there is no entry or the one of then.
    Unchanged(&'a Basis),
}

/// How a change passes the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// The gate's word, which must be the same still. [`Pass::ANY`] if it does not matter; then the
    /// change must add nothing to the weight.
    pub gate: u64,
    /// The version of the key's entry, which must be the same still; 0 if it has none, and
    /// [`Pass::ANY`] if it does not matter.
    pub version: u64,
    /// What the change adds to the weight.
    pub delta: i64,
}

impl Pass {
    /// No gate and no entry has it.
    pub const ANY: u64 = u64::MAX;
}

/// What [`crate::Cache::replace_passing`] stores, besides the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// The tag of the value.
    pub tag: u8,
    /// What the change adds to the weight.
    pub delta: i64,
}

/// Makes a value of the present one, if any, and fills the bytes; none if it makes nothing.
pub type Make<'m> = dyn FnMut(Option<Value<'_>>, &mut Vec<u8>) -> Option<Made> + 'm;

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms<'a> {
    /// The time to live.
    pub ttl: Ttl,
    /// Whether the expiry of a present entry is kept; `ttl` is for a new one then.
    pub keeps_ttl: bool,
    /// See there.
    pub attributes: Attributes<'a>,
    /// See there.
    pub condition: Condition<'a>,
}

impl Terms<'_> {
    /// Stores always, without attributes.
    pub fn plain(ttl: Ttl) -> Terms<'static> {
        let (attributes, condition) = (Attributes::default(), Condition::Always);
        Terms { ttl, keeps_ttl: false, attributes, condition }
    }
}

/// An entry that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The value, in the caller's buffer.
    pub value: Value<'a>,
    /// When its time to live ends, in microseconds since 1970 by the file's clock; none if never.
    pub expiry_us: Option<u64>,
    /// Identifies this state of the entry, in 63 bits: 28 of the shard's count of writes, and 35 of
    /// a sum of the content, in case the count wraps.
    pub version: u64,
    /// Whether the value is in the buffer's [`OutputBuffer`](crate::OutputBuffer).
    pub is_in_output: bool,
}

/// An entry with its attributes.
#[derive(Debug, Clone, Copy)]
pub struct FullEntry<'a> {
    /// The entry. The expiry of a stale one may have passed.
    pub entry: Entry<'a>,
    /// Its tags.
    pub tags: Tags<'a>,
    /// Whether it is stale: past its expiry, or a tag was evicted softly.
    pub is_stale: bool,
    /// How long it took to make the value, in microseconds, if that is known.
    pub made_us: Option<u64>,
    /// Whether it is never evicted.
    pub is_pinned: bool,
}

/// The tags of an entry: an iterator over their UTF-8. In the file each name is preceded by its length
/// in a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tags<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) count: usize,
}

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.count = self.count.checked_sub(1)?;
        let (len, rest) = self.bytes.split_first()?;
        let (tag, rest) = rest.split_at_checked(usize::from(*len))?;
        self.bytes = rest;
        Some(tag)
    }
}

/// A key with its entry, found by a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its entry.
    pub entry: Entry<'a>,
    /// The tags of the entry.
    pub tags: Tags<'a>,
    /// For how many microseconds after its time to live it is kept as a stale one.
    pub stale_us: u64,
    /// How long it took to make the value, in microseconds, if that is known.
    pub made_us: Option<u64>,
    /// Whether it is never evicted.
    pub is_pinned: bool,
}

/// What eviction maximises if the byte limit binds and values differ in size. The numbers are those
/// in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Favour {
    /// A balance of hit ratio and byte hit ratio.
    #[default]
    Balanced = 0,
    /// The hit ratio: many small entries rather than few large ones.
    Hits = 1,
    /// The byte hit ratio: sizes do not matter.
    Bytes = 2,
}

impl Favour {
    /// From a word of the file. An unknown value is as good as the first: it affects only eviction.
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
    /// Whether to open an existing file only, and create none.
    pub must_exist: bool,
    /// What [`Handle::open`](crate::Handle::open) changes in an existing file.
    pub changes: Changes,
    /// Whether a [`Handle`](crate::Handle) whose file was removed also creates the file's folder, for
    /// this user alone. A folder that exists must be as private.
    pub creates_folder: bool,
    /// Byte limit of a new file; an existing file keeps its own.
    pub size_bytes: u64,
    /// Limit of entries of a new file, if any; an existing file keeps its own.
    pub max_entries: Option<u64>,
    /// What eviction maximises in a new file; an existing file keeps its own.
    pub favour: Favour,
    /// What happens to the entries of a new file if the machine stops while the cache is in use; an
    /// existing file keeps its own setting.
    pub after_power_cut: AfterPowerCut,
    /// Whether a new file evicts entries when it is full; otherwise a write without room is refused. An
    /// existing file keeps its own setting.
    pub evicts: bool,
    /// Whether a new file keeps the order in which keys were inserted. An existing file keeps its own
    /// setting.
    pub is_ordered: bool,
    /// Whether the file is only read, and the group that shares it, if any. Only for paths: a
    /// private cache is its owner's.
    pub rights: Rights,
    /// The longest time that a write waits for a lock.
    pub lock_limit: Duration,
    /// Where the time comes from.
    pub clock: Clock,
    /// How threads sleep and do long work.
    pub waiter: Arc<dyn Waiter>,
}

impl Default for Config {
    /// 64 MiB, no limit of entries, for the owner alone, one second for locks, the system's clock.
    fn default() -> Config {
        Config {
            must_exist: false,
            changes: Changes::default(),
            creates_folder: false,
            size_bytes: 64 << 20,
            max_entries: None,
            favour: Favour::default(),
            after_power_cut: AfterPowerCut::default(),
            evicts: true,
            is_ordered: false,
            rights: Rights::default(),
            lock_limit: Duration::from_secs(1),
            clock: Clock::System,
            waiter: Arc::new(NativeWaiter),
        }
    }
}

/// Settings of a file to change. None keeps the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Byte limit.
    pub size_bytes: Option<u64>,
    /// Limit of entries, 0 for none.
    pub max_entries: Option<u64>,
    /// What eviction maximises.
    pub favour: Option<Favour>,
}

impl Changes {
    /// The settings after these changes.
    pub fn of(self, settings: Settings) -> Settings {
        Settings {
            size_bytes: self.size_bytes.unwrap_or(settings.size_bytes),
            max_entries: self.max_entries.unwrap_or(settings.max_entries),
            favour: self.favour.unwrap_or(settings.favour),
            ..settings
        }
    }

    /// For a process slot: 0 where nothing is to be changed.
    pub(crate) fn words(self) -> [u64; 3] {
        let limit = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        [
            self.size_bytes.unwrap_or(0),
            self.max_entries.map_or(0, limit),
            self.favour.map_or(0, |favour| favour as u64 + 1),
        ]
    }
}

/// What a file keeps of the [`Config`] that it was created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Byte limit.
    pub size_bytes: u64,
    /// Limit of entries, 0 for none.
    pub max_entries: u64,
    /// What eviction maximises.
    pub favour: Favour,
    /// What happens to the entries if the machine stops while the cache is in use.
    pub after_power_cut: AfterPowerCut,
    /// Whether entries are evicted when it is full.
    pub evicts: bool,
    /// Whether it keeps the order in which keys were inserted.
    pub is_ordered: bool,
}

/// Statistics of a cache. Counts are sums over all processes since the file was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Entries present, including expired ones not yet collected.
    pub entries: u64,
    /// Bytes of the records of these entries, keys and record headers included.
    pub entry_bytes: u64,
    /// Length of the file now.
    pub file_bytes: u64,
    /// The limit for the file's length.
    pub size_bytes: u64,
    /// Limit of entries, 0 for none.
    pub max_entries: u64,
    /// The longest value.
    pub value_bytes_max: u64,
    /// Processes that use the cache, those with read-only handles alone aside.
    pub processes: u64,
    /// How many processes can use it at once.
    pub processes_max: u64,
    /// What eviction maximises.
    pub favour: Favour,
    /// What happens to the entries if the machine stops while the cache is in use.
    pub after_power_cut: AfterPowerCut,
    /// How often the cache was emptied for that reason.
    pub discards: u64,
    /// How often this [`Handle`](crate::Handle) opened another file, because its own was removed or
    /// replaced.
    pub reopened: u64,
    /// Reads that found their entry.
    pub hits: u64,
    /// Reads that did not find their entry.
    pub misses: u64,
    /// Entries stored.
    pub sets: u64,
    /// Entries deleted on request.
    pub deletes: u64,
    /// Entries evicted.
    pub evictions: u64,
    /// Expired entries that were collected.
    pub expirations: u64,
    /// Entries lost to damage: found damaged and removed, or counted but not found.
    pub lost_entries: u64,
    /// Locks taken over from dead processes.
    pub takeovers: u64,
    /// Reads that were disturbed too often and continued under the lock.
    pub reads_under_lock: u64,
    /// Reads that gave up and reported a miss.
    pub reads_given_up: u64,
    /// Records whose checksum did not match when read.
    pub checksum_mismatches: u64,
    /// Number of shards.
    pub shards: u64,
    /// Bytes in a segment.
    pub segment_bytes: u64,
    /// Segments in the file now, each counted in one of the following.
    pub segments: u64,
    /// Free segments.
    pub segments_free: u64,
    /// Segments of the logs.
    pub segments_log: u64,
    /// Segments of the indexes.
    pub segments_index: u64,
    /// Segments filled by large values.
    pub segments_body: u64,
    /// Spare segments that shards keep for moving entries.
    pub segments_spare: u64,
    /// Segments that a process is filling now.
    pub segments_building: u64,
}

/// Entries that a shard has lost for one reason.
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

/// The result of `check`: what is sound, what was lost or repaired, and what each segment is used
/// for.
///
/// Every segment of the file is counted exactly once: free, in one log, in one index directory, a
/// body of one value, spare, or being filled. Shards are counted one after the other, so while
/// others write, the counts may be of different moments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Verified entries: reachable, in bounds, with a matching checksum, under the right slot.
    pub entries: u64,
    /// Bytes of their records.
    pub entry_bytes: u64,
    /// Entries that are lost: damaged and removed now, or counted but not found. A shard that had
    /// to be emptied counts all of its entries.
    pub lost_entries: u64,
    /// In which shard they were, and why they are lost.
    pub losses: Vec<Loss>,
    /// Of these, entries that were damaged and removed.
    pub damaged_entries: u64,
    /// Segments that a shard owned but could not reach; freed now.
    pub leaked_segments: u64,
    /// Counters that differed from the recount; corrected now.
    pub wrong_counts: u64,
    /// Free segments.
    pub segments_free: u64,
    /// Segments of the logs.
    pub segments_log: u64,
    /// Segments of the indexes.
    pub segments_index: u64,
    /// Segments filled by large values.
    pub segments_body: u64,
    /// Spare segments that shards keep for moving entries.
    pub segments_spare: u64,
    /// Segments that a process is filling now.
    pub segments_building: u64,
    /// The findings, one sentence each; at most a hundred.
    pub findings: Vec<String>,
}

impl CheckReport {
    /// Whether nothing was wrong.
    pub fn is_sound(&self) -> bool {
        self.lost_entries == 0 && self.leaked_segments == 0 && self.wrong_counts == 0
    }
}
