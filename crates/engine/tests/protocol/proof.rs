//! Kept proofs while a change stops or dies between any two of its steps: a proof that holds is of the
//! entry that a read finds at that moment.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::clock::Clock;
use tuckbox_arena::hooks::Point;
use tuckbox_engine::{Attributes, Buffer, Cache, Config, Evidence, Proof, Terms, Ttl, Value};

use super::{assert_sound, nth, points_of, Stopped};

const KEY: &[u8] = b"the key";
const SPACE: &[u8] = b"space";
const MINUTE: Ttl = Ttl::Us(60_000_000);

/// A change, and whether the entry that was there before may be found afterwards.
struct Change {
    name: &'static str,
    make: fn(&Cache),
    keeps: bool,
}

fn store(cache: &Cache, value: Value<'_>) {
    let attributes = Attributes { tags: &["users", "staff"], ..Attributes::default() };
    let terms = Terms { attributes, ..Terms::plain(MINUTE) };
    assert!(cache.store(KEY, value, &terms).unwrap());
}

/// Stores many entries, so that others are moved and evicted.
fn churn(cache: &Cache) {
    for number in 0..600u32 {
        cache.set(&number.to_le_bytes(), Value::bytes(&[1; 200]), Ttl::Never).unwrap();
    }
}

const CHANGES: [Change; 11] = [
    Change { name: "same size", make: |cache| store(cache, Value::Int(2)), keeps: false },
    Change { name: "longer", make: |cache| store(cache, Value::bytes(&[3; 300])), keeps: false },
    Change {
        name: "without tags",
        make: |cache| cache.set(KEY, Value::Int(4), Ttl::Never).unwrap(),
        keeps: false,
    },
    Change {
        name: "incr",
        make: |cache| assert!(cache.incr(KEY, 1, None, Ttl::Never).unwrap().is_some()),
        keeps: false,
    },
    Change {
        name: "touch",
        make: |cache| assert!(cache.touch(KEY, Ttl::Us(0)).unwrap()),
        keeps: false,
    },
    Change { name: "delete", make: |cache| assert!(cache.delete(KEY).unwrap()), keeps: false },
    Change { name: "clear", make: |cache| assert!(cache.clear().unwrap() > 0), keeps: false },
    Change { name: "evict", make: |cache| cache.evict("staff", false).unwrap(), keeps: false },
    Change { name: "softly", make: |cache| cache.evict("users", true).unwrap(), keeps: false },
    Change { name: "era", make: |cache| _ = cache.advance_era(SPACE).unwrap(), keeps: false },
    Change { name: "churn", make: churn, keeps: true },
];

/// What a caller keeps. A question whether it is current changes it.
struct Kept(RefCell<(Proof, Evidence)>);

impl Kept {
    fn is_current(&self, cache: &Cache) -> bool {
        let (proof, evidence) = &mut *self.0.borrow_mut();
        cache.is_current(proof, evidence)
    }
}

/// The value and the version that a get returns, in a namespace: its key is the same in all eras.
fn get(cache: &Cache) -> (Option<(Vec<u8>, u64)>, Option<Kept>) {
    let mut buffer = Buffer::new();
    let eras = cache.watch_eras(&[SPACE.to_vec()]).unwrap();
    let (entry, proof) = cache.get_proved(KEY, Some(&eras), &mut buffer).unwrap();
    let found = entry.map(|entry| match entry.value {
        Value::Int(number) => (number.to_le_bytes().to_vec(), entry.version),
        Value::Bytes { bytes, .. } => (bytes.to_vec(), entry.version),
    });
    (found, proof.map(|proof| Kept(RefCell::new(proof))))
}

fn twins() -> Vec<Arc<Cache>> {
    twins_at(&Arc::new(AtomicU64::new(1_000_000)))
}

fn twins_at(now_us: &Arc<AtomicU64>) -> Vec<Arc<Cache>> {
    let config = Config {
        // So that a churn moves the key's record.
        size_bytes: 128 << 10,
        lock_limit: Duration::from_secs(20),
        clock: Clock::Manual(Arc::clone(now_us)),
        ..Config::default()
    };
    Cache::twins(&config, 3).unwrap().into_iter().map(Arc::new).collect()
}

/// What was read before a change began.
struct Before {
    found: (Vec<u8>, u64),
    proof: Kept,
}

/// Checks the proof of what was read against what a read finds now.
#[track_caller]
fn judge(reader: &Cache, before: &Before, change: &Change, when: &str) {
    // Whether the proof is asked before the read or after it.
    if before.proof.is_current(reader) {
        let found = get(reader).0;
        assert_eq!(found.as_ref(), Some(&before.found), "{}, {when}: the proof holds", change.name);
    }
    let found = get(reader).0;
    if before.proof.is_current(reader) {
        assert_eq!(found.as_ref(), Some(&before.found), "{}, {when}: it still holds", change.name);
    }
}

/// Stops each change at each point that it reaches, up to the fortieth. There is a proof of the entry
/// from before.
fn each_point(mut act: impl FnMut(&Change, Point, &[Arc<Cache>], &Before, Stopped)) {
    let mut stops = 0;
    for change in &CHANGES {
        let there = twins();
        store(&there[0], Value::Int(1));
        let mut points = points_of(|| (change.make)(&there[0]));
        points.truncate(40);
        for (index, point) in points.iter().enumerate() {
            let count = points[..=index].iter().filter(|other| *other == point).count() as u32;
            let twins = twins();
            store(&twins[0], Value::Int(1));
            let (found, proof) = get(&twins[1]);
            let before = Before { found: found.unwrap(), proof: proof.unwrap() };
            // By the count of changes, or by the evidence.
            if index % 2 == 0 {
                assert!(before.proof.is_current(&twins[1]), "{}: noted", change.name);
            }
            // Another number of slots may have been split, because the hash key is another one.
            if let Some(stopped) = Stopped::start(&twins[0], nth(*point, count), change.make) {
                stops += 1;
                act(change, *point, &twins, &before, stopped);
            }
        }
    }
    assert!(stops > 30, "{stops} stops");
}

#[test]
fn a_proof_that_holds_is_of_the_entry_that_is_there() {
    for change in &CHANGES {
        let twins = twins();
        store(&twins[0], Value::Int(1));
        let (found, proof) = get(&twins[1]);
        let before = Before { found: found.unwrap(), proof: proof.unwrap() };
        let hits = twins[1].stats().hits;
        assert!(before.proof.is_current(&twins[1]), "{}: before", change.name);
        assert_eq!(twins[1].stats().hits, hits + 1, "it counts");
        (change.make)(&twins[0]);
        judge(&twins[1], &before, change, "after");
        assert!(change.keeps || !before.proof.is_current(&twins[1]), "{}: after", change.name);
        twins[1].close();
        assert!(!before.proof.is_current(&twins[1]), "a closed handle");
    }
}

#[test]
fn a_proof_ends_with_the_time_to_live() {
    for tags in [&[][..], &["users"]] {
        let now_us = Arc::new(AtomicU64::new(1_000_000));
        let twins = twins_at(&now_us);
        let terms = |us| Terms {
            attributes: Attributes { tags, ..Attributes::default() },
            ..Terms::plain(Ttl::Us(us))
        };
        twins[0].store(KEY, Value::Int(1), &terms(10)).unwrap();
        let proof = get(&twins[1]).1.unwrap();
        now_us.store(1_000_009, Ordering::Relaxed);
        assert!(proof.is_current(&twins[1]));
        now_us.store(1_000_010, Ordering::Relaxed);
        assert!(!proof.is_current(&twins[1]));

        // An end that was set again.
        twins[0].store(KEY, Value::Int(1), &terms(10)).unwrap();
        let former = get(&twins[1]).1.unwrap();
        assert!(twins[0].touch(KEY, Ttl::Us(30)).unwrap());
        let proof = get(&twins[1]).1.unwrap();
        now_us.store(1_000_039, Ordering::Relaxed);
        assert!(proof.is_current(&twins[1]));
        // Of an entry with tags it may be too early.
        assert!(former.is_current(&twins[1]) || !tags.is_empty());
        assert!(twins[0].touch(KEY, Ttl::Never).unwrap());
        let proof = get(&twins[1]).1.unwrap();
        now_us.store(2_000_000, Ordering::Relaxed);
        assert!(proof.is_current(&twins[1]));
        assert!(twins[0].touch(KEY, Ttl::Us(5)).unwrap());
        now_us.store(2_000_005, Ordering::Relaxed);
        assert!(!proof.is_current(&twins[1]) && !former.is_current(&twins[1]));
    }
}

#[test]
fn a_proof_holds_while_a_change_is_between_its_steps_only_for_what_is_there() {
    each_point(|change, point, twins, before, stopped| {
        let when = format!("at {point:?}");
        judge(&twins[1], before, change, &when);
        let (found, proof) = get(&twins[1]);
        stopped.resume();
        if let (Some(found), Some(proof)) = (found, proof) {
            let between = Before { found, proof };
            judge(&twins[1], &between, change, &format!("after a read {when}"));
        }
        judge(&twins[1], before, change, "after");
        assert!(change.keeps || !before.proof.is_current(&twins[1]), "{}: after", change.name);
        assert_sound(&twins[2]);
    });
}

#[test]
fn a_proof_holds_after_a_death_only_for_what_is_there() {
    each_point(|change, point, twins, before, dead| {
        let when = format!("after a death at {point:?}");
        twins[1].declare_dead(0);
        judge(&twins[1], before, change, &when);
        store(&twins[2], Value::Int(9));
        assert!(!before.proof.is_current(&twins[1]), "{}, {when}: replaced", change.name);
        assert_sound(&twins[1]);
        drop(dead);
    });
}
