//! Lock-free iteration over all entries. Must not know how buckets are split, only that splits move
//! entries forward.
//!
//! In an ordered cache, the keys are listed and sorted by position first, and then read one by one.
//!
//! Buckets are visited in order. The race: a split during the walk moves entries, but only to a
//! later bucket, so an entry that exists throughout is met at least once; a second meeting is
//! recognised by its hash and skipped. A move between an entry's two choices can go either way. If
//! the index state shows a move, the shard is walked again; if entries keep moving, the missing
//! keys are listed under the shard's lock and read one by one. A read-only handle walks again
//! instead, so often that it may miss only entries that move during every walk.

use std::collections::{BinaryHeap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::vec;

use tuckbox_arena::region::WORD;

use super::buffer::Buffer;
use super::read::Reader;
use super::steps::{CopyError, Seen};
use crate::error::{Error, Result};
use crate::format::{shard, IndexState, Slot, BUCKET_WORD, SLOTS_PER_BUCKET};
use crate::index::{Index, TaggedSlot};
use crate::repair::lock;

/// Walks of a shard without its lock.
const WALKS_MAX: u32 = 2;
/// The same for a read-only handle, which cannot take the lock afterwards.
const READ_ONLY_WALKS_MAX: u32 = 64;
/// Attempts to read a slot that keeps changing.
const ATTEMPTS: u32 = 64;

/// Hashes of keys by XXH3: those that find an entry are the same for two keys too often. They are keyed
/// themselves, so the set needs no random key from the system.
type Hashes = HashSet<u64, BuildHasherDefault<DefaultHasher>>;

/// The position of an iteration.
#[derive(Debug, Default)]
pub struct ScanState {
    walk: Walk,
    order: Order,
    /// The listed keys that are left, in order.
    keys: Option<vec::IntoIter<Ordered>>,
    /// Whether there may be more than the listed ones.
    has_more: bool,
    /// The rank of the last key that was read.
    reached: Option<u64>,
    /// The cache's last position when they were listed.
    last_position: u64,
}

/// In which order an ordered cache is iterated over.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Whether the newest entry comes first.
    pub newest_first: bool,
    /// How many keys are listed at a time, 0 for all: fewer take less memory, and each list a walk
    /// through the whole cache.
    pub window: usize,
}

impl Order {
    /// What sorts the entry in the buffer: the first one has the lowest rank.
    fn rank(self, buffer: &Buffer) -> u64 {
        let position = buffer.inserted_at();
        if self.newest_first {
            u64::MAX - position
        } else {
            position
        }
    }
}

/// A rank and a key.
type Ordered = (u64, Vec<u8>);

impl ScanState {
    /// Begins an iteration in an order.
    pub fn new(order: Order) -> ScanState {
        ScanState { order, ..ScanState::default() }
    }
}

/// The place of a walk through all buckets.
#[derive(Debug, Default)]
struct Walk {
    shard: u64,
    /// The next slot, counted over all buckets.
    slot: u64,
    walks: u32,
    /// The count of moves when this walk of the shard began.
    moves: Option<u64>,
    /// Hashes of the keys met in this shard.
    seen: Hashes,
    /// The shard's missing keys, once they are listed.
    listed: Option<Vec<Vec<u8>>>,
}

impl Reader<'_> {
    /// Copies the next entry into the buffer; false at the end.
    pub fn scan_on(self, state: &mut ScanState, buffer: &mut Buffer) -> Result<bool> {
        if !self.shape.is_ordered {
            return self.walk_on(&mut state.walk, buffer, true);
        }
        self.arena.reader()?;
        loop {
            for (rank, key) in state.keys.iter_mut().flatten() {
                state.reached = Some(rank);
                let found = self.read::<false>(&key, self.hasher.key(&key), buffer, false)?;
                // Inserted again meanwhile, it has another place.
                if found && !self.is_expired(buffer.expiry_us) && rank == state.order.rank(buffer) {
                    return Ok(true);
                }
            }
            if state.keys.is_some() && !state.has_more {
                return Ok(false);
            }
            if state.keys.is_none() {
                state.last_position = self.last_position();
            }
            let listed = self.list_in_order(state.order, state.reached, buffer)?;
            state.has_more = state.order.window > 0 && listed.len() == state.order.window;
            state.keys = Some(listed.into_iter());
        }
    }

    /// Whether nothing was inserted since the keys of an iteration were listed.
    pub fn has_newest(self, state: &ScanState) -> bool {
        state.keys.is_none() || state.last_position == self.last_position()
    }

    /// The first keys in this order after the ones that were reached, sorted.
    fn list_in_order(
        self,
        order: Order,
        reached: Option<u64>,
        buffer: &mut Buffer,
    ) -> Result<Vec<Ordered>> {
        let (mut walk, mut keys) = (Walk::default(), BinaryHeap::new());
        while self.walk_on(&mut walk, buffer, false)? {
            let rank = order.rank(buffer);
            if reached.is_some_and(|reached| rank <= reached) {
                continue;
            }
            let is_full = order.window > 0 && keys.len() == order.window;
            if is_full && keys.peek().is_some_and(|(last, _): &Ordered| rank >= *last) {
                continue;
            }
            let key = buffer.header.key(&buffer.record);
            let wanted_bytes = key.len() + size_of::<Ordered>();
            keys.try_reserve(1).map_err(|_| Error::OutOfMemory { wanted_bytes })?;
            keys.push((rank, key.to_vec()));
            if is_full {
                keys.pop();
            }
        }
        Ok(keys.into_sorted_vec())
    }

    /// Copies the next entry into the buffer, without a large value if that is not wanted; false at
    /// the end.
    fn walk_on(self, walk: &mut Walk, buffer: &mut Buffer, with_values: bool) -> Result<bool> {
        self.arena.reader()?;
        while walk.shard < self.shape.shard_count {
            if let Some(listed) = &mut walk.listed {
                let Some(key) = listed.pop() else {
                    *walk = Walk { shard: walk.shard + 1, ..Walk::default() };
                    continue;
                };
                let found = self.read::<false>(&key, self.hasher.key(&key), buffer, false)?;
                if found && !self.is_expired(buffer.expiry_us) {
                    return Ok(true);
                }
                continue;
            }
            let shard_at = self.arena.geometry().shard_at(walk.shard);
            let state = self.arena.region().load(shard_at + shard::STATE, Ordering::Acquire);
            if self.arena.region().load(shard_at + shard::EPOCH, Ordering::Acquire) == shard::HIDDEN
            {
                self.wait_for_successor(walk)?;
                continue;
            }
            let began = *walk.moves.get_or_insert(state >> 32);
            let buckets = IndexState(state).buckets().min(self.shape.buckets_max());
            if walk.slot >= u64::from(buckets) * SLOTS_PER_BUCKET {
                walk.walks += 1;
                if state >> 32 == began || walk.walks == READ_ONLY_WALKS_MAX {
                    *walk = Walk { shard: walk.shard + 1, ..Walk::default() };
                } else if walk.walks < WALKS_MAX || self.arena.is_read_only() {
                    (walk.slot, walk.moves) = (0, None);
                } else {
                    walk.listed = Some(list_unseen(&lock::lock(&self, walk.shard)?, &walk.seen));
                }
                continue;
            }
            let (bucket, place) = (walk.slot / SLOTS_PER_BUCKET, walk.slot % SLOTS_PER_BUCKET);
            walk.slot += 1;
            let scanned = self.scan_slot(shard_at, bucket as u32, place, buffer, with_values)?;
            let Some(hash) = scanned else { continue };
            if !self.is_expired(buffer.expiry_us) && walk.seen.insert(hash) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until it is decided whether the file has a successor, and begins the shard again. Gives the
    /// shard up after a while: it may be damaged, or this handle read-only.
    #[cold]
    fn wait_for_successor(self, walk: &mut Walk) -> Result<()> {
        lock::check_successor(&self)?;
        (walk.slot, walk.moves, walk.walks) = (0, None, walk.walks + 1);
        if walk.walks >= READ_ONLY_WALKS_MAX {
            *walk = Walk { shard: walk.shard + 1, ..Walk::default() };
            return Ok(());
        }
        match self.arena.is_read_only() {
            true => std::thread::sleep(Duration::from_millis(1)),
            false => drop(lock::lock_hidden(&self, walk.shard, self.lock_limit)?),
        }
        Ok(())
    }

    /// Reads the entry of a slot, if it has a valid one. Returns its key's hash for [`Walk::seen`].
    fn scan_slot(
        self,
        shard_at: u64,
        bucket: u32,
        place: u64,
        buffer: &mut Buffer,
        with_values: bool,
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
            match self.read_slot(Seen::new(TaggedSlot { word, slot }, shard, epoch), buffer) {
                Err(CopyError::Changed) => std::hint::spin_loop(),
                Err(CopyError::NoMemory(wanted_bytes)) => {
                    return Err(Error::OutOfMemory { wanted_bytes })
                }
                Err(CopyError::Damaged) => return Ok(None),
                Ok(copied) => {
                    let hash = self.hasher.key(copied.header.key(&buffer.record));
                    if !self.verify_copy(&copied, buffer, hash) {
                        return Ok(None);
                    }
                    if !with_values || buffer.load_large_value(&self)? {
                        return Ok(Some(self.hasher.bytes(copied.header.key(&buffer.record))));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// The keys of all entries except those with the given hashes.
fn list_unseen(shard: &Index<'_>, seen: &Hashes) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut record = Vec::new();
    for bucket in 0..shard.bucket_count() {
        for (_, slot) in shard.taken_slots(bucket) {
            let offset = slot.offset();
            let Some(header) = shard.load_header(offset) else { continue };
            if !shard.load_part(offset, header.key_at + header.key_bytes, &mut record) {
                continue;
            }
            let key = header.key(&record);
            if !seen.contains(&shard.cx.hasher.bytes(key)) {
                keys.push(key.to_vec());
            }
        }
    }
    keys
}
