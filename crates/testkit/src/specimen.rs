//! Specimens: a closed cache's file as bytes, with the results that it gave, to be damaged and
//! opened again. Owns what a test may demand of a damaged cache. Must not know which damage a test
//! does.
//!
//! Whatever the damage: no panic, and no value but the one stored under that key, with its version.
//! A file that is refused stays unchanged, and the error reports damage. After `check` the cache
//! works like a new one.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::layout::{header, Geometry, HEADER_BYTES};
use tuckbox_engine::format::hash::Hasher;
use tuckbox_engine::format::layout::{shard, BUCKET_BYTES, BUCKET_WORD, SLOTS_PER_BUCKET};
use tuckbox_engine::format::plan::plan;
use tuckbox_engine::format::shape::Shape;
use tuckbox_engine::{ArenaError, Buffer, Cache, Clock, Config, Error, Place, Ttl, Value};

use crate::scratch;
use crate::stamp::{self, Stamp, Stream};

/// The time at which the clock of [`config`] stands.
pub const NOW_US: u64 = 1_700_000_000_000_000;
/// Numbers among the entries.
pub const NUMBERS: u64 = 5;

/// The name of a key.
pub fn name(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

/// A value of a key.
pub fn stamped(key: u64, sequence: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    stamp::make(&name(key), Stamp { writer: 1, sequence }, len, &mut value);
    value
}

fn number_name(number: u64) -> Vec<u8> {
    number.to_le_bytes().into()
}

/// The configuration of specimens of this size: their clock stands still.
pub fn config(size_bytes: u64) -> Config {
    let clock = Clock::Manual(Arc::new(AtomicU64::new(NOW_US)));
    Config { size_bytes, clock, lock_limit: Duration::from_secs(5), ..Config::default() }
}

/// A file that is removed when dropped. Rewriting it reuses its memory.
pub struct Scratch {
    path: PathBuf,
    file: File,
}

impl Scratch {
    /// A new one, in memory if possible.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn new() -> Scratch {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            scratch::folder().join(format!("tuckbox-specimen-{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        Scratch { path, file }
    }

    /// Its place.
    pub fn place(&self) -> Place {
        Place::Path(self.path.clone())
    }

    /// Replaces its content.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn fill(&self, bytes: &[u8]) {
        self.file.set_len(bytes.len() as u64).expect("its length can be set");
        self.file.write_all_at(bytes, 0).expect("it can be written");
    }

    /// Its content.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("it can be read")
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The result of a sound specimen for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    version: u64,
    expiry_us: Option<u64>,
}

/// A closed cache's file.
#[derive(Debug, Clone)]
pub struct Specimen {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Number of keys, without numbers.
    pub keys: u64,
    /// The size that it was created with.
    pub size_bytes: u64,
    geometry: Geometry,
    answers: Vec<Answer>,
    numbers: Vec<Answer>,
}

/// What is left of a damaged specimen.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Whether it could be opened.
    pub is_open: bool,
    /// Entries that were read, including numbers.
    pub found: u64,
    /// Of these, entries outside of the first shard.
    pub found_elsewhere: u64,
    /// Of these, entries with another expiry than they were stored with.
    pub moved_expiries: u64,
}

/// The use of a place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The header's fixed words, under their checksum.
    Header,
    /// The generation of a segment: affects all of its content.
    Generation,
    /// Words through which readers find all entries of a shard.
    Guide,
    /// Tables and words that readers do not need.
    Table,
    /// Index and logs.
    Pool,
}

impl Specimen {
    /// A cache of short, long and crossing records, with dead ones between them, and numbers.
    ///
    /// # Panics
    /// If it does not hold what is stored.
    pub fn new(size_bytes: u64, keys: u64, len: usize, large: u64) -> Specimen {
        let scratch = Scratch::new();
        std::fs::remove_file(&scratch.path).expect("it is there");
        let cache = Cache::open(&scratch.place(), &config(size_bytes)).expect("a new cache");
        let set = |key: u64, sequence, len, ttl| {
            let value = stamped(key, sequence, len);
            cache.set(&name(key), Value::bytes(&value), ttl).expect("there is room");
        };
        for key in 0..keys {
            let ttl = if key % 7 == 3 { Ttl::Us(1 << 40) } else { Ttl::Never };
            let len = len + (key % 5) as usize * 8;
            if key % 3 == 0 {
                // Shorter, so that the next one does not fit its place.
                set(key, 0, len - 24, ttl);
            }
            set(key, 1, len, ttl);
        }
        for key in keys..keys + large {
            let len = cache.stats().segment_bytes as usize * 9 / 8 - 700 * (key as usize % 2);
            set(key, 1, len, Ttl::Never);
        }
        let keys = keys + large;
        for number in 0..NUMBERS {
            let ttl = if number % 2 == 0 { Ttl::Us(1 << 41) } else { Ttl::Never };
            cache.set(&number_name(number), Value::Int(number as i64), ttl).expect("there is room");
            cache.incr(&number_name(number), 1, None, Ttl::Never).expect("it is a number");
        }
        assert_eq!(cache.stats().evictions, 0, "all of it fits");
        let mut buffer = Buffer::new();
        let mut answer = |name: &[u8]| {
            let entry = cache.get(name, &mut buffer).expect("it reads").expect("it is there");
            Answer { version: entry.version, expiry_us: entry.expiry_us }
        };
        let answers = (0..keys).map(|key| answer(&name(key))).collect();
        let numbers = (0..NUMBERS).map(|number| answer(&number_name(number))).collect();
        drop(cache);
        let geometry = Geometry::new(plan(size_bytes, 0)).expect("it was made");
        Specimen { bytes: scratch.bytes(), keys, size_bytes, geometry, answers, numbers }
    }

    /// The specimen of the short tests: every structure in 64 KiB.
    pub fn small() -> Specimen {
        Specimen::new(64 << 10, 90, 150, 2)
    }

    /// All entries, including numbers.
    pub fn entries(&self) -> u64 {
        self.keys + NUMBERS
    }

    /// A word of the file.
    pub fn word(&self, at: u64) -> u64 {
        let at = at as usize;
        u64::from_ne_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn hasher(&self) -> Hasher {
        Hasher::new([self.word(header::HASH_KEY), self.word(header::HASH_KEY + 8)])
    }

    /// Number of entries outside of the first shard.
    pub fn entries_elsewhere(&self) -> u64 {
        let (hasher, count) = (self.hasher(), self.word(header::SHARD_COUNT));
        let names = (0..self.keys).map(name).chain((0..NUMBERS).map(number_name));
        names.filter(|name| hasher.key(name).shard(count) != 0).count() as u64
    }

    /// Where the first shard begins.
    pub fn shards_at(&self) -> u64 {
        self.geometry.shards_at
    }

    /// Where the pool begins.
    pub fn pool_at(&self) -> u64 {
        self.geometry.pool_at
    }

    /// The use of a place.
    pub fn part(&self, at: u64) -> Part {
        let (segments_at, shards_at) = (self.geometry.segments_at, self.geometry.shards_at);
        if at < header::FIXED_END {
            return Part::Header;
        }
        if at >= self.pool_at() {
            return Part::Pool;
        }
        if (segments_at..segments_at + self.word(header::SEGMENT_COUNT) * 8).contains(&at) {
            return Part::Generation;
        }
        let in_shards = at
            .checked_sub(shards_at)
            .filter(|at| *at < self.word(header::SHARD_COUNT) * self.word(header::SHARD_BYTES));
        match in_shards.map(|at| at % self.word(header::SHARD_BYTES) / 8 * 8) {
            Some(shard::STATE | shard::EPOCH) => Part::Guide,
            Some(word) if word >= shard::DIRECTORY => Part::Guide,
            _ => Part::Table,
        }
    }

    /// Whether a place is in a segment of buckets.
    fn is_in_bucket(&self, at: u64) -> bool {
        let segment = (at - self.pool_at()) / self.word(header::SEGMENT_BYTES);
        (0..self.word(header::SHARD_COUNT)).any(|shard| {
            let directory = self.shards_at() + shard * self.word(header::SHARD_BYTES);
            let entry = |index: u64| self.word(directory + shard::DIRECTORY + index * 8);
            // Every second bucket segment is followed by one of ghosts, which need not exist.
            let buckets = (0..).filter(|index| !Shape::has_ghosts(*index)).map(entry);
            buckets.take_while(|entry| *entry != 0).any(|entry| entry == segment + 1)
        })
    }

    /// How many entries reads may miss when one word at this place is damaged.
    pub fn loss_max(&self, at: u64) -> u64 {
        match self.part(at) {
            Part::Table => 0,
            // A bucket's own word hides its slots.
            Part::Pool if self.is_in_bucket(at) && at % BUCKET_BYTES >= BUCKET_WORD => {
                SLOTS_PER_BUCKET
            }
            Part::Pool => 1,
            Part::Header | Part::Generation | Part::Guide => self.entries(),
        }
    }

    /// Opens damaged bytes. None if they are refused.
    ///
    /// # Errors
    /// What was wrong.
    pub fn open(&self, bytes: &[u8], scratch: &Scratch) -> Result<Option<Cache>, String> {
        scratch.fill(bytes);
        match Cache::open(&scratch.place(), &config(self.size_bytes)) {
            Ok(cache) => Ok(Some(cache)),
            Err(Error::Arena(
                ArenaError::NotACache { .. }
                | ArenaError::VersionMismatch { .. }
                | ArenaError::Damaged { .. },
            )) if scratch.bytes() == bytes => Ok(None),
            Err(error) => Err(format!("opening it: {error}")),
        }
    }

    /// Reads all entries and checks that each is what was stored.
    ///
    /// # Errors
    /// What was wrong.
    pub fn read_all(&self, cache: &Cache) -> Result<Left, String> {
        let shard_count = self.word(header::SHARD_COUNT);
        let hasher = self.hasher();
        let mut left = Left { is_open: true, ..Left::default() };
        let mut buffer = Buffer::new();
        for key in 0..self.keys {
            let name = name(key);
            let found = cache.get(&name, &mut buffer).map_err(|error| error.to_string())?;
            let Some(entry) = found else { continue };
            let Value::Bytes { tag: 0, bytes } = entry.value else {
                return Err(format!("key {key} is {:?}", entry.value));
            };
            let sequence = stamp::read(&name, bytes).map(|stamp| stamp.sequence);
            if sequence != Ok(1) {
                return Err(format!("key {key} has the value {sequence:?}"));
            }
            let answer = Answer { version: entry.version, expiry_us: entry.expiry_us };
            let expected = self.answers[key as usize];
            if answer.version != expected.version {
                return Err(format!("key {key} has {answer:?}, not {expected:?}"));
            }
            left.moved_expiries += u64::from(answer != expected);
            left.found += 1;
            left.found_elsewhere += u64::from(hasher.key(&name).shard(shard_count) != 0);
        }
        for number in 0..NUMBERS {
            let name = number_name(number);
            let found = cache.get(&name, &mut buffer).map_err(|error| error.to_string())?;
            let Some(entry) = found else { continue };
            let answer = Answer { version: entry.version, expiry_us: entry.expiry_us };
            let expected = self.numbers[number as usize];
            let is_it = entry.value == Value::Int(number as i64 + 1);
            if !is_it || answer.version != expected.version {
                return Err(format!("number {number} is {entry:?}, not {expected:?}"));
            }
            left.moved_expiries += u64::from(answer != expected);
            left.found += 1;
            left.found_elsewhere += u64::from(hasher.key(&name).shard(shard_count) != 0);
        }
        Ok(left)
    }
}

fn or_full(result: Result<(), Error>) -> Result<(), String> {
    match result {
        Ok(()) | Err(Error::Full { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Verifies every value of a cache against any of its key's values. Returns how many there are.
///
/// # Errors
/// What was wrong.
pub fn scan_all(cache: &Cache) -> Result<u64, String> {
    let mut buffer = Buffer::new();
    let (mut scan, mut count) = (cache.scan(), 0);
    while let Some(item) = scan.next(&mut buffer).map_err(|error| error.to_string())? {
        if let Value::Bytes { bytes, .. } = item.entry.value {
            stamp::read(item.key, bytes).map_err(|forgery| format!("a scan: {forgery:?}"))?;
        }
        count += 1;
    }
    Ok(count)
}

/// Does everything that a program may do with a possibly damaged cache: nothing may fail except for
/// a lack of space.
///
/// # Errors
/// What was wrong.
pub fn use_it(cache: &Cache, size_bytes: u64) -> Result<(), String> {
    let text = |error: Error| error.to_string();
    for key in 0..20 {
        let (name, value) = (name(key), stamped(key, 1, 60 + (key as usize * 37) % 500));
        or_full(cache.set(&name, Value::bytes(&value), Ttl::Never))?;
        or_full(cache.touch(&name, Ttl::Us(1 << 40)).map(drop))?;
        or_full(cache.add(&name, Value::bytes(&value), Ttl::Never).map(drop))?;
        if key % 4 == 0 {
            cache.delete(&name).map_err(text)?;
        }
    }
    if scan_all(cache)? > size_bytes / 16 {
        return Err("a scan met more entries than there can be".into());
    }
    cache.expire().map_err(text)?;
    cache.stats();
    for number in 0..NUMBERS {
        match cache.incr(&number_name(number), 1, None, Ttl::Never) {
            Ok(None | Some(..=1_000)) => {}
            other => return Err(format!("the sum of number {number} is {other:?}")),
        }
    }
    // Once through all of the logs.
    for key in 1_000_000..1_000_000 + size_bytes / 800 {
        or_full(cache.set(&name(key), Value::bytes(&stamped(key, 1, 300)), Ttl::Never))?;
    }
    let large = stamped(7_000_000, 1, cache.value_bytes_max());
    or_full(cache.set(&name(7_000_000), Value::bytes(&large), Ttl::Never))
}

/// Checks that the cache is sound and works after a check: not even a lack of space is allowed.
///
/// # Errors
/// What was wrong.
pub fn works_after_check(cache: &Cache, size_bytes: u64) -> Result<(), String> {
    let text = |error: Error| error.to_string();
    let mut buffer = Buffer::new();
    let first = cache.check().map_err(text)?;
    let report = cache.check().map_err(text)?;
    let segments = report.segments_free
        + report.segments_log
        + report.segments_index
        + report.segments_body
        + report.segments_spare
        + report.segments_building;
    let stats = cache.stats();
    if !report.is_sound() || segments != stats.segments || stats.entries != report.entries {
        return Err(format!("what a check mended is not whole: {first:?}, then {report:?}"));
    }
    for key in 2_000_000..2_000_000 + size_bytes / 800 {
        let value = stamped(key, 1, 300);
        cache.set(&name(key), Value::bytes(&value), Ttl::Us(1 << 40)).map_err(text)?;
        match cache.get(&name(key), &mut buffer).map_err(text)? {
            Some(entry) if entry.value == Value::bytes(&value) => {}
            other => return Err(format!("key {key}, which was just stored, is {other:?}")),
        }
    }
    let large = stamped(7_000_000, 1, cache.value_bytes_max());
    cache.set(&name(7_000_000), Value::bytes(&large), Ttl::Us(1_000)).map_err(text)?;
    // The policy may prefer other entries to one this large.
    if let Some(entry) = cache.get(&name(7_000_000), &mut buffer).map_err(text)? {
        if entry.value != Value::bytes(&large) {
            return Err("a large value is another".into());
        }
    }
    cache.clear().map_err(text)?;
    if !cache.is_empty() || !cache.check().map_err(text)?.is_sound() {
        return Err("it is not empty, or not sound, after it was cleared".into());
    }
    Ok(())
}

/// A kind of damage.
#[derive(Debug, Clone)]
pub enum Damage {
    /// Nothing.
    None,
    /// A byte is changed.
    Byte {
        /// Where.
        at: u64,
        /// The new value.
        value: u8,
    },
    /// A word is changed.
    Word {
        /// Where.
        at: u64,
        /// The new value.
        value: u64,
    },
    /// The file ends here.
    Cut(u64),
    /// A page is replaced.
    Page {
        /// Its number.
        page: u64,
        /// Its new content.
        with: Filling,
    },
    /// Some words hold what a broken writer could leave there, by this seed.
    Words(u64),
}

/// The new content of a page.
#[derive(Debug, Clone, Copy)]
pub enum Filling {
    /// Zeros.
    Zeros,
    /// All bits set.
    Ones,
    /// Random bytes.
    Garbage,
    /// The page after it.
    Neighbour,
}

impl Damage {
    /// Applies the damage.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        let put = |bytes: &mut [u8], at: u64, value: u64| {
            bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_ne_bytes());
        };
        match *self {
            Damage::None => {}
            Damage::Byte { at, value } => bytes[at as usize] = value,
            Damage::Word { at, value } => put(bytes, at, value),
            Damage::Cut(len) => bytes.truncate(len as usize),
            Damage::Page { page, with } => {
                let pages = bytes.len() as u64 / HEADER_BYTES;
                let (at, mut random) = (page * HEADER_BYTES, Stream::new(page));
                let other = ((page + 1) % pages).max(1) * HEADER_BYTES;
                for offset in 0..HEADER_BYTES {
                    bytes[(at + offset) as usize] = match with {
                        Filling::Zeros => 0,
                        Filling::Ones => 0xff,
                        Filling::Garbage => random.next_word() as u8,
                        Filling::Neighbour => bytes[(other + offset) as usize],
                    };
                }
            }
            Damage::Words(seed) => {
                let mut random = Stream::new(seed);
                let first = header::FIXED_END.next_multiple_of(8);
                let all = (bytes.len() as u64 - first) / 8;
                for _ in 0..=random.below(30) {
                    // Half of them in the tables, which are a fifth of the file.
                    let words = if random.below(2) == 0 { all / 5 } else { all };
                    let at = first + random.below(words) * 8;
                    let value = match random.below(5) {
                        0 => random.next_word(),
                        1 => random.below(1 << 14),
                        2 => random.below(15) << 32 | random.below(4096),
                        3 => {
                            let from = (first + random.below(words) * 8) as usize;
                            u64::from_ne_bytes(bytes[from..from + 8].try_into().expect("eight"))
                        }
                        _ => {
                            let old = bytes[at as usize..at as usize + 8].try_into();
                            u64::from_ne_bytes(old.expect("eight")) ^ 1 << random.below(64)
                        }
                    };
                    put(bytes, at, value);
                }
            }
        }
    }
}
