//! A cache at a path, whichever file is there: a handle opens the new file by itself if its own was
//! removed or replaced. Must not know how a cache works; that is in [`crate::cache`].
//!
//! A write looks for its file once a second, and so does a read that finds nothing. The operation
//! that notices opens the file that is there now and repeats itself. A write creates a missing
//! file; a read without a file is a miss. The former cache gives back its memory at once, but its
//! addresses stay reserved until the handle is dropped, because other threads may be reading.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tuckbox_arena::clock::coarse_seconds;
use tuckbox_arena::region::{fence, Latest};
use tuckbox_arena::{create_private_folder, Error as ArenaError, Place};

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::leases::{Begin, Token};
use crate::reading::{Buffer, Evidence, Order, Proof, Proved, ScanState, WatchedEras};
use crate::value::{
    Attributes, Changes, CheckReport, Config, Entry, FullEntry, Item, Make, Pass, Stats, Terms,
    Ttl, Value,
};

/// How often an operation starts again because its file was replaced meanwhile. A write starts again
/// as long as it would wait for a lock.
const ATTEMPTS: u32 = 8;

/// A handle of a cache that follows its path. The operations are those of [`Cache`].
///
/// ```
/// use tuckbox_engine::{Buffer, Config, Handle, Place, Ttl, Value};
///
/// let (cache, _) = Handle::open(Place::Private, Config::default())?;
/// cache.set(b"user:42", Value::bytes(b"Ada"), Ttl::Never)?;
/// assert!(cache.get(b"user:42", &mut Buffer::new())?.is_some());
/// # Ok::<(), tuckbox_engine::Error>(())
/// ```
pub struct Handle {
    latest: Latest<Cache>,
    place: Place,
    config: Latest<Config>,
    closed: AtomicBool,
    /// How often another file was opened.
    reopened: AtomicU64,
    /// When a read last found no file.
    missing_s: AtomicU64,
}

/// The position of an iteration, in the file in which it began.
#[derive(Debug, Default)]
pub struct Walk {
    state: ScanState,
    of: Option<usize>,
}

impl Walk {
    /// Begins an iteration; an ordered cache is walked through in this order.
    pub fn new(order: Order) -> Walk {
        Walk { state: ScanState::new(order), of: None }
    }
}

/// Whether another file may be at the path: the handle's own was lost or resized, or another thread
/// that follows has closed it.
fn is_lost(error: &Error) -> bool {
    let Error::Arena(error) = error else { return false };
    matches!(error, ArenaError::Lost { .. } | ArenaError::Superseded { .. } | ArenaError::Closed)
}

impl Handle {
    /// Opens the cache at `place`, or creates it as `config` says: see [`Cache::open`]. Then makes
    /// `config.changes`, unless another live handle asked for other settings. A failure to make them
    /// leaves the file as it was; it is returned with the handle.
    ///
    /// # Errors
    /// As [`Cache::open`].
    pub fn open(place: Place, config: Config) -> Result<(Handle, Result<()>)> {
        let cache = Cache::open(&place, &config)?;
        let changes = config.changes;
        let may_change = !config.rights.read_only && matches!(place, Place::Path(_));
        let has_rival = may_change && changes != Changes::default() && cache.has_rival(changes);
        let is_as_asked = changes.of(cache.settings()) == cache.settings();
        let handle = Handle {
            latest: Latest::new(cache),
            place,
            config: Latest::new(config),
            closed: AtomicBool::new(false),
            reopened: AtomicU64::new(0),
            missing_s: AtomicU64::new(u64::MAX),
        };
        let changed = match () {
            () if is_as_asked || !may_change => Ok(()),
            () if has_rival => Err(Error::Rival),
            () => handle.resize(changes),
        };
        Ok((handle, changed))
    }

    /// Copies the live entries into a new file with other settings, which takes the name of the
    /// present one. Does nothing if the file has these settings. Writes wait meanwhile; a write that
    /// has returned is in the new file. Other handles follow.
    ///
    /// # Errors
    /// [`Error::NotResizable`], those of [`Cache::open`] for a new file, and of [`Cache::set`] for
    /// locks. The file is unchanged then.
    pub fn resize(&self, changes: Changes) -> Result<()> {
        let Place::Path(path) = &self.place else { return Err(Error::NotResizable) };
        if self.config.get().rights.read_only {
            return Err(ArenaError::ReadOnly { path: path.clone() }.into());
        }
        self.write(|cache| self.resize_from(cache, changes))
    }

    /// Copies the live entries into a new file at another path, which is a cache with the same
    /// settings and id. They are those of one moment: writes wait meanwhile.
    ///
    /// # Errors
    /// [`ArenaError::Exists`], those of [`Cache::open`] for a new file, and of [`Cache::set`] for
    /// locks. There is no new file then.
    pub fn copy_to(&self, path: &Path) -> Result<()> {
        self.write(|cache| {
            let settings = cache.settings();
            let config = Config {
                size_bytes: settings.size_bytes,
                max_entries: Some(settings.max_entries).filter(|limit| *limit > 0),
                favour: settings.favour,
                after_power_cut: settings.after_power_cut,
                evicts: settings.evicts,
                is_ordered: settings.is_ordered,
                changes: Changes::default(),
                ..self.config.get().clone()
            };
            cache.copied_to(path, &config)
        })
    }

    fn resize_from(&self, cache: &Cache, changes: Changes) -> Result<()> {
        let (settings, known) = (cache.settings(), self.config.get());
        let wanted = changes.of(settings);
        let config = Config {
            size_bytes: wanted.size_bytes,
            max_entries: Some(wanted.max_entries).filter(|limit| *limit > 0),
            favour: wanted.favour,
            after_power_cut: settings.after_power_cut,
            evicts: settings.evicts,
            is_ordered: settings.is_ordered,
            changes: Changes {
                size_bytes: changes.size_bytes.or(known.changes.size_bytes),
                max_entries: changes.max_entries.or(known.changes.max_entries),
                favour: changes.favour.or(known.changes.favour),
            },
            ..known.clone()
        };
        if wanted != settings {
            let new = cache.resized(&config)?;
            // Another thread may have followed already.
            self.switch(cache, new);
            cache.retire();
        }
        self.config.replace(known, config);
        Ok(())
    }

    /// The cache that this handle used last.
    pub fn latest(&self) -> &Cache {
        self.latest.get()
    }

    /// Closes this handle: see [`Cache::close`].
    pub fn close(&self) {
        // The race: another thread is opening a new file. It either sees that the handle is closed,
        // and closes the new cache, or has replaced the cache before it is loaded here: each thread
        // writes first, has a fence, and then reads what the other one writes.
        self.closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.latest.get().close();
    }

    /// Whether [`Handle::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// The cache on which to repeat an operation that failed on `known`; none if there is no file
    /// and it need not be created.
    ///
    /// # Errors
    /// `error`, unless it says that the file was lost; [`Error::NotReopened`].
    #[cold]
    #[inline(never)]
    fn follow(&self, known: &Cache, error: Error, creates: bool) -> Result<Option<&Cache>> {
        let Place::Path(path) = &self.place else { return Err(error) };
        if !is_lost(&error) {
            return Err(error);
        }
        if self.is_closed() {
            return Err(ArenaError::Closed.into());
        }
        let latest = self.latest.get();
        if !std::ptr::eq(latest, known) {
            return Ok(Some(latest));
        }
        if creates && self.config.get().rights.read_only {
            return Err(ArenaError::ReadOnly { path: path.clone() }.into());
        }
        let now_s = coarse_seconds();
        if !creates && self.missing_s.load(Ordering::Relaxed) == now_s {
            return Ok(None);
        }
        let mut opened = None;
        self.config.get().waiter.finish(&mut || opened = Some(self.open_again(known, creates)));
        match opened.expect("the waiter runs the work") {
            Ok(cache) => Ok(Some(cache)),
            Err(Error::Arena(ArenaError::Missing { .. })) => {
                self.missing_s.store(now_s, Ordering::Relaxed);
                Ok(None)
            }
            Err(error @ Error::Arena(ArenaError::Interrupted)) => Err(error),
            Err(error) => Err(Error::NotReopened { path: path.clone(), reason: Box::new(error) }),
        }
    }

    /// Opens the file that is at the path now. Several threads may do so at once; one of their
    /// caches is kept.
    fn open_again(&self, known: &Cache, creates: bool) -> Result<&Cache> {
        known.retire();
        let config = Config { must_exist: !creates, ..self.config.get().clone() };
        if let (true, true, Place::Path(path)) = (creates, config.creates_folder, &self.place) {
            // Safe to ignore: without the folder the file cannot be created, which says why.
            let _ = path.parent().map(create_private_folder);
        }
        let (cache, is_new) = match Cache::open(&self.place, &config) {
            Ok(cache) => {
                // Only tells what was asked for: otherwise two programs would resize in turn.
                if !config.rights.read_only && config.changes != Changes::default() {
                    cache.has_rival(config.changes);
                }
                self.switch(known, cache)
            }
            // The others may have taken the last process slots.
            Err(_) if !std::ptr::eq(self.latest.get(), known) => (self.latest.get(), false),
            Err(error) => return Err(error),
        };
        self.reopened.fetch_add(u64::from(is_new), Ordering::Relaxed);
        Ok(cache)
    }

    /// Replaces the cache, unless another thread was faster. Returns the one that stays, and whether it
    /// is the new one. See [`Handle::close`].
    fn switch(&self, known: &Cache, new: Cache) -> (&Cache, bool) {
        let (cache, is_new) = self.latest.replace(known, new);
        fence(Ordering::SeqCst);
        if self.is_closed() {
            cache.close();
        }
        (cache, is_new)
    }

    /// Runs an operation that creates a missing file.
    #[inline(always)]
    fn write<'a, T>(&'a self, mut operation: impl FnMut(&'a Cache) -> Result<T>) -> Result<T> {
        let cache = self.latest.get();
        match operation(cache) {
            Err(error) => self.write_again(cache, error, operation),
            done => done,
        }
    }

    #[cold]
    fn write_again<'a, T>(
        &'a self,
        mut cache: &'a Cache,
        mut error: Error,
        mut operation: impl FnMut(&'a Cache) -> Result<T>,
    ) -> Result<T> {
        let (began, limit) = (Instant::now(), self.config.get().lock_limit);
        for attempt in 1.. {
            cache = self.follow(cache, error, true)?.expect("a write creates a missing file");
            match operation(cache) {
                // Resizes that follow each other closely keep a write from getting a lock.
                Err(again) if is_lost(&again) => error = again,
                done => return done,
            }
            if attempt >= ATTEMPTS && began.elapsed() > limit {
                break;
            }
        }
        Err(ArenaError::LockTimeout { waited: began.elapsed() }.into())
    }

    /// Repeats an operation that needs no file and failed on `cache`; none if there is no file, or
    /// another one each time.
    #[cold]
    fn read_again<'a, T>(
        &'a self,
        mut cache: &'a Cache,
        mut error: Error,
        mut operation: impl FnMut(&'a Cache) -> Result<T>,
    ) -> Result<Option<T>> {
        for _ in 0..ATTEMPTS {
            let Some(next) = self.follow(cache, error, false)? else { return Ok(None) };
            cache = next;
            match operation(cache) {
                Err(again) if is_lost(&again) => error = again,
                done => return done.map(Some),
            }
        }
        Ok(None)
    }

    /// The cache at the path, which is looked for at most once a second; none if there is no file.
    ///
    /// # Errors
    /// [`Error::NotReopened`], [`crate::ArenaError::Closed`].
    pub fn current(&self) -> Result<Option<&Cache>> {
        let cache = self.latest.get();
        match cache.look_for_file() {
            Ok(()) => Ok(Some(cache)),
            Err(error) => self.read_again(cache, error, Ok),
        }
    }

    /// See [`Cache::get`].
    ///
    /// # Errors
    /// As [`Cache::get`], [`Error::NotReopened`].
    #[inline(always)]
    pub fn get<'b>(&self, key: &[u8], buffer: &'b mut Buffer) -> Result<Option<Entry<'b>>> {
        let cache = self.latest.get();
        // Only the cache is chosen here: an entry from two places would go through memory.
        let cache = match cache.find(key, buffer) {
            Ok(true) => cache,
            Ok(false) => return Ok(None),
            Err(error) => match self.find_again(cache, error, key, buffer)? {
                Some(cache) => cache,
                None => return Ok(None),
            },
        };
        Ok(Some(cache.entry(buffer)))
    }

    /// The cache that has copied the entry into the buffer; none if there is no entry.
    #[cold]
    #[inline(never)]
    fn find_again<'a>(
        &'a self,
        cache: &'a Cache,
        error: Error,
        key: &[u8],
        buffer: &mut Buffer,
    ) -> Result<Option<&'a Cache>> {
        let found = self.read_again(cache, error, |cache| Ok((cache, cache.find(key, buffer)?)))?;
        Ok(found.and_then(|(cache, is_found)| is_found.then_some(cache)))
    }

    /// See [`Cache::get_proved`].
    ///
    /// # Errors
    /// As [`Cache::get_proved`], [`Error::NotReopened`].
    pub fn get_proved<'b>(
        &self,
        key: &[u8],
        eras: Option<&WatchedEras>,
        buffer: &'b mut Buffer,
    ) -> Result<(Option<Entry<'b>>, Option<Proved>)> {
        let cache = self.latest.get();
        let (cache, (is_found, proof)) = match cache.find_proved(key, eras, buffer) {
            Ok(found) => (cache, found),
            Err(error) => match self.find_again(cache, error, key, buffer)? {
                Some(cache) => (cache, (true, None)),
                None => return Ok((None, None)),
            },
        };
        Ok((is_found.then(|| cache.entry(buffer)), proof))
    }

    /// See [`Cache::is_current`].
    #[inline(always)]
    pub fn is_current(&self, proof: &mut Proof, evidence: &Evidence) -> bool {
        self.latest.get().is_current(proof, evidence)
    }

    /// See [`Cache::watch_eras`]. Does not look for another file.
    ///
    /// # Errors
    /// As [`Cache::watch_eras`].
    pub fn watch_eras(&self, namespaces: &[Vec<u8>]) -> Result<WatchedEras> {
        self.latest.get().watch_eras(namespaces)
    }

    /// See [`Cache::contains`].
    pub fn contains(&self, key: &[u8], buffer: &mut Buffer) -> Result<bool> {
        let cache = self.latest.get();
        match cache.contains(key, buffer) {
            Err(error) => {
                let again = |cache: &Cache| cache.contains(key, buffer);
                Ok(self.read_again(cache, error, again)?.unwrap_or(false))
            }
            found => found,
        }
    }

    /// See [`Cache::get_each`]. If the file is replaced meanwhile, the remaining keys are read from
    /// the new one.
    ///
    /// # Errors
    /// As [`Cache::get_each`], [`Error::NotReopened`].
    pub fn get_each<K: AsRef<[u8]>, E: From<Error>>(
        &self,
        keys: &[K],
        buffer: &mut Buffer,
        mut answer: impl FnMut(usize, Entry<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (mut cache, mut next) = (self.latest.get(), 0);
        for _ in 0..ATTEMPTS {
            let Some(error) = cache.get_each_from(&mut next, keys, buffer, &mut answer)? else {
                return Ok(());
            };
            let Some(newer) = self.follow(cache, error, false)? else { return Ok(()) };
            cache = newer;
        }
        Ok(())
    }

    /// See [`Cache::set`].
    #[inline(always)]
    pub fn set(&self, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<()> {
        let cache = self.latest.get();
        match cache.set(key, value, ttl) {
            Err(error) => self.set_again(cache, error, key, value, ttl),
            stored => stored,
        }
    }

    /// Out of the way of [`Handle::set`], which would otherwise keep its arguments in memory.
    #[cold]
    #[inline(never)]
    fn set_again<'a>(
        &'a self,
        cache: &'a Cache,
        error: Error,
        key: &[u8],
        value: Value<'_>,
        ttl: Ttl,
    ) -> Result<()> {
        self.write_again(cache, error, |cache| cache.set(key, value, ttl))
    }

    /// See [`Cache::get_full`].
    pub fn get_full<'b>(
        &self,
        key: &[u8],
        accepts_stale: bool,
        buffer: &'b mut Buffer,
    ) -> Result<Option<FullEntry<'b>>> {
        let cache = self.latest.get();
        let mut find = |cache| Ok((cache, Cache::find_full(cache, key, accepts_stale, buffer)?));
        let (cache, found) = match find(cache) {
            Err(error) => match self.read_again(cache, error, find)? {
                Some(found) => found,
                None => return Ok(None),
            },
            found => found?,
        };
        Ok(found.map(|is_stale| cache.full_entry(is_stale, buffer)))
    }

    /// See [`Cache::stamp`].
    pub fn stamp(&self) -> u64 {
        self.of_latest(Cache::stamp)
    }

    /// See [`Cache::evict`].
    pub fn evict(&self, tag: &str, soft: bool) -> Result<()> {
        self.write(|cache| cache.evict(tag, soft))
    }

    /// See [`Cache::era`]; 1 if there is no file.
    #[inline]
    pub fn era(&self, namespace: &[u8]) -> Result<u64> {
        let cache = self.latest.get();
        match cache.era(namespace) {
            Err(error) => {
                Ok(self.read_again(cache, error, |cache| cache.era(namespace))?.unwrap_or(1))
            }
            era => era,
        }
    }

    /// See [`Cache::advance_era`].
    pub fn advance_era(&self, namespace: &[u8]) -> Result<u64> {
        self.write(|cache| cache.advance_era(namespace))
    }

    /// See [`Cache::store`].
    pub fn store(&self, key: &[u8], value: Value<'_>, terms: &Terms<'_>) -> Result<bool> {
        self.write(|cache| cache.store(key, value, terms))
    }

    /// See [`Cache::delete_version`].
    pub fn delete_version(&self, key: &[u8], version: u64) -> Result<bool> {
        self.write(|cache| cache.delete_version(key, version))
    }

    /// See [`Cache::gate`].
    pub fn gate(&self) -> u64 {
        self.latest.get().gate()
    }

    /// See [`Cache::close_gate`].
    pub fn close_gate(&self) -> Result<u64> {
        self.write(Cache::close_gate)
    }

    /// See [`Cache::leave_gate`].
    pub fn leave_gate(&self, opens: bool) {
        self.latest.get().leave_gate(opens);
    }

    /// See [`Cache::next_number`].
    pub fn next_number(&self) -> u64 {
        self.latest.get().next_number()
    }

    /// See [`Cache::last_number`].
    pub fn last_number(&self) -> u64 {
        self.latest.get().last_number()
    }

    /// See [`Cache::weigh`].
    pub fn weigh(&self, delta: i64) -> i64 {
        self.latest.get().weigh(delta)
    }

    /// See [`Cache::is_weight_unsure`].
    pub fn is_weight_unsure(&self) -> bool {
        self.latest.get().is_weight_unsure()
    }

    /// See [`Cache::set_weight`].
    pub fn set_weight(&self, weight: i64) {
        self.latest.get().set_weight(weight);
    }

    /// See [`Cache::store_passing`].
    pub fn store_passing(&self, key: &[u8], value: Value<'_>, pass: &Pass) -> Result<Option<i64>> {
        self.write(|cache| cache.store_passing(key, value, pass))
    }

    /// See [`Cache::replace_passing`].
    pub fn replace_passing(
        &self,
        key: &[u8],
        gate: u64,
        buffer: &mut Buffer,
        bytes: &mut Vec<u8>,
        make: &mut Make<'_>,
    ) -> Result<Option<i64>> {
        self.write(|cache| cache.replace_passing(key, gate, buffer, bytes, make))
    }

    /// See [`Cache::delete_passing`].
    pub fn delete_passing(&self, key: &[u8], pass: &Pass) -> Result<Option<i64>> {
        self.write(|cache| cache.delete_passing(key, pass))
    }

    /// See [`Cache::get_and_touch`].
    pub fn get_and_touch<'b>(
        &self,
        key: &[u8],
        ttl: Ttl,
        buffer: &'b mut Buffer,
    ) -> Result<Option<Entry<'b>>> {
        let (cache, found) =
            self.write(|cache| Ok((cache, cache.find_and_touch(key, ttl, buffer)?)))?;
        Ok(found.then(|| cache.entry(buffer)))
    }

    /// See [`Cache::add`].
    pub fn add(&self, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<bool> {
        self.write(|cache| cache.add(key, value, ttl))
    }

    /// See [`Cache::replace`].
    pub fn replace(&self, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<bool> {
        self.write(|cache| cache.replace(key, value, ttl))
    }

    /// See [`Cache::compare_and_set`].
    pub fn compare_and_set(
        &self,
        key: &[u8],
        value: Value<'_>,
        ttl: Ttl,
        version: u64,
    ) -> Result<bool> {
        self.write(|cache| cache.compare_and_set(key, value, ttl, version))
    }

    /// See [`Cache::delete`].
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.write(|cache| cache.delete(key))
    }

    /// See [`Cache::pop`].
    pub fn pop<'b>(&self, key: &[u8], buffer: &'b mut Buffer) -> Result<Option<Entry<'b>>> {
        let (cache, found) = self.write(|cache| Ok((cache, cache.take(key, buffer)?)))?;
        Ok(found.then(|| cache.entry(buffer)))
    }

    /// See [`Cache::touch`].
    pub fn touch(&self, key: &[u8], ttl: Ttl) -> Result<bool> {
        self.write(|cache| cache.touch(key, ttl))
    }

    /// See [`Cache::incr`].
    pub fn incr(
        &self,
        key: &[u8],
        delta: i64,
        initial: Option<i64>,
        ttl: Ttl,
    ) -> Result<Option<i64>> {
        self.write(|cache| cache.incr(key, delta, initial, ttl))
    }

    /// See [`Cache::begin`].
    pub fn begin<'b>(&self, key: &[u8], anyway: bool, buffer: &'b mut Buffer) -> Result<Begin<'b>> {
        let (cache, (begun, is_stale)) =
            self.write(|cache| Ok((cache, cache.begin_in(key, anyway, buffer)?)))?;
        Ok(cache.as_begin(begun, is_stale, buffer))
    }

    /// See [`Cache::finish`]. False if the file was removed, replaced or resized since
    /// [`Handle::begin`]: what happened to the key there is unknown.
    pub fn finish(
        &self,
        token: &Token,
        key: &[u8],
        value: Value<'_>,
        ttl: Ttl,
        attributes: &Attributes<'_>,
    ) -> Result<bool> {
        match self.latest.get().finish(token, key, value, ttl, attributes) {
            Err(error) if is_lost(&error) && !self.is_closed() => Ok(false),
            finished => finished,
        }
    }

    /// See [`Cache::abandon`].
    pub fn abandon(&self, token: &Token) {
        self.latest.get().abandon(token);
    }

    /// See [`Cache::wait_made`]. True also if the file was removed, replaced or resized meanwhile.
    pub fn wait_made(&self, key: &[u8], limit: Duration) -> Result<bool> {
        match self.latest.get().wait_made(key, limit) {
            Err(error) if is_lost(&error) && !self.is_closed() => Ok(true),
            waited => waited,
        }
    }

    /// See [`Cache::clear`].
    pub fn clear(&self) -> Result<u64> {
        self.write(Cache::clear)
    }

    /// See [`Cache::expire`].
    pub fn expire(&self) -> Result<u64> {
        self.write(Cache::expire)
    }

    /// See [`Cache::set_each`].
    pub fn set_each(&self, entries: &[(&[u8], Value<'_>)], ttl: Ttl) -> Result<()> {
        self.set_each_with(entries, ttl, &Attributes::default())
    }

    /// As [`Handle::set_each`], with attributes.
    ///
    /// # Errors
    /// As [`Cache::set_each`], [`Error::TagLength`], [`Error::TooManyTags`].
    pub fn set_each_with(
        &self,
        entries: &[(&[u8], Value<'_>)],
        ttl: Ttl,
        attributes: &Attributes<'_>,
    ) -> Result<()> {
        let mut rest = None;
        self.write(|cache| {
            let (left, rest) = (rest.take(), &mut rest);
            cache.set_each_or_rest(left.as_deref().unwrap_or(entries), ttl, attributes, rest)
        })
    }

    /// See [`Cache::check`].
    pub fn check(&self) -> Result<CheckReport> {
        self.write(Cache::check)
    }

    /// See [`Cache::len`]; 0 if there is no file.
    pub fn len(&self) -> u64 {
        match self.current() {
            Ok(None) => 0,
            _ => self.of_latest(Cache::len),
        }
    }

    /// What the latest cache tells without a lock. Asks again if another thread has followed
    /// meanwhile, because then the memory may have been given back.
    fn of_latest<T>(&self, ask: impl Fn(&Cache) -> T) -> T {
        loop {
            let cache = self.latest.get();
            let answer = ask(cache);
            fence(Ordering::SeqCst);
            if !cache.is_closed() || self.is_closed() || std::ptr::eq(cache, self.latest.get()) {
                return answer;
            }
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// See [`Cache::stats`].
    pub fn stats(&self) -> Stats {
        // Safe to ignore: without a file these are the statistics of an empty cache.
        let _ = self.current();
        Stats { reopened: self.reopened.load(Ordering::Relaxed), ..self.of_latest(Cache::stats) }
    }

    /// See [`Cache::has_newest`]. False if the iteration began in another file.
    pub fn has_newest(&self, walk: &Walk) -> bool {
        let cache = self.latest.get();
        let is_same = walk.of.is_none_or(|of| of == std::ptr::from_ref(cache).addr());
        is_same && !cache.is_closed() && cache.has_newest(&walk.state)
    }

    /// See [`Cache::scan_next`].
    ///
    /// # Errors
    /// As [`Cache::scan_next`], [`Error::ScanLost`].
    pub fn scan_next<'b>(
        &self,
        walk: &mut Walk,
        buffer: &'b mut Buffer,
    ) -> Result<Option<Item<'b>>> {
        let cache = match walk.of {
            Some(_) => self.latest.get(),
            None => match self.current()? {
                Some(cache) => cache,
                None => return Ok(None),
            },
        };
        let lost = || Error::ScanLost { path: cache.path().into() };
        // Former caches live as long as the handle, so no other one gets this address.
        let address = std::ptr::from_ref(cache).addr();
        if *walk.of.get_or_insert(address) != address {
            return Err(lost());
        }
        cache.scan_next(&mut walk.state, buffer).map_err(|error| match error {
            error if is_lost(&error) && !self.is_closed() => lost(),
            error => error,
        })
    }
}
