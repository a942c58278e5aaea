//! Tags, stale entries and eras as a user of the engine sees them: with chosen operations, and random
//! ones compared with a map. Deaths and interleavings are in `protocol/invalidation.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use tuckbox_engine::{
    Attributes, Buffer, Cache, Clock, Condition, Config, Error, Terms, Ttl, Value, TAGS_MAX,
    TAG_BYTES_MAX,
};
use tuckbox_testkit::stamp::Stream;

const START_US: u64 = 1_700_000_000_000_000;

fn twins(size_bytes: u64) -> (Vec<Cache>, Arc<AtomicU64>) {
    let now_us = Arc::new(AtomicU64::new(START_US));
    let clock = Clock::Manual(Arc::clone(&now_us));
    (Cache::twins(&Config { size_bytes, clock, ..Config::default() }, 2).unwrap(), now_us)
}

fn terms<'a>(tags: &'a [&'a str], ttl: Ttl, stale: Option<Ttl>) -> Terms<'a> {
    let attributes = Attributes { tags, stale, ..Attributes::default() };
    Terms { attributes, ..Terms::plain(ttl) }
}

fn set(cache: &Cache, key: &str, number: i64, terms: &Terms<'_>) -> bool {
    cache.store(key.as_bytes(), Value::Int(number), terms).unwrap()
}

fn get(cache: &Cache, key: &str) -> Option<i64> {
    let mut buffer = Buffer::new();
    cache.get(key.as_bytes(), &mut buffer).unwrap().map(|entry| number(entry.value))
}

/// The number, and whether it is stale.
fn get_stale(cache: &Cache, key: &str) -> Option<(i64, bool)> {
    let mut buffer = Buffer::new();
    let found = cache.get_full(key.as_bytes(), true, &mut buffer).unwrap();
    found.map(|found| (number(found.entry.value), found.is_stale))
}

fn number(value: Value<'_>) -> i64 {
    match value {
        Value::Int(number) => number,
        Value::Bytes { bytes, .. } => i64::from_le_bytes(bytes[..8].try_into().unwrap()),
    }
}

fn assert_sound(cache: &Cache) {
    let report = cache.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.entries, cache.len());
}

#[test]
fn evicting_a_tag_removes_its_entries_for_everyone_and_no_others() {
    let (twins, _) = twins(1 << 20);
    let (one, other) = (&twins[0], &twins[1]);
    for key in ["a", "b"] {
        assert!(set(one, key, 1, &terms(&["users", "staff"], Ttl::Never, None)));
    }
    assert!(set(one, "c", 2, &terms(&["guests"], Ttl::Us(50), None)));
    assert!(set(one, "d", 3, &Terms::plain(Ttl::Never)));
    other.evict("users", false).unwrap();
    let found = |cache: &Cache| ["a", "b", "c", "d"].map(|key| get(cache, key));
    assert_eq!(found(one), [None, None, Some(2), Some(3)]);
    assert_eq!(found(other), found(one));
    // Missing to every operation.
    let (key, never) = (b"a".as_slice(), Ttl::Never);
    let mut buffer = Buffer::new();
    assert!(!one.contains(key, &mut buffer).unwrap() && !one.touch(key, never).unwrap());
    assert!(!one.replace(key, Value::Int(5), never).unwrap());
    assert!(one.pop(key, &mut buffer).unwrap().is_none() && !one.delete(key).unwrap());
    assert_eq!(one.incr(key, 1, None, never).unwrap(), None);
    assert!(one.get_full(key, true, &mut buffer).unwrap().is_none());
    let mut scan = one.scan();
    let mut keys = BTreeSet::new();
    while let Some(item) = scan.next(&mut buffer).unwrap() {
        keys.insert(item.key.to_vec());
    }
    assert_eq!(keys, BTreeSet::from([b"c".to_vec(), b"d".to_vec()]));
    // Entries stored after it are not affected.
    assert!(set(one, "a", 6, &terms(&["users"], Ttl::Never, None)));
    assert_eq!(get(other, "a"), Some(6));
    assert_eq!(one.expire().unwrap(), 1, "b, which nobody has met since");
    assert_eq!(one.len(), 3);
    assert_sound(one);
}

#[test]
fn a_value_whose_making_began_before_an_eviction_is_not_found_after_it() {
    let (twins, _) = twins(1 << 20);
    let cache = &twins[0];
    let stamp = Some(cache.stamp());
    cache.evict("users", false).unwrap();
    let attributes = Attributes { tags: &["users"], stamp, ..Attributes::default() };
    set(cache, "a", 1, &Terms { attributes, ..Terms::plain(Ttl::Never) });
    assert_eq!(get(cache, "a"), None);
    let stamp = Some(cache.stamp());
    set(
        cache,
        "a",
        1,
        &Terms { attributes: Attributes { stamp, ..attributes }, ..Terms::plain(Ttl::Never) },
    );
    assert_eq!(get(cache, "a"), Some(1));
}

#[test]
fn a_stale_entry_is_missing_to_all_who_do_not_ask_for_it() {
    let (twins, now_us) = twins(1 << 20);
    let (cache, mut buffer) = (&twins[0], Buffer::new());
    let stale_terms = terms(&["t"], Ttl::Us(100), Some(Ttl::Us(50)));
    let make_stale = |soft: bool| {
        assert!(set(cache, "a", 1, &stale_terms));
        match soft {
            true => cache.evict("t", true).unwrap(),
            false => _ = now_us.fetch_add(100, Ordering::Relaxed),
        }
        assert_eq!((get(cache, "a"), get_stale(cache, "a")), (None, Some((1, true))));
    };
    for soft in [false, true] {
        make_stale(soft);
        let key = b"a".as_slice();
        let version = cache.get_full(key, true, &mut buffer).unwrap().unwrap().entry.version;
        assert!(
            !cache.contains(key, &mut buffer).unwrap() && !cache.touch(key, Ttl::Never).unwrap()
        );
        assert!(!cache.replace(key, Value::Int(5), Ttl::Never).unwrap());
        assert!(!cache.compare_and_set(key, Value::Int(5), Ttl::Never, version).unwrap());
        assert!(!cache.delete_version(key, version).unwrap());
        assert!(cache.get_and_touch(key, Ttl::Never, &mut buffer).unwrap().is_none());
        assert!(cache.scan().next(&mut buffer).unwrap().is_none());
        assert_eq!(get_stale(cache, "a"), Some((1, true)), "none of these removed it");
        assert!(!cache.delete(key).unwrap(), "it was missing");
        assert_eq!(get_stale(cache, "a"), None, "and is not served any more");
        make_stale(soft);
        assert!(cache.pop(key, &mut buffer).unwrap().is_none());
        assert_eq!(get_stale(cache, "a"), None);
        make_stale(soft);
        assert_eq!(cache.incr(key, 1, Some(10), Ttl::Never).unwrap(), Some(11));
        assert_eq!(cache.len(), 1, "it took the place of the stale one");
        make_stale(soft);
        assert!(cache.add(key, Value::Int(7), Ttl::Never).unwrap());
        assert_eq!((cache.len(), get(cache, "a")), (1, Some(7)));
    }
    make_stale(false);
    now_us.fetch_add(49, Ordering::Relaxed);
    assert_eq!(get_stale(cache, "a"), Some((1, true)));
    now_us.fetch_add(1, Ordering::Relaxed);
    assert_eq!(get_stale(cache, "a"), None);
    assert_sound(cache);
}

#[test]
fn touch_and_incr_keep_tags_and_the_time_for_stale_entries() {
    let (twins, now_us) = twins(1 << 20);
    let (cache, mut buffer) = (&twins[0], Buffer::new());
    for ttl in [Ttl::Us(100), Ttl::Never] {
        assert!(set(cache, "a", 1, &terms(&["t", "u"], ttl, Some(Ttl::Us(50)))));
        assert_eq!(cache.incr(b"a", 4, None, Ttl::Never).unwrap(), Some(5));
        assert!(cache.touch(b"a", Ttl::Us(200)).unwrap());
        let now = now_us.load(Ordering::Relaxed);
        let found = cache.get_full(b"a", false, &mut buffer).unwrap().unwrap();
        assert_eq!(found.entry.expiry_us, Some(now + 200));
        assert!(found.tags.eq([b"t", b"u"]));
        let touched = cache.get_and_touch(b"a", Ttl::Us(200), &mut buffer).unwrap().unwrap();
        assert_eq!(touched.value, Value::Int(5));
        now_us.fetch_add(249, Ordering::Relaxed);
        assert_eq!(get_stale(cache, "a"), Some((5, true)));
        now_us.fetch_add(1, Ordering::Relaxed);
        assert_eq!(get_stale(cache, "a"), None);
        assert!(set(cache, "a", 1, &terms(&["t"], ttl, None)));
        cache.incr(b"a", 4, None, Ttl::Never).unwrap();
        assert!(cache.touch(b"a", Ttl::Never).unwrap());
        cache.evict("t", false).unwrap();
        assert_eq!(get(cache, "a"), None);
    }
}

#[test]
fn storing_can_keep_the_expiry() {
    let (twins, now_us) = twins(1 << 20);
    let (cache, mut buffer) = (&twins[0], Buffer::new());
    let keeping = |terms: Terms<'static>| Terms { keeps_ttl: true, ..terms };
    let mut expiry = |key: &str| {
        let found = cache.get_full(key.as_bytes(), true, &mut buffer).unwrap().unwrap();
        found.entry.expiry_us
    };
    assert!(set(cache, "a", 1, &Terms::plain(Ttl::Us(100))));
    now_us.fetch_add(10, Ordering::Relaxed);
    assert!(set(cache, "a", 2, &keeping(Terms::plain(Ttl::Us(7)))));
    assert_eq!(expiry("a"), Some(START_US + 100));
    assert!(set(cache, "a", 3, &keeping(terms(&["t"], Ttl::Never, Some(Ttl::Us(30))))));
    assert_eq!(expiry("a"), Some(START_US + 100));
    assert!(set(cache, "a", 4, &keeping(terms(&[], Ttl::Never, Some(Ttl::Us(5))))));
    assert_eq!(expiry("a"), Some(START_US + 100), "without the time of a stale one");
    assert!(set(cache, "b", 1, &keeping(Terms::plain(Ttl::Us(7)))));
    assert_eq!(expiry("b"), Some(START_US + 17), "a new entry gets the ttl");
    assert!(set(cache, "b", 1, &Terms::plain(Ttl::Never)));
    assert!(set(cache, "b", 1, &keeping(Terms::plain(Ttl::Us(7)))));
    assert_eq!(expiry("b"), None);
    now_us.fetch_add(95, Ordering::Relaxed);
    assert!(!set(
        cache,
        "a",
        5,
        &Terms { condition: Condition::Present, ..keeping(Terms::plain(Ttl::Us(7))) }
    ));
    assert_sound(cache);
}

#[test]
fn a_delete_of_a_version_leaves_another_one() {
    let (twins, _) = twins(1 << 20);
    let (cache, mut buffer) = (&twins[0], Buffer::new());
    set(cache, "a", 1, &Terms::plain(Ttl::Never));
    let version = cache.get(b"a", &mut buffer).unwrap().unwrap().version;
    set(cache, "a", 2, &Terms::plain(Ttl::Never));
    assert!(!cache.delete_version(b"a", version).unwrap());
    let version = cache.get(b"a", &mut buffer).unwrap().unwrap().version;
    assert!(cache.delete_version(b"a", version).unwrap());
    assert!(!cache.delete_version(b"a", version).unwrap());
    assert_eq!(cache.len(), 0);
}

#[test]
fn tags_beyond_the_limits_are_refused_before_anything_changes() {
    let (twins, _) = twins(1 << 20);
    let cache = &twins[0];
    let (longest, too_long) = ("x".repeat(TAG_BYTES_MAX), "x".repeat(TAG_BYTES_MAX + 1));
    let most = vec![longest.as_str(); TAGS_MAX];
    let too_many = vec!["t"; TAGS_MAX + 1];
    let store = |tags: &[&str]| {
        cache.store(b"a", Value::bytes(&[7; 5_000]), &terms(tags, Ttl::Us(9), None))
    };
    for tags in [&[too_long.as_str()][..], &[""], &["t", ""]] {
        assert!(matches!(store(tags), Err(Error::TagLength { .. })));
    }
    assert!(matches!(store(&too_many), Err(Error::TooManyTags { count: 33, most: 32 })));
    assert!(matches!(cache.evict("", false), Err(Error::TagLength { len_bytes: 0, .. })));
    assert!(cache.is_empty());
    // Records with the longest key, many tags and several segments of value.
    let key = vec![7; 65_536];
    for len in [0, 10, 4_000, 70_000] {
        let value = vec![9; len];
        let terms = terms(&most, Ttl::Us(9), Some(Ttl::Us(5)));
        assert!(cache.store(&key, Value::bytes(&value), &terms).unwrap());
        let mut buffer = Buffer::new();
        let found = cache.get_full(&key, false, &mut buffer).unwrap().unwrap();
        assert_eq!(found.entry.value, Value::bytes(&value));
        assert_eq!(found.tags.count(), TAGS_MAX);
        assert!(cache.touch(&key, Ttl::Never).unwrap());
        assert_sound(cache);
    }
    cache.evict(&longest, false).unwrap();
    assert!(!cache.contains(&key, &mut Buffer::new()).unwrap());
}

/// Ten thousand tags in a cache with fewer rows.
#[test]
#[cfg_attr(miri, ignore = "long")]
fn more_tags_than_rows_invalidate_too_much_and_never_too_little() {
    const TAGS: usize = 10_000;
    for (size_bytes, most_others) in
        [(64 << 10, None), (64 << 20, Some(3.0)), (1 << 30, Some(0.05))]
    {
        let (twins, _) = twins(size_bytes);
        let cache = &twins[0];
        let names: Vec<String> = (0..TAGS).map(|tag| format!("tag {tag}")).collect();
        names.iter().for_each(|name| cache.evict(name, false).unwrap());
        let keys = if size_bytes < 1 << 20 { 400 } else { TAGS };
        let fill = || {
            for (key, name) in names.iter().enumerate().take(keys) {
                set(cache, &format!("{key}"), 1, &terms(&[name], Ttl::Never, None));
            }
        };
        fill();
        let mut others = 0;
        let mut random = Stream::new(3);
        for _ in 0..100 {
            let tag = random.next_word() as usize % keys;
            cache.expire().unwrap();
            cache.evict(&names[tag], false).unwrap();
            assert_eq!(get(cache, &format!("{tag}")), None);
            others += cache.expire().unwrap() - 1;
            fill();
            assert_eq!(get(cache, &format!("{tag}")), Some(1), "it can be stored again");
        }
        let mean = f64::from(u32::try_from(others).unwrap()) / 100.0;
        println!("{size_bytes} bytes: {mean} others each");
        assert!(most_others.is_none_or(|most| mean <= most), "{mean} others in {size_bytes}");
    }
}

#[test]
fn an_era_never_comes_again() {
    let (twins, _) = twins(64 << 10);
    let mut former: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let mut random = Stream::new(4);
    for round in 0..2_000 {
        let name = format!("namespace {}", random.next_word() % 30);
        let eras = former.entry(name.clone()).or_default();
        let era = twins[round % 2].era(name.as_bytes()).unwrap();
        eras.insert(era);
        let next = twins[(round + 1) % 2].advance_era(name.as_bytes()).unwrap();
        assert!(next > 1 && eras.insert(next), "{name} had the era {next} before");
        assert_eq!(twins[0].era(name.as_bytes()).unwrap(), next);
    }
}

/// An entry of the model. Evictions are numbered.
#[derive(Clone)]
struct Known {
    number: i64,
    tags: Vec<usize>,
    end_us: Option<u64>,
    stale_us: u64,
    since: u64,
}

#[derive(PartialEq, Debug, Clone, Copy)]
enum State {
    Fresh,
    Stale,
    Gone,
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<String, Known>,
    evictions: u64,
    invalidated: [u64; 6],
    staled: [u64; 6],
}

impl Model {
    fn state(&self, key: &str, now_us: u64) -> State {
        let Some(known) = self.entries.get(key) else { return State::Gone };
        let is_past = |more| known.end_us.is_some_and(|end_us| end_us + more <= now_us);
        let later = |rows: &[u64; 6]| known.tags.iter().any(|tag| rows[*tag] > known.since);
        match () {
            () if is_past(known.stale_us) || later(&self.invalidated) => State::Gone,
            () if is_past(0) || later(&self.staled) => State::Stale,
            () => State::Fresh,
        }
    }
}

/// Random operations by two processes, compared with a map: nothing is evicted for want of space.
#[test]
#[cfg_attr(miri, ignore = "long")]
fn tags_and_staleness_are_those_of_a_map_with_a_clock() {
    const NAMES: [&str; 6] = ["a", "bb", "users", "posts:7", "é", "x y"];
    for seed in 0..60 {
        let (twins, now_us) = twins(4 << 20);
        let (mut model, mut random) = (Model::default(), Stream::new(seed));
        let mut buffer = Buffer::new();
        for step in 0..400 {
            let mut below = |limit: u64| random.next_word() % limit;
            let cache = &twins[below(2) as usize];
            let key = format!("key {}", below(12));
            let now = now_us.load(Ordering::Relaxed);
            let state = model.state(&key, now);
            let ttl = if below(2) == 0 { Ttl::Never } else { Ttl::Us(1 + below(300)) };
            let end_us = match ttl {
                Ttl::Never => None,
                Ttl::Us(us) => Some(now + us),
            };
            match below(16) {
                0..=4 => {
                    let tags: Vec<usize> = (0..NAMES.len()).filter(|_| below(4) == 0).collect();
                    let names: Vec<&str> = tags.iter().map(|tag| NAMES[*tag]).collect();
                    let stale = (below(2) == 0).then(|| Ttl::Us(below(200)));
                    let condition = [Condition::Always, Condition::Absent, Condition::Present]
                        [below(3) as usize];
                    let keeps_ttl = below(4) == 0;
                    let number: i64 = step;
                    let terms = Terms { condition, keeps_ttl, ..terms(&names, ttl, stale) };
                    // A number, or bytes of several lengths.
                    let mut bytes = vec![0; [8, 100, 5_000, 70_000][below(4) as usize]];
                    bytes[..8].copy_from_slice(&number.to_le_bytes());
                    let value = match below(3) {
                        0 => Value::Int(number),
                        _ => Value::bytes(&bytes),
                    };
                    let stored = cache.store(key.as_bytes(), value, &terms).unwrap();
                    let is_due = match condition {
                        Condition::Absent => state != State::Fresh,
                        Condition::Present => state == State::Fresh,
                        _ => true,
                    };
                    assert_eq!(stored, is_due, "seed {seed} step {step}");
                    if stored {
                        let former = model.entries.get(&key).filter(|_| state == State::Fresh);
                        let end_us = match former {
                            Some(former) if keeps_ttl => former.end_us,
                            _ => end_us,
                        };
                        let stale_us = match stale {
                            Some(Ttl::Us(us)) => us,
                            _ => 0,
                        };
                        let since = model.evictions;
                        model.entries.insert(key, Known { number, tags, end_us, stale_us, since });
                    }
                }
                5..=6 => {
                    let (tag, soft) = (below(6) as usize, below(2) == 0);
                    cache.evict(NAMES[tag], soft).unwrap();
                    model.evictions += 1;
                    let rows = if soft { &mut model.staled } else { &mut model.invalidated };
                    rows[tag] = model.evictions;
                }
                7 => {
                    let touched = cache.touch(key.as_bytes(), ttl).unwrap();
                    assert_eq!(touched, state == State::Fresh, "seed {seed} step {step}");
                    if touched {
                        model.entries.get_mut(&key).unwrap().end_us = end_us;
                    }
                }
                8 => {
                    let deleted = cache.delete(key.as_bytes()).unwrap();
                    assert_eq!(deleted, state == State::Fresh);
                    model.entries.remove(&key);
                }
                9 => {
                    cache.expire().unwrap();
                    let kept =
                        model.entries.keys().filter(|key| model.state(key, now) != State::Gone);
                    assert_eq!(cache.len(), kept.count() as u64, "seed {seed} step {step}");
                }
                10 => assert_sound(cache),
                11 => _ = now_us.fetch_add(below(150), Ordering::Relaxed),
                12 => {
                    let mut found = BTreeSet::new();
                    let mut scan = cache.scan();
                    while let Some(item) = scan.next(&mut buffer).unwrap() {
                        found.insert(String::from_utf8(item.key.to_vec()).unwrap());
                    }
                    let fresh = model.entries.keys();
                    let fresh = fresh.filter(|key| model.state(key, now) == State::Fresh);
                    assert_eq!(found, fresh.cloned().collect(), "seed {seed} step {step}");
                }
                _ => {
                    let accepts = below(2) == 0;
                    let found = cache.get_full(key.as_bytes(), accepts, &mut buffer).unwrap();
                    let wanted = match state {
                        State::Fresh => Some(false),
                        State::Stale if accepts => Some(true),
                        _ => None,
                    };
                    assert_eq!(found.map(|it| it.is_stale), wanted, "seed {seed} step {step}");
                    if let Some(found) = found {
                        let known = &model.entries[&key];
                        assert_eq!(number(found.entry.value), known.number);
                        assert_eq!(found.entry.expiry_us, known.end_us);
                        let tags = known.tags.iter().map(|tag| NAMES[*tag].as_bytes());
                        assert!(found.tags.eq(tags));
                    }
                    let plain = cache.get(key.as_bytes(), &mut buffer).unwrap();
                    assert_eq!(plain.is_some(), state == State::Fresh);
                }
            }
        }
        assert_eq!(twins[0].stats().evictions, 0);
        assert_eq!(twins[0].stats().checksum_mismatches, 0);
    }
}
