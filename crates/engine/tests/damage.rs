//! Guards against files that lie. A closed cache's file is damaged, byte by byte, word by word, cut
//! short, overwritten with garbage; then it is opened and used. Whatever was done to it: no panic,
//! no hang, no value but one that was stored under that very key; the errors are those that speak
//! of damage, and after `check` the cache works. A single damaged byte among the entries costs no
//! more than one entry in a hundred.
//!
//! What the checksum of a record does not cover, a flipped bit can change unseen: its expiry, its
//! version, and the number of an entry that is one (docs/format.md). The tests count how many bytes
//! those are, and allow no more.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tuckbox_engine::{ArenaError, Buffer, Cache, Clock, Config, Error, Place, Ttl, Value};
use tuckbox_testkit::stamp::{self, Stamp, Stream};
use tuckbox_testkit::watchdog::Watchdog;

const NOW_US: u64 = 1_700_000_000_000_000;
/// Numbers among the entries, whose values nothing protects.
const NUMBERS: u64 = 5;

fn name(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

fn stamped(key: u64, sequence: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    stamp::make(&name(key), Stamp { writer: 1, sequence }, len, &mut value);
    value
}

/// A closed cache's file.
struct Image {
    bytes: Vec<u8>,
    keys: u64,
    size_bytes: u64,
}

fn config(size_bytes: u64) -> Config {
    let clock = Clock::Manual(Arc::new(AtomicU64::new(NOW_US)));
    Config { size_bytes, clock, lock_limit: Duration::from_secs(5), ..Config::default() }
}

/// A file's path, gone when dropped.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new() -> TemporaryFile {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // In memory where there is such a place: thousands of files are written.
        let folder = PathBuf::from("/dev/shm");
        let folder = if folder.is_dir() { folder } else { std::env::temp_dir() };
        TemporaryFile(folder.join(format!("tuckbox-damage-{}-{number}", std::process::id())))
    }

    fn place(&self) -> Place {
        Place::Path(self.0.clone())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A cache of short, long and crossing records, with dead ones between them.
fn image(size_bytes: u64, keys: u64, len: usize, large: u64) -> Image {
    let file = TemporaryFile::new();
    let cache = Cache::open(&file.place(), &config(size_bytes)).unwrap();
    for key in 0..keys {
        let ttl = if key % 7 == 3 { Ttl::Us(1 << 40) } else { Ttl::Never };
        let len = len + (key % 5) as usize * 8;
        if key % 3 == 0 {
            cache.set(&name(key), Value::bytes(&stamped(key, 0, len + 24)), ttl).unwrap();
        }
        cache.set(&name(key), Value::bytes(&stamped(key, 1, len)), ttl).unwrap();
    }
    for key in 0..large {
        let len = cache.stats().segment_bytes as usize * 9 / 8 - 700 * (key as usize % 2);
        let key = keys + key;
        cache.set(&name(key), Value::bytes(&stamped(key, 1, len)), Ttl::Never).unwrap();
    }
    for number in 0..NUMBERS {
        cache.set(&number.to_le_bytes(), Value::Int(number as i64 + 1), Ttl::Never).unwrap();
    }
    assert_eq!(cache.stats().evictions, 0, "all of it fits");
    cache.close();
    drop(cache);
    Image { bytes: std::fs::read(&file.0).unwrap(), keys: keys + large, size_bytes }
}

/// What is left of a damaged cache.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Left {
    /// Whether it could be opened.
    is_open: bool,
    /// Entries that were read, numbers aside.
    found: u64,
    /// Numbers that were read and are not those that were stored.
    wrong_numbers: u64,
}

fn read_all(cache: &Cache, image: &Image) -> Left {
    let mut left = Left { is_open: true, ..Left::default() };
    let mut buffer = Buffer::new();
    for key in 0..image.keys {
        let name = name(key);
        let Some(entry) = cache.get(&name, &mut buffer).unwrap() else { continue };
        let Value::Bytes { bytes, tag } = entry.value else { panic!("key {key} is a number") };
        let stamp = stamp::read(&name, bytes);
        assert_eq!((tag, stamp.map(|stamp| stamp.sequence)), (0, Ok(1)), "key {key}");
        left.found += 1;
    }
    for number in 0..NUMBERS {
        if let Some(entry) = cache.get(&number.to_le_bytes(), &mut buffer).unwrap() {
            let Value::Int(found) = entry.value else { panic!("number {number} is bytes") };
            left.wrong_numbers += u64::from(found != number as i64 + 1);
        }
    }
    left
}

/// Does everything that a program may do with a cache. Before `check` nothing but a lack of room
/// may stop it; after it, nothing at all.
fn use_it(cache: &Cache, image: &Image) {
    let mut buffer = Buffer::new();
    let or_full = |result: Result<(), Error>| match result {
        Ok(()) | Err(Error::Full { .. }) => {}
        Err(error) => panic!("{error}"),
    };
    for key in 0..image.keys.min(20) {
        let (name, value) = (name(key), stamped(key, 1, 60 + (key as usize * 37) % 500));
        or_full(cache.set(&name, Value::bytes(&value), Ttl::Never));
        or_full(cache.touch(&name, Ttl::Us(1 << 40)).map(drop));
        if key % 4 == 0 {
            cache.delete(&name).unwrap();
        }
    }
    let (mut scan, mut count) = (cache.scan(), 0u64);
    while let Some(item) = scan.next(&mut buffer).unwrap() {
        if let Value::Bytes { bytes, .. } = item.entry.value {
            stamp::read(item.key, bytes).expect("what a scan finds proves itself");
        }
        count += 1;
    }
    assert!(count <= image.size_bytes / 16);
    cache.expire().unwrap();
    cache.stats();
    for number in 0..NUMBERS {
        match cache.incr(&number.to_le_bytes(), 1, None, Ttl::Never) {
            Ok(_) | Err(Error::Overflow { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    // Through all of the logs once.
    for key in 1_000_000..1_000_000 + image.size_bytes / 800 {
        or_full(cache.set(&name(key), Value::bytes(&stamped(key, 1, 300)), Ttl::Never));
    }
    let large = stamped(7_000_000, 1, cache.value_bytes_max());
    or_full(cache.set(&name(7_000_000), Value::bytes(&large), Ttl::Never));
    read_all(cache, image);

    cache.check().unwrap();
    let report = cache.check().unwrap();
    assert!(report.is_sound(), "what a check mended is whole: {report:?}");
    for key in 2_000_000..2_000_000 + image.size_bytes / 800 {
        let value = stamped(key, 1, 300);
        cache.set(&name(key), Value::bytes(&value), Ttl::Never).unwrap();
        let entry = cache.get(&name(key), &mut buffer).unwrap().expect("it was just stored");
        assert_eq!(entry.value, Value::bytes(&value));
    }
    cache.set(&name(7_000_000), Value::bytes(&large), Ttl::Us(1_000)).unwrap();
    // The policy may prefer what was there to a newcomer as large as this.
    if let Some(entry) = cache.get(&name(7_000_000), &mut buffer).unwrap() {
        assert_eq!(entry.value, Value::bytes(&large));
    }
    cache.clear().unwrap();
    assert!(cache.is_empty() && cache.check().unwrap().is_sound());
}

/// Opens a damaged file. What it says if it refuses speaks of damage, and leaves the file alone.
fn open(bytes: &[u8], image: &Image, file: &TemporaryFile) -> Option<Cache> {
    std::fs::write(&file.0, bytes).unwrap();
    match Cache::open(&file.place(), &config(image.size_bytes)) {
        Ok(cache) => Some(cache),
        Err(Error::Arena(
            ArenaError::NotACache { .. }
            | ArenaError::VersionMismatch { .. }
            | ArenaError::Damaged { .. },
        )) => {
            assert!(std::fs::read(&file.0).unwrap() == bytes, "what is refused stays as it is");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

type Damage = Box<dyn Fn(&mut Vec<u8>) + Send + Sync>;

/// One case: what is done to the bytes, and what to call it.
struct Case {
    what: String,
    damage: Damage,
    /// Whether the cache is used after it was read.
    is_used: bool,
}

fn byte_case(at: usize, mask: u8, is_used: bool) -> Case {
    let what = format!("byte {at} ^ {mask:#04x}");
    Case { what, damage: Box::new(move |bytes| bytes[at] ^= mask), is_used }
}

fn word_case(at: usize, value: u64) -> Case {
    let what = format!("word {at} = {value:#x}");
    let damage = move |bytes: &mut Vec<u8>| {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    };
    Case { what, damage: Box::new(damage), is_used: true }
}

/// Plays the cases on two threads, and tells all that went wrong.
fn play(image: &Image, cases: &[Case], judge: impl Fn(&Case, Left) + Sync) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let file = TemporaryFile::new();
                let (mut count, mut _watchdog) = (0, None);
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if count % 64 == 0 {
                        let what = format!("{}, or one of the 128 cases after it", case.what);
                        _watchdog = Some(Watchdog::new(&what, Duration::from_secs(30)));
                    }
                    count += 1;
                    let played = catch_unwind(AssertUnwindSafe(|| {
                        let mut bytes = image.bytes.clone();
                        (case.damage)(&mut bytes);
                        let cache = open(&bytes, image, &file);
                        let left = cache.as_ref().map(|cache| read_all(cache, image));
                        judge(case, left.unwrap_or_default());
                        if let Some(cache) = cache.filter(|_| case.is_used) {
                            use_it(&cache, image);
                        }
                    }));
                    if played.is_err() {
                        failures.lock().unwrap().push(case.what.clone());
                    }
                    if failures.lock().unwrap().len() > 20 {
                        break;
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {}: {failures:?}", failures.len(), cases.len());
}

/// Where the pool begins, from the file's own numbers: it ends with whole segments.
fn pool_at(image: &Image) -> usize {
    let word = |at: usize| u64::from_le_bytes(image.bytes[at..at + 8].try_into().unwrap());
    use tuckbox_arena::layout::{header, process, segment, HEADER_BYTES};
    let fixed = HEADER_BYTES
        + word(header::PROCESS_COUNT as usize) * process::SLOT_BYTES
        + (word(header::SEGMENT_COUNT as usize) * segment::WORD_COUNT * 8).next_multiple_of(64)
        + word(header::SHARD_COUNT as usize) * word(header::SHARD_BYTES as usize)
        + word(header::TABLE_BYTES as usize);
    fixed.next_multiple_of(4096) as usize
}

fn small() -> Image {
    image(64 << 10, 90, 150, 2)
}

#[test]
fn an_undamaged_file_has_everything() {
    for image in [small(), image(1 << 20, 3_000, 100, 4)] {
        let file = TemporaryFile::new();
        let cache = open(&image.bytes, &image, &file).expect("it is whole");
        let all = Left { is_open: true, found: image.keys, wrong_numbers: 0 };
        assert_eq!(read_all(&cache, &image), all);
        assert!(cache.check().unwrap().is_sound());
        use_it(&cache, &image);
    }
}

/// Every byte before the pool: header, process slots, segment tables, shard, tables.
#[test]
fn any_byte_of_the_tables() {
    let image = small();
    let cases: Vec<_> = (0..pool_at(&image))
        .flat_map(|at| {
            let mask = 1u8 << (at % 8);
            [byte_case(at, mask, at % 4 == 0), byte_case(at, !mask, at % 16 == 5)]
        })
        .collect();
    play(&image, &cases, |case, left| {
        assert_eq!(left.wrong_numbers, 0, "{}", case.what);
    });
}

/// Every word before the pool, set to what could mislead: ends, lengths, other segments, itself.
#[test]
fn any_word_of_the_tables() {
    let image = small();
    let mut cases = Vec::new();
    for at in (1024..pool_at(&image)).step_by(8) {
        let word = u64::from_le_bytes(image.bytes[at..at + 8].try_into().unwrap());
        // Most process slots are empty, and all alike.
        if word == 0 && at % 128 != 0 && at < 8192 {
            continue;
        }
        let segment = (at as u64 / 8) % 14;
        for value in [
            0,
            1,
            7,
            word.wrapping_add(1),
            word ^ 1 << 32,
            (segment + 1) << 32 | 128,
            (segment + 1) << 32 | 0xffff_fff8,
            segment + 1,
            1 << 31,
            1 << 56 | segment,
            2 << 56 | 1 << 12 | 1,
            1 << 63,
            u64::MAX,
        ] {
            cases.push(word_case(at, value));
        }
    }
    play(&image, &cases, |_, _| ());
}

/// Bytes of the pool: index and logs. Here the numbers' own bytes are, which nothing protects.
#[test]
fn sampled_bytes_of_the_pool() {
    let image = small();
    let cases: Vec<_> = (pool_at(&image)..image.bytes.len())
        .step_by(7)
        .map(|at| byte_case(at, 1 << (at % 8), at % 3 == 0))
        .collect();
    let wrong_numbers = AtomicU64::new(0);
    play(&image, &cases, |_, left| {
        wrong_numbers.fetch_add(left.wrong_numbers, Ordering::Relaxed);
    });
    assert!(wrong_numbers.into_inner() <= NUMBERS * 8);
}

#[test]
fn a_damaged_byte_among_the_entries_costs_one_in_a_hundred_at_most() {
    let image = image(1 << 20, 3_000, 100, 4);
    let (pool_at, len) = (pool_at(&image), image.bytes.len());
    let mut random = Stream::new(5);
    let cases: Vec<_> = (0..1_500)
        .map(|number| {
            let at = pool_at + random.below((len - pool_at) as u64) as usize;
            byte_case(at, random.next_word() as u8 | 1, number % 50 == 0)
        })
        .collect();
    play(&image, &cases, |case, left| {
        assert!(left.is_open, "{}", case.what);
        let lost = image.keys - left.found;
        assert!(lost * 100 <= image.keys, "{}: {lost} entries are gone", case.what);
    });
}

#[test]
fn a_file_cut_short_anywhere() {
    let image = small();
    let len = image.bytes.len();
    let ends = (0..4096).step_by(61).chain((4096..len).step_by(509)).chain([len - 1, len - 4096]);
    let cases: Vec<_> = ends
        .map(|end| {
            let what = format!("cut to {end} bytes");
            let damage = move |bytes: &mut Vec<u8>| bytes.truncate(end);
            Case { what, damage: Box::new(damage), is_used: true }
        })
        .collect();
    play(&image, &cases, |_, _| ());
}

/// Pages that were not written back, or with something else: zeros, garbage, each other.
#[test]
fn pages_that_hold_something_else() {
    let image = small();
    let (first, pages) = (4096, image.bytes.len() / 4096);
    let mut cases = Vec::new();
    for page in 1..pages {
        for kind in 0..4u64 {
            let what = format!("page {page} replaced, kind {kind}");
            let damage = move |bytes: &mut Vec<u8>| {
                let at = page * 4096;
                let other = (page + 1) % pages * 4096;
                let mut random = Stream::new(page as u64);
                for byte in 0..4096 {
                    bytes[at + byte] = match kind {
                        0 => 0,
                        1 => 0xff,
                        2 => random.next_word() as u8,
                        _ => bytes[other.max(first) + byte],
                    };
                }
            };
            cases.push(Case { what, damage: Box::new(damage), is_used: true });
        }
    }
    for seed in 0..400u64 {
        let what = format!("random words, seed {seed}");
        let damage = move |bytes: &mut Vec<u8>| {
            let mut random = Stream::new(seed);
            for _ in 0..=random.below(30) {
                let words = (bytes.len() - first) as u64 / 8;
                // Half of them in the tables, which are a fifth of the file.
                let words = if random.below(2) == 0 { words / 5 } else { words };
                let at = first + random.below(words) as usize * 8;
                let value = match random.below(4) {
                    0 => random.next_word(),
                    1 => random.below(1 << 14),
                    2 => random.below(15) << 32 | random.below(4096),
                    _ => {
                        let from = first + random.below(words) as usize * 8;
                        u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap())
                    }
                };
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        };
        cases.push(Case { what, damage: Box::new(damage), is_used: true });
    }
    play(&image, &cases, |_, _| ());
}
