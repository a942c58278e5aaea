//! The gate: what passes it, who waits for whom, and what a death leaves.
#![cfg(feature = "hooks")]

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_engine::{
    ArenaError, Attributes, Buffer, Cache, Changes, Config, Error, Handle, Made, Pass, Place,
    Terms, Ttl, Value,
};

const KEY: &[u8] = b"key";
const STATES: u64 = 3;
const CLOSED: u64 = 2;
const TAG: u8 = 9;

fn twins(count: u32, lock_limit: Duration) -> Vec<Cache> {
    // Four shards.
    let config = Config { size_bytes: 1 << 20, lock_limit, ..Config::default() };
    Cache::twins(&config, count).unwrap()
}

fn version(cache: &Cache, key: &[u8]) -> u64 {
    cache.get(key, &mut Buffer::new()).unwrap().map_or(0, |entry| entry.version)
}

fn number(cache: &Cache, key: &[u8]) -> Option<i64> {
    match cache.get(key, &mut Buffer::new()).unwrap()?.value {
        Value::Int(number) => Some(number),
        value => panic!("{value:?}"),
    }
}

fn store(cache: &Cache, key: &[u8], number: i64, pass: Pass) -> Option<i64> {
    cache.store_passing(key, Value::Int(number), &pass).unwrap()
}

/// Adds to a number under the lock of its shard.
fn replace(cache: &Cache, key: &[u8], added: u64, gate: u64, delta: i64) -> Option<i64> {
    let mut add = |old: Option<Value<'_>>, bytes: &mut Vec<u8>| {
        let old = old.map_or(0, number_in);
        bytes.clear();
        bytes.extend_from_slice(&(old + added).to_le_bytes());
        Some(Made { tag: TAG, delta })
    };
    let (mut buffer, mut bytes) = (Buffer::new(), Vec::new());
    cache.replace_passing(key, gate, &mut buffer, &mut bytes, &mut add).unwrap()
}

fn number_in(value: Value<'_>) -> u64 {
    match value {
        Value::Bytes { tag: TAG, bytes } => u64::from_le_bytes(bytes.try_into().unwrap()),
        value => panic!("{value:?}"),
    }
}

fn replaced(cache: &Cache, key: &[u8]) -> Option<u64> {
    cache.get(key, &mut Buffer::new()).unwrap().map(|entry| number_in(entry.value))
}

fn pass(cache: &Cache, key: &[u8], delta: i64) -> Pass {
    Pass { gate: cache.gate(), version: version(cache, key), delta }
}

#[test]
fn a_change_passes_only_an_open_gate_that_was_not_closed_since() {
    let twins = twins(2, Duration::from_secs(20));
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    assert_eq!(store(one, KEY, 1, pass(one, KEY, 10)), Some(10));
    let before = pass(one, KEY, 10);
    let closed = other.close_gate().unwrap();
    assert_eq!(closed & STATES, CLOSED);
    assert_eq!(store(one, KEY, 2, before), None, "the gate is closed");
    assert_eq!(one.delete_passing(KEY, &before).unwrap(), None);
    let holders = Pass { gate: closed, version: Pass::ANY, delta: 5 };
    assert_eq!(store(other, KEY, 2, holders), Some(15), "who has closed it has its word");
    assert_eq!(store(other, KEY, 1, Pass { delta: -5, ..holders }), Some(10));
    let any = Pass { gate: Pass::ANY, ..holders };
    assert_eq!(store(one, KEY, 2, any), None, "the weight needs the gate");
    assert!(other.close_gate().unwrap() > closed, "each closing counts");
    assert_eq!(store(other, KEY, 2, holders), None, "it was closed again");
    assert_eq!(store(one, KEY, 1, Pass { delta: 0, ..any }), Some(10), "nothing is weighed");
    other.leave_gate(true);
    assert_eq!(store(one, KEY, 2, before), None, "it was closed since");
    assert_eq!(one.delete_passing(KEY, &before).unwrap(), None);
    assert_eq!((number(one, KEY), one.weigh(0)), (Some(1), 10), "nothing has changed");
    assert_eq!(store(one, KEY, 2, pass(one, KEY, -3)), Some(7));
    assert_eq!(other.delete_passing(KEY, &pass(other, KEY, -7)).unwrap(), Some(0));
    assert_eq!(number(one, KEY), None);
}

#[test]
fn a_gate_that_is_left_closed_is_closed() {
    const LEFT: u64 = 3;
    let twins = twins(2, Duration::from_secs(20));
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    let before = pass(one, KEY, 10);
    let closed = one.close_gate().unwrap();
    one.leave_gate(false);
    assert_eq!((one.gate(), closed & STATES), (closed & !STATES | LEFT, CLOSED));
    for gate in [before.gate, closed] {
        assert_eq!(store(other, KEY, 1, Pass { gate, ..before }), None, "{gate}");
    }
    let again = other.close_gate().unwrap();
    assert!(again > closed && again & STATES == CLOSED);
    assert_eq!(store(other, KEY, 1, Pass { gate: again, ..before }), Some(10));
    other.leave_gate(true);
    assert_eq!(store(one, KEY, 2, pass(one, KEY, 5)), Some(15));
}

#[test]
fn a_change_is_of_the_entry_that_was_seen() {
    let twins = twins(2, Duration::from_secs(20));
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    let absent = pass(one, KEY, 1);
    assert_eq!(other.delete_passing(KEY, &absent).unwrap(), None, "there is nothing to delete");
    other.set(KEY, Value::Int(1), Ttl::Never).unwrap();
    assert_eq!(store(one, KEY, 2, absent), None, "another one was stored");
    let seen = pass(one, KEY, 1);
    other.set(KEY, Value::Int(3), Ttl::Never).unwrap();
    assert_eq!(store(one, KEY, 2, seen), None, "it was replaced");
    assert_eq!(one.delete_passing(KEY, &seen).unwrap(), None);
    assert_eq!((number(one, KEY), one.weigh(0)), (Some(3), 0));
    // A longer record, and one of the same size, which is not overwritten in place either.
    for value in [&b"long"[..], b"more", b"a value that does not fit into the record"] {
        let pass = pass(one, KEY, 1);
        let weight = one.store_passing(KEY, Value::bytes(value), &pass).unwrap();
        assert!(weight.is_some());
        let mut buffer = Buffer::new();
        assert_eq!(other.get(KEY, &mut buffer).unwrap().unwrap().value, Value::bytes(value));
    }
    assert_eq!(one.weigh(0), 3);
    let long = vec![7; 300_000];
    let refused = one.store_passing(KEY, Value::bytes(&long), &pass(one, KEY, 1)).unwrap();
    assert_eq!(refused, None, "its segments would have to be built first");
}

#[test]
fn a_value_is_made_of_the_present_one() {
    let twins = twins(2, Duration::from_secs(20));
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    let open = one.gate();
    assert_eq!(replace(one, KEY, 3, open, 10), Some(10), "of none");
    assert_eq!(replace(other, KEY, 4, open, -2), Some(8));
    assert_eq!(replaced(one, KEY), Some(7));
    let closed = other.close_gate().unwrap();
    assert_eq!(replace(one, KEY, 1, open, 1), None, "the gate is closed");
    assert_eq!(replace(one, KEY, 1, Pass::ANY, 0), None, "each value may be another one");
    assert_eq!(replace(other, KEY, 1, closed, 1), Some(9), "who has closed it has its word");
    other.leave_gate(true);
    assert_eq!(replace(one, KEY, 1, open, 1), None, "it was closed since");
    assert_eq!((replaced(one, KEY), one.weigh(0)), (Some(8), 9), "nothing has changed");
    let (mut buffer, mut bytes, open) = (Buffer::new(), Vec::new(), one.gate());
    let mut calls = 0;
    let mut nothing = |old: Option<Value<'_>>, _: &mut Vec<u8>| {
        calls += 1;
        assert_eq!(old.map(number_in), Some(8));
        None
    };
    let made = one.replace_passing(KEY, open, &mut buffer, &mut bytes, &mut nothing);
    assert_eq!((made.unwrap(), calls), (None, 1), "it makes nothing");
    let mut long = |_: Option<Value<'_>>, bytes: &mut Vec<u8>| {
        bytes.resize(300_000, 7);
        Some(Made { tag: TAG, delta: 1 })
    };
    let made = one.replace_passing(KEY, open, &mut buffer, &mut bytes, &mut long);
    assert_eq!(made.unwrap(), None, "its segments would have to be built first");
    assert_eq!((replaced(one, KEY), one.weigh(0)), (Some(8), 9), "nothing has changed");
}

#[test]
fn a_value_takes_the_place_of_a_stale_one_of_which_it_is_not_made() {
    let twins = twins(2, Duration::from_secs(20));
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    let attributes = Attributes { stale: Some(Ttl::Never), ..Attributes::default() };
    let terms = Terms { attributes, ..Terms::plain(Ttl::Us(0)) };
    assert!(one.store(KEY, Value::bytes(b"stale"), &terms).unwrap());
    assert_eq!(one.stats().entries, 1, "it is kept");
    assert_eq!(replace(other, KEY, 3, other.gate(), 1), Some(1), "of none");
    assert_eq!((replaced(one, KEY), one.stats().entries), (Some(3), 1));
    assert!(one.check().unwrap().is_sound());
}

#[test]
fn a_value_is_made_again_after_space_was_freed() {
    let config = Config { size_bytes: 1 << 20, evicts: false, ..Config::default() };
    let twins = Cache::twins(&config, 2).unwrap();
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    let (mut buffer, mut bytes) = (Buffer::new(), Vec::new());
    for number in 0..10_000_u64 {
        // Twenty times the size of the file, but one entry.
        let mut make = |old: Option<Value<'_>>, bytes: &mut Vec<u8>| {
            assert_eq!(old.is_some(), number > 0);
            bytes.clear();
            bytes.resize(2_000 + number as usize % 64, number as u8);
            Some(Made { tag: TAG, delta: 1 })
        };
        let made = one.replace_passing(KEY, one.gate(), &mut buffer, &mut bytes, &mut make);
        assert_eq!(made.unwrap(), Some(number as i64 + 1));
    }
    let entry = other.get(KEY, &mut buffer).unwrap().unwrap();
    assert_eq!(entry.value.len(), 2_000 + 9_999 % 64);
}

#[test]
fn no_change_is_made_of_an_old_value() {
    const EACH: u64 = 2_000;
    let twins = twins(4, Duration::from_secs(20));
    std::thread::scope(|scope| {
        for cache in &twins {
            scope.spawn(|| {
                for _ in 0..EACH {
                    assert!(replace(cache, KEY, 1, cache.gate(), 1).is_some());
                }
            });
        }
    });
    assert_eq!(replaced(&twins[0], KEY), Some(4 * EACH));
    assert_eq!(twins[0].weigh(0), 4 * EACH as i64);
}

/// Runs `work` at the first time that `point` is reached, and says whether it was.
fn at(point: Point, work: impl Fn() + 'static) -> Rc<Cell<bool>> {
    let reached = Rc::new(Cell::new(false));
    let told = Rc::clone(&reached);
    hooks::set(move |now| {
        if now == point && !told.replace(true) {
            work();
        }
    });
    reached
}

#[test]
fn who_closes_the_gate_waits_for_the_changes_that_have_passed() {
    let ways: [fn(&Cache) -> Option<i64>; 2] = [
        |cache| store(cache, KEY, 1, pass(cache, KEY, 1)),
        |cache| replace(cache, KEY, 1, cache.gate(), 1),
    ];
    for change in ways {
        let mut twins = twins(2, Duration::from_millis(20));
        let (other, one) = (Rc::new(twins.pop().unwrap()), twins.pop().unwrap());
        let closer = Rc::clone(&other);
        let reached = at(Point::GatePassed, move || match closer.close_gate() {
            Err(Error::Arena(ArenaError::LockTimeout { .. })) => {}
            result => panic!("a change is under way, and the gate was closed: {result:?}"),
        });
        assert_eq!(change(&one), Some(1), "it had passed");
        hooks::clear();
        assert!(reached.get());
        assert_ne!(other.gate() & STATES, CLOSED, "it is still closing");
        assert_eq!(change(&one), None, "and nothing else passes");
        assert_eq!(other.close_gate().unwrap() & STATES, CLOSED);
    }
}

#[test]
fn a_change_that_looked_before_the_closing_is_refused_while_the_locks_are_passed() {
    let mut twins = twins(2, Duration::from_secs(20));
    let (other, one) = (twins.pop().unwrap(), Rc::new(twins.pop().unwrap()));
    let changer = Rc::clone(&one);
    let before = pass(&one, KEY, 1);
    let reached = at(Point::GateClosing, move || {
        assert_eq!(store(&changer, KEY, 1, before), None);
        assert_eq!(store(&changer, KEY, 1, pass(&changer, KEY, 1)), None);
    });
    other.close_gate().unwrap();
    hooks::clear();
    assert!(reached.get());
    assert_eq!(number(&one, KEY), None);
}

#[test]
fn a_death_while_the_gate_is_closing_leaves_it_to_the_next_one() {
    let mut twins = twins(3, Duration::from_millis(20));
    let dying = twins.pop().unwrap();
    let (other, one) = (Rc::new(twins.pop().unwrap()), Rc::new(twins.pop().unwrap()));
    let before = pass(&one, KEY, 1);
    let died = std::thread::spawn(move || {
        hooks::set(|point| {
            if point == Point::GateClosing {
                std::panic::resume_unwind(Box::new(()));
            }
        });
        dying.close_gate()
    });
    assert!(died.join().is_err(), "it has died at that point");
    assert_ne!(one.gate() & STATES, CLOSED);
    assert_eq!(store(&one, KEY, 1, before), None);
    // The next one passes the locks again, because nobody knows which the dead one has passed.
    let closer = Rc::clone(&other);
    let locks = Rc::new(Cell::new(0));
    let counted = Rc::clone(&locks);
    hooks::set(move |point| {
        if point == Point::GateClosing {
            counted.set(counted.get() + 1);
        }
    });
    let word = closer.close_gate().unwrap();
    closer.close_gate().unwrap();
    hooks::clear();
    assert_eq!(locks.get(), 1, "once, and not again while it is closed");
    assert_eq!(word & STATES, CLOSED);
    other.leave_gate(true);
    assert_eq!(store(&one, KEY, 1, pass(&one, KEY, 1)), Some(1));
}

/// A death at a point leaves the entry as it was, and the weight unsure.
#[test]
fn a_death_in_a_change_is_counted_until_the_weight_is_replaced() {
    enum Kind {
        Store,
        Replace,
        Delete,
    }
    for (point, kind) in [
        (Point::GateBegun, Kind::Store),
        (Point::GateBegun, Kind::Replace),
        (Point::GateBegun, Kind::Delete),
        (Point::EntryReplaced, Kind::Store),
    ] {
        let mut twins = twins(2, Duration::from_secs(20));
        let (dying, other) = (twins.pop().unwrap(), twins.pop().unwrap());
        assert_eq!(store(&other, KEY, 1, pass(&other, KEY, 10)), Some(10));
        let change = pass(&dying, KEY, 7);
        let died = std::thread::spawn(move || {
            hooks::set(move |now| {
                if now == point {
                    std::panic::resume_unwind(Box::new(()));
                }
            });
            match kind {
                Kind::Store => dying.store_passing(KEY, Value::Int(2), &change),
                Kind::Delete => dying.delete_passing(KEY, &change),
                Kind::Replace => {
                    let mut make = |_: Option<Value<'_>>, bytes: &mut Vec<u8>| {
                        bytes.push(2);
                        Some(Made { tag: TAG, delta: 7 })
                    };
                    let (mut buffer, mut bytes) = (Buffer::new(), Vec::new());
                    let gate = change.gate;
                    dying.replace_passing(KEY, gate, &mut buffer, &mut bytes, &mut make)
                }
            }
        });
        assert!(died.join().is_err(), "it has died at that point");
        other.close_gate().unwrap();
        assert!(other.is_weight_unsure(), "{point:?}");
        assert_eq!(other.weigh(0), 17, "the count is no part of it");
        let expected = if point == Point::GateBegun { 1 } else { 2 };
        assert_eq!(number(&other, KEY), Some(expected));
        other.set_weight(-3);
        assert!(!other.is_weight_unsure());
        other.leave_gate(true);
        assert_eq!(store(&other, KEY, 3, pass(&other, KEY, 1)), Some(-2));
        assert!(!other.is_weight_unsure(), "it has ended");
    }
}

/// Changers count up numbers. A holder adds to all of them in two steps, which nobody may see.
#[test]
fn no_change_falls_between_the_steps_of_a_holder() {
    const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
    const ROUNDS: i64 = 300;
    let mut twins = twins(4, Duration::from_secs(20));
    let holder = twins.pop().unwrap();
    for key in KEYS {
        holder.set(key, Value::Int(0), Ttl::Never).unwrap();
    }
    let (ended, changes) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        for cache in &twins {
            scope.spawn(|| {
                for key in KEYS.iter().cycle() {
                    let pass = pass(cache, key, 1);
                    let seen = number(cache, key).unwrap();
                    // Without the gate, a number between the holder's steps would be seen here.
                    if pass.gate & STATES == 0 && version(cache, key) == pass.version {
                        let stored = store(cache, key, seen + 1, pass);
                        changes.fetch_add(i64::from(stored.is_some()), Ordering::Relaxed);
                    }
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for _ in 0..ROUNDS {
            holder.close_gate().unwrap();
            let before = KEYS.map(|key| number(&holder, key).unwrap());
            for (key, before) in KEYS.into_iter().zip(before) {
                assert_eq!(number(&holder, key), Some(before), "nobody else changes it");
                holder.set(key, Value::Int(before + 1), Ttl::Never).unwrap();
            }
            holder.leave_gate(true);
        }
        ended.store(true, Ordering::Relaxed);
    });
    let sum: i64 = KEYS.into_iter().map(|key| number(&holder, key).unwrap()).sum();
    let changes = changes.into_inner();
    assert_eq!(sum, changes + ROUNDS * KEYS.len() as i64, "no change is lost");
    assert_eq!(holder.weigh(0), changes);
}

#[test]
fn numbers_are_given_once() {
    let twins = twins(4, Duration::from_secs(20));
    let mut numbers: Vec<u64> = std::thread::scope(|scope| {
        let take = |cache: &'static Cache| (0..1000).map(|_| cache.next_number()).collect();
        let threads: Vec<_> = Box::leak(twins.into_boxed_slice())
            .iter()
            .map(|cache| scope.spawn(move || -> Vec<u64> { take(cache) }))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=4000));
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_resized_file_continues_the_gate() {
    let folder = std::env::temp_dir().join(format!("tuckbox-gate-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let folder = Folder(folder);
    let place = Place::Path(folder.0.join("cache.tuck"));
    let open = || Handle::open(place.clone(), Config { size_bytes: 1 << 20, ..Config::default() });
    let ((one, _), (other, _)) = (open().unwrap(), open().unwrap());
    one.weigh(-5);
    let (last, open_word) = (one.next_number(), one.gate());
    let before = Pass { gate: open_word, version: 0, delta: 1 };
    let resized = |size_bytes| Changes { size_bytes: Some(size_bytes), ..Changes::default() };
    one.resize(resized(2 << 20)).unwrap();
    assert_eq!(other.store_passing(KEY, Value::Int(1), &before).unwrap(), None, "it has moved");
    assert_eq!((other.last_number(), other.weigh(0)), (last, -5));
    assert_eq!(other.gate() & STATES, 0, "it is as open as before");
    // Closed before a resize, and so after it.
    one.close_gate().unwrap();
    one.resize(resized(4 << 20)).unwrap();
    let before = Pass { gate: open_word, version: 0, delta: 1 };
    assert_eq!(other.store_passing(KEY, Value::Int(1), &before).unwrap(), None);
    assert_eq!(other.gate() & STATES, CLOSED);
    other.leave_gate(true);
    let now = Pass { gate: other.gate(), version: 0, delta: 1 };
    assert_eq!(one.store_passing(KEY, Value::Int(1), &now).unwrap(), Some(-4));
}
