//! The engine in plain memory, with threads that act as processes: small enough for Miri, and with
//! more rounds (`TWIN_ROUNDS`) for the thread sanitizer. Values are checked too, but the purpose is
//! what those tools detect: accesses out of bounds, misused pointers, and races on plain memory.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::Duration;

use tuckbox_engine::{Buffer, Cache, Clock, Config, Ttl, Value};

const THREADS: u64 = 3;

fn rounds() -> u64 {
    let least = if cfg!(miri) { 6 } else { 2_000 };
    std::env::var("TWIN_ROUNDS").map_or(least, |text| text.parse().expect("a number"))
}

fn twins(size_bytes: u64, count: u64) -> Vec<Cache> {
    let clock = Clock::Manual(Arc::new(AtomicU64::new(1)));
    // The tool may leave a sleeper unscheduled for long.
    let lock_limit = Duration::from_secs(600);
    let config = Config { size_bytes, clock, lock_limit, ..Config::default() };
    Cache::twins(&config, count as u32).unwrap()
}

fn value(key: u64, round: u64, len: usize) -> Vec<u8> {
    let mut value = vec![(key ^ round) as u8; len.max(16)];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value[8..16].copy_from_slice(&round.to_le_bytes());
    value
}

/// Whether these bytes were stored under this key, in one piece.
fn assert_whole(key: u64, bytes: &[u8]) {
    let round = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    assert_eq!(bytes, value(key, round, bytes.len()), "key {key}");
}

fn play(cache: &Cache, thread: u64, rounds: u64) {
    let mut buffer = Buffer::new();
    for round in 0..rounds {
        let key = (round * 7 + thread) % 5;
        let name = key.to_le_bytes();
        let len = [16, 24, 100, 5_000][(round % 4) as usize];
        match (round + thread) % 6 {
            0 | 1 => {
                cache.set(&name, Value::bytes(&value(key, round, len)), Ttl::Never).unwrap();
            }
            2 => {
                cache.incr(b"count", 1, Some(0), Ttl::Never).unwrap();
            }
            3 if round % 8 == 3 => {
                cache.delete(&name).unwrap();
            }
            _ => {
                if let Some(entry) = cache.get(&name, &mut buffer).unwrap() {
                    let Value::Bytes { bytes, .. } = entry.value else { panic!("a number") };
                    assert_whole(key, bytes);
                }
            }
        }
    }
}

#[test]
fn threads_as_processes() {
    let twins = twins(64 << 10, THREADS);
    let rounds = rounds();
    std::thread::scope(|scope| {
        for (thread, cache) in twins.iter().enumerate() {
            scope.spawn(move || play(cache, thread as u64, rounds));
        }
    });
    let report = twins[0].check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    let mut buffer = Buffer::new();
    let counted = (0..THREADS)
        .map(|thread| (0..rounds).filter(|round| (round + thread) % 6 == 2).count() as i64)
        .sum();
    let entry = twins[1].get(b"count", &mut buffer).unwrap().expect("it was hit all the time");
    assert_eq!(entry.value, Value::Int(counted), "every increment counts");
}

#[test]
fn threads_of_one_process() {
    let twins = twins(64 << 10, 1);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = &twins[0];
            scope.spawn(move || play(cache, thread, rounds() / 2));
        }
    });
    assert!(twins[0].check().unwrap().is_sound());
}

#[test]
fn every_operation_once() {
    let twins = twins(64 << 10, 2);
    let [one, other] = &twins[..] else { panic!("two were asked for") };
    let mut buffer = Buffer::new();
    for (key, len) in [(1, 16), (2, 600), (3, 4_096), (4, if cfg!(miri) { 40 } else { 9_001 })] {
        let name: [u8; 8] = u64::to_le_bytes(key);
        one.set(&name, Value::bytes(&value(key, 1, len)), Ttl::Never).unwrap();
        assert!(!one.add(&name, Value::bytes(b"no"), Ttl::Never).unwrap());
        let entry = other.get(&name, &mut buffer).unwrap().unwrap();
        assert_eq!(entry.value, Value::bytes(&value(key, 1, len)));
        let version = entry.version;
        let new = value(key, 2, len);
        assert!(other.compare_and_set(&name, Value::bytes(&new), Ttl::Never, version).unwrap());
        assert!(one.touch(&name, Ttl::Us(1 << 40)).unwrap());
        assert_eq!(one.get(&name, &mut buffer).unwrap().unwrap().value, Value::bytes(&new));
    }
    let (mut walk, mut met) = (one.scan(), 0);
    while walk.next(&mut buffer).unwrap().is_some() {
        met += 1;
    }
    assert_eq!(met, 4);
    assert!(other.pop(&4u64.to_le_bytes(), &mut buffer).unwrap().is_some());
    for number in 0..if cfg!(miri) { 2 } else { 40u64 } {
        other.set(&(100 + number).to_le_bytes(), Value::bytes(&[1; 300]), Ttl::Never).unwrap();
    }
    assert!(one.check().unwrap().is_sound());
    assert!(one.clear().unwrap() > 0);
    assert!(other.is_empty() && other.check().unwrap().is_sound());
}
