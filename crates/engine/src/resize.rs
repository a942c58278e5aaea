//! Resizing: copies a cache into a new file with other settings, which takes the old one's name; or
//! into one with a name of its own. Must not know who asks for that, nor how handles follow.
//!
//! All shards are locked from before the copy until the new file has the name, so no write reaches
//! the old file after its shard was copied. Just before the new file gets the name, the entries of
//! the old one are hidden: no read may return there what a write in the new file has replaced. If
//! the process dies before the rename, the next owner of each lock reveals the entries again; see
//! [`crate::repair::lock`].
//!
//! The races:
//! - *A write* has its lock before the resize and is copied, or afterwards: then it finds the shard
//!   hidden, and the name with another file. A writer that is stopped with its lock makes the resize
//!   fail; one that is stopped before it has the lock finds that out whenever it goes on.
//! - *A read* takes no lock. It returns an entry only if the epoch was the same when it confirmed the
//!   slot. All epochs are stored before the system call that gives the new file its name, and nobody
//!   writes to the new file before that. So a read that finds an old entry has confirmed it before
//!   any write that replaced it took effect.
//! - *Two resizes* take the locks in the same order. The second one finds the shards hidden, and
//!   begins again with the new file.
//! - *A fork* by another thread gives the child a copy of neither the locks nor the new name. By this
//!   thread there is none, nor a closing of this handle: it runs no host code meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use tuckbox_arena::{mutants, Counter, Error as ArenaError, NoHostCode, Successor};

use crate::cache::{lay_out, plan_for, Cache};
use crate::error::{Error, Result};
use crate::eviction::Eviction;
use crate::format::{expiry, plan, shard, LogKind, NewAttributes, Slot, StoredAttributes};
use crate::invalidation::rows;
use crate::reading::{Buffer, Entries};
use crate::repair::lock;
use crate::storage::Context;
use crate::value::{Condition, Config};

/// Hits that a slot counts.
const HITS_MAX: u64 = 3;
/// Counts of a shard that continue in the new file.
const COUNTS: [u64; 5] =
    [shard::SETS, shard::DELETES, shard::EVICTIONS, shard::EXPIRATIONS, shard::LOST];
/// Counts of process slots that continue in the new file.
const COUNTERS: [Counter; 6] = [
    Counter::Hits,
    Counter::Misses,
    Counter::ReadsUnderLock,
    Counter::ReadsGivenUp,
    Counter::ChecksumMismatches,
    Counter::Takeovers,
];

/// An entry's place in its log, oldest first, and its slot.
type Ranked = (u64, Slot);

impl Cache {
    /// Copies the live entries into a new file with the settings in `config`, which takes the name
    /// of this one. If they do not fit, those are evicted that are least useful.
    ///
    /// Writes wait meanwhile. From then on this handle is superseded.
    ///
    /// # Errors
    /// As [`Cache::open`] for a new file, and [`ArenaError::LockTimeout`]. Nothing has changed then.
    pub(crate) fn resized(&self, config: &Config) -> Result<Cache> {
        let plan = plan_for(config)?;
        let _no_host_code = NoHostCode::begin();
        let shards = self.lock_all()?;
        let former = &self.cx.arena;
        let successor = Successor::of(former, config.rights)?;
        let (arena, new_name) = successor.create(former, &plan, plan::layer(), &lay_out)?;
        let new = Cache { cx: Context::new(arena, config) };
        self.continue_versions(&new);
        rows(&new.cx).continue_from(rows(&self.cx));
        new.cx.continue_gate(&self.cx);
        let live_count = copy_all(&self.cx, &shards, &new)?;
        // A mapping that was lost meanwhile has no more entries to copy.
        former.check_not_lost()?;
        self.continue_counts(&new, live_count);
        // Before anyone can open the new file, because programs with other settings must learn of it.
        new.has_rival(config.changes);
        let hide = || {
            if !mutants::is_on("not-hidden") {
                shards.iter().for_each(|shard| shard.hide());
            }
            // Others would not see what was hidden in a lost mapping.
            former.check_not_lost()
        };
        if mutants::is_on("unlocked-copy") {
            // Writes that land here now are lost.
            drop(shards);
            std::thread::sleep(std::time::Duration::from_millis(2));
            successor.take_name(new_name, &new.cx.arena, former, || Ok(()))?;
            return Ok(new);
        }
        if let Err(error) = successor.take_name(new_name, &new.cx.arena, former, hide) {
            shards.iter().for_each(|shard| shard.reveal());
            return Err(error.into());
        }
        former.mark_superseded();
        drop(shards);
        successor.make_durable();
        Ok(new)
    }

    /// Copies the live entries into a new file at another path, with these settings. They are those of
    /// one moment: writes wait meanwhile.
    ///
    /// # Errors
    /// As [`Cache::resized`]; [`ArenaError::Exists`]. There is no new file then.
    pub(crate) fn copied_to(&self, path: &Path, config: &Config) -> Result<()> {
        let plan = plan_for(config)?;
        let _no_host_code = NoHostCode::begin();
        let shards = self.lock_all()?;
        let former = &self.cx.arena;
        let successor = Successor::beside(path, config.rights)?;
        let (arena, new_name) = successor.create_copy(former, &plan, plan::layer(), &lay_out)?;
        let new = Cache { cx: Context::new(arena, config) };
        self.continue_versions(&new);
        rows(&new.cx).continue_from(rows(&self.cx));
        new.cx.continue_gate(&self.cx);
        let live_count = copy_all(&self.cx, &shards, &new)?;
        // A mapping that was lost meanwhile has no more entries to copy.
        former.check_not_lost()?;
        self.continue_counts(&new, live_count);
        drop(shards);
        successor.publish(new_name, &new.cx.arena)?;
        new.close();
        Ok(())
    }

    fn lock_all(&self) -> Result<Vec<Entries<'_>>> {
        let began = Instant::now();
        let lock_one = |index| {
            let limit = self.cx.lock_limit.saturating_sub(began.elapsed());
            lock::lock_for(&self.cx, index, limit).map(|shard| Entries(Eviction(shard)))
        };
        (0..self.cx.shape.shard_count).map(lock_one).collect()
    }

    /// No entry gets a version that it had here. Nobody else uses the new file yet.
    fn continue_versions(&self, new: &Cache) {
        let last = |cx: &Context, index| cx.arena.geometry().shard_at(index) + shard::SEQUENCE;
        let word = |index| self.cx.arena.region().get(last(&self.cx, index));
        let highest = (0..self.cx.shape.shard_count).map(word).max().unwrap_or(0);
        for index in 0..new.cx.shape.shard_count {
            new.cx.arena.region().set(last(&new.cx, index), highest);
        }
    }

    /// Copies the counts of the statistics. Nobody else uses the new file yet.
    fn continue_counts(&self, new: &Cache, live_count: u64) {
        let (region, geometry) = (new.cx.arena.region(), new.cx.arena.geometry());
        for word in COUNTS {
            let dropped = live_count.saturating_sub(new.len());
            let more = if word == shard::EVICTIONS { dropped } else { 0 };
            for index in 0..new.cx.shape.shard_count {
                let sum = if index == 0 { self.cx.sum_over_shards(word) + more } else { 0 };
                region.set(geometry.shard_at(index) + word, sum);
            }
        }
        let counters = self.cx.arena.counters();
        for counter in COUNTERS {
            new.cx.arena.count(counter, counters[counter as usize]);
        }
    }
}

/// Copies all live entries, and returns how many there are. Takes one of each shard in turn, so
/// that no shard's entries are evicted first.
fn copy_all(cx: &Context, shards: &[Entries<'_>], new: &Cache) -> Result<u64> {
    let mut queues = Vec::new();
    for shard in shards {
        queues.push(ranked(shard)?.into_iter());
    }
    let (mut live_count, mut too_large_count) = (0, 0);
    let (mut buffer, mut hits) = (Buffer::new(), Buffer::new());
    loop {
        let mut is_done = true;
        for (shard, queue) in shards.iter().zip(&mut queues) {
            let Some((_, slot)) = queue.next() else { continue };
            is_done = false;
            if !shard.copy_slot(slot, &mut buffer)? {
                continue;
            }
            let hash = cx.hasher.key(buffer.header.key(&buffer.record));
            let expiry_us = buffer.header.expiry_us(&buffer.record, hash);
            let (Some(expiry_us), Some(is_stale)) = (expiry_us, buffer.judge_full(cx, hash)) else {
                continue;
            };
            live_count += 1;
            let fits = copy_one(slot, expiry_us, is_stale, &buffer, new, &mut hits)
                .map_err(|error| named_as(error, cx))?;
            too_large_count += u64::from(!fits);
        }
        if is_done {
            break;
        }
    }
    check_space(cx, new, live_count - too_large_count)?;
    Ok(live_count)
}

/// The entries of a shard, the most useful last.
fn ranked(shard: &Entries<'_>) -> Result<Vec<Ranked>> {
    let mut order = BTreeMap::new();
    for kind in LogKind::ALL {
        let mut next = shard.tail_cursor(kind).map(|tail| tail.segment);
        while let Some(segment) = next.filter(|segment| !order.contains_key(segment)) {
            order.insert(segment, order.len() as u64);
            next = shard.next_in_log(segment);
        }
    }
    let mut entries: Vec<Ranked> = Vec::new();
    let wanted = shard.entries() as usize;
    let wanted_bytes = wanted * size_of::<Ranked>();
    entries.try_reserve(wanted).map_err(|_| Error::OutOfMemory { wanted_bytes })?;
    for bucket in 0..shard.bucket_count() {
        for (_, slot) in shard.taken_slots(bucket) {
            let Some(position) = shard.cx.position_of(slot.offset()) else { continue };
            let rank = order.get(&position.segment).copied().unwrap_or(0);
            entries.push((rank << 32 | position.byte, slot));
        }
    }
    entries.sort_unstable_by_key(|(rank, _)| *rank);
    Ok(entries)
}

/// Stores the entry in the buffer, and tells the new cache how often it was read. False if its value
/// is too long for the new cache.
fn copy_one(
    slot: Slot,
    expiry_us: u64,
    is_stale: bool,
    buffer: &Buffer,
    new: &Cache,
    hits: &mut Buffer,
) -> Result<bool> {
    let key = buffer.header.key(&buffer.record);
    let value = buffer.entry(&new.cx.shape).value;
    let mut expiry_us = (expiry_us != expiry::NEVER_US).then_some(expiry_us);
    let (mut names, mut count) = ([""; crate::TAGS_MAX], 0);
    let stored = buffer.header.attributes(&buffer.record).ok().flatten();
    let attributes = stored.map(|stored| {
        let StoredAttributes { mut stale_us, tags, .. } = stored;
        for (place, tag) in names.iter_mut().zip(tags) {
            *place = std::str::from_utf8(tag).unwrap_or_default();
            count += 1;
        }
        if is_stale {
            // The rows of tags are not copied: from now on its time alone makes it stale.
            let end_us = *expiry_us.get_or_insert(crate::EXPIRY_US_MAX);
            stale_us = stale_us.max(end_us.saturating_sub(new.now_us()));
        }
        let StoredAttributes { stamp, made_us, is_pinned, position, .. } = stored;
        let tags = &names[..count];
        NewAttributes { tags, stale_us, made_us, is_pinned, position, stamp }
    });
    let (attributes, always) = (attributes.as_ref(), Condition::Always);
    let stays = attributes.is_some_and(|it| it.is_pinned) || !new.cx.shape.evicts;
    match new.writes().store_copy(key, value, expiry_us, attributes, false, always) {
        Err(error @ (Error::ValueTooLarge { .. } | Error::Full { .. })) if stays => {
            return Err(error);
        }
        Err(Error::ValueTooLarge { .. }) => return Ok(false),
        // It is evicted.
        Err(Error::Full { .. } | Error::NoRoom { .. }) if !stays => return Ok(true),
        stored => _ = stored?,
    }
    let policy = slot.policy();
    for _ in 0..(policy.hits() + policy.frequency()).min(HITS_MAX) {
        new.reads().read::<false>(key, new.cx.hasher.key(key), hits, true)?;
    }
    Ok(true)
}

/// The error of a copy without room for an entry that is never evicted, as one of the old file.
fn named_as(error: Error, cx: &Context) -> Error {
    match error {
        Error::NoRoom { wanted_bytes, size_bytes, max_entries, evicts, was_searched, .. } => {
            let path = cx.arena.path().into();
            Error::NoRoom { path, wanted_bytes, size_bytes, max_entries, evicts, was_searched }
        }
        error => error,
    }
}

/// Refuses a copy that lost entries, of `fitting_count`, because the file system has no room for
/// both files.
fn check_space(cx: &Context, new: &Cache, fitting_count: u64) -> Result<()> {
    let arena = &new.cx.arena;
    let could_grow = u64::from(arena.segments_present()) < arena.geometry().segment_count;
    let max_entries = new.cx.shape.max_entries;
    let limit = if max_entries == 0 { u64::MAX } else { max_entries };
    if !could_grow || new.len() >= fitting_count.min(limit) {
        return Ok(());
    }
    let wanted_bytes = cx.arena.region().usable_bytes();
    Err(ArenaError::NoSpace { path: cx.arena.path().into(), wanted_bytes }.into())
}
