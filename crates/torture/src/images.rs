//! Small caches in prepared states, operations on them, and the judgement of the image that a death
//! during an operation leaves. This module does not know how the images are made.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tuckbox_arena::layout::{process, segment};
use tuckbox_arena::Geometry;
use tuckbox_engine::format::layout::shard;
use tuckbox_engine::format::plan::plan;
use tuckbox_engine::{
    ArenaError, Attributes, Begin, Buffer, Cache, CheckReport, Clock, Config, Error, Place, Terms,
    Token, Ttl, Value,
};

/// The time at which caches are filled, and the time of the operations.
const FILLED_US: u64 = 1_700_000_000_000_000;
const NOW_US: u64 = FILLED_US + 60_000_000;
/// A time to live that ends between these two times.
const SHORT: Ttl = Ttl::Us(30_000_000);
/// The key that an operation changes.
const OWN: &[u8] = b"own";
/// A second key, for operations on two keys.
const SECOND: &[u8] = b"second key";
/// Stands for a key of a namespace, which also contains the namespace's era.
const IN_NAMESPACE: &[u8] = b"in the namespace";
const NAMESPACE: &[u8] = b"blog";
const TAG: &str = "users";
/// How long to retry a lock whose dead owner was not noticed within the short limit. On a busy
/// machine, a child of this process may not have closed its inherited descriptors yet.
const PATIENCE: Duration = Duration::from_secs(5);

/// An operation on a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Operation {
    /// Reads an entry, and a missing one.
    Get,
    /// Stores a value under a new key.
    SetNew,
    /// Replaces a value by one of the same size, in place.
    SetSame,
    /// Replaces the values of two keys at once, in place.
    SetMany,
    /// Replaces a value by one of another size.
    SetOther,
    /// Stores a value that crosses the end of a segment, or needs its own segment.
    SetCrossing,
    /// Replaces a small value by one with bodies.
    SetLarge,
    /// Replaces a value with bodies by another.
    SetLargeOver,
    /// Stores an entry unless there is one.
    Add,
    /// Stores an entry if there is one.
    Replace,
    /// Stores an entry if the version is unchanged.
    Cas,
    /// Removes an entry.
    Delete,
    /// Removes an entry with bodies.
    DeleteLarge,
    /// Removes an entry and returns it.
    Pop,
    /// Gives a time to live to an entry without one, which makes its record longer.
    Touch,
    /// Gives an entry another time to live.
    TouchAgain,
    /// Adds to a number.
    Incr,
    /// Creates a number.
    IncrNew,
    /// Removes everything.
    Clear,
    /// Removes expired entries.
    Expire,
    /// Replaces an expired entry, and so collects it.
    SetCollecting,
    /// Replaces a tagged value by one of the same size, in place.
    SetTagged,
    /// Makes a value with a lease.
    Make,
    /// Evicts a tag for the first time.
    Evict,
    /// Makes the entries of a tag stale that was evicted before.
    EvictSoft,
    /// Clears a namespace.
    AdvanceEra,
}

/// The state of a cache when the operation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum State {
    /// The cache holds what the operation needs and nothing else.
    Empty,
    /// About half of the segments are in use.
    Half,
    /// The operation evicts, if it stores.
    Full,
    /// An operation that stores a new key splits the index and takes an index segment.
    Growing,
}

/// The part of a version that is compared. The rest depends on the entry's content, and for large
/// values on its place.
const VERSION_COUNT: u64 = (1 << 28) - 1;

/// An entry as it was stored.
#[derive(Debug, Clone, Eq)]
pub struct Stored {
    value: Vec<u8>,
    number: Option<i64>,
    expiry_us: Option<u64>,
    is_stale: bool,
    version: u64,
}

impl PartialEq for Stored {
    fn eq(&self, other: &Stored) -> bool {
        let is_same_version = (self.version ^ other.version) & VERSION_COUNT == 0;
        is_same_version
            && (&self.value, self.number, self.expiry_us, self.is_stale)
                == (&other.value, other.number, other.expiry_us, other.is_stale)
    }
}

/// All entries that reads of a cache return.
pub type Contents = BTreeMap<Vec<u8>, Stored>;

fn tagged(tags: &'static [&'static str]) -> Terms<'static> {
    let stale = Some(Ttl::Us(3_600_000_000));
    let attributes = Attributes { tags, stale, ..Attributes::default() };
    Terms { attributes, ..Terms::plain(Ttl::Never) }
}

/// The key in the file: one of the namespace has its present era.
fn key_now(cache: &Cache, key: &[u8]) -> Result<Vec<u8>, Error> {
    Ok(match key {
        IN_NAMESPACE => [key, &cache.era(NAMESPACE)?.to_le_bytes()[..]].concat(),
        key => key.to_vec(),
    })
}

fn bytes_for(key: &[u8], len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    let stamp = tuckbox_testkit::stamp::Stamp { writer: 1, sequence: len as u64 };
    tuckbox_testkit::stamp::make(key, stamp, len.max(32), &mut value);
    value
}

impl Operation {
    /// The value that the operation stores, if it stores one.
    pub fn inputs(self, cache: &Cache) -> Vec<u8> {
        let segment_bytes = cache.stats().segment_bytes as usize;
        match self {
            Operation::SetNew | Operation::SetCollecting => bytes_for(OWN, 120),
            Operation::SetSame | Operation::SetMany | Operation::SetTagged => vec![7; 120],
            Operation::Make => bytes_for(OWN, 140),
            Operation::SetOther => bytes_for(OWN, 200),
            Operation::SetCrossing => bytes_for(OWN, segment_bytes * 3 / 4),
            Operation::SetLarge | Operation::SetLargeOver => bytes_for(OWN, segment_bytes + 300),
            Operation::Add | Operation::Replace => bytes_for(OWN, 80),
            Operation::Cas => bytes_for(OWN, 160),
            _ => Vec::new(),
        }
    }

    /// Does the operation, with the value of [`Operation::inputs`] and the version of the entry.
    /// The case expects no error.
    ///
    /// # Errors
    /// What the engine answers.
    pub fn perform(self, cache: &Cache, value: &[u8], version: u64) -> Result<(), Error> {
        let value = Value::bytes(value);
        let mut buffer = Buffer::new();
        match self {
            Operation::Get => {
                for key in [OWN, SECOND] {
                    cache.get(key, &mut buffer)?;
                }
                cache.get(b"nobody's", &mut buffer).map(|_| ())
            }
            Operation::SetNew
            | Operation::SetSame
            | Operation::SetOther
            | Operation::SetCrossing
            | Operation::SetLarge
            | Operation::SetLargeOver
            | Operation::SetCollecting => cache.set(OWN, value, Ttl::Never),
            Operation::SetMany => cache.set_each(&[(OWN, value), (SECOND, value)], Ttl::Never),
            Operation::Add => cache.add(OWN, value, Ttl::Never).map(|_| ()),
            Operation::Replace => cache.replace(OWN, value, Ttl::Never).map(|_| ()),
            Operation::Cas => cache.compare_and_set(OWN, value, Ttl::Never, version).map(|_| ()),
            Operation::Delete | Operation::DeleteLarge => cache.delete(OWN).map(|_| ()),
            Operation::Pop => cache.pop(OWN, &mut buffer).map(|_| ()),
            Operation::Touch | Operation::TouchAgain => {
                cache.touch(OWN, Ttl::Us(3_600_000_000)).map(|_| ())
            }
            Operation::Incr => cache.incr(OWN, 5, None, Ttl::Never).map(|_| ()),
            Operation::IncrNew => cache.incr(OWN, 5, Some(10), Ttl::Never).map(|_| ()),
            Operation::Clear => cache.clear().map(|_| ()),
            Operation::Expire => cache.expire().map(|_| ()),
            Operation::SetTagged => cache.store(OWN, value, &tagged(&[TAG])).map(|_| ()),
            Operation::Make => {
                let Begin::Lease(token, _) = cache.begin(OWN, true, &mut buffer)? else {
                    panic!("nobody else makes it")
                };
                let attributes = tagged(&[TAG]).attributes;
                let stored = cache.finish(&token, OWN, value, Ttl::Never, &attributes)?;
                assert!(stored, "nothing happened to the key");
                Ok(())
            }
            Operation::Evict => cache.evict(TAG, false),
            Operation::EvictSoft => cache.evict(TAG, true),
            Operation::AdvanceEra => cache.advance_era(NAMESPACE).map(|_| ()),
        }
    }

    /// Whether the operation stores an entry for which others may have to be evicted.
    pub fn stores(self) -> bool {
        !matches!(
            self,
            Operation::Get
                | Operation::SetSame
                | Operation::SetMany
                | Operation::Delete
                | Operation::DeleteLarge
                | Operation::Pop
                | Operation::TouchAgain
                | Operation::Incr
                | Operation::Clear
                | Operation::Expire
                | Operation::SetTagged
                | Operation::Evict
                | Operation::EvictSoft
                | Operation::AdvanceEra
        )
    }

    /// Whether the operation does little, and copies no long value.
    pub fn is_short(self) -> bool {
        matches!(self, Operation::SetNew | Operation::SetSame | Operation::Incr | Operation::Delete)
    }

    /// Whether a death may lose both the old and the new value: only a rewrite in place may.
    fn may_lose(self) -> bool {
        matches!(self, Operation::SetSame | Operation::SetMany | Operation::SetTagged)
    }

    /// Stores what the operation finds under its key.
    fn prepare(self, cache: &Cache) -> Result<(), Error> {
        let set = |len, ttl| cache.set(OWN, Value::bytes(&bytes_for(OWN, len)), ttl);
        let segment_bytes = cache.stats().segment_bytes as usize;
        match self {
            Operation::SetNew | Operation::Add | Operation::IncrNew => Ok(()),
            Operation::SetLargeOver | Operation::DeleteLarge => {
                set(segment_bytes + 100, Ttl::Never)
            }
            Operation::TouchAgain => set(120, Ttl::Us(7_200_000_000)),
            Operation::Incr => cache.set(OWN, Value::Int(37), Ttl::Never),
            Operation::SetCollecting => set(120, SHORT),
            Operation::Get => {
                cache.store(SECOND, Value::bytes(&bytes_for(SECOND, 120)), &tagged(&["other"]))?;
                set(120, Ttl::Never)
            }
            Operation::SetTagged | Operation::Evict | Operation::EvictSoft => {
                if self == Operation::EvictSoft {
                    cache.evict(TAG, false)?;
                }
                cache.store(SECOND, Value::bytes(&bytes_for(SECOND, 120)), &tagged(&["other"]))?;
                let terms =
                    tagged(if self == Operation::SetTagged { &[TAG] } else { &["other", TAG] });
                cache.store(OWN, Value::bytes(&bytes_for(OWN, 120)), &terms).map(|_| ())
            }
            Operation::AdvanceEra => {
                let key = key_now(cache, IN_NAMESPACE)?;
                cache.set(&key, Value::bytes(&bytes_for(IN_NAMESPACE, 120)), Ttl::Never)
            }
            Operation::SetMany => {
                cache.set(SECOND, Value::bytes(&bytes_for(SECOND, 120)), Ttl::Never)?;
                set(120, Ttl::Never)
            }
            _ => set(120, Ttl::Never),
        }
    }
}

/// The configuration of a small cache. Its clock stands still, and a short time limit makes it
/// notice dead lock owners soon.
pub fn config(size_bytes: u64, now_us: u64) -> Config {
    let clock = Clock::Manual(Arc::new(AtomicU64::new(now_us)));
    Config { size_bytes, clock, lock_limit: Duration::from_micros(300), ..Config::default() }
}

/// Opens a cache with the clock at the time of the operations.
///
/// # Errors
/// As [`Cache::open`].
pub fn open(path: &Path, size_bytes: u64) -> Result<Cache, Error> {
    Cache::open(&Place::Path(path.into()), &config(size_bytes, NOW_US))
}

/// Repeats work while it fails because a lock's owner was not found dead within the short time
/// limit.
pub fn patiently<R>(mut work: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
    let began = Instant::now();
    loop {
        match work() {
            Err(Error::Arena(ArenaError::LockTimeout { .. })) if began.elapsed() < PATIENCE => {}
            result => return result,
        }
    }
}

fn look(cache: &Cache, key: &[u8]) -> Result<Option<Stored>, Error> {
    let (key, mut buffer) = (key_now(cache, key)?, Buffer::new());
    Ok(cache.get_full(&key, true, &mut buffer)?.map(|full| {
        let (entry, is_stale) = (full.entry, full.is_stale);
        let (value, number) = match entry.value {
            Value::Bytes { bytes, .. } => (bytes.to_vec(), None),
            Value::Int(number) => (Vec::new(), Some(number)),
        };
        Stored { value, number, expiry_us: entry.expiry_us, is_stale, version: entry.version }
    }))
}

/// A cache in a state, and its contents before and after the operation.
pub struct Case {
    /// The operation.
    pub operation: Operation,
    /// The state.
    pub state: State,
    /// The cache's size.
    pub size_bytes: u64,
    /// The length of the file when it cannot grow further.
    pub file_bytes_max: u64,
    /// The version of the entry that the operation changes, 0 without one.
    pub version: u64,
    /// All keys that were ever stored, including evicted ones.
    keys: Vec<Vec<u8>>,
    before: Contents,
    after: Contents,
    evictions_before: u64,
    geometry: Geometry,
    /// Keeps the first process slot in use, as a process that lives on does.
    _other: Cache,
}

impl Case {
    /// Creates the cache file at `path`. `copy` is a scratch file.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub fn prepare(
        operation: Operation,
        state: State,
        size_bytes: u64,
        path: &Path,
        copy: &Copy,
    ) -> Result<Case, String> {
        let plan = plan(size_bytes, 0);
        let geometry = Geometry::new(plan).map_err(|error| error.to_string())?;
        let place = Place::Path(path.into());
        let cache = Cache::open(&place, &config(size_bytes, FILLED_US)).map_err(in_words)?;
        let mut keys = [OWN, SECOND, IN_NAMESPACE].map(<[u8]>::to_vec).to_vec();
        operation.prepare(&cache).map_err(in_words)?;
        for number in 0..20_000 {
            if is_in_state(state, operation, &cache, &geometry, path, copy, size_bytes)? {
                break;
            }
            fill(&cache, state, number, &mut keys).map_err(in_words)?;
            // Stores the key again, in case `fill` evicted it.
            operation.prepare(&cache).map_err(in_words)?;
        }
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        let stand_in = copy.holding(&bytes, size_bytes)?;
        let version = look(&stand_in, OWN).map_err(in_words)?.map_or(0, |stored| stored.version);
        let before = contents(&stand_in, &keys).map_err(in_words)?;
        drop(stand_in);
        let stand_in = copy.holding(&bytes, size_bytes)?;
        operation.perform(&stand_in, &operation.inputs(&stand_in), version).map_err(in_words)?;
        let after = contents(&stand_in, &keys).map_err(in_words)?;
        Ok(Case {
            operation,
            state,
            size_bytes,
            file_bytes_max: geometry.file_bytes_max(),
            version,
            keys,
            before,
            after,
            evictions_before: evictions_in(&bytes, &geometry),
            geometry,
            _other: cache,
        })
    }

    /// The name of the case.
    pub fn name(&self) -> String {
        format!(
            "{:?} in a cache of {} KiB, {:?}",
            self.operation,
            self.size_bytes >> 10,
            self.state
        )
    }

    /// The number of entries before the operation, and the number that it evicts.
    pub fn entries(&self) -> (usize, usize) {
        let evicted = self.before.keys().filter(|key| !self.after.contains_key(*key)).count();
        (self.before.len(), evicted)
    }

    /// Whether a cache holds what the completed operation leaves.
    pub fn is_done(&self, contents: &Contents) -> bool {
        *contents == self.after
    }

    /// Marks all owners that an image names as dead. In a copy no liveness lock is held, but the
    /// recorded processes may be alive. With `frees_first`, the next process finds the first
    /// process slot free and does not take a dead process's slot.
    pub fn mark_owners_dead(&self, image: &mut [u8], frees_first: bool) {
        for slot in 0..self.geometry.process_count as u32 {
            let at = self.geometry.process_at(slot) as usize;
            // Records a process with another start time.
            let began = at + process::START_TICKS as usize;
            image[began + 7] = 0x40;
            if slot == 0 && frees_first {
                image[at + process::STATE as usize + 4] &= !1;
            }
        }
    }

    /// The contents that a reader finds. Repeats the reads if one gave up before it noticed the
    /// dead owner of a lock.
    fn read_patiently(&self, cache: &Cache) -> Result<Contents, Error> {
        let began = Instant::now();
        loop {
            let given_up = cache.stats().reads_given_up;
            let found = contents(cache, &self.keys)?;
            if cache.stats().reads_given_up == given_up || began.elapsed() >= PATIENCE {
                return Ok(found);
            }
        }
    }

    /// Whether the lock of a shard is held in an image.
    pub fn is_locked(&self, image: &[u8]) -> bool {
        (0..self.geometry.plan.shard_count).any(|shard| {
            let at = (self.geometry.shard_at(shard) + shard::LOCK) as usize;
            image[at..at + 4] != [0; 4]
        })
    }

    /// The number of segments owned by a process that fills them.
    fn builders(&self, image: &[u8]) -> usize {
        (0..self.geometry.segment_count as u32)
            .filter(|segment| {
                let at = self.geometry.segment_word_at(segment::OWNER, *segment) as usize;
                image[at + 7] == 2
            })
            .count()
    }

    /// Judges an image that a death left: opens it as another process would. Returns what the cache
    /// holds after the repair.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn judge(&self, image: &[u8], copy: &Copy, frees_first: bool) -> Result<Contents, String> {
        let found = self.repair(image, copy, frees_first)?;
        let is_gone = |key: &&Vec<u8>| self.before.contains_key(*key) && !found.contains_key(*key);
        let others_gone = self.keys.iter().filter(|key| *key != OWN).filter(is_gone).count();
        // The operation may have evicted the entry that it was to replace.
        let is_evicted = self.evictions(image) > self.evictions_before + others_gone as u64;
        for key in &self.keys {
            let (before, after) = (self.before.get(key), self.after.get(key));
            let now = found.get(key);
            let is_own = key == OWN || key == SECOND;
            let is_lost =
                now.is_none() && (is_own && self.operation.may_lose() || key == OWN && is_evicted);
            if now != before && now != after && !is_lost {
                return Err(format!(
                    "{:?} is {}, neither the old {} nor the new {}",
                    String::from_utf8_lossy(key),
                    in_short(now),
                    in_short(before),
                    in_short(after)
                ));
            }
        }
        Ok(found)
    }

    /// The number of entries that an image's shards have evicted so far.
    pub fn evictions(&self, image: &[u8]) -> u64 {
        evictions_in(image, &self.geometry)
    }

    /// Judges an image as [`Case::judge`] does, but allows up to `evicted` unforeseen evictions:
    /// reads during an operation change what it evicts.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn judge_evicting(&self, image: &[u8], copy: &Copy, evicted: u64) -> Result<(), String> {
        let found = self.repair(image, copy, false)?;
        let mut missing = 0;
        for key in &self.keys {
            let (before, after) = (self.before.get(key), self.after.get(key));
            let now = found.get(key);
            missing += u64::from(now.is_none() && after.is_some() && key != OWN);
            let is_known = now.is_none() || now == before || now == after;
            if !is_known || (key == OWN && now != after) {
                let key = String::from_utf8_lossy(key);
                return Err(format!("{key:?} is {}, not {}", in_short(now), in_short(after)));
            }
        }
        if missing > evicted {
            return Err(format!("{missing} entries are gone, and {evicted} were evicted"));
        }
        Ok(())
    }

    /// Reads everything while the operation is stopped halfway. Each read may find the old value,
    /// the new value, or nothing if the operation changes the entry.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn read_meanwhile(&self, cache: &Cache) -> Result<(), String> {
        let found = contents(cache, &self.keys).map_err(in_words)?;
        for key in &self.keys {
            let (before, after) = (self.before.get(key), self.after.get(key));
            let now = found.get(key);
            let is_changed = before != after;
            if now != before && now != after && !(is_changed && now.is_none()) {
                let key = String::from_utf8_lossy(key);
                return Err(format!("before the repair, {key:?} is {}", in_short(now)));
            }
        }
        Ok(())
    }

    /// Repairs an image, checks the cache, and writes to it. Returns what it held before the
    /// writes.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn repair(&self, image: &[u8], copy: &Copy, frees_first: bool) -> Result<Contents, String> {
        let mut image = image.to_vec();
        self.mark_owners_dead(&mut image, frees_first);
        let cache = copy.holding(&image, self.size_bytes)?;
        let prove = |when: &str| -> Result<CheckReport, String> {
            let report = patiently(|| cache.check())
                .map_err(|error| format!("check {when} was refused: {error}"))?;
            if report.is_sound() {
                Ok(report)
            } else {
                Err(format!("not sound {when}: {:?}", report.findings))
            }
        };
        // Readers take no lock, so they may come before a repair.
        let early = match frees_first {
            true => Some(self.read_patiently(&cache).map_err(in_words)?),
            false => None,
        };
        prove("after the death")?;
        let found = contents(&cache, &self.keys).map_err(in_words)?;
        if let Some(early) = early.filter(|early| *early != found) {
            let differs = self.keys.iter().find(|key| early.get(*key) != found.get(*key));
            let key = differs.expect("they differ");
            return Err(format!(
                "{:?} was {} before the repair, and is {} after it",
                String::from_utf8_lossy(key),
                in_short(early.get(key)),
                in_short(found.get(key))
            ));
        }
        let report = prove("when proved again")?;
        let after = copy.bytes().map_err(|error| error.to_string())?;
        let builders = self.builders(&after);
        if builders > 0 {
            return Err(format!("{builders} segments of a dead process are leaked"));
        }
        let expired = report.entries.saturating_sub(found.len() as u64);
        if report.entries < found.len() as u64 || expired > self.keys.len() as u64 {
            return Err(format!(
                "check counts {} entries, but {} are found",
                report.entries,
                found.len()
            ));
        }
        for (key, len) in [(&b"afterwards"[..], 40), (b"and long", 1500)] {
            let value = bytes_for(key, len);
            cache
                .set(key, Value::bytes(&value), Ttl::Never)
                .map_err(|error| format!("a write after the repair was refused: {error}"))?;
            let stored = look(&cache, key).map_err(in_words)?;
            if stored.is_none_or(|stored| stored.value != value) {
                return Err("a value stored after the repair is missing".into());
            }
        }
        // The row of a dead maker is free.
        let token = match patiently(|| cache.begin(OWN, true, &mut Buffer::new()).map(lease_of)) {
            Ok(Some(token)) => token,
            Ok(None) => return Err("a dead process keeps its lease".into()),
            Err(error) => return Err(format!("a maker after the repair was refused: {error}")),
        };
        cache.abandon(&token);
        prove("after writes")?;
        Ok(found)
    }
}

fn lease_of(begun: Begin<'_>) -> Option<Token> {
    match begun {
        Begin::Lease(token, _) => Some(token),
        _ => None,
    }
}

fn evictions_in(image: &[u8], geometry: &Geometry) -> u64 {
    let word = |shard| {
        let at = (geometry.shard_at(shard) + shard::EVICTIONS) as usize;
        let mut word = [0; 8];
        word.copy_from_slice(&image[at..at + 8]);
        u64::from_ne_bytes(word)
    };
    (0..geometry.plan.shard_count).map(word).sum()
}

fn in_words(error: Error) -> String {
    error.to_string()
}

fn in_short(stored: Option<&Stored>) -> String {
    match stored {
        None => "missing".into(),
        Some(Stored { number: Some(number), version, .. }) => {
            format!("the number {number}, version {version}")
        }
        Some(stored) => format!(
            "{} bytes from {:?} on, version {}, expiry {:?}, stale: {}",
            stored.value.len(),
            &stored.value[..stored.value.len().min(8)],
            stored.version,
            stored.expiry_us,
            stored.is_stale
        ),
    }
}

fn contents(cache: &Cache, keys: &[Vec<u8>]) -> Result<Contents, Error> {
    let mut contents = Contents::new();
    for key in keys {
        if let Some(stored) = look(cache, key)? {
            contents.insert(key.clone(), stored);
        }
    }
    Ok(contents)
}

/// Stores another entry on the way to a state.
fn fill(cache: &Cache, state: State, number: usize, keys: &mut Vec<Vec<u8>>) -> Result<(), Error> {
    let key = format!("k{number}").into_bytes();
    keys.push(key.clone());
    if state == State::Growing {
        return cache.set(&key, Value::Int(number as i64), Ttl::Never);
    }
    let ttl = if number % 11 == 5 { SHORT } else { Ttl::Never };
    if number % 9 == 4 {
        return cache.set(&key, Value::Int(number as i64), ttl);
    }
    // Some entries leave dead space behind.
    if number % 7 == 2 {
        cache.set(&key, Value::bytes(&bytes_for(&key, 300)), Ttl::Never)?;
    }
    let segment_bytes = cache.stats().segment_bytes as usize;
    let len = match number % 23 {
        10 => segment_bytes * 5 / 8,
        17 => segment_bytes + 40,
        small => 40 + small * 16,
    };
    let terms =
        Terms { ttl, ..if number % 13 == 6 { tagged(&["filled"]) } else { Terms::plain(ttl) } };
    cache.store(&key, Value::bytes(&bytes_for(&key, len)), &terms).map(|_| ())
}

/// Whether a cache is in a state. Tries the operation on a copy to see its effect.
fn is_in_state(
    state: State,
    operation: Operation,
    cache: &Cache,
    geometry: &Geometry,
    path: &Path,
    copy: &Copy,
    size_bytes: u64,
) -> Result<bool, String> {
    let stats = cache.stats();
    if state == State::Empty {
        return Ok(true);
    }
    if state == State::Half {
        return Ok((stats.segments - stats.segments_free) * 2 >= geometry.segment_count);
    }
    if state == State::Full && stats.evictions < 20 {
        return Ok(false);
    }
    if state == State::Growing && stats.entries < 150 {
        return Ok(false);
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let stand_in = copy.holding(&bytes, size_bytes)?;
    let own = look(&stand_in, OWN).map_err(in_words)?;
    let before = stand_in.stats();
    if state == State::Growing {
        stand_in.set(b"another", Value::bytes(&[1; 40]), Ttl::Never).map_err(in_words)?;
        // Counts buckets: the index can also grow by a segment of ghosts, without a split.
        let after = std::fs::read(&copy.path).map_err(|error| error.to_string())?;
        return Ok(buckets_in(&after, geometry) > buckets_in(&bytes, geometry)
            && stand_in.stats().segments_index > before.segments_index);
    }
    if !operation.stores() {
        return Ok(true);
    }
    let version = own.map_or(0, |stored| stored.version);
    operation.perform(&stand_in, &operation.inputs(&stand_in), version).map_err(in_words)?;
    Ok(stand_in.stats().evictions > before.evictions)
}

/// The number of buckets in the first shard's index.
fn buckets_in(bytes: &[u8], geometry: &Geometry) -> u32 {
    let at = (geometry.shard_at(0) + shard::STATE) as usize;
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A file that is filled repeatedly.
pub struct Copy {
    path: PathBuf,
    file: File,
}

impl Copy {
    /// A new file at `path`.
    ///
    /// # Errors
    /// What the system answers.
    pub fn new(path: PathBuf) -> io::Result<Copy> {
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        Ok(Copy { path, file })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file hold `image`.
    ///
    /// # Errors
    /// What the system answers.
    pub fn fill(&self, image: &[u8]) -> io::Result<()> {
        self.file.set_len(image.len() as u64)?;
        self.file.write_all_at(image, 0)
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// What the system answers.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        std::fs::read(&self.path)
    }

    /// Fills the file with `image` and opens it as a cache.
    fn holding(&self, image: &[u8], size_bytes: u64) -> Result<Cache, String> {
        self.fill(image).map_err(|error| error.to_string())?;
        patiently(|| open(&self.path, size_bytes))
            .map_err(|error| format!("it cannot be opened: {error}"))
    }
}
