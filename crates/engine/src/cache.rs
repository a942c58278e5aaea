//! The cache as its users see it: each operation and its result. Must not know how reads and writes
//! work; that is in `read`, `store` and `write`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tuckbox_arena::segments::Owner;
use tuckbox_arena::{Arena, Counter, OwnerId, Place};

use crate::audit::{Depth, FINDINGS_MAX};
use crate::error::{Error, Result};
use crate::eviction::{IfStuck, EVICTION_BATCH};
use crate::hash::{Hasher, KeyHash};
use crate::layout::{self, log, shard, Shape, MAX_ENTRIES_MAX, SIZE_BYTES_MAX, SIZE_BYTES_MIN};
use crate::log::LogKind;
use crate::shard::Shard;
use crate::value::{Buffer, CheckReport, Config, Entry, Stats, Ttl, Value};
use crate::write::Condition;

/// Buckets that `expire` visits under one lock.
const EXPIRE_BUCKETS: u32 = 64;

/// A cache shared by every process that opens the same file.
///
/// All operations may be called from any thread, and from forked children. Keys are bytes, at most
/// 64 KiB. Writes wait for the lock of one shard, at most `lock_limit`; reads take no lock.
pub struct Cache {
    pub(crate) arena: Arena,
    pub(crate) shape: Shape,
    pub(crate) hasher: Hasher,
    pub(crate) lock_limit: Duration,
}

impl Shard<'_> {
    /// Gives an empty shard its first index segment.
    pub(crate) fn lay_out_index(&self) -> bool {
        let Some(segment) = self.take_for_index() else { return false };
        // The segment's previous content must not look like buckets of this epoch.
        self.wipe(segment);
        self.set_word(shard::DIRECTORY, u64::from(segment) + 1);
        self.set_word(shard::INDEX_SEGMENTS, 1);
        self.set_word(shard::STATE, u64::from(layout::BUCKETS_AT_FIRST));
        true
    }
}

impl Cache {
    /// Opens the cache at `place`, or creates it as `config` says. An existing file keeps its own
    /// size, limit of entries and favour: compare [`Cache::stats`] with the requested ones.
    ///
    /// With `config.rights.read_only` the file must exist, and no byte of it is changed. Reads then
    /// count nothing and do not protect entries from eviction. Every operation that changes
    /// something, including [`Cache::check`], returns [`crate::ArenaError::ReadOnly`].
    ///
    /// # Errors
    /// [`Error::Arena`] for all that concerns the file, [`Error::MaxEntriesOutOfRange`].
    pub fn open(place: &Place, config: &Config) -> Result<Cache> {
        let plan = plan_for(config)?;
        let lay_out = |arena: &Arena| lay_out(arena);
        let arena = Arena::open(
            place,
            config.rights,
            &plan,
            layout::layer(),
            config.clock.clone(),
            config.waiter.clone(),
            &lay_out,
        )?;
        let cache = Cache::on(arena, config);
        cache.arena.recover_from_power_cut(|| cache.discard())?;
        Ok(cache)
    }

    /// Discards all entries. After a power cut only the file's checksums can be relied on.
    fn discard(&self) -> Result<()> {
        for index in 0..self.shape.shard_count {
            let shard = self.lock_shard(index)?;
            shard.clear();
            // The shard may own segments that its lists did not reach.
            shard.repair();
        }
        Ok(())
    }

    /// The in-process twin: the same cache in plain memory, with handles that act as separate
    /// processes. For tests and tools.
    ///
    /// # Errors
    /// As [`Cache::open`].
    pub fn twins(config: &Config, participants: u32) -> Result<Vec<Cache>> {
        let plan = plan_for(config)?;
        let (clock, waiter) = (config.clock.clone(), config.waiter.clone());
        let arenas = Arena::twins(&plan, layout::layer().signature, clock, waiter, participants)?;
        if let Some(first) = arenas.first() {
            lay_out(first)?;
        }
        Ok(arenas.into_iter().map(|arena| Cache::on(arena, config)).collect())
    }

    /// Declares a participant of the twin dead, with all that it holds. For tests.
    pub fn declare_dead(&self, participant: u32) {
        self.arena.declare_dead(participant);
    }

    fn on(arena: Arena, config: &Config) -> Cache {
        Cache {
            shape: Shape::new(arena.geometry()),
            hasher: Hasher::new(arena.identity().hash_key),
            lock_limit: config.lock_limit,
            arena,
        }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        self.arena.path()
    }

    /// Random bytes that identify this cache.
    pub fn id(&self) -> [u8; 16] {
        let [low, high] = self.arena.identity().cache_id.map(u64::to_le_bytes);
        std::array::from_fn(|index| if index < 8 { low[index] } else { high[index - 8] })
    }

    /// A path by which a process that is not our child can open a private cache, while this handle
    /// lives.
    pub fn shown_path(&self) -> Option<PathBuf> {
        self.arena.shown_path()
    }

    /// The file's time in microseconds since 1970: the wall clock at the file's first use in this
    /// boot, not affected by later changes of the wall clock.
    pub fn now_us(&self) -> u64 {
        self.arena.now_us()
    }

    /// Closes this handle; later operations return [`crate::ArenaError::Closed`]. Waits for writes
    /// that other threads do through this handle. The file is kept.
    pub fn close(&self) {
        self.arena.close();
    }

    /// Whether [`Cache::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.arena.is_closed()
    }

    /// The longest value that this cache accepts, in bytes.
    pub fn value_bytes_max(&self) -> usize {
        self.shape.value_bytes_max as usize
    }

    /// Reads an entry into `buffer`. Takes no lock and makes no system call.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`crate::ArenaError::Closed`], [`crate::ArenaError::Lost`].
    #[inline(always)]
    pub fn get<'b>(&self, key: &[u8], buffer: &'b mut Buffer) -> Result<Option<Entry<'b>>> {
        let owner = self.arena.reader()?;
        self.check_lengths(key, None)?;
        self.get_hashed(owner, key, self.hasher.key(key), buffer)
    }

    /// As [`Cache::get`], for callers that have the hash and the owner for this handle's counters;
    /// none if it is read-only.
    #[inline(always)]
    pub(crate) fn get_hashed<'b>(
        &self,
        owner: Option<OwnerId>,
        key: &[u8],
        hash: KeyHash,
        buffer: &'b mut Buffer,
    ) -> Result<Option<Entry<'b>>> {
        let answer = self.read(key, hash, buffer, owner.is_some());
        let found = buffer.outcome(answer)?;
        if found && !self.has_expired(buffer) {
            if let Some(owner) = owner {
                self.arena.count_read(owner, Counter::Hits);
            }
            return Ok(Some(self.entry_in(buffer)));
        }
        if let Some(owner) = owner {
            self.arena.check_not_lost()?;
            self.arena.count_read(owner, Counter::Misses);
        }
        Ok(None)
    }

    /// Whether the key has an entry. Counts as neither hit nor miss.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.arena.reader()?;
        self.check_lengths(key, None)?;
        let mut buffer = Buffer::new();
        let answer = self.read(key, self.hasher.key(key), &mut buffer, false);
        let found = buffer.outcome(answer)?;
        self.arena.check_not_lost()?;
        Ok(found && !self.has_expired(&buffer))
    }

    /// Stores a value, replacing the present one.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLarge`], [`Error::Full`], and [`Error::Arena`] if a
    /// lock could not be acquired in time. The old entry is unchanged then.
    pub fn set(&self, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<()> {
        self.store(key, value, ttl, Condition::Always).map(|_| ())
    }

    /// Stores a value unless the key has one. Whether it was stored.
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn add(&self, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<bool> {
        self.store(key, value, ttl, Condition::Absent)
    }

    /// Stores a value only if the key has one. Whether it was stored.
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn replace(&self, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<bool> {
        self.store(key, value, ttl, Condition::Present)
    }

    /// Stores a value only if the entry still has the version that [`Cache::get`] reported. Whether
    /// it was stored.
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn compare_and_set(
        &self,
        key: &[u8],
        value: Value<'_>,
        ttl: Ttl,
        version: u64,
    ) -> Result<bool> {
        self.store(key, value, ttl, Condition::Version(version))
    }

    /// Deletes an entry. Whether there was one.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], and [`Error::Arena`] for locks.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let (shard, hash, live) = self.lock_key(key)?;
        let Some(live) = live else { return Ok(false) };
        shard.remove(hash, &live.found, &live.header);
        shard.remember_removed(hash, &live.found, &live.header);
        shard.add_word(shard::DELETES, 1);
        drop(shard);
        self.arena.check_not_lost()?;
        Ok(true)
    }

    /// Deletes an entry and returns it. Of several concurrent callers only one gets it.
    ///
    /// # Errors
    /// As [`Cache::delete`].
    pub fn pop<'b>(&self, key: &[u8], buffer: &'b mut Buffer) -> Result<Option<Entry<'b>>> {
        let (shard, hash, live) = self.lock_key(key)?;
        let Some(live) = live else { return Ok(None) };
        if !shard.copy_entry(&live, hash, buffer)? {
            return Ok(None);
        }
        shard.remove(hash, &live.found, &live.header);
        shard.remember_removed(hash, &live.found, &live.header);
        shard.add_word(shard::DELETES, 1);
        drop(shard);
        self.arena.check_not_lost()?;
        Ok(Some(self.entry_in(buffer)))
    }

    /// Gives an entry a new time to live, from now. Whether there was one. The version does not
    /// change.
    ///
    /// # Errors
    /// As [`Cache::delete`], and [`Error::Full`].
    pub fn touch(&self, key: &[u8], ttl: Ttl) -> Result<bool> {
        let expiry_us = self.expiry_of(ttl);
        for attempt in 0..1000 {
            let (shard, hash, live) = self.lock_key(key)?;
            let Some(live) = live else { return Ok(false) };
            if shard.set_expiry(&live, hash, expiry_us).is_some() {
                self.arena.check_not_lost()?;
                return Ok(true);
            }
            match attempt {
                0 if shard.has_damaged_log() => shard.repair_damage(),
                _ => _ = shard.free_space(EVICTION_BATCH, IfStuck::after(attempt), 0),
            }
        }
        self.arena.check_not_lost()?;
        Err(Error::Full { wanted_bytes: key.len() as u64 })
    }

    /// Adds to an integer, atomically over all processes, and returns the sum. Without an entry it
    /// stores `initial + delta` with `ttl`, or returns none if `initial` is none. The time to live
    /// of an existing entry does not change.
    ///
    /// # Errors
    /// As [`Cache::set`], [`Error::NotAnInteger`], [`Error::Overflow`].
    pub fn incr(
        &self,
        key: &[u8],
        delta: i64,
        initial: Option<i64>,
        ttl: Ttl,
    ) -> Result<Option<i64>> {
        loop {
            let (shard, hash, live) = self.lock_key(key)?;
            if let Some(live) = live {
                if let Some(sum) = shard.add_to_number(&live, hash, delta)? {
                    self.arena.check_not_lost()?;
                    return Ok(Some(sum));
                }
            }
            drop(shard);
            let Some(initial) = initial else { return Ok(None) };
            let sum =
                initial.checked_add(delta).ok_or(Error::Overflow { current: initial, delta })?;
            if self.add(key, Value::Int(sum), ttl)? {
                return Ok(Some(sum));
            }
        }
    }

    /// Removes all entries; how many there were. Takes each shard's lock in turn: entries that
    /// others store meanwhile may be kept.
    ///
    /// # Errors
    /// [`Error::Arena`] for locks.
    pub fn clear(&self) -> Result<u64> {
        let mut count = 0;
        for index in 0..self.shape.shard_count {
            count += self.lock_shard(index)?.clear();
        }
        self.arena.check_not_lost()?;
        Ok(count)
    }

    /// Removes expired entries; how many.
    ///
    /// # Errors
    /// [`Error::Arena`] for locks.
    pub fn expire(&self) -> Result<u64> {
        let mut count = 0;
        for index in 0..self.shape.shard_count {
            let mut bucket = 0;
            loop {
                let shard = self.lock_shard(index)?;
                let (expired, more) = shard.expire_buckets(bucket, EXPIRE_BUCKETS);
                count += expired;
                bucket += EXPIRE_BUCKETS;
                if !more {
                    break;
                }
            }
        }
        self.arena.check_not_lost()?;
        Ok(count)
    }

    /// Entries present, including expired ones not yet collected.
    pub fn len(&self) -> u64 {
        self.sum_over_logs(log::ENTRIES)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn sum_over_logs(&self, word: u64) -> u64 {
        (0..self.shape.shard_count)
            .flat_map(|index| LogKind::BOTH.map(|kind| (index, kind)))
            .map(|(index, kind)| {
                let at = self.arena.geometry().shard_at(index) + kind.at() + word;
                self.arena.region().get(at)
            })
            .fold(0, u64::wrapping_add)
    }

    fn sum_over_shards(&self, word: u64) -> u64 {
        (0..self.shape.shard_count)
            .map(|index| self.arena.region().get(self.arena.geometry().shard_at(index) + word))
            .fold(0, u64::wrapping_add)
    }

    /// Statistics of the cache. Read without locks: they may be of different moments.
    pub fn stats(&self) -> Stats {
        self.arena.refresh_length();
        let counters = self.arena.counters();
        let counter = |counter: Counter| counters[counter as usize];
        let segments = u64::from(self.arena.segments_present());
        let (mut free, mut building) = (0, 0);
        for segment in 0..segments as u32 {
            match self.arena.segment_owner(segment) {
                Owner::Free => free += 1,
                Owner::Builder(_) => building += 1,
                Owner::Shard(_) | Owner::Unknown(_) => {}
            }
        }
        let index = self.sum_over_shards(shard::INDEX_SEGMENTS);
        let body = self.sum_over_shards(shard::BODY_SEGMENTS);
        let spare = (0..self.shape.shard_count).map(|index| self.spares_of(index)).sum();
        let others = [free, building, index, body, spare];
        Stats {
            entries: self.len(),
            entry_bytes: self
                .sum_over_logs(log::BYTES)
                .wrapping_add(self.sum_over_logs(log::BODY_BYTES)),
            file_bytes: self.arena.region().usable_bytes(),
            size_bytes: self.arena.geometry().plan.size_bytes,
            max_entries: self.shape.max_entries,
            favour: self.shape.favour,
            after_power_cut: self.arena.geometry().plan.after_power_cut,
            hits: counter(Counter::Hits),
            misses: counter(Counter::Misses),
            sets: self.sum_over_shards(shard::SETS),
            deletes: self.sum_over_shards(shard::DELETES),
            discards: self.arena.discards_made(),
            evictions: self.sum_over_shards(shard::EVICTIONS),
            expirations: self.sum_over_shards(shard::EXPIRATIONS),
            lost_entries: self.sum_over_shards(shard::LOST),
            takeovers: counter(Counter::Takeovers),
            reads_under_lock: counter(Counter::ReadsUnderLock),
            reads_given_up: counter(Counter::ReadsGivenUp),
            checksum_mismatches: counter(Counter::ChecksumMismatches),
            shards: self.shape.shard_count,
            segment_bytes: self.shape.segment_bytes,
            segments,
            segments_free: free,
            // The rest: logs have no counter for their segments.
            segments_log: others.iter().fold(segments, |left, part| left.saturating_sub(*part)),
            segments_index: index,
            segments_body: body,
            segments_spare: spare,
            segments_building: building,
        }
    }

    /// Verifies every entry and every segment, and repairs what it can. Writes to a shard wait
    /// while it is checked.
    ///
    /// # Errors
    /// [`Error::Arena`] for locks.
    pub fn check(&self) -> Result<CheckReport> {
        self.arena.refresh_length();
        let mut report = CheckReport::default();
        for index in 0..self.shape.shard_count {
            let found = self.lock_shard(index)?.audit(Depth::Content);
            report.entries += found.entries;
            report.entry_bytes += found.entry_bytes;
            report.lost_entries += found.lost_entries;
            report.losses.extend(found.losses);
            report.damaged_entries += found.damaged_entries;
            report.leaked_segments += found.leaked_segments;
            report.wrong_counts += found.wrong_counts;
            report.segments_log += found.segments_log;
            report.segments_index += found.segments_index;
            report.segments_body += found.segments_body;
            report.segments_spare += found.segments_spare;
            let left = FINDINGS_MAX.saturating_sub(report.findings.len());
            report.findings.extend(found.findings.into_iter().take(left));
        }
        self.arena.free_abandoned_segments();
        for segment in 0..self.arena.segments_present() {
            match self.arena.segment_owner(segment) {
                Owner::Free => report.segments_free += 1,
                Owner::Builder(_) => report.segments_building += 1,
                Owner::Shard(_) | Owner::Unknown(_) => {}
            }
        }
        self.arena.check_not_lost()?;
        Ok(report)
    }
}

impl Shard<'_> {
    /// Removes all entries; how many there were.
    pub(crate) fn clear(&self) -> u64 {
        let count = self.entries();
        self.advance_epoch();
        tuckbox_arena::hooks::reach(tuckbox_arena::hooks::Point::EpochAdvanced);
        self.reset_logs();
        // Nothing refers to the bodies of large values now; a repair frees them.
        if self.word(shard::BODY_SEGMENTS) > 0 {
            self.repair();
        }
        count
    }
}

fn plan_for(config: &Config) -> Result<tuckbox_arena::Plan> {
    let size_bytes = config.size_bytes;
    if size_bytes < SIZE_BYTES_MIN {
        let least_bytes = SIZE_BYTES_MIN;
        let asked_bytes = size_bytes;
        return Err(tuckbox_arena::Error::SizeTooSmall { asked_bytes, least_bytes }.into());
    }
    if size_bytes > SIZE_BYTES_MAX {
        let most_bytes = SIZE_BYTES_MAX;
        let asked_bytes = size_bytes;
        return Err(tuckbox_arena::Error::SizeTooLarge { asked_bytes, most_bytes }.into());
    }
    if let Some(given) = config.max_entries {
        if !(1..=MAX_ENTRIES_MAX).contains(&given) {
            return Err(Error::MaxEntriesOutOfRange { given, most: MAX_ENTRIES_MAX });
        }
    }
    let plan = layout::plan(size_bytes, config.max_entries.unwrap_or(0));
    let (features_optional, after_power_cut) = (config.favour.word(), config.after_power_cut);
    Ok(tuckbox_arena::Plan { features_optional, after_power_cut, ..plan })
}

/// Fills the engine's part of a new file.
fn lay_out(arena: &Arena) -> tuckbox_arena::Result<()> {
    let geometry = arena.geometry();
    let shape = Shape::new(geometry);
    for index in 0..shape.shard_count {
        let at = geometry.shard_at(index);
        let owner = Owner::Shard(index as u32);
        let segment = arena.take_segment(owner).expect("the plan has a segment for each shard");
        let region = arena.region();
        region.set(at + shard::BOOT, arena.boot());
        region.set(at + shard::DIRECTORY, u64::from(segment) + 1);
        region.set(at + shard::INDEX_SEGMENTS, 1);
        region.set(at + shard::STATE, u64::from(layout::BUCKETS_AT_FIRST));
    }
    Ok(())
}
