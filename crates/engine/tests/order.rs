//! Caches that keep the order of insertion.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use tuckbox_arena::Geometry;
use tuckbox_engine::format::layout::table;
use tuckbox_engine::format::plan::plan;
use tuckbox_engine::{
    Attributes, Buffer, Cache, Changes, Clock, Config, Handle, Order, Place, ScanState, Terms, Ttl,
    Value, Walk,
};

/// One shard, four shards, and values with bodies.
const CASES: [(u64, usize); 4] =
    [(256 << 10, 40), (1 << 20, 3_000), (70 << 20, 40), (70 << 20, 600_000)];

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tuckbox-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const OLDEST: Order = Order { newest_first: false, window: 0 };
const NEWEST: Order = Order { newest_first: true, window: 0 };

fn config(size_bytes: u64) -> Config {
    Config { size_bytes, is_ordered: true, ..Config::default() }
}

fn open(size_bytes: u64) -> Cache {
    Cache::open(&Place::Private, &config(size_bytes)).unwrap()
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn number(key: &[u8]) -> u64 {
    u64::from_le_bytes(key.try_into().unwrap())
}

/// The numbers of all entries, as an iteration returns them, and the lengths of their values.
fn scanned(cache: &Cache, order: Order) -> Vec<(u64, usize)> {
    let (mut state, mut buffer, mut found) = (ScanState::new(order), Buffer::new(), Vec::new());
    while let Some(item) = cache.scan_next(&mut state, &mut buffer).unwrap() {
        found.push((number(item.key), item.entry.value.len()));
    }
    found
}

fn numbers(cache: &Cache, order: Order) -> Vec<u64> {
    scanned(cache, order).into_iter().map(|(number, _)| number).collect()
}

/// Any operations, against a list that is changed in the same way.
#[test]
fn an_iteration_follows_the_order_of_insertion() {
    for (size_bytes, len_max) in CASES {
        let cache = open(size_bytes);
        let (mut state, mut wanted) = (5u64, Vec::<(u64, usize)>::new());
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let steps = if len_max > 100_000 { 200 } else { 2_000 };
        for step in 0..steps {
            let this = random(40);
            let at = wanted.iter().position(|(number, _)| *number == this);
            match random(10) {
                0..6 => {
                    // Often of the length that the present value has.
                    let len = match at {
                        Some(at) if random(2) == 0 => wanted[at].1,
                        _ => random(len_max as u64) as usize,
                    };
                    let ttl = if random(2) == 0 { Ttl::Never } else { Ttl::Us(1 << 40) };
                    let tags: &[&str] = if random(3) == 0 { &["tag", "other"] } else { &[] };
                    let attributes = Attributes { tags, ..Attributes::default() };
                    let terms = Terms { attributes, ..Terms::plain(ttl) };
                    assert!(cache.store(&key(this), Value::bytes(&vec![7; len]), &terms).unwrap());
                    match at {
                        Some(at) => wanted[at].1 = len,
                        None => wanted.push((this, len)),
                    }
                }
                6 => assert_eq!(cache.touch(&key(this), Ttl::Us(1 << 41)).unwrap(), at.is_some()),
                7 => {
                    let added = cache.add(&key(this), Value::bytes(b"added"), Ttl::Never).unwrap();
                    assert_eq!(added, at.is_none());
                    wanted.extend(added.then_some((this, 5)));
                }
                _ => {
                    assert_eq!(cache.delete(&key(this)).unwrap(), at.is_some());
                    at.map(|at| wanted.remove(at));
                }
            }
            if step % 50 == 0 {
                assert_eq!(scanned(&cache, OLDEST), wanted, "{size_bytes}, step {step}");
                wanted.reverse();
                assert_eq!(scanned(&cache, NEWEST), wanted, "{size_bytes}, step {step}");
                for window in [1, 3, 40] {
                    assert_eq!(scanned(&cache, Order { window, ..NEWEST }), wanted);
                }
                wanted.reverse();
            }
        }
        assert!(cache.check().unwrap().is_sound());
        assert_eq!(cache.stats().evictions, 0);
    }
}

#[test]
fn numbers_leases_and_many_entries_at_once_have_their_places() {
    let cache = open(70 << 20);
    assert_eq!(cache.incr(&key(9), 1, Some(0), Ttl::Never).unwrap(), Some(1));
    let values: Vec<[u8; 8]> = (100..200).rev().map(key).collect();
    let entries: Vec<(&[u8], Value<'_>)> =
        values.iter().map(|bytes| (bytes.as_slice(), Value::bytes(bytes))).collect();
    cache.set_each(&entries, Ttl::Never).unwrap();
    cache.set_each(&entries[50..], Ttl::Never).unwrap();
    let mut buffer = Buffer::new();
    let token = match cache.begin(&key(3), false, &mut buffer).unwrap() {
        tuckbox_engine::Begin::Lease(token, _) => token,
        _ => panic!("nobody makes it"),
    };
    let none = Attributes::default();
    assert!(cache.finish(&token, &key(3), Value::bytes(b"made"), Ttl::Never, &none).unwrap());
    assert_eq!(cache.incr(&key(9), 1, Some(0), Ttl::Never).unwrap(), Some(2));
    let wanted: Vec<u64> = [9].into_iter().chain((100..200).rev()).chain([3]).collect();
    assert_eq!(numbers(&cache, OLDEST), wanted);
    assert_eq!(cache.pop(&key(150), &mut buffer).unwrap().map(|_| ()), Some(()));
    assert!(!numbers(&cache, OLDEST).contains(&150));
}

#[test]
fn a_key_that_was_missing_is_the_newest() {
    let now_us = Arc::new(AtomicU64::new(1_000_000));
    let config = Config { clock: Clock::Manual(Arc::clone(&now_us)), ..config(1 << 20) };
    let cache = Cache::open(&Place::Private, &config).unwrap();
    let set = |number, ttl| cache.set(&key(number), Value::bytes(b"value"), ttl).unwrap();
    set(1, Ttl::Us(50));
    set(2, Ttl::Us(500));
    set(3, Ttl::Never);
    now_us.fetch_add(100, Ordering::SeqCst);
    assert_eq!(numbers(&cache, OLDEST), [2, 3]);
    set(1, Ttl::Never);
    set(2, Ttl::Never);
    assert_eq!(numbers(&cache, OLDEST), [2, 3, 1]);
    cache.clear().unwrap();
    (1..4).rev().for_each(|number| set(number, Ttl::Never));
    assert_eq!(numbers(&cache, OLDEST), [3, 2, 1]);
}

/// A power cut, or damage.
#[test]
fn positions_grow_whatever_a_power_cut_brings_back() {
    let folder = Folder::new("power-cut");
    let place = Place::Path(folder.0.join("ordered"));
    let geometry = Geometry::new(plan(1 << 20, 0)).unwrap();
    let at = (geometry.tables_at + table::LAST_POSITION) as usize;
    let mut wanted = Vec::new();
    for (new, word) in [0, 1, 5, 1 << 60, u64::MAX].into_iter().enumerate() {
        let cache = Cache::open(&place, &config(1 << 20)).unwrap();
        for number in [new as u64, 10 + new as u64] {
            cache.set(&key(number), Value::bytes(b"value"), Ttl::Never).unwrap();
            wanted.push(number);
        }
        assert_eq!(numbers(&cache, OLDEST), wanted, "{word}");
        drop(cache);
        let Place::Path(path) = &place else { unreachable!() };
        let mut bytes = std::fs::read(path).unwrap();
        bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        std::fs::write(path, bytes).unwrap();
    }
}

/// With one time for all entries.
#[test]
fn positions_grow_also_if_the_clock_does_not() {
    let now_us = Arc::new(AtomicU64::new(1_000_000));
    let config = Config { clock: Clock::Manual(now_us), ..config(1 << 20) };
    let folder = Folder::new("positions");
    let path = folder.0.join("ordered");
    let set = |number: u64| {
        let cache = Cache::open(&Place::Path(path.clone()), &config).unwrap();
        cache.set(&key(number), Value::bytes(b"value"), Ttl::Never).unwrap();
        numbers(&cache, OLDEST)
    };
    for new in 0..50 {
        assert_eq!(set(new), (0..=new).collect::<Vec<_>>());
    }
    // An ordered file stays one for those who did not ask for it.
    let plain = Config { is_ordered: false, ..config.clone() };
    let cache = Cache::open(&Place::Path(path.clone()), &plain).unwrap();
    assert!(cache.settings().is_ordered);
    cache.set(&key(7), Value::bytes(b"other"), Ttl::Never).unwrap();
    assert_eq!(numbers(&cache, OLDEST), (0..50).collect::<Vec<_>>());
}

#[test]
fn evictions_leave_the_order_of_the_rest() {
    for size_bytes in [64 << 10, 1 << 20] {
        let cache = open(size_bytes);
        for new in 0..20_000 {
            cache.set(&key(new), Value::bytes(&[1; 100]), Ttl::Never).unwrap();
        }
        let found = numbers(&cache, OLDEST);
        assert!(cache.stats().evictions > 1_000 && found.len() > 50);
        assert!(found.is_sorted(), "{found:?}");
        assert!(cache.check().unwrap().is_sound());
    }
}

#[test]
fn copies_and_other_sizes_keep_the_order() {
    let folder = Folder::new("copies");
    let path = folder.0.join("ordered");
    let (handle, _) = Handle::open(Place::Path(path.clone()), config(1 << 20)).unwrap();
    let mut positions: HashMap<u64, usize> = HashMap::new();
    for (place, this) in (0..300u64).map(|n| n * 7919 % 300).enumerate() {
        let terms = Terms::plain(Ttl::Never);
        assert!(handle.store(&key(this), Value::bytes(&[1; 50]), &terms).unwrap());
        positions.insert(this, place);
    }
    let assert_order = |handle: &Handle, count| {
        let (mut walk, mut buffer, mut found) = (Walk::new(NEWEST), Buffer::new(), Vec::new());
        while let Some(item) = handle.scan_next(&mut walk, &mut buffer).unwrap() {
            found.push(number(item.key));
        }
        assert_eq!(found.len(), count);
        assert!(found.is_sorted_by_key(|number| -(positions[number] as i64)), "{found:?}");
    };
    assert_order(&handle, 300);
    let copy = folder.0.join("copy");
    handle.copy_to(&copy).unwrap();
    let (copy, _) = Handle::open(Place::Path(copy), Config::default()).unwrap();
    assert_order(&copy, 300);
    handle.resize(Changes { size_bytes: Some(70 << 20), ..Changes::default() }).unwrap();
    assert_order(&handle, 300);
    assert!(handle.store(&key(0), Value::bytes(b"again"), &Terms::plain(Ttl::Never)).unwrap());
    assert_order(&handle, 300);
}

/// What is inserted during an iteration is not part of it; what is inserted again is not either.
#[test]
fn an_iteration_tells_whether_it_has_the_newest() {
    let cache = open(1 << 20);
    let set = |number| cache.set(&key(number), Value::bytes(b"value"), Ttl::Never).unwrap();
    (0..5).for_each(set);
    let (mut state, mut buffer) = (ScanState::new(NEWEST), Buffer::new());
    let mut next = |state: &mut ScanState| {
        let item = cache.scan_next(state, &mut buffer).unwrap();
        item.map(|item| number(item.key))
    };
    assert_eq!(next(&mut state), Some(4));
    set(3);
    assert!(cache.has_newest(&state));
    assert!(cache.delete(&key(3)).unwrap() && cache.delete(&key(2)).unwrap());
    assert!(cache.has_newest(&state));
    set(3);
    assert!(!cache.has_newest(&state));
    assert_eq!(next(&mut state), Some(1));
    assert_eq!(next(&mut state), Some(0));
    assert_eq!(next(&mut state), None);
}
