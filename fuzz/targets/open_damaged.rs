//! Damaged files: the input says which words of a cache's file are overwritten, and with what; then
//! the file is opened and used. There must be no panic, no endless work, and no value but the one
//! stored under that key. A check may come first and must leave a sound file; after the last check
//! the cache must work.

#![no_main]

#[path = "clock.rs"]
mod clock;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use tuckbox_engine::{ArenaError, Buffer, Cache, Clock, Config, Error, Place, Terms, Ttl, Value};
use tuckbox_testkit::header;
use tuckbox_testkit::scratch;
use tuckbox_testkit::stamp::{self, Stamp};

const KEYS: u64 = 80;
const NUMBERS: u64 = 4;

fn config() -> Config {
    let clock = Clock::Manual(Arc::new(AtomicU64::new(1_000_000_000)));
    Config { size_bytes: 64 << 10, clock, ..Config::default() }
}

fn path() -> PathBuf {
    scratch::folder().join(format!("tuckbox-fuzz-{:010}", std::process::id()))
}

fn open() -> Result<Cache, Error> {
    Cache::open(&Place::Path(path()), &config())
}

fn name(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

fn stamped(key: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    stamp::make(&name(key), Stamp { writer: 0, sequence: key }, len, &mut value);
    value
}

fn number_name(number: u64) -> Vec<u8> {
    number.to_le_bytes().into()
}

/// Closes a cache and changes the bytes of its file.
fn close(cache: Cache, change: fn(&mut [u8])) -> Vec<u8> {
    drop(cache);
    let mut bytes = std::fs::read(path()).unwrap();
    change(&mut bytes);
    std::fs::write(path(), &bytes).unwrap();
    bytes
}

/// The file before the damage: the same in every run. With pinned entries and the order of insertion,
/// or without.
fn image(has_pinned: bool) -> &'static [u8] {
    static IMAGES: [OnceLock<Vec<u8>>; 2] = [const { OnceLock::new() }; 2];
    IMAGES[usize::from(has_pinned)].get_or_init(|| {
        let _ = std::fs::remove_file(path());
        let config = Config { is_ordered: has_pinned, ..config() };
        let new = Cache::open(&Place::Path(path()), &config).unwrap();
        close(new, header::fix_identity);
        let cache = open().unwrap();
        for key in 0..KEYS {
            let len = if key % 20 == 7 { 5_000 } else { 60 + key as usize * 3 };
            let ttl = if key % 5 == 0 { Ttl::Us(1 << 40) } else { Ttl::Never };
            let mut terms = Terms::plain(ttl);
            terms.attributes.is_pinned = has_pinned && key % 8 == 3;
            cache.store(&name(key), Value::bytes(&stamped(key, len)), &terms).unwrap();
        }
        for number in 0..NUMBERS {
            let ttl = if number % 2 == 0 { Ttl::Us(1 << 40) } else { Ttl::Never };
            cache.incr(&number_name(number), number as i64, Some(0), ttl).unwrap();
        }
        close(cache, header::forget_processes)
    })
}

/// Each eight bytes of the input are two for the place, one for the kind, and the rest for the
/// word. Damage to the header gets a valid checksum, which would otherwise hide it.
fn damage(bytes: &mut [u8], data: &[u8]) {
    for part in data.chunks_exact(8) {
        let at = usize::from(u16::from_le_bytes([part[0], part[1]])) & !7;
        let Some(place) = bytes.get_mut(at..at + 8) else { continue };
        let given = u64::from_le_bytes([part[3], part[4], part[5], part[6], part[7], 0, 0, 0]);
        let old = u64::from_le_bytes(place.try_into().expect("eight bytes"));
        let new = match part[2] % 8 {
            0 => given,
            1 => old ^ 1 << (given % 64),
            2 => old.wrapping_add(given % 64).wrapping_sub(32),
            3 => given << 32,
            4 => given % 16 << 32 | given >> 8 & 0xff8,
            5 => given % 16,
            6 => 1 << 56 | given % 16,
            _ => u64::MAX - given % 64,
        };
        place.copy_from_slice(&new.to_le_bytes());
        if at < header::SEALED_BYTES {
            header::seal(bytes);
        }
    }
}

fn read_all(cache: &Cache) {
    let mut buffer = Buffer::new();
    for key in 0..KEYS {
        if let Some(entry) = cache.get(&name(key), &mut buffer).unwrap() {
            let Value::Bytes { bytes, .. } = entry.value else { panic!("key {key} is a number") };
            assert_eq!(stamp::read(&name(key), bytes).map(|stamp| stamp.sequence), Ok(key));
        }
    }
    for number in 0..NUMBERS {
        if let Some(entry) = cache.get(&number_name(number), &mut buffer).unwrap() {
            let Value::Int(found) = entry.value else { panic!("number {number} is bytes") };
            assert!([number as i64, number as i64 + 1].contains(&found), "{number}: {found}");
        }
    }
}

/// Checks twice; the second check must find nothing.
fn check(cache: &Cache) {
    let first = cache.check().unwrap();
    let second = cache.check().unwrap();
    let is_same = second.is_sound() && second.entries == first.entries;
    assert!(is_same, "after {first:?}: {second:?}");
}

/// A write into a damaged file may be refused, until a check has repaired it.
fn or_full(result: Result<(), Error>, has_pinned: bool) {
    match result {
        Err(Error::Full { .. }) => {}
        result => or_no_room(result, has_pinned),
    }
}

/// The damage can forbid evictions, or limit the cache to fewer entries than are pinned.
fn or_no_room(result: Result<(), Error>, has_pinned: bool) {
    match result {
        Ok(()) => {}
        Err(Error::NoRoom { evicts, .. }) if has_pinned || !evicts => {}
        Err(error) => panic!("{error}"),
    }
}

fuzz_target!(|data: &[u8]| {
    // The length modulo eight has no other meaning.
    let (checks_first, has_pinned) = (data.len() % 8 >= 4, data.len() % 4 >= 2);
    let mut bytes = image(has_pinned).to_vec();
    clock::restart();
    damage(&mut bytes, data);
    std::fs::write(path(), &bytes).unwrap();
    let cache = match open() {
        Ok(cache) => cache,
        Err(Error::Arena(
            ArenaError::NotACache { .. }
            | ArenaError::VersionMismatch { .. }
            | ArenaError::Damaged { .. },
        )) => return,
        Err(error) => panic!("{error}"),
    };
    read_all(&cache);
    if checks_first {
        check(&cache);
        read_all(&cache);
    }
    for key in (0..KEYS).step_by(3) {
        let value = stamped(key, 100 + key as usize * 5);
        or_full(cache.set(&name(key), Value::bytes(&value), Ttl::Never), has_pinned);
        or_full(cache.touch(&name(key + 1), Ttl::Us(1 << 30)).map(drop), has_pinned);
        cache.delete(&name(key + 2)).unwrap();
    }
    let (mut scan, mut buffer) = (cache.scan(), Buffer::new());
    while let Some(item) = scan.next(&mut buffer).unwrap() {
        if let Value::Bytes { bytes, .. } = item.entry.value {
            stamp::read(item.key, bytes).expect("what a scan finds proves itself");
        }
    }
    cache.expire().unwrap();
    for number in 0..NUMBERS {
        or_no_room(cache.incr(&number_name(number), 1, None, Ttl::Never).map(drop), has_pinned);
    }
    or_full(cache.set(b"key 7", Value::bytes(&stamped(7, 9_000)), Ttl::Never), has_pinned);
    read_all(&cache);
    check(&cache);
    for key in 0..KEYS {
        or_no_room(cache.set(&name(key), Value::bytes(&stamped(key, 500)), Ttl::Never), has_pinned);
    }
    read_all(&cache);
    let last = cache.check().unwrap();
    assert!(last.is_sound(), "{last:?}");
});
