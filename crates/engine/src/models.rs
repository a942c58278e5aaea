//! Models of the protocol of `docs/explanation/concurrency.md`: the product's own functions over
//! loom's words (see `tuckbox_arena::modelled`), in every interleaving and with every value that
//! the C11 memory model lets a load see. Must not contain protocol code of their own.
//!
//! A model is small: a cache of the smallest size and two or three parties with one action each.
//! Loom tries all interleavings with at most [`preemptions`] forced switches. It treats
//! sequentially consistent accesses as acquire and release, which is weaker, so what holds here
//! holds there. `crates/engine/tests/models.sh` runs the models and shows that each rule is needed:
//! for each build that breaks one it names the model that fails.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom::thread;
use tuckbox_arena::free_map::FreeMap;
use tuckbox_arena::modelled;
use tuckbox_arena::segments::Owner;
use tuckbox_arena::Acquired;

use crate::format::layout::{shard, SIZE_BYTES_MIN};
use crate::format::{bucket_of, LogKind, Slot};
use crate::reading::steps::Seen;
use crate::storage::Need;
use crate::{Begin, Buffer, Cache, Config, Pass, Ttl, Value};

const KEY: &[u8] = b"a key";

/// The most forced switches between parties: `LOOM_MAX_PREEMPTIONS`.
fn preemptions() -> usize {
    std::env::var("LOOM_MAX_PREEMPTIONS").map_or(2, |text| text.parse().expect("a number"))
}

/// Explores a model. The scene calls its argument when the setup is complete.
fn explore(name: &str, has_time: bool, scene: impl Fn(&dyn Fn(&Cache)) + Send + Sync + 'static) {
    // What loom's words know is global to the program.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|broken| broken.into_inner());
    let began = std::time::Instant::now();
    let scene = Arc::new(scene);
    modelled::forget();
    let run = |preemptions| {
        let tries = Arc::new(AtomicU64::new(0));
        let (count, scene) = (Arc::clone(&tries), Arc::clone(&scene));
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 100_000;
        builder.check(move || {
            modelled::end();
            count.fetch_add(1, Ordering::Relaxed);
            scene(&|cache| modelled::begin(cache.cx.arena.region(), has_time));
            modelled::end();
        });
        tries.load(Ordering::Relaxed)
    };
    // Few interleavings first: they touch most of the words. A run that touched an unknown word
    // does not count, not even if it failed.
    let mut bound = 0;
    let tries = loop {
        let result = catch_unwind(AssertUnwindSafe(|| run(bound)));
        modelled::end();
        match result {
            _ if modelled::learn() => {}
            Err(failure) => resume_unwind(failure),
            Ok(_) if bound < preemptions() => bound = preemptions(),
            Ok(tries) => break tries,
        }
    };
    println!("model {name}: {tries} interleavings in {:?}", began.elapsed());
    assert!(tries > 20, "{name}: nobody met anybody");
}

/// Stores a key whose hit count is saturated, so that no reader adds a hit. Loom does not know that
/// a store by another thread comes after a compare-and-swap that did not see it.
fn set_hot(cache: &Cache, value: &[u8]) {
    set(cache, KEY, value);
    (0..4).for_each(|_| assert!(get(cache).is_some()));
}

fn twins(count: u32) -> Vec<Arc<Cache>> {
    let config = Config {
        size_bytes: SIZE_BYTES_MIN,
        lock_limit: Duration::from_secs(1000),
        ..Config::default()
    };
    Cache::twins(&config, count).unwrap().into_iter().map(Arc::new).collect()
}

fn set(cache: &Cache, key: &[u8], value: &[u8]) {
    cache.set(key, Value::bytes(value), Ttl::Never).unwrap();
}

fn get(cache: &Cache) -> Option<Vec<u8>> {
    let mut buffer = Buffer::new();
    match cache.get(KEY, &mut buffer).unwrap()?.value {
        Value::Bytes { bytes, .. } => Some(bytes.to_vec()),
        Value::Int(number) => panic!("a number: {number}"),
    }
}

fn judge(cache: &Cache) {
    modelled::end();
    let report = cache.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(cache.stats().checksum_mismatches, 0, "a read copied what was no record");
}

/// A reader that looks twice while another party changes the key from `first` to `second`.
fn read_beside(name: &str, first: &'static [u8], second: &'static [u8], change: fn(&Cache, &[u8])) {
    explore(name, true, move |begin| {
        let twins = twins(2);
        set_hot(&twins[0], first);
        begin(&twins[0]);
        let writer = {
            let cache = Arc::clone(&twins[0]);
            thread::spawn(move || change(&cache, second))
        };
        let seen = get(&twins[1]).expect("it is there all the time");
        assert!(seen == first || seen == second, "{seen:?} was never stored");
        writer.join().unwrap();
        assert_eq!(get(&twins[1]).as_deref(), Some(second), "what was stored is not read");
        judge(&twins[1]);
    });
}

#[test]
fn a_new_record_is_published_whole() {
    read_beside("publication", b"old", b"another length", |cache, value| {
        set(cache, KEY, value);
    });
}

#[test]
fn a_record_is_rewritten_in_place_beside_a_reader() {
    read_beside("rewriting", b"old 1234", b"new 5678", |cache, value| set(cache, KEY, value));
}

/// Replaces an entry, not in place.
fn replace(cache: &Cache, key: &[u8], value: &[u8]) {
    let pass = Pass { gate: cache.gate(), version: Pass::ANY, delta: 0 };
    assert!(cache.store_passing(key, Value::bytes(value), &pass).unwrap().is_some());
}

/// Twins of a cache that evicts nothing, in which the place of the key's next record is known: that
/// of another replaced one. The key's hit count is saturated.
fn staying_twins(other: &[u8], value: &[u8]) -> Vec<Arc<Cache>> {
    let config = Config {
        size_bytes: SIZE_BYTES_MIN,
        lock_limit: Duration::from_secs(1000),
        evicts: false,
        ..Config::default()
    };
    let twins: Vec<_> = Cache::twins(&config, 2).unwrap().into_iter().map(Arc::new).collect();
    for key in [KEY, other, other] {
        replace(&twins[0], key, value);
    }
    (0..4).for_each(|_| assert!(get(&twins[0]).is_some()));
    twins
}

#[test]
fn a_key_is_found_while_another_one_is_written_over_its_old_record() {
    const OTHER: &[u8] = b"other";
    explore("another key in an old place", true, |begin| {
        let twins = staying_twins(OTHER, b"old");
        begin(&twins[0]);
        let writer = {
            let cache = Arc::clone(&twins[0]);
            thread::spawn(move || {
                replace(&cache, KEY, b"new");
                replace(&cache, OTHER, b"new");
            })
        };
        let seen = get(&twins[1]).expect("it is there all the time");
        assert!(seen == b"old" || seen == b"new", "{seen:?} was never stored");
        writer.join().unwrap();
        assert_eq!(get(&twins[1]).as_deref(), Some(&b"new"[..]));
        judge(&twins[1]);
    });
}

#[test]
fn a_key_is_written_over_its_old_record_beside_a_reader() {
    explore("a key in an old place of its own", true, |begin| {
        let twins = staying_twins(b"other", b"one");
        begin(&twins[0]);
        let writer = {
            let cache = Arc::clone(&twins[0]);
            thread::spawn(move || {
                replace(&cache, KEY, b"two");
                replace(&cache, KEY, b"six");
            })
        };
        let rank = |seen: Option<Vec<u8>>| {
            let seen = seen.expect("it is there all the time");
            [b"one", b"two", b"six"]
                .iter()
                .position(|value| seen == **value)
                .expect("it was stored")
        };
        if rank(get(&twins[1])) == 2 {
            assert_eq!(rank(get(&twins[1])), 2, "it was read before it was published");
        }
        writer.join().unwrap();
        assert_eq!(rank(get(&twins[1])), 2);
        judge(&twins[1]);
    });
}

#[test]
fn a_number_goes_with_its_version() {
    explore("number", true, |begin| {
        let twins = twins(2);
        let look = |cache: &Cache| {
            let mut buffer = Buffer::new();
            let entry = cache.get(KEY, &mut buffer).unwrap().expect("it is there all the time");
            let Value::Int(number) = entry.value else { panic!("no number") };
            (number, entry.version)
        };
        twins[0].set(KEY, Value::Int(5), Ttl::Never).unwrap();
        let before = (0..4).map(|_| look(&twins[0])).last().unwrap();
        begin(&twins[0]);
        let writer = {
            let cache = Arc::clone(&twins[0]);
            thread::spawn(move || cache.incr(KEY, 1, None, Ttl::Never).unwrap())
        };
        let seen = look(&twins[1]);
        assert_eq!(writer.join().unwrap(), Some(6));
        let after = look(&twins[1]);
        assert_eq!((before.0, after.0), (5, 6));
        assert_ne!(before.1, after.1);
        assert!(seen == before || seen == after, "{seen:?} between {before:?} and {after:?}");
        judge(&twins[1]);
    });
}

#[test]
fn a_key_is_found_while_its_bucket_is_split() {
    explore("splitting", true, |begin| {
        let twins = twins(2);
        let count = 32;
        // A key that the first split moves to the new bucket.
        let key = (0u32..)
            .map(|number| number.to_le_bytes())
            .find(|key| {
                let hash = twins[0].cx.hasher.key(key);
                bucket_of(hash.first(), count) == 0 && bucket_of(hash.first(), count + 1) == count
            })
            .unwrap();
        set(&twins[0], &key, b"value");
        assert_eq!(twins[0].writes().lock(0).unwrap().bucket_count(), count);
        begin(&twins[0]);
        let splitter = {
            let cache = Arc::clone(&twins[0]);
            thread::spawn(move || assert!(cache.writes().lock(0).unwrap().split()))
        };
        let mut buffer = Buffer::new();
        assert!(twins[1].get(&key, &mut buffer).unwrap().is_some(), "not found meanwhile");
        splitter.join().unwrap();
        assert!(twins[1].get(&key, &mut buffer).unwrap().is_some(), "not found afterwards");
        judge(&twins[1]);
    });
}

/// The key's slot and record, as a reader finds them before anything happens.
struct Before {
    epoch: u64,
    slot_at: u64,
    slot: Slot,
    segment: u32,
    record: Vec<u64>,
}

impl Before {
    fn new(cache: &Cache) -> Before {
        let shard = cache.writes().lock(0).unwrap();
        let live = shard.find_kept(KEY, cache.cx.hasher.key(KEY)).unwrap();
        let slot = live.found.slot;
        let mut record = Vec::new();
        shard.load_record(slot.offset(), &mut record).unwrap();
        let segment = cache.cx.position_of(slot.offset()).unwrap().segment;
        Before { epoch: shard.word(shard::EPOCH), slot_at: live.found.at, slot, segment, record }
    }

    /// Continues the read from there, and checks the claim that `docs/explanation/concurrency.md`
    /// proves: an accepted copy is the record to which the slot led, whatever happened to its
    /// segment; if it is another record, that one was published before.
    fn read_on(&self, cache: &Cache) {
        let shard_at = cache.cx.arena.geometry().shard_at(0);
        let mut buffer = Buffer::new();
        let region = cache.cx.arena.region();
        let seen = Seen {
            shard: region.view(shard_at + shard::STATE),
            epoch: self.epoch,
            word: region.view(self.slot_at),
            slot: self.slot,
        };
        let copied = cache.reads().read_slot(seen, &mut buffer);
        if copied.is_err() || buffer.record == self.record {
            return;
        }
        let slot = cache.cx.arena.region().load(self.slot_at, Ordering::Acquire);
        let is_published = slot != self.slot.0 && !Slot(slot).is_empty();
        assert!(is_published, "a record was read that nobody had published");
        let word = |index| cache.cx.arena.region().get(Slot(slot).offset() + 8 * index);
        let new: Vec<u64> = (0..buffer.record.len() as u64).map(word).collect();
        assert_eq!(buffer.record, new, "a record of another use was accepted");
    }
}

#[test]
fn a_kept_proof_beside_a_writer() {
    explore("proof", true, |begin| {
        let twins = twins(2);
        set_hot(&twins[0], b"old");
        let mut buffer = Buffer::new();
        let (_, kept) = twins[1].get_proved(KEY, None, &mut buffer).unwrap();
        let (mut proof, evidence) = kept.unwrap();
        begin(&twins[0]);
        let writer = {
            let cache = Arc::clone(&twins[0]);
            thread::spawn(move || set(&cache, KEY, b"new"))
        };
        // May note the count of changes at any moment of the set.
        twins[1].is_current(&mut proof, &evidence);
        let is_new = get(&twins[1]).as_deref() == Some(&b"new"[..]);
        let is_current = twins[1].is_current(&mut proof, &evidence);
        assert!(!(is_new && is_current), "the old entry is current after the new one was read");
        writer.join().unwrap();
        assert!(!twins[1].is_current(&mut proof, &evidence), "an entry that was replaced");
        judge(&twins[1]);
    });
}

#[test]
fn a_segment_is_used_again_beside_a_reader() {
    explore("reuse", true, |begin| {
        let twins = twins(2);
        set_hot(&twins[0], b"old");
        let before = Arc::new(Before::new(&twins[0]));
        begin(&twins[0]);
        let writer = {
            let cache = Arc::clone(&twins[0]);
            thread::spawn(move || {
                // The entry is deleted, its log's only segment is freed, and the same key is stored
                // in the same place.
                assert!(cache.delete(KEY).unwrap());
                let shard = cache.writes().lock(0).unwrap();
                assert!(shard.move_tail(LogKind::Small, shard.head_cursor(LogKind::Small).unwrap()));
                assert!(shard.free_empty_logs());
                drop(shard);
                set(&cache, KEY, b"new");
            })
        };
        before.read_on(&twins[1]);
        writer.join().unwrap();
        assert_eq!(get(&twins[1]).as_deref(), Some(&b"new"[..]));
        assert_eq!(
            Before::new(&twins[1]).segment,
            before.segment,
            "the scene needs the same segment"
        );
        judge(&twins[1]);
    });
}

#[test]
fn a_segment_is_taken_by_another_process_beside_a_reader() {
    explore("taking", true, |begin| {
        let twins = twins(3);
        set_hot(&twins[0], b"old");
        let before = Arc::new(Before::new(&twins[0]));
        begin(&twins[0]);
        let freer = {
            let (cache, before) = (Arc::clone(&twins[0]), Arc::clone(&before));
            thread::spawn(move || {
                let shard = cache.writes().lock(0).unwrap();
                shard.store_slot(before.slot_at, Slot::EMPTY);
                shard.arena().free_segment(before.segment);
            })
        };
        let taker = {
            let (cache, before) = (Arc::clone(&twins[1]), Arc::clone(&before));
            thread::spawn(move || {
                let arena = &cache.cx.arena;
                let me = Owner::Builder(arena.owner().unwrap());
                if arena.take_segment(me) == Some(before.segment) {
                    let other = vec![0x0101_0101_0101_0101; before.record.len()];
                    arena.region().copy_in(before.slot.offset(), &other);
                }
            })
        };
        before.read_on(&twins[2]);
        freer.join().unwrap();
        taker.join().unwrap();
    });
}

#[test]
fn a_spare_segment_is_used_by_another_process_beside_a_reader() {
    explore("spare", true, |begin| {
        let twins = twins(3);
        set_hot(&twins[0], b"old");
        // A fully grown cache keeps spare segments.
        while twins[0].cx.arena.grow().unwrap() {}
        twins[1].cx.arena.refresh_length();
        let before = Arc::new(Before::new(&twins[0]));
        begin(&twins[0]);
        let freer = {
            let (cache, before) = (Arc::clone(&twins[0]), Arc::clone(&before));
            thread::spawn(move || {
                let shard = cache.writes().lock(0).unwrap();
                shard.store_slot(before.slot_at, Slot::EMPTY);
                shard.end_and_put_back(before.segment);
                assert_eq!(shard.spares()[..], [before.segment]);
            })
        };
        let user = {
            let (cache, before) = (Arc::clone(&twins[1]), Arc::clone(&before));
            thread::spawn(move || {
                let shard = cache.writes().lock(0).unwrap();
                if shard.spares()[..] == [before.segment] {
                    assert_eq!(shard.take_for_log(Need::Move), Some(before.segment));
                    let other = vec![0x0101_0101_0101_0101; before.record.len()];
                    shard.region().copy_in(before.slot.offset(), &other);
                }
            })
        };
        before.read_on(&twins[2]);
        freer.join().unwrap();
        user.join().unwrap();
    });
}

#[test]
fn a_free_segment_is_found_however_taking_and_freeing_meet() {
    explore("free map", true, |begin| {
        let twins = twins(3);
        // All is taken but the last segment. It fills a word of each level, and none of these words
        // is the first of its level: a search from the start looks at the levels above.
        let arena = &twins[0].cx.arena;
        let unused = arena.segments_present() - 1;
        let map = FreeMap::new(arena.geometry().segment_at(unused), 2 * 64 * 64);
        let (freed, last) = (2 * 64 * 64 - 10, 2 * 64 * 64 - 1);
        (0..last).for_each(|segment| map.set_taken(arena.region(), segment));
        begin(&twins[0]);
        let taker = {
            let cache = Arc::clone(&twins[1]);
            thread::spawn(move || map.set_taken(cache.cx.arena.region(), last))
        };
        let freer = {
            let cache = Arc::clone(&twins[2]);
            thread::spawn(move || map.set_free(cache.cx.arena.region(), freed))
        };
        taker.join().unwrap();
        freer.join().unwrap();
        modelled::end();
        assert_eq!(map.next(arena.region(), 0), Some(freed), "a free segment is hidden");
    });
}

#[test]
fn a_clear_beside_a_reader() {
    explore("clearing", true, |begin| {
        let twins = twins(2);
        set_hot(&twins[0], b"old");
        let before = Before::new(&twins[0]);
        begin(&twins[0]);
        let clearer = {
            let cache = Arc::clone(&twins[0]);
            thread::spawn(move || {
                assert_eq!(cache.clear().unwrap(), 1);
                set(&cache, KEY, b"new");
            })
        };
        before.read_on(&twins[1]);
        clearer.join().unwrap();
        assert_eq!(get(&twins[1]).as_deref(), Some(&b"new"[..]));
        judge(&twins[1]);
    });
}

#[test]
fn a_lock_has_one_owner_and_every_sleeper_wakes() {
    explore("lock", false, |begin| {
        let twins = twins(3);
        let at = twins[0].cx.arena.geometry().shard_at(0);
        let (lock, guarded) = (at + shard::LOCK, at + shard::HALVINGS);
        begin(&twins[0]);
        let add = move |cache: &Cache| {
            let acquired = cache.cx.arena.lock(lock, Duration::from_secs(1000)).unwrap();
            assert_eq!(acquired, Acquired::Clean);
            let region = cache.cx.arena.region();
            region.set(guarded, region.get(guarded) + 1);
            cache.cx.arena.unlock(lock);
        };
        let threads: Vec<_> = twins[1..]
            .iter()
            .map(|cache| {
                let cache = Arc::clone(cache);
                thread::spawn(move || add(&cache))
            })
            .collect();
        add(&twins[0]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(twins[0].cx.arena.region().get(guarded), 3, "two were in at once");
    });
}

#[test]
fn every_waiter_for_a_maker_wakes() {
    explore("maker", false, |begin| {
        let twins = twins(3);
        let mut buffer = Buffer::new();
        let Begin::Lease(token, None) = twins[0].begin(KEY, false, &mut buffer).unwrap() else {
            panic!("nobody else makes it")
        };
        begin(&twins[0]);
        let waiters: Vec<_> = twins[1..]
            .iter()
            .map(|cache| {
                let cache = Arc::clone(cache);
                // Without time, a waiter that nobody wakes sleeps until loom reports it.
                thread::spawn(move || cache.wait_made(KEY, Duration::from_secs(1000)).unwrap())
            })
            .collect();
        twins[0].abandon(&token);
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
    });
}

#[test]
fn a_dead_owners_lock_is_taken_over_by_one() {
    explore("takeover", true, |begin| {
        let twins = twins(3);
        let at = twins[0].cx.arena.geometry().shard_at(0);
        let (lock, guarded) = (at + shard::LOCK, at + shard::HALVINGS);
        assert_eq!(twins[2].cx.arena.lock(lock, Duration::ZERO).unwrap(), Acquired::Clean);
        twins[2].declare_dead(2);
        begin(&twins[0]);
        let add = move |cache: &Cache| {
            let acquired = cache.cx.arena.lock(lock, Duration::from_secs(1000)).unwrap();
            let region = cache.cx.arena.region();
            region.set(guarded, region.get(guarded) + 1);
            cache.cx.arena.unlock(lock);
            u32::from(acquired == Acquired::TakenOver)
        };
        let other = {
            let cache = Arc::clone(&twins[1]);
            thread::spawn(move || add(&cache))
        };
        let taken_over = add(&twins[0]) + other.join().unwrap();
        assert_eq!(twins[0].cx.arena.region().get(guarded), 2, "two were in at once");
        assert_eq!(taken_over, 1, "what the dead one left is repaired once");
    });
}

#[test]
fn an_abandoned_segment_is_rescued_once() {
    explore("rescue", true, |begin| {
        let twins = twins(3);
        let dead = Owner::Builder(twins[2].cx.arena.owner().unwrap());
        let segment = twins[2].cx.arena.take_segment(dead).unwrap();
        let generation = twins[0].cx.arena.generation(segment);
        twins[2].declare_dead(2);
        begin(&twins[0]);
        let other = {
            let cache = Arc::clone(&twins[1]);
            thread::spawn(move || cache.cx.arena.free_abandoned_segments())
        };
        let freed = twins[0].cx.arena.free_abandoned_segments() + other.join().unwrap();
        assert_eq!(freed, 1);
        assert_eq!(twins[0].cx.arena.segment_owner(segment), Owner::Free);
        assert_eq!(twins[0].cx.arena.generation(segment), generation + 1);
    });
}
