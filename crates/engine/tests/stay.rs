//! Entries that must stay: caches that do not evict, and pinned entries in those that do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use tuckbox_engine::{
    Attributes, Buffer, Cache, Changes, Clock, Condition, Config, Error, Handle, Place, Terms, Ttl,
    Value,
};

/// Sizes of caches, and lengths of values.
const CASES: [(u64, usize); 9] = [
    (64 << 10, 30),
    (64 << 10, 700),
    (200 << 10, 3_000),
    (1 << 20, 30),
    (1 << 20, 460),
    (1 << 20, 7_000),
    (1 << 20, 30_000),
    (34 << 20, 20_000),
    (34 << 20, 300_000),
];

fn config(size_bytes: u64, evicts: bool) -> Config {
    Config { size_bytes, evicts, ..Config::default() }
}

fn pinned(ttl: Ttl) -> Terms<'static> {
    let attributes = Attributes { is_pinned: true, ..Attributes::default() };
    Terms { attributes, ..Terms::plain(ttl) }
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn value(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number as usize * 31 + at) as u8).collect()
}

fn has(cache: &Cache, number: u64, len: usize) -> bool {
    let mut buffer = Buffer::new();
    let found = cache.get(&key(number), &mut buffer).unwrap();
    found.is_some_and(|entry| entry.value == Value::bytes(&value(number, len)))
}

/// Stores entries until one is refused; their number.
fn fill(cache: &Cache, len: usize, terms: &Terms<'_>) -> u64 {
    for number in 0.. {
        match cache.store(&key(number), Value::bytes(&value(number, len)), terms) {
            Ok(stored) => assert!(stored),
            Err(Error::NoRoom { .. }) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

fn assert_sound(cache: &Cache) {
    let report = cache.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// What is stored stays, and most of the file can be used.
#[test]
fn a_cache_that_does_not_evict_refuses_what_has_no_room() {
    for (size_bytes, len) in CASES {
        for (evicts, terms) in [(false, Terms::plain(Ttl::Never)), (true, pinned(Ttl::Never))] {
            let cache = Cache::open(&Place::Private, &config(size_bytes, evicts)).unwrap();
            let count = fill(&cache, len, &terms);
            let used = cache.stats().entry_bytes * 100 / size_bytes;
            let least = if size_bytes < 1 << 20 { 30 } else { 75 };
            assert!(used >= least, "{used} % of {size_bytes} bytes with values of {len}");
            assert!((0..count).all(|number| has(&cache, number, len)), "{size_bytes}, {len}");
            assert_eq!((cache.len(), cache.stats().evictions), (count, 0));
            assert_sound(&cache);
        }
    }
}

/// Whatever is deleted can be stored again, and the rest stays.
#[test]
fn deletes_make_room() {
    for (size_bytes, len) in CASES {
        let cache = Cache::open(&Place::Private, &config(size_bytes, false)).unwrap();
        let count = fill(&cache, len, &Terms::plain(Ttl::Never));
        let mut state = 7u64;
        let mut at: Vec<u64> = (0..count).collect();
        let mut refused = 0u64;
        let times = 2_000.min(3 * count);
        for new in count..count + times {
            loop {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = (state >> 33) as usize % at.len();
                assert!(cache.delete(&key(at.swap_remove(place))).unwrap());
                let stored = cache.set(&key(new), Value::bytes(&value(new, len)), Ttl::Never);
                match stored {
                    Ok(()) => break,
                    // The room is in another shard, or the index has taken it.
                    Err(Error::NoRoom { .. }) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            at.push(new);
        }
        // In one shard only while the index takes a segment more.
        let most = if cache.stats().shards == 1 { times / 100 + 1 } else { times / 10 };
        assert!(refused <= most, "{refused} of {times}: {size_bytes}, {len}");
        assert!(at.iter().all(|number| has(&cache, *number, len)), "{size_bytes}, {len}");
        assert_eq!(cache.stats().evictions, 0);
        assert_sound(&cache);
        at.iter().for_each(|number| assert!(cache.delete(&key(*number)).unwrap()));
        assert!(fill(&cache, len, &Terms::plain(Ttl::Never)) * 10 >= count * 9);
    }
}

#[test]
fn a_refused_write_changes_nothing() {
    let cache = Cache::open(&Place::Private, &config(1 << 20, false)).unwrap();
    assert_eq!(cache.incr(b"count", 5, Some(0), Ttl::Never).unwrap(), Some(5));
    let count = fill(&cache, 500, &Terms::plain(Ttl::Never));
    for number in 0..count {
        let long = value(number, 400_000);
        let error = cache.set(&key(number), Value::bytes(&long), Ttl::Never).unwrap_err();
        assert!(matches!(error, Error::NoRoom { size_bytes: 1_048_576, .. }), "{error}");
        assert!(has(&cache, number, 500), "{number}");
    }
    assert_eq!(cache.incr(b"count", 1, None, Ttl::Never).unwrap(), Some(6));
    // The same size needs no room.
    cache.set(&key(3), Value::bytes(&value(4, 500)), Ttl::Never).unwrap();
    assert!(cache.delete(&key(3)).unwrap());
    assert_eq!((cache.len(), cache.stats().evictions), (count, 0));
    assert_sound(&cache);
}

#[test]
fn the_limit_of_entries_refuses_too() {
    for (evicts, terms) in [(false, Terms::plain(Ttl::Never)), (true, pinned(Ttl::Never))] {
        let limited = Config { max_entries: Some(300), ..config(64 << 20, evicts) };
        let cache = Cache::open(&Place::Private, &limited).unwrap();
        assert_eq!(fill(&cache, 10, &terms), 300);
        let error = cache.add(b"more", Value::Int(1), Ttl::Never).unwrap_err();
        assert!(error.to_string().contains("and 300 entries"), "{error}");
        cache.store(&key(7), Value::bytes(&value(7, 50)), &terms).unwrap();
        assert!(cache.delete(&key(9)).unwrap());
        assert!(cache.store(&key(9), Value::bytes(&value(9, 10)), &terms).unwrap());
        assert_eq!(cache.len(), 300);
    }
}

/// Those that have expired leave, also from the middle of the log.
#[test]
fn expired_and_invalid_entries_make_room() {
    let now_us = Arc::new(AtomicU64::new(1_700_000_000_000_000));
    let limits = [None, Some(400)];
    for max_entries in limits {
        let timed = Config {
            max_entries,
            clock: Clock::Manual(Arc::clone(&now_us)),
            ..config(1 << 20, false)
        };
        let cache = Cache::open(&Place::Private, &timed).unwrap();
        let attributes = Attributes { tags: &["users"], ..Attributes::default() };
        for number in 0..300 {
            let terms = match number % 3 {
                0 => Terms::plain(Ttl::Us(1_000_000)),
                1 => Terms { attributes, ..Terms::plain(Ttl::Never) },
                _ => Terms::plain(Ttl::Never),
            };
            cache.store(&key(1 << 40 | number), Value::bytes(&value(number, 400)), &terms).unwrap();
        }
        let count = fill(&cache, 400, &Terms::plain(Ttl::Never));
        now_us.fetch_add(2_000_000, Ordering::SeqCst);
        let more = |from: u64| {
            let set = |number: u64| {
                cache.set(&key(number), Value::bytes(&value(number, 400)), Ttl::Never).is_ok()
            };
            (from..).take_while(|number| set(*number)).count() as u64
        };
        let expired = more(count);
        assert!((90..=125).contains(&expired), "{expired} of {count}");
        cache.evict("users", false).unwrap();
        let invalid = more(count + expired);
        assert!((90..=125).contains(&invalid), "{invalid} of {count}");
        assert_eq!(cache.stats().evictions, 0);
        assert!((0..count + expired + invalid).all(|number| has(&cache, number, 400)));
    }
}

/// Whether a write is refused, and if so, whether it searched for entries to collect.
fn refusal(cache: &Cache) -> Option<bool> {
    match cache.store(b"one more", Value::bytes(&[7; 400]), &pinned(Ttl::Never)) {
        Ok(_) => {
            // The room is free again.
            assert!(cache.delete(b"one more").unwrap());
            None
        }
        Err(Error::NoRoom { was_searched, .. }) => Some(was_searched),
        Err(error) => panic!("{error}"),
    }
}

/// A full cache, and its clock.
fn full(evicts: bool, ttl: Ttl) -> (Cache, u64, Arc<AtomicU64>) {
    let now_us = Arc::new(AtomicU64::new(1_700_000_000_000_000));
    let clock = Clock::Manual(Arc::clone(&now_us));
    let cache = Cache::open(&Place::Private, &Config { clock, ..config(4 << 20, evicts) }).unwrap();
    let count = fill(&cache, 400, &Terms { ttl, ..pinned(Ttl::Never) });
    fill_up(&cache);
    (cache, count, now_us)
}

/// Uses the room that there is.
fn fill_up(cache: &Cache) {
    let terms = Terms { condition: Condition::Absent, ..pinned(Ttl::Never) };
    let store =
        |number: &u64| cache.store(&key(1 << 42 | number), Value::bytes(&[7; 400]), &terms).is_ok();
    (0..).take_while(store).for_each(drop);
}

const LONG: Ttl = Ttl::Us(3_600_000_000);

/// One refused write searches, and then none until there may be something to find.
#[test]
fn a_refusal_is_cheap_until_something_can_be_collected() {
    for (evicts, ttl) in [(false, Ttl::Never), (true, Ttl::Never), (false, LONG), (true, LONG)] {
        let (cache, count, now_us) = full(evicts, ttl);
        let advance = |us: u64| now_us.fetch_add(us, Ordering::SeqCst);
        let has_none = |what: &str| {
            fill_up(&cache);
            assert_eq!(refusal(&cache), Some(false), "{what}");
        };
        let terms = Terms { ttl, ..pinned(Ttl::Never) };
        has_none("full");
        for number in 0..50 {
            cache.store(&key(number), Value::bytes(&value(number, 400)), &terms).unwrap();
            assert_eq!(refusal(&cache), Some(false), "after a write in place");
        }
        advance(1_000_000);
        assert_eq!(refusal(&cache), Some(false), "a second later");
        // The earliest expiry is what counts, whoever sets it.
        assert!(cache.touch(&key(3), Ttl::Us(500_000)).unwrap());
        assert_eq!(refusal(&cache), Some(false), "touched");
        advance(500_000);
        assert_eq!(refusal(&cache), None, "expired by touch");
        has_none("the room is used");
        let sooner = Terms { ttl: Ttl::Us(400_000), ..terms };
        cache.store(&key(4), Value::bytes(&value(4, 400)), &sooner).unwrap();
        assert_eq!(refusal(&cache), Some(false), "stored in place");
        advance(400_000);
        assert_eq!(refusal(&cache), None, "expired by a write in place");
        has_none("the room is used");
        let attributes = Attributes { tags: &["users"], ..terms.attributes };
        assert!(cache.delete(&key(5)).unwrap() && cache.delete(&key(6)).unwrap());
        let tagged = Terms { attributes, ..terms };
        cache.store(&key(5), Value::bytes(&value(5, 380)), &tagged).unwrap();
        has_none("tagged");
        cache.evict("nobody", false).unwrap();
        assert_eq!(refusal(&cache), Some(true), "another tag was evicted");
        cache.evict("users", false).unwrap();
        assert_eq!(refusal(&cache), None, "its tag was evicted");
        has_none("the room is used");
        advance(11_000_000);
        assert_eq!(refusal(&cache), Some(true), "nothing is believed for long");
        assert!((7..count).all(|number| has(&cache, number, 400)));
        assert_sound(&cache);
    }
}

/// Even if the words say otherwise, whatever they are.
#[test]
fn a_wrong_word_refuses_for_ten_seconds_at_most() {
    use tuckbox_arena::Geometry;
    use tuckbox_engine::format::{layout::shard, plan::plan};
    let now_us = Arc::new(AtomicU64::new(1_700_000_000_000_000));
    let path = std::env::temp_dir().join(format!("tuckbox-words-{}", std::process::id()));
    let clock = Clock::Manual(Arc::clone(&now_us));
    let open = || {
        let one = Config { clock: clock.clone(), ..config(64 << 10, false) };
        Cache::open(&Place::Path(path.clone()), &one).unwrap()
    };
    for soonest_us in [0u64, 1, 1_700_000_001_000_000, 1_700_000_009_000_000, 1 << 54, u64::MAX] {
        _ = std::fs::remove_file(&path);
        let cache = open();
        let shard_at = Geometry::new(plan(64 << 10, 0)).unwrap().shard_at(0);
        fill(&cache, 400, &Terms::plain(Ttl::Us(5_000)));
        assert_eq!(refusal(&cache), Some(false));
        drop(cache);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let at = shard_at + shard::SOONEST;
        std::os::unix::fs::FileExt::write_all_at(&file, &soonest_us.to_le_bytes(), at).unwrap();
        let cache = open();
        let before_us = now_us.fetch_add(10_000, Ordering::SeqCst);
        _ = refusal(&cache);
        now_us.fetch_add(9_990_000, Ordering::SeqCst);
        assert_eq!(refusal(&cache), None, "{soonest_us}");
        now_us.store(before_us, Ordering::SeqCst);
    }
    _ = std::fs::remove_file(&path);
}

/// What expires later needs no room.
#[test]
fn a_touch_needs_no_room() {
    for (size_bytes, len) in CASES {
        for (evicts, terms) in [(false, Terms::plain(Ttl::Never)), (true, pinned(Ttl::Never))] {
            let cache = Cache::open(&Place::Private, &config(size_bytes, evicts)).unwrap();
            let count = fill(&cache, len, &terms);
            for number in 0..count {
                assert!(cache.touch(&key(number), LONG).unwrap(), "{number} of {count}");
            }
            // Nor does the same length with or without a ttl.
            let timed = Terms { ttl: LONG, ..terms };
            for number in (0..count).filter(|_| len < 100) {
                let bytes = value(number, len);
                assert!(cache.store(&key(number), Value::bytes(&bytes), &terms).unwrap());
                assert!(cache.store(&key(number), Value::bytes(&bytes), &timed).unwrap());
            }
            assert!((0..count).all(|number| has(&cache, number, len)));
            assert_sound(&cache);
        }
    }
}

/// Pinned entries survive a flood, whatever part of the cache they take; ordinary ones are evicted.
#[test]
fn pinned_entries_survive_floods() {
    for (size_bytes, percent) in [(64 << 10, 30), (1 << 20, 5), (1 << 20, 70), (18 << 20, 50)] {
        let cache = Cache::open(&Place::Private, &config(size_bytes, true)).unwrap();
        let many = size_bytes * percent / 100 / 250;
        let mut terms = pinned(Ttl::Never);
        for number in 0..many {
            let bytes = value(number, 160);
            cache
                .set(&key(number), Value::bytes(&bytes[..number as usize % 160]), Ttl::Never)
                .unwrap();
            terms.condition = if number % 2 == 0 { Condition::Always } else { Condition::Present };
            assert!(cache.store(&key(number), Value::bytes(&bytes), &terms).unwrap());
        }
        for number in 0..3 * size_bytes / 200 {
            let flood = 1 << 40 | number;
            cache.set(&key(flood), Value::bytes(&value(flood, 160)), Ttl::Never).unwrap();
            assert!(has(&cache, flood, 160));
        }
        assert!((0..many).all(|number| has(&cache, number, 160)), "{size_bytes}, {percent} %");
        assert!(cache.stats().evictions > 0);
        assert_sound(&cache);
        // Without the pin they are evicted like others.
        for number in 0..many {
            cache.set(&key(number), Value::bytes(&value(number, 160)), Ttl::Never).unwrap();
        }
        for number in 0..3 * size_bytes / 200 {
            cache
                .set(&key(1 << 41 | number), Value::bytes(&value(number, 160)), Ttl::Never)
                .unwrap();
        }
        assert!((0..many).filter(|number| has(&cache, *number, 160)).count() as u64 * 2 < many);
        assert_sound(&cache);
    }
}

#[test]
fn a_pin_is_kept_by_touch_and_incr_and_ends_with_the_next_set() {
    let cache = Cache::open(&Place::Private, &config(1 << 20, true)).unwrap();
    let is_pinned =
        |key: &[u8]| cache.get_full(key, false, &mut Buffer::new()).unwrap().unwrap().is_pinned;
    cache.store(b"count", Value::Int(1), &pinned(Ttl::Never)).unwrap();
    cache.incr(b"count", 1, None, Ttl::Never).unwrap();
    cache.touch(b"count", Ttl::Us(1 << 40)).unwrap();
    cache.touch(b"count", Ttl::Never).unwrap();
    assert!(is_pinned(b"count"));
    cache.set(b"count", Value::Int(1), Ttl::Never).unwrap();
    assert!(!is_pinned(b"count"));
    let add = Terms { condition: Condition::Absent, ..pinned(Ttl::Us(1 << 40)) };
    assert!(cache.store(b"added", Value::Int(1), &add).unwrap() && is_pinned(b"added"));
    let attributes = Attributes { tags: &["users"], ..Attributes::default() };
    cache.store(b"added", Value::Int(1), &Terms { attributes, ..add }).unwrap();
    assert!(is_pinned(b"added"), "add stores nothing over an entry");
    cache
        .store(b"added", Value::Int(1), &Terms { attributes, ..Terms::plain(Ttl::Never) })
        .unwrap();
    assert!(!is_pinned(b"added"));
}

/// A smaller file that has no room for what must stay is not made.
#[test]
fn a_resize_keeps_them_or_fails() {
    use std::os::unix::fs::DirBuilderExt;
    let folder = std::env::temp_dir().join(format!("tuckbox-stay-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
    for evicts in [true, false] {
        let place = Place::Path(folder.join(format!("{evicts}.tuck")));
        let (handle, _) = Handle::open(place, config(4 << 20, evicts)).unwrap();
        for number in 0..12_000u64 {
            let bytes = value(number, 100);
            let terms = if number % 2 == 0 { pinned(Ttl::Never) } else { Terms::plain(Ttl::Never) };
            handle.store(&key(number), Value::bytes(&bytes), &terms).unwrap();
        }
        let resize = |mebibytes: u64| {
            let size_bytes = Some(mebibytes << 20);
            handle.resize(Changes { size_bytes, ..Changes::default() })
        };
        let kept = |wanted: fn(&u64) -> bool| {
            (0..12_000u64).filter(wanted).all(|number| {
                let mut buffer = Buffer::new();
                let found = handle.get_full(&key(number), false, &mut buffer).unwrap();
                found.is_some_and(|full| {
                    full.is_pinned == (number % 2 == 0)
                        && full.entry.value == Value::bytes(&value(number, 100))
                })
            })
        };
        assert!(kept(|_| true));
        if evicts {
            resize(2).unwrap();
        } else {
            let error = resize(1).unwrap_err();
            assert!(matches!(error, Error::NoRoom { evicts: false, .. }), "{error}");
            assert!(kept(|_| true));
            resize(3).unwrap();
        }
        assert!(kept(|number| number % 2 == 0));
        assert!(evicts || kept(|_| true));
        let full = handle.check().unwrap();
        assert!(full.is_sound(), "{:?}", full.findings);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
