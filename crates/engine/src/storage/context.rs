//! What every part of the engine needs of an open cache: its shared memory, its measures, its hash
//! and its limits. Must not know any operation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tuckbox_arena::Arena;

use super::places::Places;
use crate::error::{Error, Result};
use crate::format::{expiry, log, Hasher, KeyHash, LogKind, Shape};
use crate::value::{Config, Ttl, Value};

/// An open cache, without its operations.
pub struct Context {
    pub(crate) arena: Arena,
    pub(crate) shape: Shape,
    pub(crate) hasher: Hasher,
    /// For names of tags and namespaces. By the cache's id, which every copy of the file keeps.
    pub(crate) name_hasher: Hasher,
    /// The longest time that a write waits for a lock.
    pub(crate) lock_limit: Duration,
    /// Tells this open file from every other one of this process: a copy of a cache keeps its id.
    pub(crate) serial: u64,
    /// Where replaced records are that may be written over.
    pub(super) places: Places,
}

impl Context {
    /// The context of an open file.
    pub(crate) fn new(arena: Arena, config: &Config) -> Context {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let shape = Shape::new(arena.geometry());
        Context {
            serial: OPENED.fetch_add(1, Ordering::Relaxed),
            places: Places::new(shape.shard_count),
            shape,
            hasher: Hasher::new(arena.identity().hash_key),
            name_hasher: Hasher::new(arena.identity().cache_id),
            lock_limit: config.lock_limit,
            arena,
        }
    }

    /// Whether the whole segment can be accessed. Checks the file's length if necessary.
    #[inline(always)]
    pub(crate) fn is_usable(&self, segment: impl Into<u64>) -> bool {
        let segment = segment.into();
        segment < u64::from(self.arena.segments_present()) || self.has_become_usable(segment)
    }

    #[cold]
    pub fn has_become_usable(&self, segment: u64) -> bool {
        if segment >= self.arena.geometry().segment_count {
            return false;
        }
        self.arena.refresh_length();
        segment < u64::from(self.arena.segments_present())
    }

    /// Checks the lengths, before anything is touched.
    pub(crate) fn check_lengths(&self, key: &[u8], value: Option<Value<'_>>) -> Result<()> {
        let most_bytes = crate::KEY_BYTES_MAX;
        if key.len() > most_bytes {
            return Err(Error::KeyTooLong { len_bytes: key.len(), most_bytes });
        }
        // Keys and record headers count towards the longest value.
        let most_bytes = self.shape.value_bytes_max as usize;
        match value {
            Some(value)
                if value.len() + key.len() > most_bytes + 256 || value.len() > most_bytes =>
            {
                let beside_key_bytes = (most_bytes + 256).saturating_sub(key.len());
                let most_bytes = most_bytes.min(beside_key_bytes);
                Err(Error::ValueTooLarge { len_bytes: value.len(), most_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Checks tags, before anything is touched.
    pub(crate) fn check_tags(&self, tags: &[&str]) -> Result<()> {
        if tags.len() > crate::TAGS_MAX {
            return Err(Error::TooManyTags { count: tags.len(), most: crate::TAGS_MAX });
        }
        tags.iter().try_for_each(|tag| check_tag(tag))
    }

    /// When an entry with this time to live expires; none if never.
    pub(crate) fn expiry_of(&self, ttl: Ttl) -> Option<u64> {
        match ttl {
            Ttl::Never => None,
            // The end of the file's clock stands for any later time.
            Ttl::Us(us) => Some(self.arena.now_us().saturating_add(us).min(crate::EXPIRY_US_MAX)),
        }
    }

    /// Whether an expiry has passed. Reads the clock only if there is an expiry.
    #[inline]
    pub(crate) fn is_expired(&self, expiry_us: u64) -> bool {
        expiry_us != expiry::NEVER_US && expiry_us <= self.arena.now_us()
    }

    /// Where the shard of a key begins.
    #[inline(always)]
    pub(crate) fn shard_at(&self, hash: KeyHash) -> u64 {
        self.arena.geometry().shard_at(hash.shard(self.shape.shard_count))
    }

    /// Entries present, including expired ones not yet collected. Read without locks.
    pub fn entry_count(&self) -> u64 {
        self.sum_over_logs(log::ENTRIES)
    }

    /// Entries that may be evicted. Read without locks.
    pub fn evictable_count(&self) -> u64 {
        let of = |kind: LogKind| self.sum_over_shards(kind.at() + log::ENTRIES);
        LogKind::BOTH.into_iter().map(of).fold(0, u64::wrapping_add)
    }

    /// Whether there are entries, and none of them may be evicted. Read without locks.
    pub fn has_only_pinned(&self) -> bool {
        self.evictable_count() == 0 && self.entry_count() > 0
    }

    /// The sum of a word of all logs. Read without locks.
    pub fn sum_over_logs(&self, word: u64) -> u64 {
        let sums = LogKind::ALL.map(|kind| self.sum_over_shards(kind.at() + word));
        sums.into_iter().fold(0, u64::wrapping_add)
    }

    /// The sum of a word of all shards. Read without locks.
    pub fn sum_over_shards(&self, word: u64) -> u64 {
        (0..self.shape.shard_count)
            .map(|index| self.arena.region().get(self.arena.geometry().shard_at(index) + word))
            .fold(0, u64::wrapping_add)
    }
}

/// Checks the length of a tag.
pub fn check_tag(tag: &str) -> Result<()> {
    match tag.len() {
        1..=crate::TAG_BYTES_MAX => Ok(()),
        len_bytes => Err(Error::TagLength { len_bytes, most_bytes: crate::TAG_BYTES_MAX }),
    }
}
