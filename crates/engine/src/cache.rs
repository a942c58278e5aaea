//! The cache as its users see it: each operation and its result. Must not know how reads and writes
//! work; that is in `read`, `store` and `write`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tuckbox_arena::layout::SIZE_BYTES_MAX;
use tuckbox_arena::segments::Owner;
use tuckbox_arena::{check_private_folder, Arena, Place};

use crate::error::{reserve, Error, Result};
use crate::eviction::{IfStuck, EVICTION_BATCH};
use crate::format::{
    gate, plan, shard, KeyHash, Shape, BUCKETS_AT_FIRST, MAX_ENTRIES_MAX, NO_EVICTION, ORDERED,
    SIZE_BYTES_MIN,
};
use crate::index::Lookup;
use crate::invalidation::{rows, SHARD_OF_NAMESPACES};
use crate::leases::{Begin, Begun, Leases, Token};
use crate::reading::{
    Buffer, Evidence, Live, Proof, Proved, Reader, ScanState, WatchedEras, WINDOW,
};
use crate::repair::{lock, Audit};
use crate::storage::{check_tag, Context};
use crate::value::{
    Attributes, Changes, CheckReport, Condition, Config, Entry, FullEntry, Item, Make, Pass, Terms,
    Ttl, Value,
};
use crate::writing::{Store, Writer};

/// A cache shared by every process that opens the same file.
///
/// All operations may be called from any thread, and from forked children. Keys are bytes, at most
/// 64 KiB. Writes wait for the lock of one shard, at most `lock_limit`; reads take no lock.
pub struct Cache {
    pub(crate) cx: Context,
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
        let plan = Some(&plan).filter(|_| !config.must_exist);
        if let (true, Place::Path(path)) = (config.creates_folder, place) {
            check_private_folder(path)?;
        }
        let (rights, clock, waiter) = (config.rights, config.clock.clone(), config.waiter.clone());
        let arena = Arena::open(place, rights, plan, plan::layer(), clock, waiter, &lay_out)?;
        let cache = Cache { cx: Context::new(arena, config) };
        cache.cx.arena.recover_from_power_cut(|| cache.discard())?;
        if !cache.cx.arena.is_read_only() {
            rows(&cache.cx).begin_boot();
        }
        Ok(cache)
    }

    /// Discards all entries. After a power cut only the file's checksums can be relied on.
    fn discard(&self) -> Result<()> {
        for index in 0..self.cx.shape.shard_count {
            let shard = lock::lock(&self.cx, index)?;
            Audit(&shard).clear();
            // The shard may own segments that its lists did not reach.
            Audit(&shard).repair();
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
        let arenas = Arena::twins(&plan, plan::layer().signature, clock, waiter, participants)?;
        if let Some(first) = arenas.first() {
            lay_out(first)?;
        }
        let on = |arena| Cache { cx: Context::new(arena, config) };
        let twins: Vec<Cache> = arenas.into_iter().map(on).collect();
        twins.iter().for_each(|twin| rows(&twin.cx).begin_boot());
        Ok(twins)
    }

    /// Declares a participant of the twin dead, with all that it holds. For tests.
    pub fn declare_dead(&self, participant: u32) {
        self.cx.arena.declare_dead(participant);
    }

    /// The operations that find entries.
    pub(crate) fn reads(&self) -> Reader<'_> {
        Reader(Lookup(&self.cx))
    }

    /// The operations that change entries.
    pub(crate) fn writes(&self) -> Store<'_> {
        Store(&self.cx)
    }

    /// The leases on keys.
    fn leases(&self) -> Leases<'_> {
        Leases(self.writes())
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        self.cx.arena.path()
    }

    /// Random bytes that identify this cache.
    pub fn id(&self) -> [u8; 16] {
        let [low, high] = self.cx.arena.identity().cache_id.map(u64::to_le_bytes);
        std::array::from_fn(|index| if index < 8 { low[index] } else { high[index - 8] })
    }

    /// A path by which a process that is not our child can open a private cache, while this handle
    /// lives.
    pub fn shown_path(&self) -> Option<PathBuf> {
        self.cx.arena.shown_path()
    }

    /// The file's time in microseconds since 1970: the wall clock at the file's first use in this
    /// boot, not affected by later changes of the wall clock.
    pub fn now_us(&self) -> u64 {
        self.cx.arena.now_us()
    }

    /// Closes this handle; later operations return [`crate::ArenaError::Closed`]. Waits for writes
    /// that other threads do through this handle. The file is kept.
    pub fn close(&self) {
        self.cx.arena.close();
    }

    /// Closes this handle and gives back the memory of its file, which was removed or replaced.
    pub(crate) fn retire(&self) {
        self.cx.arena.retire();
    }

    /// Checks, at most once a second, that the file is still the one at its path.
    ///
    /// # Errors
    /// [`crate::ArenaError::Lost`], [`crate::ArenaError::Closed`].
    pub(crate) fn look_for_file(&self) -> Result<()> {
        self.cx.arena.check_open()?;
        self.cx.arena.check_not_lost()?;
        lock::check_successor(&self.cx)?;
        lock::check_path(&self.cx, Duration::ZERO)
    }

    /// Tells other handles which settings this one's user asked for. Whether the user of another
    /// one asked for different ones.
    pub(crate) fn has_rival(&self, changes: Changes) -> bool {
        let mine = changes.words();
        let differs = |(mine, other): (&u64, &u64)| *mine != 0 && *other != 0 && mine != other;
        let others = self.cx.arena.exchange_wishes(mine);
        others.iter().any(|other| mine.iter().zip(other).any(differs))
    }

    /// Whether [`Cache::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.cx.arena.is_closed()
    }

    /// The longest value that this cache accepts, in bytes.
    pub fn value_bytes_max(&self) -> usize {
        self.cx.shape.value_bytes_max as usize
    }

    /// Reads an entry into `buffer`. Takes no lock; a hit makes no system call.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`crate::ArenaError::Closed`], [`crate::ArenaError::Lost`].
    #[inline(always)]
    pub fn get<'b>(&self, key: &[u8], buffer: &'b mut Buffer) -> Result<Option<Entry<'b>>> {
        Ok(if self.find(key, buffer)? { Some(self.entry(buffer)) } else { None })
    }

    /// As [`Cache::get`]; whether the entry is in the buffer.
    #[inline(always)]
    pub(crate) fn find(&self, key: &[u8], buffer: &mut Buffer) -> Result<bool> {
        let owner = self.cx.arena.reader()?;
        self.cx.check_lengths(key, None)?;
        self.reads().find_hashed::<false>(owner, key, self.cx.hasher.key(key), buffer)
    }

    /// As [`Cache::find`], and proves the entry if that is possible. Its key contains these eras.
    pub(crate) fn find_proved(
        &self,
        key: &[u8],
        eras: Option<&WatchedEras>,
        buffer: &mut Buffer,
    ) -> Result<(bool, Option<Proved>)> {
        let owner = self.cx.arena.reader()?;
        self.cx.check_lengths(key, None)?;
        let hash = self.cx.hasher.key(key);
        let found = self.reads().find_hashed::<true>(owner, key, hash, buffer)?;
        Ok((found, if found { self.reads().prove(hash, eras, buffer) } else { None }))
    }

    /// As [`Cache::get`], and proves the entry if that is possible, for [`Cache::is_current`]. The key
    /// contains `eras`, if it is one of a namespace.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub fn get_proved<'b>(
        &self,
        key: &[u8],
        eras: Option<&WatchedEras>,
        buffer: &'b mut Buffer,
    ) -> Result<(Option<Entry<'b>>, Option<Proved>)> {
        let (is_found, proof) = self.find_proved(key, eras, buffer)?;
        Ok((is_found.then(|| self.entry(buffer)), proof))
    }

    /// Whether a get would return the entry that was proved, at this moment. If so, it counts as a
    /// hit. False also if this handle is closed or cannot tell.
    #[inline(always)]
    pub fn is_current(&self, proof: &mut Proof, evidence: &Evidence) -> bool {
        self.cx.arena.reader().is_ok_and(|owner| self.reads().is_current(owner, proof, evidence))
    }

    /// The eras of namespaces, for a key that is made of them, and what [`Cache::get_proved`] needs to
    /// notice that one of them ends.
    ///
    /// # Errors
    /// As [`Cache::era`].
    pub fn watch_eras(&self, namespaces: &[Vec<u8>]) -> Result<WatchedEras> {
        let mut watched = WatchedEras { serial: self.cx.serial, ..WatchedEras::default() };
        for namespace in namespaces {
            let rows = rows(&self.cx);
            watched.eras.push(rows.watch_era(rows.name_hash(namespace), &mut watched.words));
        }
        self.cx.arena.check_open()?;
        self.cx.arena.check_not_lost()?;
        // As [`Cache::era`].
        lock::check_successor(&self.cx)?;
        Ok(watched)
    }

    /// The entry that this cache has just copied into the buffer.
    #[inline(always)]
    pub(crate) fn entry<'b>(&self, buffer: &'b Buffer) -> Entry<'b> {
        buffer.entry(&self.cx.shape)
    }

    /// Whether the key has an entry, which is copied into the buffer to verify it. Counts as neither
    /// hit nor miss.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub fn contains(&self, key: &[u8], buffer: &mut Buffer) -> Result<bool> {
        self.cx.arena.reader()?;
        self.cx.check_lengths(key, None)?;
        let found = self.reads().read::<false>(key, self.cx.hasher.key(key), buffer, false)?;
        // Also closed: another thread may have given the memory back.
        self.cx.arena.check_open()?;
        self.cx.arena.check_not_lost()?;
        if found && !self.cx.is_expired(buffer.expiry_us) {
            return Ok(true);
        }
        lock::check_path(&self.cx, Duration::ZERO)?;
        Ok(false)
    }

    /// As [`Cache::get`], with the entry's attributes. With `accepts_stale`, also a stale entry.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub fn get_full<'b>(
        &self,
        key: &[u8],
        accepts_stale: bool,
        buffer: &'b mut Buffer,
    ) -> Result<Option<FullEntry<'b>>> {
        let is_stale = self.find_full(key, accepts_stale, buffer)?;
        Ok(is_stale.map(|is_stale| self.full_entry(is_stale, buffer)))
    }

    /// As [`Cache::get_full`]; whether the entry in the buffer is stale, none if there is none.
    pub(crate) fn find_full(
        &self,
        key: &[u8],
        accepts_stale: bool,
        buffer: &mut Buffer,
    ) -> Result<Option<bool>> {
        let owner = self.cx.arena.reader()?;
        self.cx.check_lengths(key, None)?;
        self.reads().find_full(owner, key, self.cx.hasher.key(key), accepts_stale, buffer)
    }

    /// The entry that this cache has just copied into the buffer, with its attributes.
    pub(crate) fn full_entry<'b>(&self, is_stale: bool, buffer: &'b Buffer) -> FullEntry<'b> {
        buffer.full_entry(&self.cx.shape, is_stale)
    }

    /// What the stamp clock shows: the stamp of an entry whose making begins now.
    pub fn stamp(&self) -> u64 {
        rows(&self.cx).stamp()
    }

    /// Invalidates all entries that have this tag, at once: none of them is found after this. With
    /// `soft` they become stale instead.
    ///
    /// # Errors
    /// [`Error::TagLength`], and [`Error::Arena`] for locks.
    pub fn evict(&self, tag: &str, soft: bool) -> Result<()> {
        check_tag(tag)?;
        let tag = rows(&self.cx).name_hash(tag.as_bytes());
        // Held so that a resize copies no entry that is invalidated meanwhile.
        let shard = match tuckbox_arena::mutants::is_on("unlocked-eviction") {
            true => None,
            false => Some(lock::lock(&self.cx, rows(&self.cx).shard_of_tag(tag))?),
        };
        rows(&self.cx).evict(tag, soft);
        drop(shard);
        Ok(self.cx.arena.check_not_lost()?)
    }

    /// The era of a namespace: a part of all its keys, so that another era has none of its entries.
    ///
    /// # Errors
    /// [`crate::ArenaError::Closed`], [`crate::ArenaError::Lost`], [`crate::ArenaError::Superseded`].
    #[inline]
    pub fn era(&self, namespace: &[u8]) -> Result<u64> {
        let rows = rows(&self.cx);
        let era = rows.era(rows.name_hash(namespace));
        self.cx.arena.check_open()?;
        self.cx.arena.check_not_lost()?;
        // In a successor of the file the namespace may have another one.
        lock::check_successor(&self.cx)?;
        Ok(era)
    }

    /// Gives a namespace an era that it never had. No entry of an earlier era is found after this.
    ///
    /// # Errors
    /// [`Error::Arena`] for locks.
    pub fn advance_era(&self, namespace: &[u8]) -> Result<u64> {
        let name = rows(&self.cx).name_hash(namespace);
        let shard = lock::lock(&self.cx, SHARD_OF_NAMESPACES)?;
        let era = rows(&self.cx).advance_era(name);
        drop(shard);
        self.cx.arena.check_not_lost()?;
        Ok(era)
    }

    /// Stores a value on these terms. Whether it was stored.
    ///
    /// # Errors
    /// As [`Cache::set`], [`Error::TagLength`], [`Error::TooManyTags`].
    pub fn store(&self, key: &[u8], value: Value<'_>, terms: &Terms<'_>) -> Result<bool> {
        self.writes().store_on(key, value, terms)
    }

    /// Stores a value, replacing the present one.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLarge`], [`Error::Full`], and [`Error::Arena`] if a
    /// lock could not be acquired in time. The old entry is unchanged then.
    pub fn set(&self, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<()> {
        self.writes().store(key, value, ttl, Condition::Always).map(|_| ())
    }

    /// Stores a value unless the key has one. Whether it was stored.
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn add(&self, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<bool> {
        self.writes().store(key, value, ttl, Condition::Absent)
    }

    /// Stores a value only if the key has one. Whether it was stored.
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn replace(&self, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<bool> {
        self.writes().store(key, value, ttl, Condition::Present)
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
        self.writes().store(key, value, ttl, Condition::Version(version))
    }

    /// Deletes an entry. Whether there was one.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], and [`Error::Arena`] for locks.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let (shard, hash, live) = self.writes().lock_kept(key)?;
        // Also without an entry: a maker may be about to store one.
        shard.invalidate(hash);
        let Some(live) = live else { return Ok(false) };
        // A stale entry was missing, but must not be served any more.
        shard.remove_live(hash, &live, shard::DELETES);
        drop(shard);
        self.cx.arena.check_not_lost()?;
        Ok(!live.is_stale)
    }

    /// Deletes an entry if it still has the version that [`Cache::get`] reported. Whether it had.
    ///
    /// # Errors
    /// As [`Cache::delete`].
    pub fn delete_version(&self, key: &[u8], version: u64) -> Result<bool> {
        let (shard, hash, _) = self.writes().lock_kept(key)?;
        let found = shard.find_valid(key, hash);
        let Some((live, _)) = found.filter(|(live, is)| !live.is_stale && *is == version) else {
            return Ok(false);
        };
        shard.invalidate(hash);
        shard.remove_live(hash, &live, shard::DELETES);
        drop(shard);
        self.cx.arena.check_not_lost()?;
        Ok(true)
    }

    /// The gate's word. It is open if the two lowest bits are 0.
    pub fn gate(&self) -> u64 {
        self.cx.gate()
    }

    /// Closes the gate, and returns its new word: from then on [`Cache::store_passing`] and
    /// [`Cache::delete_passing`] change nothing. The caller has a lock of its own, so that nobody else
    /// closes or opens it meanwhile.
    ///
    /// # Errors
    /// [`Error::Arena`] for locks. Some changes may still pass then, none with the word of now.
    pub fn close_gate(&self) -> Result<u64> {
        self.writes().close_gate()
    }

    /// Tells that the caller, who has closed the gate, has done what it wanted. Opens the gate, or leaves
    /// it closed.
    pub fn leave_gate(&self, opens: bool) {
        let state = if opens { gate::OPEN } else { gate::LEFT };
        self.cx.set_gate(self.cx.gate() & !gate::STATES | state);
    }

    /// A number after all that were given. For the caller that has closed the gate, and for a change after it
    /// has looked at the gate: then the numbers of changes have the order of the gate's words.
    pub fn next_number(&self) -> u64 {
        self.cx.next_number()
    }

    /// The last number that was given.
    pub fn last_number(&self) -> u64 {
        self.cx.last_number()
    }

    /// Adds to the weight, and returns it.
    pub fn weigh(&self, delta: i64) -> i64 {
        self.cx.weigh(delta)
    }

    /// Whether a change has died between its entry and the weight. For the caller that has closed the
    /// gate, who then adds up the weight again: see [`Cache::set_weight`].
    pub fn is_weight_unsure(&self) -> bool {
        self.cx.has_begun()
    }

    /// Replaces the weight. For the caller that has closed the gate.
    pub fn set_weight(&self, weight: i64) {
        self.cx.set_weight(weight);
    }

    /// Stores a value that never expires, and adds to the weight. Returns the weight; none, and nothing
    /// is changed, if the gate or the key's entry has changed since the caller looked, or if there is
    /// no room at once. The caller that has closed the gate passes with the word of then. A death leaves
    /// the old value or the new one.
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn store_passing(&self, key: &[u8], value: Value<'_>, pass: &Pass) -> Result<Option<i64>> {
        self.writes().store_passing(key, value, pass)
    }

    /// As [`Cache::store_passing`], of a value that `make` makes of the present one, under a lock. It
    /// fills the bytes, and may be called again. If it makes nothing, nothing is changed.
    ///
    /// # Errors
    /// As [`Cache::store_passing`].
    pub fn replace_passing(
        &self,
        key: &[u8],
        gate: u64,
        buffer: &mut Buffer,
        bytes: &mut Vec<u8>,
        make: &mut Make<'_>,
    ) -> Result<Option<i64>> {
        self.writes().replace_passing(key, gate, buffer, bytes, make)
    }

    /// Deletes an entry, and adds to the weight. Returns as [`Cache::store_passing`].
    ///
    /// # Errors
    /// As [`Cache::delete`].
    pub fn delete_passing(&self, key: &[u8], pass: &Pass) -> Result<Option<i64>> {
        self.writes().delete_passing(key, pass)
    }

    /// Deletes an entry and returns it. Of several concurrent callers only one gets it.
    ///
    /// # Errors
    /// As [`Cache::delete`].
    pub fn pop<'b>(&self, key: &[u8], buffer: &'b mut Buffer) -> Result<Option<Entry<'b>>> {
        Ok(if self.take(key, buffer)? { Some(self.entry(buffer)) } else { None })
    }

    /// As [`Cache::pop`]; whether the entry is in the buffer.
    pub(crate) fn take(&self, key: &[u8], buffer: &mut Buffer) -> Result<bool> {
        let (shard, hash, live) = self.writes().lock_kept(key)?;
        shard.invalidate(hash);
        let Some(live) = live else { return Ok(false) };
        if !live.is_stale && !shard.copy_entry(&live, hash, buffer)? {
            return Ok(false);
        }
        shard.remove_live(hash, &live, shard::DELETES);
        drop(shard);
        self.cx.arena.check_not_lost()?;
        Ok(!live.is_stale)
    }

    /// Gives an entry a new time to live, from now. Whether there was one. The version does not
    /// change.
    ///
    /// # Errors
    /// As [`Cache::delete`], and [`Error::Full`].
    pub fn touch(&self, key: &[u8], ttl: Ttl) -> Result<bool> {
        self.touch_and(key, ttl, |_, _, _| Ok(true))
    }

    /// As [`Cache::touch`], and returns the entry, with its new expiry.
    ///
    /// # Errors
    /// As [`Cache::touch`].
    pub fn get_and_touch<'b>(
        &self,
        key: &[u8],
        ttl: Ttl,
        buffer: &'b mut Buffer,
    ) -> Result<Option<Entry<'b>>> {
        Ok(if self.find_and_touch(key, ttl, buffer)? { Some(self.entry(buffer)) } else { None })
    }

    /// As [`Cache::get_and_touch`]; whether the entry is in the buffer.
    pub(crate) fn find_and_touch(&self, key: &[u8], ttl: Ttl, buffer: &mut Buffer) -> Result<bool> {
        self.touch_and(key, ttl, |shard, hash, live| shard.copy_entry(live, hash, buffer))
    }

    /// Gives an entry a new time to live unless `first` says that it is none. Whether there was one.
    fn touch_and(
        &self,
        key: &[u8],
        ttl: Ttl,
        mut first: impl FnMut(&Writer<'_>, KeyHash, &Live) -> Result<bool>,
    ) -> Result<bool> {
        let expiry_us = self.cx.expiry_of(ttl);
        for attempt in 0..1000 {
            let (shard, hash, live) = self.writes().lock_key(key)?;
            let Some(live) = live else { return Ok(false) };
            if !first(&shard, hash, &live)? {
                return Ok(false);
            }
            if shard.set_expiry(&live, hash, expiry_us).is_some() {
                self.cx.arena.check_not_lost()?;
                return Ok(true);
            }
            if attempt == 0 && shard.has_damaged_log() {
                Audit(&shard).repair_damage();
            } else if !shard.free_space(EVICTION_BATCH, IfStuck::after(attempt), 0) {
                let (index, if_stuck) = (shard.index, IfStuck::after(attempt));
                drop(shard);
                let wanted_bytes = live.header.total_bytes(&self.cx.shape);
                self.writes().free_space_elsewhere(index, if_stuck, wanted_bytes)?;
            }
        }
        self.cx.arena.check_not_lost()?;
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
            let (shard, hash, live) = self.writes().lock_key(key)?;
            if let Some(live) = live {
                if let Some(sum) = shard.add_to_number(&live, hash, delta)? {
                    self.cx.arena.check_not_lost()?;
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

    /// Decides who makes the value of a key: the caller gets the fresh entry, or the lease, or learns
    /// that another maker of a live process has the lease. With `anyway`, an entry does not count.
    /// A token must be finished or abandoned.
    ///
    /// # Errors
    /// As [`Cache::get`] and [`Cache::delete`].
    pub fn begin<'b>(&self, key: &[u8], anyway: bool, buffer: &'b mut Buffer) -> Result<Begin<'b>> {
        let (begun, is_stale) = self.begin_in(key, anyway, buffer)?;
        Ok(self.as_begin(begun, is_stale, buffer))
    }

    /// As [`Cache::begin`]; also whether the entry in the buffer is stale, none if there is none.
    pub(crate) fn begin_in(
        &self,
        key: &[u8],
        anyway: bool,
        buffer: &mut Buffer,
    ) -> Result<(Begun, Option<bool>)> {
        self.leases().begin(key, anyway, buffer)
    }

    pub(crate) fn as_begin<'b>(
        &self,
        begun: Begun,
        is_stale: Option<bool>,
        buffer: &'b Buffer,
    ) -> Begin<'b> {
        match (begun, is_stale.map(|is_stale| self.full_entry(is_stale, buffer))) {
            (Begun::Lease(token), entry) => Begin::Lease(token, entry),
            (Begun::Found, Some(entry)) => Begin::Found(entry),
            (_, entry) => Begin::Busy(entry),
        }
    }

    /// Stores the value that was made with a lease, and ends the lease. Whether it was stored: not
    /// if the key was deleted, its entry changed or one of the tags was evicted since
    /// [`Cache::begin`], if the cache was cleared, or if the token is another key's, another file's
    /// or that of the process which forked this one.
    ///
    /// # Errors
    /// As [`Cache::store`]. The lease has ended then, too, but for [`crate::ArenaError::WouldBlock`].
    pub fn finish(
        &self,
        token: &Token,
        key: &[u8],
        value: Value<'_>,
        ttl: Ttl,
        attributes: &Attributes<'_>,
    ) -> Result<bool> {
        self.leases().finish(token, key, value, ttl, attributes)
    }

    /// Ends a lease without a value. Takes no lock; may be called after the handle was closed.
    pub fn abandon(&self, token: &Token) {
        self.leases().abandon(token);
    }

    /// Waits until no live process has the lease of a key, at most `limit`; the caller then begins
    /// again. False if the time is over.
    ///
    /// # Errors
    /// [`crate::ArenaError::Interrupted`], [`crate::ArenaError::Closed`],
    /// [`crate::ArenaError::ReadOnly`], [`crate::ArenaError::Lost`] if another file may have it.
    pub fn wait_made(&self, key: &[u8], limit: Duration) -> Result<bool> {
        self.leases().wait_made(key, limit)
    }

    /// Removes all entries; how many there were. Takes each shard's lock in turn: entries that
    /// others store meanwhile may be kept.
    ///
    /// # Errors
    /// [`Error::Arena`] for locks.
    pub fn clear(&self) -> Result<u64> {
        let mut count = 0;
        for index in 0..self.cx.shape.shard_count {
            count += Audit(&lock::lock(&self.cx, index)?).clear();
        }
        self.cx.arena.check_not_lost()?;
        Ok(count)
    }

    /// Removes expired and invalid entries; how many.
    ///
    /// # Errors
    /// [`Error::Arena`] for locks.
    pub fn expire(&self) -> Result<u64> {
        let count = self.writes().expire()?;
        self.cx.arena.check_not_lost()?;
        Ok(count)
    }

    /// Reads the entries of all `keys`, in order. Calls `answer` with the position of each key that
    /// has an entry, and the entry. An error of `answer` ends the reading.
    ///
    /// # Errors
    /// As [`Cache::get`], before the first key is read if one is too long; the errors of `answer`.
    pub fn get_each<K: AsRef<[u8]>, E: From<Error>>(
        &self,
        keys: &[K],
        buffer: &mut Buffer,
        mut answer: impl FnMut(usize, Entry<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match self.get_each_from(&mut 0, keys, buffer, &mut answer)? {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// As [`Cache::get_each`], from the key at `next` on, which becomes the first key that was not
    /// read. Returns an error of the cache apart from those of `answer`.
    pub(crate) fn get_each_from<K: AsRef<[u8]>, E: From<Error>>(
        &self,
        next: &mut usize,
        keys: &[K],
        buffer: &mut Buffer,
        answer: &mut impl FnMut(usize, Entry<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Option<Error>, E> {
        for key in keys {
            self.cx.check_lengths(key.as_ref(), None)?;
        }
        let mut hashes = [KeyHash(0); WINDOW];
        for window in keys[*next..].chunks(WINDOW) {
            for (key, hash) in window.iter().zip(&mut hashes) {
                *hash = self.cx.hasher.key(key.as_ref());
            }
            self.reads().ask_for(&hashes[..window.len()]);
            for (key, hash) in window.iter().zip(hashes) {
                // Checked each time: `answer` may have closed the cache.
                let found = self.cx.arena.reader().map_err(Error::from).and_then(|owner| {
                    self.reads().find_hashed::<false>(owner, key.as_ref(), hash, buffer)
                });
                match found {
                    Ok(true) => answer(*next, self.entry(buffer))?,
                    Ok(false) => {}
                    Err(error) => return Ok(Some(error)),
                }
                *next += 1;
            }
        }
        Ok(None)
    }

    /// Stores values, replacing present ones, shard by shard, each shard in the order of `entries`.
    ///
    /// # Errors
    /// As [`Cache::set`]. Keys and values that are too long are refused before anything is stored;
    /// after other errors some entries may have been stored.
    pub fn set_each(&self, entries: &[(&[u8], Value<'_>)], ttl: Ttl) -> Result<()> {
        self.writes().set_each(entries, ttl, &Attributes::default(), &mut Vec::new())
    }

    /// As [`Cache::set_each`], with attributes. If the file is superseded meanwhile, `rest` gets the entries that
    /// were not stored, in an order in which they may be: storing the others again could undo what
    /// another process has stored since.
    pub(crate) fn set_each_or_rest<'e>(
        &self,
        entries: &[(&'e [u8], Value<'e>)],
        ttl: Ttl,
        attributes: &Attributes<'_>,
        rest: &mut Option<Vec<(&'e [u8], Value<'e>)>>,
    ) -> Result<()> {
        let mut places = Vec::new();
        let done = self.writes().set_each(entries, ttl, attributes, &mut places);
        if done.is_err() && self.cx.arena.is_superseded() {
            let mut left = Vec::new();
            reserve(&mut left, places.len())?;
            left.extend(places.into_iter().map(|place| entries[place]));
            *rest = Some(left);
        }
        done
    }

    /// Whether nothing was inserted since an iteration over an ordered cache began.
    pub fn has_newest(&self, walk: &ScanState) -> bool {
        self.reads().has_newest(walk)
    }

    /// Iterates over all entries, each key once: in the order of insertion if the cache is ordered.
    pub fn scan(&self) -> Scan<'_> {
        Scan { cache: self, state: ScanState::default() }
    }

    /// The next entry of an iteration; none at the end. See [`Scan::next`].
    pub fn scan_next<'b>(
        &self,
        walk: &mut ScanState,
        buffer: &'b mut Buffer,
    ) -> Result<Option<Item<'b>>> {
        if !self.reads().scan_on(walk, buffer)? {
            // Also closed: another thread may have given the memory back.
            self.cx.arena.check_open()?;
            self.cx.arena.check_not_lost()?;
            return Ok(None);
        }
        let key = buffer.header.key(&buffer.record);
        let full = buffer.full_entry(&self.cx.shape, false);
        let FullEntry { entry, tags, made_us, is_pinned, .. } = full;
        Ok(Some(Item { key, entry, tags, stale_us: buffer.stale_us(), made_us, is_pinned }))
    }

    /// Verifies every entry and every segment, and repairs what it can. Writes to a shard wait
    /// while it is checked.
    ///
    /// # Errors
    /// [`Error::Arena`] for locks.
    pub fn check(&self) -> Result<CheckReport> {
        self.cx.arena.refresh_length();
        let mut report = CheckReport::default();
        for index in 0..self.cx.shape.shard_count {
            let shard = lock::lock_hidden(&self.cx, index, self.cx.lock_limit)?;
            Audit(&shard).check(&mut report);
        }
        self.cx.arena.free_abandoned_segments();
        (report.segments_free, report.segments_building) = self.cx.segments_of_no_shard();
        self.cx.arena.check_not_lost()?;
        Ok(report)
    }
}

/// An iteration over all entries. Borrows the cache; a caller that must own both keeps a
/// [`ScanState`] and calls [`Cache::scan_next`].
pub struct Scan<'a> {
    cache: &'a Cache,
    state: ScanState,
}

impl Scan<'_> {
    /// The next entry; none at the end. Skips expired entries. Returns an entry that exists during
    /// the whole walk exactly once, and others at most once.
    ///
    /// # Errors
    /// [`crate::ArenaError::Closed`].
    #[allow(clippy::should_implement_trait)]
    pub fn next<'b>(&mut self, buffer: &'b mut Buffer) -> Result<Option<Item<'b>>> {
        self.cache.scan_next(&mut self.state, buffer)
    }
}

pub(crate) fn plan_for(config: &Config) -> Result<tuckbox_arena::Plan> {
    let asked_bytes = config.size_bytes;
    let (least_bytes, most_bytes) = (SIZE_BYTES_MIN, SIZE_BYTES_MAX);
    if asked_bytes < least_bytes {
        return Err(tuckbox_arena::Error::SizeTooSmall { asked_bytes, least_bytes }.into());
    }
    if asked_bytes > most_bytes {
        return Err(tuckbox_arena::Error::SizeTooLarge { asked_bytes, most_bytes }.into());
    }
    if let Some(given) = config.max_entries {
        if !(1..=MAX_ENTRIES_MAX).contains(&given) {
            return Err(Error::MaxEntriesOutOfRange { given, most: MAX_ENTRIES_MAX });
        }
    }
    let plan = plan::plan(asked_bytes, config.max_entries.unwrap_or(0));
    let eviction = if config.evicts { 0 } else { NO_EVICTION };
    let order = if config.is_ordered { ORDERED } else { 0 };
    let (features_optional, after_power_cut) =
        (config.favour as u64 | eviction | order, config.after_power_cut);
    Ok(tuckbox_arena::Plan { features_optional, after_power_cut, ..plan })
}

/// Fills the engine's part of a new file.
pub(crate) fn lay_out(arena: &Arena) -> tuckbox_arena::Result<()> {
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
        region.set(at + shard::STATE, u64::from(BUCKETS_AT_FIRST));
    }
    Ok(())
}
