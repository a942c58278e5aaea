//! Leases: one maker at a time, and no value that was made before its key was invalidated.
//!
//! Most tests run on the in-process twin, whose handles act as separate processes and whose hash key
//! is fixed, so every count here is the same in each run. The last ones use files.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proptest::prelude::*;
use tuckbox_arena::act_as_another_process;
use tuckbox_engine::{
    Attributes, Begin, Buffer, Cache, Changes, Clock, Config, Handle, Place, Terms, Token, Ttl,
    Value,
};
use tuckbox_testkit::process::is_true_in_child;

/// A folder of its own for a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(format!("tuckbox-{name}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Folder(path)
    }

    fn place(&self) -> Place {
        Place::Path(self.0.join("cache.tuck"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const KEY: &[u8] = b"key";
const LONG: Duration = Duration::from_secs(600);

fn twins(size_bytes: u64, count: u32) -> Vec<Cache> {
    with_clock(size_bytes, count).0
}

fn with_clock(size_bytes: u64, count: u32) -> (Vec<Cache>, Arc<AtomicU64>) {
    let now_us = Arc::new(AtomicU64::new(1));
    let clock = Clock::Manual(Arc::clone(&now_us));
    let config = Config { size_bytes, clock, lock_limit: LONG, ..Config::default() };
    (Cache::twins(&config, count).unwrap(), now_us)
}

/// The lease of a key that nobody has.
#[track_caller]
fn lease(cache: &Cache, key: &[u8]) -> Token {
    match cache.begin(key, true, &mut Buffer::new()).unwrap() {
        Begin::Lease(token, _) => token,
        other => panic!("{other:?}"),
    }
}

fn is_busy(cache: &Cache, key: &[u8]) -> bool {
    match cache.begin(key, true, &mut Buffer::new()).unwrap() {
        Begin::Busy(_) => true,
        Begin::Found(_) => false,
        Begin::Lease(token, _) => {
            cache.abandon(&token);
            false
        }
    }
}

fn set(cache: &Cache, key: &[u8], value: &[u8]) {
    cache.set(key, Value::bytes(value), Ttl::Never).unwrap();
}

fn finish(cache: &Cache, token: Token, key: &[u8], value: &[u8]) -> bool {
    finish_on(cache, &token, key, value, Ttl::Never, &Attributes::default())
}

fn finish_on(
    cache: &Cache,
    token: &Token,
    key: &[u8],
    value: &[u8],
    ttl: Ttl,
    attributes: &Attributes<'_>,
) -> bool {
    cache.finish(token, key, Value::bytes(value), ttl, attributes).unwrap()
}

fn get(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Buffer::new();
    match cache.get(key, &mut buffer).unwrap()?.value {
        Value::Bytes { bytes, .. } => Some(bytes.to_vec()),
        Value::Int(number) => panic!("{number}"),
    }
}

#[test]
fn one_maker_at_a_time() {
    let twins = twins(64 << 10, 2);
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    let token = lease(one, KEY);
    assert!(is_busy(other, KEY), "another process is refused");
    assert!(is_busy(one, KEY), "and so is another thread of the maker's");
    assert!(!is_busy(other, b"another key"));
    assert!(finish(one, token, KEY, b"made"));
    let mut buffer = Buffer::new();
    match other.begin(KEY, false, &mut buffer).unwrap() {
        Begin::Found(full) => assert_eq!(full.entry.value, Value::bytes(b"made")),
        other => panic!("{other:?}"),
    }
    let token = lease(other, KEY);
    match one.begin(KEY, true, &mut buffer).unwrap() {
        Begin::Busy(Some(full)) => assert_eq!(full.entry.value, Value::bytes(b"made")),
        other => panic!("{other:?}"),
    }
    other.abandon(&token);
    assert!(!is_busy(one, KEY));
}

#[test]
fn a_lease_shows_the_entry_whatever_its_size() {
    let twins = twins(1 << 20, 1);
    let cache = &twins[0];
    for len in [0, 100, 5_000, 100_000] {
        let value = vec![len as u8; len];
        set(cache, KEY, &value);
        let mut buffer = Buffer::new();
        match cache.begin(KEY, true, &mut buffer).unwrap() {
            Begin::Lease(token, Some(full)) => {
                assert_eq!(full.entry.value, Value::bytes(&value));
                assert!(finish(cache, token, KEY, &[9; 200_000][len..]));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(get(cache, KEY).unwrap().len(), 200_000 - len);
    }
    assert!(cache.check().unwrap().is_sound());
}

/// Also a stale one, and whether it is stale.
fn get_stale(cache: &Cache, key: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut buffer = Buffer::new();
    let full = cache.get_full(key, true, &mut buffer).unwrap()?;
    match full.entry.value {
        Value::Bytes { bytes, .. } => Some((bytes.to_vec(), full.is_stale)),
        Value::Int(number) => Some((number.to_le_bytes().to_vec(), full.is_stale)),
    }
}

/// The version of an entry, also of a stale one; 0 without one.
fn version(cache: &Cache, key: &[u8]) -> u64 {
    let mut buffer = Buffer::new();
    cache.get_full(key, true, &mut buffer).unwrap().map_or(0, |full| full.entry.version)
}

#[test]
fn a_value_is_refused_after_its_key_was_invalidated() {
    type Act = fn(&Cache);
    let acts: [(&str, Act); 6] = [
        ("delete", |cache| assert!(cache.delete(KEY).is_ok())),
        ("pop", |cache| assert!(cache.pop(KEY, &mut Buffer::new()).is_ok())),
        ("clear", |cache| assert!(cache.clear().is_ok())),
        ("set", |cache| set(cache, KEY, b"newer")),
        ("set and expiry", |cache| {
            cache.set(KEY, Value::bytes(b"newer"), Ttl::Us(0)).unwrap();
        }),
        ("incr", |cache| {
            set(cache, KEY, b"");
            cache.set(KEY, Value::Int(1), Ttl::Never).unwrap();
            assert_eq!(cache.incr(KEY, 1, None, Ttl::Never).unwrap(), Some(2));
        }),
    ];
    for is_present in [false, true] {
        for (name, act) in &acts {
            let twins = twins(64 << 10, 2);
            if is_present {
                set(&twins[0], KEY, b"old");
            }
            let token = lease(&twins[0], KEY);
            act(&twins[1]);
            assert!(!finish(&twins[0], token, KEY, b"stale"), "after {name}");
            assert_ne!(get_any(&twins[1], KEY), Some(Vec::from(*b"stale")));
            assert!(!is_busy(&twins[1], KEY), "a refused maker frees its row");
            let token = lease(&twins[1], KEY);
            assert!(finish(&twins[1], token, KEY, b"fresh"), "the next one stores");
        }
    }
}

fn get_any(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Buffer::new();
    match cache.get(key, &mut buffer).unwrap()?.value {
        Value::Bytes { bytes, .. } => Some(bytes.to_vec()),
        Value::Int(_) => None,
    }
}

#[test]
fn what_does_not_invalidate_a_key_refuses_nothing() {
    let (twins, now_us) = with_clock(64 << 10, 2);
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    // Neither a new expiry, nor an end by itself, nor other keys' sets.
    set(one, KEY, b"old");
    let token = lease(one, KEY);
    assert!(other.touch(KEY, Ttl::Us(10)).unwrap());
    set(other, b"another key", b"");
    assert!(finish(one, token, KEY, b"after touch"));
    let token = lease(one, KEY);
    assert!(other.touch(KEY, Ttl::Us(10)).unwrap());
    now_us.fetch_add(20, Ordering::Relaxed);
    assert_eq!(other.expire().unwrap(), 1);
    assert!(finish(one, token, KEY, b"after expiry"));
    // Never read, so that it is evicted soon.
    let unread = b"unread";
    set(one, unread, b"old");
    let token = lease(one, unread);
    for number in 0..3_000u32 {
        set(other, &number.to_le_bytes(), &[0; 100]);
    }
    assert_eq!(get(other, unread), None, "it was evicted");
    assert!(finish(one, token, unread, b"after eviction"));
}

/// What happens between `begin` and `finish`, and whether the value is stored if the key had no entry,
/// a stale one or a fresh one at the beginning.
#[test]
fn a_value_is_stored_unless_a_request_made_it_too_old() {
    type Act = fn(&Cache, &AtomicU64);
    let acts: [(&str, [bool; 3], Act); 14] = [
        ("nothing", [true; 3], |_, _| {}),
        ("delete", [false; 3], |cache, _| _ = cache.delete(KEY).unwrap()),
        ("pop", [false; 3], |cache, _| _ = cache.pop(KEY, &mut Buffer::new()).unwrap()),
        ("delete of the version", [true, true, false], |cache, _| {
            // A stale entry is missing to this operation.
            _ = cache.delete_version(KEY, version(cache, KEY)).unwrap();
        }),
        ("delete of another version", [true; 3], |cache, _| {
            assert!(!cache.delete_version(KEY, version(cache, KEY) + 1).unwrap());
        }),
        ("set", [false; 3], |cache, _| set(cache, KEY, b"newer")),
        ("incr", [false; 3], |cache, _| {
            cache.set(KEY, Value::Int(1), Ttl::Never).unwrap();
            cache.incr(KEY, 1, None, Ttl::Never).unwrap();
        }),
        ("add", [false, false, true], |cache, _| {
            cache.add(KEY, Value::Int(1), Ttl::Never).unwrap();
        }),
        ("clear", [false; 3], |cache, _| _ = cache.clear().unwrap()),
        ("touch", [true; 3], |cache, _| _ = cache.touch(KEY, Ttl::Us(10)).unwrap()),
        ("expiry", [true; 3], |cache, now_us| {
            now_us.fetch_add(1_000_000, Ordering::Relaxed);
            cache.expire().unwrap();
        }),
        ("eviction of its tag", [false; 3], |cache, _| cache.evict("made", false).unwrap()),
        ("eviction of another tag", [true; 3], |cache, _| cache.evict("other", false).unwrap()),
        ("soft eviction of its tag", [true; 3], |cache, _| cache.evict("made", true).unwrap()),
    ];
    let tags = ["made", "second"];
    let made = Attributes { tags: &tags, ..Attributes::default() };
    for (name, expected, act) in &acts {
        for (expected, present) in expected.iter().zip(["missing", "stale", "fresh"]) {
            let (twins, now_us) = with_clock(1 << 20, 2);
            let [one, other] = &twins[..] else { panic!("two were asked for") };
            if present != "missing" {
                let stale = Some(Ttl::Us(100_000));
                let attributes = Attributes { tags: &["old"], stale, ..Attributes::default() };
                let terms = Terms { attributes, ..Terms::plain(Ttl::Us(100)) };
                assert!(one.store(KEY, Value::bytes(b"old"), &terms).unwrap());
                now_us.fetch_add(if present == "stale" { 200 } else { 0 }, Ordering::Relaxed);
            }
            let mut buffer = Buffer::new();
            let (token, is_stale) = match one.begin(KEY, true, &mut buffer).unwrap() {
                Begin::Lease(token, full) => (token, full.map(|full| full.is_stale)),
                begun => panic!("{begun:?}"),
            };
            assert_eq!(is_stale, (present != "missing").then_some(present == "stale"));
            act(other, &now_us);
            let stored = finish_on(one, &token, KEY, b"made", Ttl::Never, &made);
            assert_eq!(stored, *expected, "{name}, while the entry is {present}");
            let is_soft = *name == "soft eviction of its tag";
            let found = get_stale(other, KEY).filter(|(value, _)| value == b"made");
            assert_eq!(found.map(|(_, is_stale)| is_stale), stored.then_some(is_soft), "{name}");
            assert!(!is_busy(other, KEY), "the lease has ended");
            assert!(other.check().unwrap().is_sound());
        }
    }
}

#[test]
fn a_stale_entry_is_shown_to_makers_until_one_replaces_it() {
    let (twins, now_us) = with_clock(64 << 10, 2);
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    let kept = Attributes { stale: Some(Ttl::Us(50)), ..Attributes::default() };
    let token = lease(one, KEY);
    assert!(finish_on(one, &token, KEY, b"old", Ttl::Us(100), &kept));
    let mut buffer = Buffer::new();
    assert!(
        matches!(one.begin(KEY, false, &mut buffer).unwrap(), Begin::Found(full) if !full.is_stale)
    );
    now_us.fetch_add(100, Ordering::Relaxed);
    let Begin::Lease(token, Some(full)) = one.begin(KEY, false, &mut buffer).unwrap() else {
        panic!("a stale entry is no reason not to make it")
    };
    assert!(full.is_stale && full.entry.value == Value::bytes(b"old"));
    let mut others = Buffer::new();
    match other.begin(KEY, false, &mut others).unwrap() {
        Begin::Busy(Some(full)) => assert!(full.is_stale),
        begun => panic!("{begun:?}"),
    }
    assert!(finish_on(one, &token, KEY, b"new", Ttl::Us(100), &kept));
    assert_eq!(get_stale(other, KEY), Some((b"new".to_vec(), false)));
    now_us.fetch_add(150, Ordering::Relaxed);
    assert!(matches!(other.begin(KEY, false, &mut others).unwrap(), Begin::Lease(_, None)));
}

#[test]
fn beginning_counts_neither_hits_nor_misses() {
    let twins = twins(64 << 10, 1);
    let cache = &twins[0];
    let mut buffer = Buffer::new();
    let token = lease(cache, KEY);
    assert!(is_busy(cache, KEY));
    assert!(finish(cache, token, KEY, b"made"));
    assert!(matches!(cache.begin(KEY, false, &mut buffer).unwrap(), Begin::Found(_)));
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.sets), (0, 0, 1));
}

/// Keys of a namespace contain its era, so a lease of the former era is that of another key.
#[test]
fn a_value_for_a_namespace_that_was_cleared_is_refused() {
    let twins = twins(64 << 10, 2);
    let key = |cache: &Cache| cache.era(b"blog").unwrap().to_le_bytes();
    let token = lease(&twins[0], &key(&twins[0]));
    twins[1].advance_era(b"other").unwrap();
    assert!(finish(&twins[0], token, &key(&twins[0]), b"made"));
    let token = lease(&twins[0], &key(&twins[0]));
    twins[1].advance_era(b"blog").unwrap();
    assert!(!finish(&twins[0], token, &key(&twins[0]), b"too old"));
    assert_eq!(get(&twins[1], &key(&twins[1])), None);
}

#[test]
fn the_lease_of_a_dead_maker_is_free() {
    let twins = twins(64 << 10, 3);
    let _lost = lease(&twins[0], KEY);
    assert!(is_busy(&twins[1], KEY));
    assert!(!twins[1].wait_made(KEY, Duration::ZERO).unwrap(), "it lives");
    twins[0].declare_dead(0);
    assert!(twins[1].wait_made(KEY, LONG).unwrap());
    let token = lease(&twins[1], KEY);
    assert!(is_busy(&twins[2], KEY));
    assert!(finish(&twins[1], token, KEY, b"made"));
}

/// Rows of a cache of 64 KiB.
const ROWS: u32 = 4;

#[test]
fn without_a_free_row_makers_work_without_each_other() {
    let twins = twins(64 << 10, 2);
    let tokens: Vec<Token> = (0..ROWS).map(|key| lease(&twins[0], &key.to_le_bytes())).collect();
    assert!((0..ROWS).all(|key| is_busy(&twins[1], &key.to_le_bytes())));
    let both = [lease(&twins[0], KEY), lease(&twins[1], KEY)];
    assert!(twins[1].wait_made(KEY, Duration::ZERO).unwrap(), "there is nobody to wait for");
    // The second one finds another version than the one it began with.
    let stored: Vec<bool> =
        both.into_iter().map(|token| finish(&twins[1], token, KEY, b"")).collect();
    assert_eq!(stored, [false, true], "a token is its own file's");
    tokens.into_iter().for_each(|token| twins[0].abandon(&token));
    let token = lease(&twins[0], KEY);
    assert!(is_busy(&twins[1], KEY), "there are rows again");
    twins[0].abandon(&token);
    // The rows of the dead are found when there is no other one.
    let _lost: Vec<Token> = (0..ROWS).map(|key| lease(&twins[0], &key.to_le_bytes())).collect();
    twins[0].declare_dead(0);
    let _token = lease(&twins[1], KEY);
    assert!(is_busy(&twins[1], KEY));
}

#[test]
fn a_token_of_another_key_or_file_stores_nothing() {
    let (here, there) = (twins(64 << 10, 1), twins(64 << 10, 1));
    let token = lease(&here[0], KEY);
    assert!(!finish(&here[0], token, b"another key", b"made"));
    assert!(!is_busy(&here[0], KEY), "it has ended all the same");
    let token = lease(&here[0], KEY);
    assert!(!finish(&there[0], token, KEY, b"made"));
    assert_eq!((get(&here[0], KEY), get(&there[0], KEY)), (None, None));
}

#[test]
fn a_waiter_wakes_when_the_value_is_there() {
    let twins = twins(64 << 10, 4);
    for round in 0..200u32 {
        let key = round.to_le_bytes();
        let token = lease(&twins[0], &key);
        std::thread::scope(|scope| {
            for cache in &twins[1..] {
                scope.spawn(move || {
                    assert!(cache.wait_made(&key, LONG).unwrap());
                    assert_eq!(get(cache, &key).as_deref(), Some(&b"made"[..]));
                });
            }
            assert!(finish(&twins[0], token, &key, b"made"));
        });
    }
}

/// How many of `rounds` makers are refused although nobody touched their keys. Ten other keys are
/// deleted during each making: ten deletes a second, and makers that take a second.
fn refused_of(rounds: u32, size_bytes: u64) -> u32 {
    let twins = twins(size_bytes, 2);
    let is_refused = |round: &u32| {
        let key = round.to_le_bytes();
        let token = lease(&twins[0], &key);
        for other in 0..10u32 {
            twins[1].delete(&[&key[..], &other.to_le_bytes()].concat()).unwrap();
        }
        !finish(&twins[0], token, &key, b"")
    };
    (0..rounds).filter(is_refused).count() as u32
}

#[test]
#[cfg_attr(miri, ignore = "a statistic")]
fn few_makers_are_refused_because_of_other_keys() {
    const ROUNDS: u32 = 10_000;
    // Size in KiB, counters, most refused in 10,000. Expected: 10,000 * (1 - (1 - 1/counters)^10).
    for (size_kib, counters, most) in [
        (64, 32, 2_900),
        (256, 128, 850),
        (1_024, 512, 230),
        (2_048, 1_024, 120),
        (8_192, 4_096, 45),
        (65_536, 4_096, 45),
    ] {
        let refused = refused_of(ROUNDS, size_kib << 10);
        println!("{size_kib} KiB, {counters} counters: {refused} of {ROUNDS} refused for nothing");
        assert!(refused <= most, "{size_kib} KiB: {refused} of {ROUNDS}");
        let expected = f64::from(ROUNDS) * (1.0 - (1.0 - 1.0 / f64::from(counters)).powi(10));
        assert!(
            f64::from(refused) > expected / 2.0,
            "{size_kib} KiB: only {refused}: no delete counts"
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "a statistic")]
fn every_stale_store_is_refused_and_few_others() {
    let twins = twins(8 << 20, 3);
    let [maker, deleter, others] = &twins[..] else { panic!("three were asked for") };
    let mut refused = [0; 2];
    for round in 0..2_000u32 {
        let is_stale = round % 2 == 1;
        let key = (round / 2 % 50).to_le_bytes();
        set(others, &key, b"old");
        let token = lease(maker, &key);
        for step in 0..100u32 {
            let other = [&b"other"[..], &(round * 100 + step).to_le_bytes()].concat();
            set(others, &other, b"");
            if step % 10 == 0 {
                deleter.delete(&other).unwrap();
            }
            if is_stale && step == round % 100 {
                deleter.delete(&key).unwrap();
            }
        }
        let stored = finish(maker, token, &key, b"stale");
        assert!(!(stored && is_stale), "round {round} stored what was deleted");
        assert_eq!(get(others, &key).is_none(), is_stale, "round {round}");
        refused[usize::from(is_stale)] += u32::from(!stored);
        deleter.delete(&key).unwrap();
    }
    println!("refused for nothing: {} of 1000; stale: {} of 1000", refused[0], refused[1]);
    assert_eq!(refused[1], 1_000);
    assert!(refused[0] < 10, "{} of 1000", refused[0]);
}

/// One operation by one of three participants.
#[derive(Debug, Clone, Copy)]
enum Op {
    Begin { by: usize, key: u8, anyway: bool },
    Finish { nth: usize, len: usize },
    Abandon { nth: usize },
    Set { by: usize, key: u8, len: usize, life_us: Option<u64> },
    Touch { by: usize, key: u8, life_us: u64 },
    Delete { by: usize, key: u8 },
    Pop { by: usize, key: u8 },
    Clear { by: usize },
    Pass { us: u64 },
    Die,
    Check,
}

fn op() -> impl Strategy<Value = Op> {
    let (by, key, nth) = (0..3usize, 0..6u8, 0..8usize);
    let len = prop_oneof![8..200usize, 5_000..9_000usize];
    let life_us = prop_oneof![2 => Just(None), 1 => (1..50u64).prop_map(Some)];
    prop_oneof![
        6 => (by.clone(), key.clone(), any::<bool>())
            .prop_map(|(by, key, anyway)| Op::Begin { by, key, anyway }),
        5 => (nth.clone(), len.clone()).prop_map(|(nth, len)| Op::Finish { nth, len }),
        1 => nth.prop_map(|nth| Op::Abandon { nth }),
        3 => (by.clone(), key.clone(), len, life_us)
            .prop_map(|(by, key, len, life_us)| Op::Set { by, key, len, life_us }),
        1 => (by.clone(), key.clone(), 1..50u64)
            .prop_map(|(by, key, life_us)| Op::Touch { by, key, life_us }),
        2 => (by.clone(), key.clone()).prop_map(|(by, key)| Op::Delete { by, key }),
        1 => (by.clone(), key).prop_map(|(by, key)| Op::Pop { by, key }),
        1 => by.prop_map(|by| Op::Clear { by }),
        1 => (1..60u64).prop_map(|us| Op::Pass { us }),
        1 => Just(Op::Die),
        1 => Just(Op::Check),
    ]
}

/// A token, and what must be known of it.
struct Held {
    token: Token,
    by: usize,
    key: u8,
    /// The number of the entry that was there.
    seen: Option<u64>,
    is_invalidated: bool,
}

/// The map that a cache must agree with.
#[derive(Default)]
struct Model {
    /// Each entry: its number, value and expiry.
    entries: HashMap<u8, (u64, Vec<u8>, Option<u64>)>,
    next: u64,
    held: Vec<Held>,
    now_us: u64,
    dead: Option<usize>,
}

impl Model {
    fn present(&self, key: u8) -> Option<(u64, Vec<u8>)> {
        let entry = self.entries.get(&key);
        let entry = entry.filter(|(_, _, expiry)| expiry.is_none_or(|expiry| expiry > self.now_us));
        entry.map(|(number, value, _)| (*number, value.clone()))
    }

    /// As [`Model::present`], by an operation that takes the lock: it collects an expired entry.
    fn locked(&mut self, key: u8) -> Option<(u64, Vec<u8>)> {
        let present = self.present(key);
        if present.is_none() {
            self.entries.remove(&key);
        }
        present
    }

    fn store(&mut self, key: u8, len: usize, life_us: Option<u64>) -> Vec<u8> {
        self.next += 1;
        let value = vec![self.next as u8; len];
        let expiry_us = life_us.map(|life_us| self.now_us + life_us);
        self.entries.insert(key, (self.next, value.clone(), expiry_us));
        value
    }

    fn invalidate(&mut self, is_meant: impl Fn(u8) -> bool) {
        self.entries.retain(|key, _| !is_meant(*key));
        self.held.iter_mut().for_each(|held| held.is_invalidated |= is_meant(held.key));
    }

    fn maker_of(&self, key: u8) -> Option<&Held> {
        self.held.iter().find(|held| held.key == key)
    }
}

fn name(key: u8) -> [u8; 3] {
    [b'k', key, key ^ 0x55]
}

fn play(ops: &[Op]) {
    let (twins, now_us) = with_clock(1 << 20, 3);
    now_us.store(1_000, Ordering::Relaxed);
    let mut model = Model { now_us: 1_000, ..Model::default() };
    let mut buffer = Buffer::new();
    for op in ops {
        // A participant that died does nothing more.
        let living = |by: usize| if model.dead == Some(by) { (by + 1) % 3 } else { by };
        match *op {
            Op::Begin { by, key, anyway } => {
                let by = living(by);
                let present = model.locked(key);
                let begun = twins[by].begin(&name(key), anyway, &mut buffer).unwrap();
                let is_held = model.maker_of(key).is_some();
                let (token, entry) = match begun {
                    Begin::Found(entry) => {
                        assert!(present.is_some() && !anyway);
                        (None, Some(entry))
                    }
                    Begin::Lease(token, entry) => {
                        assert!(!is_held && (present.is_none() || anyway));
                        (Some(token), entry)
                    }
                    Begin::Busy(entry) => {
                        assert!(is_held && (present.is_none() || anyway));
                        (None, entry)
                    }
                };
                let expected = present.as_ref().map(|(_, value)| Value::bytes(value));
                assert_eq!(entry.map(|full| full.entry.value), expected);
                let seen = present.map(|(number, _)| number);
                if let Some(token) = token {
                    model.held.push(Held { token, by, key, seen, is_invalidated: false });
                }
            }
            Op::Finish { nth, len } if nth < model.held.len() => {
                let Held { token, by, key, seen, is_invalidated } = model.held.remove(nth);
                // Whether it has expired or not.
                let last = model.entries.get(&key).map(|(number, _, _)| *number);
                let expected = !is_invalidated && (last.is_none() || last == seen);
                let value = vec![(model.next + 1) as u8; len];
                assert_eq!(finish(&twins[by], token, &name(key), &value), expected);
                if expected {
                    assert_eq!(model.store(key, len, None), value);
                }
            }
            Op::Abandon { nth } if nth < model.held.len() => {
                let held = model.held.remove(nth);
                twins[held.by].abandon(&held.token);
            }
            Op::Finish { .. } | Op::Abandon { .. } => {}
            Op::Set { by, key, len, life_us } => {
                let by = living(by);
                let value = model.store(key, len, life_us);
                let ttl = life_us.map_or(Ttl::Never, Ttl::Us);
                twins[by].set(&name(key), Value::bytes(&value), ttl).unwrap();
            }
            Op::Touch { by, key, life_us } => {
                let by = living(by);
                let is_present = model.locked(key).is_some();
                assert_eq!(twins[by].touch(&name(key), Ttl::Us(life_us)).unwrap(), is_present);
                let expiry_us = model.now_us + life_us;
                model.entries.entry(key).and_modify(|entry| entry.2 = Some(expiry_us));
            }
            Op::Delete { by, key } => {
                let by = living(by);
                let is_present = model.present(key).is_some();
                assert_eq!(twins[by].delete(&name(key)).unwrap(), is_present);
                model.invalidate(|other| other == key);
            }
            Op::Pop { by, key } => {
                let by = living(by);
                let present = model.present(key);
                let popped = twins[by].pop(&name(key), &mut buffer).unwrap();
                let expected = present.as_ref().map(|(_, value)| Value::bytes(value));
                assert_eq!(popped.map(|entry| entry.value), expected);
                model.invalidate(|other| other == key);
            }
            Op::Clear { by } => {
                twins[living(by)].clear().unwrap();
                model.invalidate(|_| true);
            }
            Op::Pass { us } => {
                model.now_us += us;
                now_us.store(model.now_us, Ordering::Relaxed);
            }
            // One of the three, with all its leases.
            Op::Die => {
                if model.dead.is_none() {
                    twins[2].declare_dead(2);
                    model.dead = Some(2);
                    model.held.retain(|held| held.by != 2);
                }
            }
            Op::Check => assert!(twins[living(0)].check().unwrap().is_sound()),
        }
        let by = if model.dead == Some(0) { 1 } else { 0 };
        for key in 0..6 {
            let expected = model.present(key).map(|(_, value)| value);
            assert_eq!(get(&twins[by], &name(key)), expected, "after {op:?}");
        }
    }
}

/// The model knows no false refusals, so no two of its keys may share a counter.
#[test]
fn the_keys_of_the_model_share_no_counter() {
    let twins = twins(1 << 20, 1);
    for one in 0..6 {
        for other in (0..6).filter(|other| *other != one) {
            let token = lease(&twins[0], &name(one));
            twins[0].delete(&name(other)).unwrap();
            assert!(finish(&twins[0], token, &name(one), b""), "{one} and {other}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 400 },
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(20_261_124),
        ..ProptestConfig::default()
    })]

    #[test]
    fn three_processes_agree_with_a_map(ops in proptest::collection::vec(op(), 1..120)) {
        play(&ops);
    }
}

#[test]
#[cfg_attr(miri, ignore = "opens files")]
fn a_token_of_a_file_that_was_resized_is_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("lease-resized");
    let open = || {
        act_as_another_process();
        let config = Config { size_bytes: 256 << 10, ..Config::default() };
        Handle::open(folder.place(), config).unwrap().0
    };
    let (maker, other) = (open(), open());
    let mut buffer = Buffer::new();
    let Begin::Lease(token, None) = maker.begin(KEY, false, &mut buffer).unwrap() else {
        panic!("nobody makes it")
    };
    let Begin::Lease(own, None) = other.begin(b"another key", false, &mut buffer).unwrap() else {
        panic!("nobody makes it")
    };
    other.resize(Changes { size_bytes: Some(512 << 10), ..Changes::default() }).unwrap();
    // The one does not know of the new file, the other has opened it.
    assert!(!maker
        .finish(&token, KEY, Value::bytes(b"stale"), Ttl::Never, &Attributes::default())
        .unwrap());
    assert!(!other
        .finish(&own, b"another key", Value::bytes(b"stale"), Ttl::Never, &Attributes::default())
        .unwrap());
    assert!(maker.wait_made(b"another key", LONG).unwrap());
    for handle in [&maker, &other] {
        assert!(handle.get(KEY, &mut buffer).unwrap().is_none());
    }
    let Begin::Lease(token, None) = maker.begin(KEY, false, &mut buffer).unwrap() else {
        panic!("the new file knows no maker")
    };
    assert!(maker
        .finish(&token, KEY, Value::bytes(b"made"), Ttl::Never, &Attributes::default())
        .unwrap());
    assert!(other.get(KEY, &mut buffer).unwrap().is_some());
}

#[test]
#[cfg_attr(miri, ignore = "opens files")]
fn closing_a_handle_ends_its_leases() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("lease-closed");
    let place = folder.place();
    let config = Config { size_bytes: 64 << 10, ..Config::default() };
    let (maker, other) =
        (Cache::open(&place, &config).unwrap(), Cache::open(&place, &config).unwrap());
    let (token, late) = (lease(&maker, KEY), lease(&maker, b"late"));
    let kept = lease(&other, b"kept");
    assert!(is_busy(&other, KEY));
    maker.close();
    // Both handles share a process slot, which lives on.
    assert!(!is_busy(&other, KEY) && !is_busy(&other, b"late"));
    assert!(is_busy(&other, b"kept"));
    let next = lease(&other, KEY);
    maker.abandon(&token);
    assert!(is_busy(&other, KEY), "the lease of another one is left alone");
    assert!(maker
        .finish(&late, b"late", Value::Int(1), Ttl::Never, &Attributes::default())
        .is_err());
    assert!(finish(&other, next, KEY, b"made") && finish(&other, kept, b"kept", b"made"));
}

/// `act_as_another_process` concerns all threads.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
#[cfg_attr(miri, ignore = "forks")]
fn a_forked_child_has_no_lease_of_its_parent() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("lease-forked");
    let config = Config { size_bytes: 64 << 10, ..Config::default() };
    let cache = Cache::open(&folder.place(), &config).unwrap();
    let (mut one, mut other) = (Some(lease(&cache, KEY)), Some(lease(&cache, b"other")));
    assert!(is_true_in_child(|| {
        cache.abandon(one.as_ref().unwrap());
        let is_stored = finish(&cache, other.take().unwrap(), b"other", b"the child's");
        let are_busy = is_busy(&cache, KEY) && is_busy(&cache, b"other");
        cache.close();
        !is_stored && are_busy
    }));
    assert!(is_busy(&cache, KEY) && is_busy(&cache, b"other"), "nor does its end release any");
    assert!(finish(&cache, one.take().unwrap(), KEY, b"made"));
    assert!(finish(&cache, other.take().unwrap(), b"other", b"made"));
    // A lease without a row is refused, too.
    let _rows: Vec<Token> = (0..ROWS).map(|key| lease(&cache, &key.to_le_bytes())).collect();
    let mut token = Some(lease(&cache, KEY));
    assert!(is_true_in_child(|| !finish(&cache, token.take().unwrap(), KEY, b"the child's")));
    assert!(finish(&cache, token.take().unwrap(), KEY, b"made again"));
}
