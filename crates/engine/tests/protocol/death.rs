//! Writers that die. A workload runs once to learn which points it reaches. Then it runs again and
//! again, and its thread dies at one point after the other with all that it holds. The survivors
//! must read on, take over, find the shard sound, and have lost at most the entry that was being
//! written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::hooks::Point;
use tuckbox_arena::Error as ArenaError;
use tuckbox_engine::{Attributes, Begin, Buffer, Cache, Config, Error, Ttl, Value};
use tuckbox_testkit::watchdog::Watchdog;

use super::{assert_sound, look, name, nth, points_of, store, twins, Seen, Stopped};

/// Most deaths at each point, spread over the workload.
const DEATHS_AT_EACH_POINT: usize = 150;

#[derive(Debug, Clone, Copy)]
enum Act {
    Set(usize),
    Add,
    CompareAndSet(usize),
    Incr,
    Touch,
    Delete,
    Pop,
    Make(usize),
    Clear,
    Expire,
    Check,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    key: usize,
    act: Act,
}

type State = BTreeMap<usize, Seen>;

/// The effect of a step when nothing is evicted.
fn follow(state: &mut State, number: usize, step: Step) {
    let (key, sequence) = (step.key, number as u64);
    match step.act {
        Act::Set(_) | Act::CompareAndSet(_) | Act::Make(_) => {
            state.insert(key, Seen::Value(sequence));
        }
        Act::Add => {
            state.entry(key).or_insert(Seen::Value(sequence));
        }
        Act::Incr => {
            let sum = match state.get(&key) {
                Some(Seen::Number(number)) => number + 1,
                None => 1,
                Some(Seen::Value(_)) => panic!("the workload increments a value"),
            };
            state.insert(key, Seen::Number(sum));
        }
        Act::Delete | Act::Pop => {
            state.remove(&key);
        }
        Act::Clear => state.clear(),
        Act::Touch | Act::Expire | Act::Check => {}
    }
}

fn perform(cache: &Cache, number: usize, step: Step) {
    let (key, sequence) = (name(step.key), number as u64);
    let far = Ttl::Us(3_600_000_000);
    let mut buffer = Buffer::new();
    match step.act {
        Act::Set(len) => store(cache, step.key, sequence, len),
        Act::Add => {
            let value = super::stamped(step.key, sequence, 60);
            cache.add(&key, Value::bytes(&value), far).unwrap();
        }
        Act::CompareAndSet(len) => {
            let version = cache.get(&key, &mut buffer).unwrap().map_or(0, |entry| entry.version);
            let value = super::stamped(step.key, sequence, len);
            if !cache.compare_and_set(&key, Value::bytes(&value), Ttl::Never, version).unwrap() {
                store(cache, step.key, sequence, len);
            }
        }
        Act::Make(len) => {
            let Begin::Lease(token, _) = cache.begin(&key, true, &mut buffer).unwrap() else {
                panic!("nobody else makes it")
            };
            let value = super::stamped(step.key, sequence, len);
            let (value, none) = (Value::bytes(&value), Attributes::default());
            assert!(cache.finish(&token, &key, value, Ttl::Never, &none).unwrap());
        }
        Act::Incr => {
            cache.incr(&key, 1, Some(0), far).unwrap();
        }
        Act::Touch => {
            cache.touch(&key, far).unwrap();
        }
        Act::Delete => {
            cache.delete(&key).unwrap();
        }
        Act::Pop => {
            cache.pop(&key, &mut buffer).unwrap();
        }
        Act::Clear => {
            cache.clear().unwrap();
        }
        Act::Expire => {
            cache.expire().unwrap();
        }
        Act::Check => assert_sound(cache),
    }
}

/// Everything that a writer does, in a cache with space for all: every entry must survive.
fn roomy_workload() -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = |key, act| steps.push(Step { key, act });
    // Enough entries for splits and moves; the following steps leave most of them alone.
    (0..400).for_each(|key| step(key, Act::Set(60)));
    for round in 0..3 {
        for key in 0..8 {
            step(key, Act::Set(60));
            step(key, Act::Set(100 + 8 * round));
            step(key, Act::CompareAndSet(60));
            step(key, Act::Touch);
            step(1000 + key, Act::Incr);
            step(1000 + key, Act::Incr);
            step(1000 + key, Act::Touch);
            step(2000 + key, Act::Add);
            step(2000 + key, Act::Delete);
            step(2000 + key, Act::Make(60));
            step(key, Act::Make(60));
            step(2000 + key, Act::Pop);
            step(key, Act::Touch);
        }
        // Longer than a segment, longer than a part of one, and short again.
        for (key, len) in
            [(3000, 40_000), (3001, 3_000), (3000, 70_000), (3000, 16_384), (3000, 60)]
        {
            step(key, Act::Set(len));
        }
        step(3000, Act::Set(50_000));
        step(3000, Act::Touch);
        step(3000, Act::Pop);
        step(3001, Act::Delete);
        step(0, Act::Expire);
        step(0, Act::Check);
    }
    steps
}

/// A cache that is too small for its entries, and is cleared now and then.
fn crowded_workload() -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = |key, act| steps.push(Step { key, act });
    for round in 0..6 {
        for number in 0..150usize {
            let key = number * 7 % 101;
            step(key, Act::Set(60 + 40 * (number * 31 % 13)));
            if number % 5 == 0 {
                step(key, Act::Touch);
            }
            if number % 11 == 0 {
                step(200 + number % 3, Act::Set(9_000));
            }
            if number % 17 == 0 {
                step(key, Act::Delete);
            }
        }
        if round % 2 == 1 {
            step(0, Act::Clear);
        }
    }
    steps
}

fn run(cache: &Cache, steps: &[Step], at_step: &AtomicUsize) {
    for (number, step) in steps.iter().enumerate() {
        at_step.store(number, Ordering::SeqCst);
        perform(cache, number, *step);
    }
    at_step.store(steps.len(), Ordering::SeqCst);
}

/// The deaths to try: each point with a count of how often it was reached.
fn deaths(size_bytes: u64, steps: &[Step]) -> Vec<(Point, u32)> {
    let cache = twins(size_bytes, 1).remove(0);
    let points = points_of(|| run(&cache, steps, &AtomicUsize::new(0)));
    let mut counts: HashMap<Point, u32> = HashMap::new();
    for point in points {
        *counts.entry(point).or_default() += 1;
    }
    // `compare_and_set` and `check` pass a reader's points, too, and hold nothing there.
    let mut deaths = Vec::new();
    for (point, count) in counts {
        let played = (count as usize).min(DEATHS_AT_EACH_POINT);
        for index in 0..played {
            deaths.push((point, (index * count as usize / played) as u32 + 1));
        }
    }
    deaths.sort_by_key(|(point, count)| (format!("{point:?}"), *count));
    deaths
}

/// What a death at `number` may leave: exactly this state, but for the keys in the second map any
/// of several.
fn expected(steps: &[Step], number: usize) -> (State, HashMap<usize, Vec<Option<Seen>>>) {
    let mut state = State::new();
    for (number, step) in steps[..number].iter().enumerate() {
        follow(&mut state, number, *step);
    }
    let mut open = HashMap::new();
    let Some(step) = steps.get(number) else { return (state, open) };
    let mut after = state.clone();
    follow(&mut after, number, *step);
    let keys = match step.act {
        Act::Clear => state.keys().copied().collect(),
        _ => vec![step.key],
    };
    for key in keys {
        let mut several = vec![state.get(&key).copied(), after.get(&key).copied()];
        // The next owner of the lock finishes a sum; anything else that was half written is lost.
        if !matches!(step.act, Act::Incr) {
            several.push(None);
        }
        open.insert(key, several);
    }
    (state, open)
}

fn evictions(cache: &Cache) -> u64 {
    let stats = cache.stats();
    stats.evictions + stats.lost_entries + stats.expirations
}

/// Dies at the given point, and checks what the survivors find. With `is_roomy` nothing may be
/// evicted.
fn die_and_look(size_bytes: u64, steps: &Arc<Vec<Step>>, death: (Point, u32), is_roomy: bool) {
    let twins = twins(size_bytes, 4);
    let at_step = Arc::new(AtomicUsize::new(0));
    let (its_steps, its_step) = (Arc::clone(steps), Arc::clone(&at_step));
    let victim = Stopped::start(&twins[0], nth(death.0, death.1), move |cache| {
        run(cache, &its_steps, &its_step);
    });
    let victim = victim.expect("the workload is the same every time");
    let number = at_step.load(Ordering::SeqCst);
    let what = format!("{death:?} in step {number}, {:?}", steps.get(number));
    let (state, open) = expected(steps, number);
    twins[1].declare_dead(0);

    let is_right = |cache: &Cache, key: usize| {
        let seen = look(cache, key);
        match open.get(&key) {
            Some(several) => assert!(several.contains(&seen), "{what}: key {key} is {seen:?}"),
            None if is_roomy => {
                assert_eq!(seen, state.get(&key).copied(), "{what}: key {key}");
            }
            None => assert!(
                seen.is_none() || seen == state.get(&key).copied(),
                "{what}: key {key} is {seen:?}"
            ),
        }
        seen
    };
    let keys: BTreeSet<usize> = state.keys().chain(open.keys()).copied().collect();
    // Without any lock, while the dead owner still holds its own.
    let lost_before = evictions(&twins[1]);
    let found_before: Vec<usize> =
        keys.iter().copied().filter(|key| is_right(&twins[1], *key).is_some()).collect();

    // The first survivor to take over dies as well, in the middle of its repair, if it gets that
    // far.
    let turn = death.1 % 7 + 1;
    let second = Stopped::start(&twins[1], nth(Point::RepairStep, turn), |cache| {
        cache.delete(b"nobody").unwrap();
    });
    if second.is_some() {
        twins[2].declare_dead(1);
    }
    let cache = &twins[2];
    cache.delete(b"nobody").unwrap();
    for key in keys.iter().copied() {
        is_right(cache, key);
    }
    let lost = evictions(cache) - lost_before;
    let found = keys.iter().filter(|key| look(cache, **key).is_some()).count() as u64;
    assert!(found + lost + 1 >= found_before.len() as u64, "{what}: entries are gone");
    assert!(cache.stats().lost_entries <= 1, "{what}: {:?}", cache.stats());
    assert_eq!(cache.stats().checksum_mismatches, 0, "{what}");
    assert_sound(cache);
    let (mut scan, mut buffer, mut count) = (cache.scan(), Buffer::new(), 0);
    while scan.next(&mut buffer).unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, cache.len(), "{what}: a scan meets each entry once");
    assert_eq!(count, found, "{what}: what is found is what is there");

    // The interrupted work can be done, and the whole cache can be used.
    for number in number..steps.len().min(number + 30) {
        perform(cache, number, steps[number]);
    }
    let most = cache.value_bytes_max();
    store(cache, 9999, 1, most);
    let seen = look(cache, 9999);
    // In a crowded cache the policy may prefer other entries to one this large.
    let is_right = seen == Some(Seen::Value(1)) || (!is_roomy && seen.is_none());
    assert!(is_right, "{what}: the longest value is {seen:?}");
    assert_sound(cache);
    drop((victim, second));
}

fn die_everywhere(size_bytes: u64, steps: Vec<Step>, is_roomy: bool) -> Vec<Point> {
    let _watchdog = Watchdog::new("deaths of writers", Duration::from_secs(600));
    let deaths = deaths(size_bytes, &steps);
    let steps = Arc::new(steps);
    let mut points: Vec<Point> = deaths.iter().map(|death| death.0).collect();
    points.dedup();
    let (left, right) = deaths.split_at(deaths.len() / 2);
    std::thread::scope(|scope| {
        for half in [left, right] {
            let steps = &steps;
            scope.spawn(move || {
                half.iter().for_each(|death| die_and_look(size_bytes, steps, *death, is_roomy));
            });
        }
    });
    points
}

#[test]
fn a_death_anywhere_costs_at_most_the_entry_being_written() {
    let points = die_everywhere(1 << 20, roomy_workload(), true);
    for point in [
        Point::RecordWritten,
        Point::CursorMoved,
        Point::RewriteBegun,
        Point::RewriteHalf,
        Point::SplitCopied,
        Point::SplitPublished,
        Point::MoveCopied,
        Point::GenerationBumped,
        Point::BodyBuilt,
        Point::Invalidated,
        Point::MakerNamed,
        Point::ClaimReleased,
    ] {
        assert!(points.contains(&point), "{point:?} was not reached");
    }
}

#[test]
fn a_death_in_a_crowded_cache_costs_at_most_the_entry_being_written() {
    let points = die_everywhere(64 << 10, crowded_workload(), false);
    for point in [
        Point::EntryDropped,
        Point::SegmentUnlinked,
        Point::GenerationBumped,
        Point::EpochAdvanced,
        Point::BodyBuilt,
    ] {
        assert!(points.contains(&point), "{point:?} was not reached");
    }
}

/// The index of an empty cache makes room for a large value. Dies at each of the points from there.
#[test]
fn a_death_while_an_index_shrinks_leaves_a_sound_cache() {
    for stop in 0..16 {
        let twins = twins(1 << 20, 3);
        (0..14_000).for_each(|key| store(&twins[1], key, 1, 40));
        let most = twins[1].value_bytes_max();
        let (mut is_shrinking, mut left) = (false, stop);
        let dies = move |reached| {
            is_shrinking |= reached == Point::IndexReset;
            left -= i32::from(is_shrinking);
            is_shrinking && left < 0
        };
        let victim = Stopped::start(&twins[0], dies, move |cache| store(cache, 20_000, 1, most));
        let point = victim.as_ref().expect("it needs the index's room").point;
        twins[2].declare_dead(0);
        assert_eq!((0..14_000).find_map(|key| look(&twins[1], key)), None, "{stop}: {point:?}");
        twins[1].delete(b"nobody").unwrap();
        assert_sound(&twins[1]);
        store(&twins[1], 20_000, 2, most);
        assert_eq!(look(&twins[2], 20_000), Some(Seen::Value(2)), "{stop}: {point:?}");
        (0..2_000).for_each(|key| store(&twins[2], key, 2, 40));
        assert_eq!(look(&twins[1], 1_999), Some(Seen::Value(2)), "{stop}: {point:?}");
        assert_sound(&twins[2]);
    }
}

/// Guards against this bug: a number with an expiry was overwritten by another, and the writer died
/// between the two words. The old number came back with the new expiry.
#[test]
fn a_number_does_not_get_the_expiry_of_another() {
    let lives = [Ttl::Us(1 << 40), Ttl::Us(1 << 50)];
    let mut deaths = 0;
    for point in [Point::RewriteBegun, Point::RewriteHalf] {
        for key in [&b""[..], b"n", b"number of many", b"a number with a long name, of some words"]
        {
            let twins = twins(1 << 20, 2);
            twins[0].set(key, Value::Int(1), lives[0]).unwrap();
            let mut buffer = Buffer::new();
            let old = twins[1].get(key, &mut buffer).unwrap().unwrap();
            let (old, limit) = ((old.value, old.expiry_us), old.expiry_us.unwrap() + (1 << 41));
            let victim = Stopped::start(&twins[0], nth(point, 1), move |cache| {
                cache.set(key, Value::Int(2), lives[1]).unwrap();
            });
            deaths += u32::from(victim.is_some());
            twins[1].declare_dead(0);
            twins[1].delete(b"nobody").unwrap();
            let mut buffer = Buffer::new();
            if let Some(entry) = twins[1].get(key, &mut buffer).unwrap() {
                let is_old = (entry.value, entry.expiry_us) == old;
                let is_new = entry.value == Value::Int(2) && entry.expiry_us > Some(limit);
                assert!(is_old || is_new, "{entry:?} at {point:?}");
            }
            assert_sound(&twins[1]);
        }
    }
    assert_eq!(deaths, 8, "a number is overwritten in place");
}

#[test]
fn a_lock_that_was_taken_over_is_held_until_the_write_ends() {
    let config =
        Config { size_bytes: 1 << 20, lock_limit: Duration::from_millis(200), ..Config::default() };
    let twins: Vec<_> = Cache::twins(&config, 3).unwrap().into_iter().map(Arc::new).collect();
    let stop = |twin: usize| {
        let work = move |cache: &Cache| store(cache, twin, 1, 200);
        Stopped::start(&twins[twin], nth(Point::CursorMoved, 1), work).expect("it writes")
    };
    let _victim = stop(0);
    twins[1].declare_dead(0);
    let writer = stop(1);
    assert_eq!(twins[1].stats().takeovers, 1);
    let result = twins[2].delete(&name(1));
    assert!(matches!(result, Err(Error::Arena(ArenaError::LockTimeout { .. }))), "{result:?}");
    writer.resume();
    assert_eq!(look(&twins[2], 1), Some(Seen::Value(1)));
    assert_sound(&twins[2]);
}

/// Guards against this bug: the dead writer had grown the file and taken one of the new segments.
/// The repair searched only up to the file's end as the survivor knew it, and the segment stayed
/// the shard's until the next check.
#[test]
fn segments_that_a_dead_writer_took_after_growth_are_found() {
    // A record in one segment, one that crosses into the next, and a value with bodies.
    for (len, points) in [
        (300, &[Point::SegmentTaken, Point::RecordWritten][..]),
        (6_000, &[Point::SegmentTaken, Point::RecordWritten]),
        (40_000, &[Point::BodyAdopted]),
    ] {
        for &point in points {
            for growth in 1..=3 {
                let what = format!("{len} bytes, {point:?} after growth {growth}");
                let twins = twins(1 << 20, 3);
                let survivors = [Arc::clone(&twins[1]), Arc::clone(&twins[2])];
                let mut grows = nth(Point::GrowthBegun, growth);
                let mut has_grown = false;
                let victim = Stopped::start(
                    &twins[0],
                    move |reached| {
                        if grows(reached) {
                            has_grown = true;
                            // They know the file up to here, as if they had been working as well.
                            for cache in &survivors {
                                cache.stats();
                            }
                        }
                        has_grown && reached == point
                    },
                    move |cache| (0..3000).for_each(|key| store(cache, key, 1, len)),
                );
                assert!(victim.is_some(), "{what}: not reached");
                twins[1].declare_dead(0);
                // Takes the lock over without needing a segment.
                twins[1].delete(b"nobody").unwrap();
                assert_eq!(twins[1].stats().takeovers, 1, "{what}");
                let report = twins[2].check().unwrap();
                assert!(report.is_sound(), "{what}: {report:?}");
            }
        }
    }
}
