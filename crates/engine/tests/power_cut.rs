//! A cache in the next boot of the machine, after a use that was closed in order and after a crash.
//! Images of power cuts are in `torture pages`.
#![cfg(feature = "hooks")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use tuckbox_arena::hooks::pretend_boot;
use tuckbox_arena::Geometry;
use tuckbox_engine::format::layout::{log, shard, table, tag_row};
use tuckbox_engine::format::plan::plan;
use tuckbox_engine::{
    AfterPowerCut, ArenaError, Attributes, Buffer, Cache, Changes, Config, Error, Handle, Place,
    Rights, Terms, Ttl, Value,
};
use tuckbox_testkit::specimen::Scratch;

const ENTRIES: u64 = 200;

/// The simulated boot is global to the process, so the tests of this file run one after the other.
struct Machine {
    _alone: MutexGuard<'static, ()>,
    _scratch: Scratch,
    path: PathBuf,
    size_bytes: u64,
}

impl Machine {
    fn new(size_bytes: u64) -> Machine {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|broken| broken.into_inner());
        let scratch = Scratch::new();
        let Place::Path(path) = scratch.place() else { unreachable!("a scratch has a path") };
        std::fs::remove_file(&path).unwrap();
        let machine = Machine { _alone: alone, _scratch: scratch, path, size_bytes };
        machine.start();
        machine
    }

    /// Simulates a new boot.
    fn start(&self) {
        static BOOTS: AtomicU64 = AtomicU64::new(1);
        let boot = BOOTS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        pretend_boot(boot);
    }

    fn try_open(&self, after_power_cut: AfterPowerCut, read_only: bool) -> Result<Cache, Error> {
        let rights = Rights { read_only, ..Rights::default() };
        let size_bytes = self.size_bytes;
        let config = Config { size_bytes, after_power_cut, rights, ..Config::default() };
        Cache::open(&Place::Path(self.path.clone()), &config)
    }

    fn open(&self, after_power_cut: AfterPowerCut) -> Cache {
        self.try_open(after_power_cut, false).unwrap()
    }
}

fn fill(cache: &Cache, keys: std::ops::Range<u64>) {
    for key in keys {
        cache.set(&key.to_le_bytes(), Value::bytes(&[key as u8; 100]), Ttl::Never).unwrap();
    }
}

fn found(cache: &Cache, keys: std::ops::Range<u64>) -> u64 {
    let mut buffer = Buffer::new();
    let mut is_there = |key: u64| match cache.get(&key.to_le_bytes(), &mut buffer).unwrap() {
        None => false,
        Some(entry) => {
            assert_eq!(entry.value, Value::bytes(&[key as u8; 100]), "key {key}");
            true
        }
    };
    keys.filter(|key| is_there(*key)).count() as u64
}

/// Ends a use as a crash of the machine does: nothing more is written.
fn crash(cache: Cache) {
    std::mem::forget(cache);
}

#[test]
fn entries_are_discarded_after_a_cut_alone() {
    let machine = Machine::new(1 << 20);
    let cache = machine.open(AfterPowerCut::Discard);
    fill(&cache, 0..ENTRIES);
    drop(cache);
    for discards in 0..3 {
        machine.start();
        // The file's own setting counts, not the requested one.
        let cache = machine.open(AfterPowerCut::Keep);
        let stats = cache.stats();
        assert_eq!((stats.after_power_cut, stats.discards), (AfterPowerCut::Discard, discards));
        let expected = if discards == 0 { ENTRIES } else { 0 };
        assert_eq!(found(&cache, 0..ENTRIES), expected);
        assert!(cache.check().unwrap().is_sound());
        fill(&cache, 0..ENTRIES);
        crash(cache);
        // A death loses nothing as long as the machine runs.
        let cache = machine.open(AfterPowerCut::Discard);
        assert_eq!(found(&cache, 0..ENTRIES), ENTRIES);
        crash(cache);
    }
}

#[test]
fn a_resize_keeps_the_count_of_discards() {
    let machine = Machine::new(1 << 20);
    crash(machine.open(AfterPowerCut::Discard));
    machine.start();
    let changes = Changes { size_bytes: Some(2 << 20), ..Changes::default() };
    let config = Config { changes, ..Config::default() };
    let (handle, resized) = Handle::open(Place::Path(machine.path.clone()), config).unwrap();
    resized.unwrap();
    let stats = handle.stats();
    assert_eq!((stats.size_bytes, stats.discards), (2 << 20, 1));
}

#[test]
fn entries_are_kept_after_a_cut_by_default() {
    let machine = Machine::new(1 << 20);
    let cache = machine.open(AfterPowerCut::default());
    fill(&cache, 0..ENTRIES);
    crash(cache);
    machine.start();
    let cache = machine.open(AfterPowerCut::Discard);
    assert_eq!(cache.stats().after_power_cut, AfterPowerCut::Keep);
    assert_eq!(found(&cache, 0..ENTRIES), ENTRIES);
}

#[test]
fn a_handle_that_stays_open_keeps_the_others_ends_from_counting() {
    let machine = Machine::new(1 << 20);
    let (stays, ends) =
        (machine.open(AfterPowerCut::Discard), machine.open(AfterPowerCut::Discard));
    fill(&ends, 0..ENTRIES);
    drop(ends);
    crash(stays);
    machine.start();
    assert_eq!(machine.open(AfterPowerCut::Discard).stats().discards, 1);
}

#[test]
fn a_handle_that_only_reads_does_not_see_what_a_cut_left() {
    let machine = Machine::new(1 << 20);
    let cache = machine.open(AfterPowerCut::Discard);
    fill(&cache, 0..ENTRIES);
    drop(cache);
    machine.start();
    let reader = machine.try_open(AfterPowerCut::Discard, true).unwrap();
    assert_eq!(found(&reader, 0..ENTRIES), ENTRIES);
    let cache = machine.open(AfterPowerCut::Discard);
    crash(cache);
    machine.start();
    let refused = machine.try_open(AfterPowerCut::Discard, true).map(drop);
    assert!(matches!(refused, Err(Error::Arena(ArenaError::CutOff { .. }))), "{refused:?}");
    let _cache = machine.open(AfterPowerCut::Discard);
    let reader = machine.try_open(AfterPowerCut::Discard, true).unwrap();
    assert_eq!(found(&reader, 0..ENTRIES), 0);
}

fn geometry(size_bytes: u64) -> Geometry {
    Geometry::new(plan(size_bytes, 0)).unwrap()
}

fn word(bytes: &[u8], at: u64) -> u64 {
    u64::from_ne_bytes(bytes[at as usize..][..8].try_into().unwrap())
}

fn change(path: &Path, at: u64, word: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at as usize..][..8].copy_from_slice(&word.to_ne_bytes());
    std::fs::write(path, bytes).unwrap();
}

/// Pages of the tables from different times: a shard's log ends in another shard's segment.
#[test]
fn a_shard_writes_only_into_segments_that_it_owns() {
    let machine = Machine::new(64 << 20);
    let cache = machine.open(AfterPowerCut::Keep);
    fill(&cache, 0..20_000);
    let shards = cache.stats().shards;
    assert_eq!(shards, 4);
    drop(cache);
    let geometry = geometry(machine.size_bytes);
    let bytes = std::fs::read(&machine.path).unwrap();
    let tail_of = |number: u64| geometry.shard_at(number) + shard::SMALL + log::TAIL;
    for word_of_log in [log::HEAD, log::TAIL] {
        let theirs = word(&bytes, tail_of(1));
        assert_ne!(theirs, 0);
        change(&machine.path, geometry.shard_at(0) + shard::SMALL + word_of_log, theirs);
    }
    machine.start();
    let cache = machine.open(AfterPowerCut::Keep);
    fill(&cache, 1 << 20..(1 << 20) + 20_000);
    // What the first shard held may be lost, a quarter; of the others nothing.
    let left = found(&cache, 0..20_000);
    assert!(left > 14_500, "{left} of 20,000 entries are left");
    let report = cache.check().unwrap();
    assert_eq!(report.damaged_entries, 0, "{:?}", report.findings);
}

/// The shard's page is older on the disk than its buckets and records, and older than a clear.
#[test]
fn a_clear_removes_also_what_a_cut_had_hidden() {
    let machine = Machine::new(1 << 20);
    let cache = machine.open(AfterPowerCut::Keep);
    // Few enough entries that the index keeps its first buckets, and long enough to take many
    // segments.
    let store = |keys: std::ops::Range<u64>| {
        for key in keys {
            cache.set(&key.to_le_bytes(), Value::bytes(&[key as u8; 2_000]), Ttl::Never).unwrap();
        }
    };
    store(0..10);
    let shard_at = geometry(machine.size_bytes).shard_at(0) as usize;
    let page = shard_at..shard_at + shard::DIRECTORY as usize;
    let before = std::fs::read(&machine.path).unwrap()[page.clone()].to_vec();
    cache.clear().unwrap();
    store(0..150);
    drop(cache);
    let mut image = std::fs::read(&machine.path).unwrap();
    image[page].copy_from_slice(&before);
    std::fs::write(&machine.path, image).unwrap();
    machine.start();
    let cache = machine.open(AfterPowerCut::Keep);
    cache.clear().unwrap();
    let mut buffer = Buffer::new();
    let mut is_there = |key: u64| cache.get(&key.to_le_bytes(), &mut buffer).unwrap().is_some();
    assert_eq!((0..150).filter(|key| is_there(*key)).count(), 0);
}

/// The page of the stamp clock is older on the disk than entries and rows, by any time.
#[test]
fn evicting_a_tag_works_after_a_cut_that_set_the_stamp_clock_back() {
    let attributes = Attributes { tags: &["users"], ..Attributes::default() };
    let terms = Terms { attributes, ..Terms::plain(Ttl::Never) };
    let mut buffer = Buffer::new();
    let mut is_there = |cache: &Cache, key: &[u8]| cache.get(key, &mut buffer).unwrap().is_some();
    for back_to in [0, 1, u64::MAX / 2, u64::MAX] {
        let machine = Machine::new(1 << 20);
        let cache = machine.open(AfterPowerCut::Keep);
        let set = |cache: &Cache, key: &[u8]| {
            assert!(cache.store(key, Value::Int(1), &terms).unwrap());
        };
        (0..500).for_each(|_| cache.evict("other", false).unwrap());
        // A boot takes longer than so many evictions.
        std::thread::sleep(std::time::Duration::from_millis(2));
        set(&cache, b"gone");
        cache.evict("users", false).unwrap();
        set(&cache, b"before");
        drop(cache);
        let tables_at = geometry(machine.size_bytes).tables_at;
        change(&machine.path, tables_at + table::STAMP_CLOCK, back_to);
        machine.start();
        let reader = machine.try_open(AfterPowerCut::Keep, true).unwrap();
        assert!(!is_there(&reader, b"gone"), "to one that only reads, {back_to}");
        let cache = machine.open(AfterPowerCut::Keep);
        assert!(is_there(&cache, b"before") && !is_there(&cache, b"gone"), "{back_to}");
        set(&cache, b"after");
        assert!(is_there(&cache, b"after"), "{back_to}");
        cache.evict("users", false).unwrap();
        assert!(!is_there(&cache, b"before") && !is_there(&cache, b"after"), "{back_to}");
        set(&cache, b"after");
        assert!(is_there(&cache, b"after"), "{back_to}");
    }
}

/// Any value in the row of a tag.
#[test]
fn evicting_a_tag_repairs_its_damaged_row() {
    for damage in [1, u64::MAX / 2, u64::MAX] {
        let machine = Machine::new(1 << 20);
        let cache = machine.open(AfterPowerCut::Keep);
        let attributes = Attributes { tags: &["users"], ..Attributes::default() };
        let terms = Terms { attributes, ..Terms::plain(Ttl::Never) };
        cache.evict("users", false).unwrap();
        drop(cache);
        let bytes = std::fs::read(&machine.path).unwrap();
        let rows_at = geometry(machine.size_bytes).tables_at + table::TAG_ROWS;
        let taken = (0..64).map(|row| rows_at + row * tag_row::BYTES);
        let row = taken.into_iter().find(|at| word(&bytes, *at) != 0).unwrap();
        change(&machine.path, row + tag_row::INVALIDATED, damage);
        let (cache, mut buffer) = (machine.open(AfterPowerCut::Keep), Buffer::new());
        assert!(cache.store(b"key", Value::Int(1), &terms).unwrap());
        cache.evict("users", false).unwrap();
        assert!(cache.get(b"key", &mut buffer).unwrap().is_none(), "{damage}");
        assert!(cache.store(b"key", Value::Int(1), &terms).unwrap());
        assert!(cache.get(b"key", &mut buffer).unwrap().is_some(), "{damage}");
    }
}
