//! Random interleavings: threads that act as processes stall at random points. They use few keys of
//! few sizes in a cache of few segments, so that segments and places are reused soon. Every value
//! is checked: it belongs to its key, is whole, is not older than what was acknowledged or seen
//! before the read began, and not newer than what was announced.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tuckbox_arena::hooks;
use tuckbox_engine::{Buffer, Cache, Ttl, Value};
use tuckbox_testkit::stamp::{self, Stream};
use tuckbox_testkit::watchdog::Watchdog;

use super::{assert_sound, look, name, stamped, twins, Seen};

const THREADS: u32 = 6;

/// What is known of a key. A change is its number, doubled, plus one if it leaves an entry.
#[derive(Default)]
struct Known {
    acknowledged: AtomicU64,
    announced: AtomicU64,
    /// The highest number that any read has returned.
    seen: AtomicU64,
    /// Held by the thread that changes the key.
    writer: Mutex<()>,
}

impl Known {
    fn change(&self, leaves_entry: bool, change: impl FnOnce(u64)) {
        let sequence = (self.announced.load(Ordering::SeqCst) >> 1) + 1;
        let word = sequence << 1 | u64::from(leaves_entry);
        self.announced.store(word, Ordering::SeqCst);
        change(sequence);
        self.acknowledged.store(word, Ordering::SeqCst);
    }
}

/// A scenario: handles, keys and value lengths.
struct Game {
    twins: Vec<Arc<Cache>>,
    keys: Vec<Known>,
    lens: &'static [usize],
    /// Whether entries may be evicted.
    may_forget: bool,
}

impl Game {
    fn new(size_bytes: u64, keys: usize, lens: &'static [usize], may_forget: bool) -> Game {
        let keys = (0..keys).map(|_| Known::default()).collect();
        Game { twins: twins(size_bytes, THREADS), keys, lens, may_forget }
    }

    fn read(&self, cache: &Cache, key: usize) {
        let known = &self.keys[key];
        let seen_before = known.seen.load(Ordering::SeqCst);
        let acknowledged = known.acknowledged.load(Ordering::SeqCst);
        let is_settled = known.announced.load(Ordering::SeqCst) == acknowledged;
        let given_up = cache.stats().reads_given_up;
        let answer = look(cache, key);
        let announced = known.announced.load(Ordering::SeqCst);
        let undisturbed = is_settled && announced == acknowledged;
        let floor = seen_before.max(acknowledged >> 1);
        match answer {
            Some(Seen::Value(sequence)) => {
                assert!(sequence >= floor, "key {key}: {sequence} after {floor}");
                assert!(sequence <= announced >> 1, "key {key}: {sequence} is not yet born");
                assert!(!undisturbed || announced & 1 == 1, "key {key}: {sequence} was removed");
                known.seen.fetch_max(sequence, Ordering::SeqCst);
            }
            Some(number) => panic!("key {key} is {number:?}"),
            None => {
                let must_be_there = undisturbed && acknowledged & 1 == 1 && !self.may_forget;
                // A reader that gives up waiting for a stalled writer's lock reports a miss.
                let gave_up = cache.stats().reads_given_up != given_up;
                assert!(!must_be_there || gave_up, "key {key}: {acknowledged} is lost");
            }
        }
    }

    fn write(&self, cache: &Cache, key: usize, random: &mut Stream) {
        let Ok(_writer) = self.keys[key].writer.try_lock() else { return };
        let known = &self.keys[key];
        let name = name(key);
        let len = self.lens[random.below(self.lens.len() as u64) as usize];
        let ttl = if random.below(4) == 0 { Ttl::Us(1 << 40) } else { Ttl::Never };
        match random.below(12) {
            0 => known.change(false, |_| {
                cache.delete(&name).unwrap();
            }),
            1 => known.change(false, |_| {
                let mut buffer = Buffer::new();
                if let Some(entry) = cache.pop(&name, &mut buffer).unwrap() {
                    let Value::Bytes { bytes, .. } = entry.value else { panic!("a number") };
                    let stamp = stamp::read(&name, bytes).expect("it proves itself");
                    let last = known.acknowledged.load(Ordering::SeqCst) >> 1;
                    assert_eq!(stamp.sequence, last, "what is popped was stored last");
                }
            }),
            2 => {
                cache.touch(&name, ttl).unwrap();
            }
            3 => {
                let mut buffer = Buffer::new();
                let version = cache.get(&name, &mut buffer).unwrap().map(|entry| entry.version);
                if let Some(version) = version {
                    let is_there = known.acknowledged.load(Ordering::SeqCst) & 1 == 1;
                    assert!(is_there, "key {key} is there, and was removed");
                    known.change(true, |sequence| {
                        let value = stamped(key, sequence, len);
                        let value = Value::bytes(&value);
                        let swapped = cache.compare_and_set(&name, value, ttl, version).unwrap();
                        if !swapped {
                            // Evicted meanwhile. Nobody else changes the key.
                            assert!(self.may_forget, "key {key} changed its version by itself");
                            cache.set(&name, value, ttl).unwrap();
                        }
                    });
                }
            }
            _ => known.change(true, |sequence| {
                let value = stamped(key, sequence, len);
                cache.set(&name, Value::bytes(&value), ttl).unwrap();
            }),
        }
    }

    fn clear(&self, cache: &Cache) {
        let guards: Vec<_> = self.keys.iter().map(|known| known.writer.lock().unwrap()).collect();
        for known in &self.keys {
            let sequence = (known.announced.load(Ordering::SeqCst) >> 1) + 1;
            known.announced.store(sequence << 1, Ordering::SeqCst);
        }
        cache.clear().unwrap();
        for known in &self.keys {
            let announced = known.announced.load(Ordering::SeqCst);
            known.acknowledged.store(announced, Ordering::SeqCst);
        }
        drop(guards);
    }

    fn scan(&self, cache: &Cache) {
        let (mut scan, mut buffer) = (cache.scan(), Buffer::new());
        let mut met = std::collections::HashSet::new();
        while let Some(item) = scan.next(&mut buffer).unwrap() {
            if let Value::Bytes { bytes, .. } = item.entry.value {
                stamp::read(item.key, bytes).expect("what a scan finds proves itself");
            }
            assert!(met.insert(item.key.to_vec()), "a scan met a key twice");
        }
    }

    fn play(&self, cache: &Cache, thread: u64, rounds: u32) {
        let mut random = Stream::new(0x5eed ^ thread << 32);
        let mut stalls = Stream::new(0xdead ^ thread << 32);
        hooks::set(move |_| match stalls.below(64) {
            0 => std::thread::sleep(Duration::from_micros(stalls.below(60))),
            1..=12 => std::thread::yield_now(),
            _ => {}
        });
        for round in 0..rounds {
            // Skewed, so that some keys are hot.
            let key = random.below(random.clone().below(self.keys.len() as u64) + 1) as usize;
            match random.below(100) {
                0..=54 => self.read(cache, key),
                55..=96 => self.write(cache, key, &mut random),
                97 => self.scan(cache),
                98 if round % 7 == 0 => {
                    let report = cache.check().unwrap();
                    assert!(report.is_sound(), "{report:?}");
                }
                99 if round % 5 == 0 && self.may_forget => self.clear(cache),
                _ => {
                    cache.incr(b"count", 1, Some(0), Ttl::Never).unwrap();
                }
            }
        }
        hooks::clear();
    }

    fn run(&self, rounds: u32) {
        let _watchdog = Watchdog::new("stalling threads", Duration::from_secs(600));
        std::thread::scope(|scope| {
            for (thread, cache) in self.twins.iter().enumerate() {
                scope.spawn(move || self.play(cache, thread as u64, rounds));
            }
        });
        let stats = self.twins[0].stats();
        assert_eq!(stats.checksum_mismatches, 0, "{stats:?}");
        assert_eq!(stats.lost_entries, 0, "{stats:?}");
        assert_sound(&self.twins[0]);
    }
}

#[test]
fn few_segments_that_are_used_again_at_once() {
    Game::new(64 << 10, 60, &[600, 600, 600, 616, 1000], true).run(12_000);
}

#[test]
fn large_values_in_a_small_cache() {
    Game::new(64 << 10, 6, &[200, 4_096, 5_000, 9_000], true).run(5_000);
}

#[test]
fn nothing_is_lost_that_fits() {
    Game::new(1 << 20, 600, &[60, 60, 60, 76, 200, 2_000], false).run(12_000);
}

#[test]
fn numbers_count_every_increment() {
    let twins = twins(1 << 20, THREADS);
    let rounds = 3_000u64;
    std::thread::scope(|scope| {
        for (thread, cache) in twins.iter().enumerate() {
            scope.spawn(move || {
                let mut stalls = Stream::new(thread as u64);
                hooks::set(move |_| {
                    if stalls.below(8) == 0 {
                        std::thread::yield_now();
                    }
                });
                let mut last = [0; 4];
                for round in 0..rounds {
                    let key = (round % 4) as usize;
                    let sum = cache.incr(&name(key), 1, Some(0), Ttl::Never).unwrap().unwrap();
                    assert!(sum > last[key], "{sum} after {}", last[key]);
                    last[key] = sum;
                    if let Some(Seen::Number(seen)) = look(cache, key) {
                        assert!(seen >= sum, "{seen} after {sum}");
                        last[key] = seen;
                    }
                }
                hooks::clear();
            });
        }
    });
    for key in 0..4 {
        let all = i64::try_from(rounds * u64::from(THREADS) / 4).unwrap();
        assert_eq!(look(&twins[0], key), Some(Seen::Number(all)));
    }
}
