//! Walking over all entries without a lock.
//!
//! Buckets are visited in order. A split moves entries only to a bucket further on, so an entry
//! that stays present is met at least once; met twice, it is told by its hash and passed over.
//! A move between an entry's two choices can go either way: when the index state tells of one,
//! the shard is walked again; and if entries move all the time, the keys of those not yet met are
//! listed at last under the shard's lock, and read one by one. A handle that only reads walks again
//! instead, so often that it may leave out only what moves each time that it comes by.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::Ordering;

use tuckbox_arena::region::WORD;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::index::IndexState;
use crate::layout::{shard, Slot, BUCKET_WORD, SLOTS_PER_BUCKET};
use crate::read::{CopyError, Seen};
use crate::shard::Shard;
use crate::value::{Buffer, Item};

/// How often a shard is walked without its lock.
const WALKS_MOST: u32 = 2;
/// The same for a handle that only reads, and so can take no lock afterwards.
const READ_ONLY_WALKS_MOST: u32 = 64;
/// How often a slot is read again because it changed.
const ATTEMPTS: u32 = 64;

/// A walk over all entries. It borrows the cache; who needs to own both keeps the [`ScanState`]
/// and calls [`Cache::scan_next`].
pub struct Scan<'a> {
    cache: &'a Cache,
    state: ScanState,
}

impl Scan<'_> {
    /// The next entry; none at the end. Expired entries are passed over. An entry that is there
    /// for the whole walk is met exactly once; one that comes or goes meanwhile, once or not.
    ///
    /// # Errors
    /// [`crate::ArenaError::Closed`].
    #[allow(clippy::should_implement_trait)]
    pub fn next<'b>(&mut self, buffer: &'b mut Buffer) -> Result<Option<Item<'b>>> {
        self.cache.scan_next(&mut self.state, buffer)
    }
}

/// Hashes of keys. They are keyed themselves, so the set needs no random key of its own, for which
/// the system might have to be asked.
type Hashes = HashSet<u64, BuildHasherDefault<DefaultHasher>>;

/// How far a walk has come.
#[derive(Debug, Default)]
pub struct ScanState {
    shard: u64,
    bucket: u32,
    slot: u64,
    walks: u32,
    /// The count of moves when this walk of the shard began.
    moves: Option<u64>,
    /// Hashes of the keys that were met in this shard.
    seen: Hashes,
    /// Keys of this shard that were not, once they have been listed.
    listed: Option<Vec<Vec<u8>>>,
}

impl Cache {
    /// Reads all entries, each key once, in no order.
    pub fn scan(&self) -> Scan<'_> {
        Scan { cache: self, state: ScanState::default() }
    }

    /// The next entry of a walk; none at the end. See [`Scan::next`].
    ///
    /// # Errors
    /// [`crate::ArenaError::Closed`].
    pub fn scan_next<'b>(
        &self,
        walk: &mut ScanState,
        buffer: &'b mut Buffer,
    ) -> Result<Option<Item<'b>>> {
        if !self.walk_on(walk, buffer)? {
            self.arena.vouch()?;
            return Ok(None);
        }
        let key = buffer.head.key(&buffer.record);
        Ok(Some(Item { key, entry: self.entry_in(buffer) }))
    }

    /// Copies the next entry of a walk into the buffer; false at the end.
    fn walk_on(&self, walk: &mut ScanState, buffer: &mut Buffer) -> Result<bool> {
        self.arena.reader()?;
        while walk.shard < self.shape.shard_count {
            if let Some(listed) = &mut walk.listed {
                let Some(key) = listed.pop() else {
                    *walk = ScanState { shard: walk.shard + 1, ..ScanState::default() };
                    continue;
                };
                let answer = self.read(&key, self.hasher.key(&key), buffer, false);
                let found = buffer.outcome(answer)?;
                if found && !self.has_expired(buffer) {
                    return Ok(true);
                }
                continue;
            }
            let shard_at = self.arena.geometry().shard_at(walk.shard);
            let state = self.arena.region().load(shard_at + shard::STATE, Ordering::Acquire);
            let began = *walk.moves.get_or_insert(state >> 32);
            if walk.bucket >= IndexState(state).buckets().min(self.shape.buckets_most()) {
                walk.walks += 1;
                if state >> 32 == began {
                    *walk = ScanState { shard: walk.shard + 1, ..ScanState::default() };
                } else if walk.walks < WALKS_MOST || self.arena.is_read_only() {
                    if walk.walks == READ_ONLY_WALKS_MOST {
                        *walk = ScanState { shard: walk.shard + 1, ..ScanState::default() };
                        continue;
                    }
                    walk.bucket = 0;
                    walk.slot = 0;
                    walk.moves = None;
                } else {
                    walk.listed = Some(self.lock_shard(walk.shard)?.list_unseen(&walk.seen));
                }
                continue;
            }
            let (bucket, place) = (walk.bucket, walk.slot);
            walk.slot += 1;
            if walk.slot == SLOTS_PER_BUCKET {
                walk.slot = 0;
                walk.bucket += 1;
            }
            let Some(hash) = self.scan_slot(shard_at, bucket, place, buffer)? else {
                continue;
            };
            if !self.has_expired(buffer) && walk.seen.insert(hash) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the entry of a slot, if it has one that is proved. Returns its key's hash.
    fn scan_slot(
        &self,
        shard_at: u64,
        bucket: u32,
        place: u64,
        buffer: &mut Buffer,
    ) -> Result<Option<u64>> {
        let region = self.arena.region();
        let shard = region.view(shard_at + shard::STATE);
        for _ in 0..ATTEMPTS {
            let epoch = shard.load(shard::readers_word(shard::EPOCH), Ordering::Acquire);
            let Some(bucket_at) = self.bucket_at(shard_at, bucket) else { return Ok(None) };
            if region.load(bucket_at + BUCKET_WORD, Ordering::Acquire) != epoch {
                return Ok(None);
            }
            let word = region.view(bucket_at + place * WORD);
            let slot = Slot(word.load(0, Ordering::Acquire));
            if slot.is_empty() {
                return Ok(None);
            }
            match self.read_slot(Seen { shard, epoch, word, slot }, buffer) {
                Err(CopyError::Changed) => std::hint::spin_loop(),
                Err(CopyError::NoMemory(wanted_bytes)) => {
                    return Err(Error::OutOfMemory { wanted_bytes })
                }
                Err(CopyError::Damaged) => return Ok(None),
                Ok(copied) => {
                    let head = copied.head;
                    let hash = self.hasher.key(head.key(&buffer.record));
                    if !self.proves_itself(&copied, buffer, hash, slot.offset()) {
                        return Ok(None);
                    }
                    if head.body_count != 0 {
                        if !self.has_bodies(&head, &buffer.record) {
                            continue;
                        }
                        buffer.make_room(&head)?;
                        if !self.load_bodies(&head, &buffer.record, &mut buffer.value) {
                            continue;
                        }
                    }
                    return Ok(Some(hash.0));
                }
            }
        }
        Ok(None)
    }
}

impl Shard<'_> {
    /// The keys of all entries but those whose keys' hashes are given.
    fn list_unseen(&self, seen: &Hashes) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let mut record = Vec::new();
        for bucket in 0..self.bucket_count() {
            for (_, slot) in self.taken_slots(bucket) {
                let offset = slot.offset();
                let Some(head) = self.load_head(offset) else { continue };
                if !self.load_part(offset, head.key_at + head.key_bytes, &mut record) {
                    continue;
                }
                let key = head.key(&record);
                if !seen.contains(&self.cache.hasher.key(key).0) {
                    keys.push(key.to_vec());
                }
            }
        }
        keys
    }
}
