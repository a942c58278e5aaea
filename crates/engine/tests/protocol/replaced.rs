//! Records that are written over replaced ones: what readers see, what deaths leave, and that no
//! place is used that holds something else by now.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_engine::{Cache, Config, Error, Pass, Ttl, Value};

use super::{assert_sound, look, name, nth, stamped, store, Seen, Stopped};

const LEN: usize = 200;
const KEY: usize = 0;
const OTHER: usize = 1;

/// Handles on a cache that evicts nothing.
fn twins(size_bytes: u64, participants: u32) -> Vec<Arc<Cache>> {
    let lock_limit = Duration::from_secs(20);
    let config = Config { size_bytes, lock_limit, evicts: false, ..Config::default() };
    let twins = Cache::twins(&config, participants).unwrap();
    twins.into_iter().map(Arc::new).collect()
}

/// Replaces an entry, not in place. False if there is no room.
fn replace(cache: &Cache, key: usize, sequence: u64, len: usize) -> bool {
    let pass = Pass { gate: cache.gate(), version: Pass::ANY, delta: 0 };
    let value = stamped(key, sequence, len);
    match cache.store_passing(&name(key), Value::bytes(&value), &pass) {
        Ok(weight) => weight.is_some(),
        Err(Error::NoRoom { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Keys of one shard, each with its first value; the place of the first one's old record is free.
fn prepared(participants: u32) -> (Vec<Arc<Cache>>, [usize; 2]) {
    let twins = twins(1 << 20, participants);
    assert_eq!(twins[0].stats().shards, 1);
    for key in [KEY, OTHER] {
        assert!(replace(&twins[0], key, 1, LEN));
    }
    (twins, [KEY, OTHER])
}

/// Draws numbers below a limit, the same ones each time.
fn draws() -> impl FnMut(u64) -> u64 {
    let mut state = 1u64;
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Runs `work` each of the first `times` times that a read has confirmed a slot, with the count of
/// them; what the read returns.
fn read_beside(reader: &Cache, times: u64, mut work: impl FnMut(u64) + 'static) -> Option<Seen> {
    let confirmed = Rc::new(Cell::new(0));
    let count = Rc::clone(&confirmed);
    hooks::set(move |point| {
        if point == Point::SlotConfirmed && count.get() < times {
            count.set(count.get() + 1);
            work(count.get());
        }
    });
    let seen = look(reader, KEY);
    hooks::clear();
    assert_eq!(confirmed.get(), times);
    seen
}

/// Its old record's place holds another key's record, and so does its next one's when the read looks
/// again: the read must not take that for a miss.
#[test]
fn a_key_is_found_whose_old_place_has_another_keys_record() {
    let (twins, _) = prepared(2);
    let writer = Arc::clone(&twins[1]);
    let seen = read_beside(&twins[0], 2, move |count| {
        assert!(replace(&writer, KEY, 1 + count, LEN));
        assert!(replace(&writer, OTHER, 1 + count, LEN));
    });
    assert_eq!(seen, Some(Seen::Value(3)));
    assert_sound(&twins[0]);
}

/// The key's third record is in the place of its first, and no slot leads there yet: a read must not
/// return what a later one would not find.
#[test]
fn a_record_in_an_old_place_of_its_key_is_not_read_before_it_is_published() {
    let (twins, _) = prepared(3);
    let (writer, later) = (Arc::clone(&twins[1]), Arc::clone(&twins[2]));
    let stopped = Rc::new(Cell::new(None));
    let held = Rc::clone(&stopped);
    let seen = read_beside(&twins[0], 1, move |_| {
        assert!(replace(&writer, KEY, 2, LEN));
        let victim = Stopped::start(&writer, nth(Point::CursorMoved, 1), |cache| {
            assert!(replace(cache, KEY, 3, LEN));
        });
        held.set(victim);
    });
    assert_eq!(seen, Some(Seen::Value(2)));
    assert_eq!(look(&later, KEY), Some(Seen::Value(2)));
    stopped.take().expect("it has stopped there").resume();
    assert_eq!(look(&later, KEY), Some(Seen::Value(3)));
    assert_sound(&later);
}

#[test]
fn a_death_leaves_the_old_value_or_the_new_one() {
    for (point, left) in
        [(Point::RecordWritten, 2), (Point::CursorMoved, 2), (Point::EntryReplaced, 3)]
    {
        let (twins, _) = prepared(2);
        assert!(replace(&twins[0], KEY, 2, LEN));
        let victim = Stopped::start(&twins[0], nth(point, 1), |cache| {
            assert!(replace(cache, KEY, 3, LEN));
        });
        assert!(victim.is_some(), "{point:?} was not reached");
        twins[1].declare_dead(0);
        assert_eq!(look(&twins[1], KEY), Some(Seen::Value(left)), "{point:?}");
        assert!(replace(&twins[1], KEY, 4, LEN));
        assert_eq!(look(&twins[1], KEY), Some(Seen::Value(4)), "{point:?}");
        assert_eq!(look(&twins[1], OTHER), Some(Seen::Value(1)), "{point:?}");
        assert_sound(&twins[1]);
    }
}

#[test]
fn replacing_again_and_again_takes_no_further_space() {
    const KEYS: usize = 200;
    let twins = twins(1 << 20, 2);
    let used = || (twins[0].stats().segments_log, twins[0].stats().file_bytes);
    let len_of = |key: usize| LEN + key % 3 * 48;
    (0..KEYS).for_each(|key| assert!(replace(&twins[0], key, 0, len_of(key))));
    let round = |sequence| {
        (0..KEYS).for_each(|key| assert!(replace(&twins[0], key, sequence, len_of(key))));
    };
    round(1);
    let before = used();
    (2..50).for_each(round);
    assert_eq!(used(), before);
    (0..KEYS).for_each(|key| assert_eq!(look(&twins[1], key), Some(Seen::Value(49))));
    assert_sound(&twins[1]);
}

/// Two handles replace, delete and clear in a nearly full cache, whose log is compacted all the time.
#[test]
fn no_place_is_used_that_holds_something_else() {
    const KEYS: usize = 430;
    let twins = twins(128 << 10, 2);
    let mut expected = vec![None; KEYS];
    let mut draw = draws();
    let (mut replaced, mut refused) = (0, 0);
    for sequence in 1..60_000 {
        let (cache, key) = (&twins[draw(2) as usize], draw(KEYS as u64) as usize);
        match draw(60_000) {
            0..20 => {
                cache.clear().unwrap();
                expected.fill(None);
            }
            20..3_000 => {
                cache.delete(&name(key)).unwrap();
                expected[key] = None;
            }
            _ => {
                let len = LEN + draw(4) as usize * 40;
                if replace(cache, key, sequence, len) {
                    replaced += u32::from(expected[key].is_some());
                    expected[key] = Some(Seen::Value(sequence));
                } else {
                    refused += 1;
                }
            }
        }
        let other = draw(KEYS as u64) as usize;
        assert_eq!(look(&twins[draw(2) as usize], other), expected[other], "{sequence}: {other}");
    }
    for (key, value) in expected.iter().enumerate() {
        assert_eq!(look(&twins[0], key), *value, "{key}");
    }
    assert!(replaced > 10_000 && refused > 0, "{replaced} replaced, {refused} refused");
    assert_sound(&twins[0]);
}

/// Entries with a time to live and numbers have records of other forms with the same length.
#[test]
fn a_place_keeps_the_form_of_its_record() {
    let twins = twins(1 << 20, 2);
    for sequence in 1..400u64 {
        for key in 0..6 {
            let cache = &twins[(sequence as usize + key) % 2];
            match (key + sequence as usize) % 3 {
                0 => {
                    let number = Value::Int(sequence as i64);
                    let pass = Pass { gate: cache.gate(), version: Pass::ANY, delta: 0 };
                    assert!(cache.store_passing(&name(key), number, &pass).unwrap().is_some());
                    assert_eq!(look(&twins[0], key), Some(Seen::Number(sequence as i64)));
                }
                1 => {
                    let value = stamped(key, sequence, 40);
                    cache.set(&name(key), Value::bytes(&value), Ttl::Us(1 << 40)).unwrap();
                    assert_eq!(look(&twins[0], key), Some(Seen::Value(sequence)));
                }
                _ => {
                    assert!(replace(cache, key, sequence, 48));
                    assert_eq!(look(&twins[0], key), Some(Seen::Value(sequence)));
                }
            }
        }
        assert_sound(&twins[1]);
    }
}

/// Lengths of values whose records cross the end of a segment in some places, and of which the third one
/// takes the place of the first with slack.
const LENS: [usize; 3] = [1_500, 1_900, 1_400];

/// A full cache of which one shard evicts, and a key whose first record's place is free. Each number of
/// further entries puts it elsewhere.
fn full(participants: u32, further: usize) -> Vec<Arc<Cache>> {
    let twins = super::twins(1 << 20, participants);
    assert_eq!(twins[0].stats().shards, 1);
    (10..1_500).for_each(|key| store(&twins[0], key, 1, 900));
    assert!(twins[0].stats().evictions > 0);
    (2_000..2_000 + further).for_each(|key| store(&twins[0], key, 1, 100));
    store(&twins[0], KEY, 1, LENS[0]);
    store(&twins[0], OTHER, 1, 100);
    twins
}

#[test]
fn a_key_is_found_in_a_full_cache_whose_old_place_has_another_keys_record() {
    for further in (0..40).step_by(3) {
        let twins = full(2, further);
        let writer = Arc::clone(&twins[1]);
        // The other key's value fits into the place of the key's former record.
        let seen = read_beside(&twins[0], 2, move |count| {
            let lens = if count == 1 { [LENS[1], LENS[2]] } else { [LENS[0], LENS[1] - 100] };
            store(&writer, KEY, 1 + count, lens[0]);
            store(&writer, OTHER, 1 + count, lens[1]);
        });
        assert_eq!(seen, Some(Seen::Value(3)), "{further}");
        assert_eq!(look(&twins[1], OTHER), Some(Seen::Value(3)), "{further}");
        assert_sound(&twins[0]);
    }
}

#[test]
fn a_death_in_a_full_cache_leaves_the_old_value_or_the_new_one() {
    for further in (0..40).step_by(3) {
        for (point, left) in
            [(Point::RecordWritten, 2), (Point::CursorMoved, 2), (Point::EntryReplaced, 3)]
        {
            let twins = full(2, further);
            store(&twins[0], KEY, 2, LENS[1]);
            let victim = Stopped::start(&twins[0], nth(point, 1), |cache| {
                store(cache, KEY, 3, LENS[2]);
            });
            assert!(victim.is_some(), "{point:?} was not reached");
            twins[1].declare_dead(0);
            let when = format!("{point:?}, {further}");
            assert_eq!(look(&twins[1], KEY), Some(Seen::Value(left)), "{when}");
            store(&twins[1], KEY, 4, LENS[0]);
            assert_eq!(look(&twins[1], KEY), Some(Seen::Value(4)), "{when}");
            assert_eq!(look(&twins[1], OTHER), Some(Seen::Value(1)), "{when}");
            assert_sound(&twins[1]);
        }
    }
}

/// Two handles store values of all lengths, delete and clear in a full cache. What is there is the last
/// value of its key.
#[test]
fn no_place_of_a_full_cache_is_used_that_holds_something_else() {
    const KEYS: usize = 300;
    let twins = super::twins(256 << 10, 2);
    let mut expected = vec![None; KEYS];
    let mut draw = draws();
    let mut found = 0;
    for sequence in 1..60_000 {
        let (cache, key) = (&twins[draw(2) as usize], draw(KEYS as u64) as usize);
        match draw(60_000) {
            0..20 => {
                cache.clear().unwrap();
                expected.fill(None);
            }
            20..3_000 => {
                cache.delete(&name(key)).unwrap();
                expected[key] = None;
            }
            _ => {
                store(cache, key, sequence, 40 + draw(2_800) as usize);
                expected[key] = Some(Seen::Value(sequence));
            }
        }
        let other = draw(KEYS as u64) as usize;
        let seen = look(&twins[draw(2) as usize], other);
        assert!(seen.is_none() || seen == expected[other], "{sequence}: {other}: {seen:?}");
        found += u32::from(seen.is_some());
        if sequence % 5_000 == 0 {
            assert_sound(&twins[0]);
        }
    }
    assert!(found > 20_000, "{found}");
    assert_eq!(twins[1].stats().lost_entries, 0);
    assert_sound(&twins[1]);
}
