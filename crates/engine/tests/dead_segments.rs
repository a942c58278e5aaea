//! Segments without a living record are free at once, wherever in their log they are, and no others.
#![cfg(feature = "hooks")]

use tuckbox_arena::hooks::pretend_boot;
use tuckbox_engine::{Buffer, Cache, Config, Place, Stats, Ttl, Value};
use tuckbox_testkit::specimen::Scratch;

const SIZE_BYTES: u64 = 1 << 20;

fn open() -> Cache {
    let config = Config { size_bytes: SIZE_BYTES, ..Config::default() };
    Cache::open(&Place::Private, &config).unwrap()
}

/// A generator of numbers, the same in every run.
struct Stream(u64);

impl Stream {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % end
    }
}

fn log_bytes(stats: &Stats) -> u64 {
    stats.segments_log * stats.segment_bytes
}

#[test]
fn values_of_other_lengths_take_the_space_of_those_before() {
    for in_order in [true, false] {
        let (cache, mut stream, value) = (open(), Stream(1), [7; 400]);
        for number in 0..50_000 {
            let key = if in_order { number % 200 } else { stream.below(200) } as u64;
            let len = stream.below(value.len());
            cache.set(&key.to_le_bytes(), Value::bytes(&value[..len]), Ttl::Never).unwrap();
        }
        assert!(cache.check().unwrap().is_sound());
        let stats = cache.stats();
        assert_eq!((stats.entries, stats.evictions), (200, 0));
        let taken = log_bytes(&stats);
        // The last values in a random order are up to some thousand sets apart.
        let most = if in_order { 3 } else { 8 } * stats.entry_bytes;
        assert!(taken < most, "{taken} bytes for {}", stats.entry_bytes);
    }
}

/// Keys, too, cross the ends of segments here. The segments of an earlier boot are not counted: there
/// eviction walks from record to record, also over dead ones whose keys are cut off.
#[test]
fn records_that_cross_segments_keep_all_of_them() {
    let (scratch, mut stream, mut buffer) = (Scratch::new(), Stream(2), Buffer::new());
    let Place::Path(path) = scratch.place() else { unreachable!("a scratch has a path") };
    std::fs::remove_file(&path).unwrap();
    let open = || {
        let config = Config { size_bytes: SIZE_BYTES, ..Config::default() };
        Cache::open(&scratch.place(), &config).unwrap()
    };
    let mut cache = open();
    let mut held: Vec<Option<(u8, usize)>> = vec![None; 120];
    let key_of = |key: usize| vec![key as u8; [8, 900, 5_000, 12_000][key % 4]];
    for round in 0..20_000 {
        let key = stream.below(held.len());
        match stream.below(4) {
            0 => {
                let was_there = cache.delete(&key_of(key)).unwrap();
                assert!(held[key].is_some() || !was_there);
                held[key] = None;
            }
            _ => {
                let (byte, len) = (stream.below(256) as u8, stream.below(11_000));
                cache.set(&key_of(key), Value::bytes(&vec![byte; len]), Ttl::Never).unwrap();
                held[key] = Some((byte, len));
            }
        }
        let read = stream.below(held.len());
        if let Some(entry) = cache.get(&key_of(read), &mut buffer).unwrap() {
            let (byte, len) = held[read].expect("it was deleted");
            assert_eq!(entry.value, Value::bytes(&vec![byte; len]), "key {read}, round {round}");
        }
        if round % 100 == 0 {
            drop(cache);
            pretend_boot(1 + round);
            cache = open();
        }
        if round % 1_000 == 50 {
            let report = cache.check().unwrap();
            assert!(report.is_sound(), "round {round}: {report:?}");
        }
    }
    let stats = cache.stats();
    assert_eq!((stats.lost_entries, stats.checksum_mismatches), (0, 0));
    assert!(stats.evictions > 500, "{stats:?}");
    let mut is_there = |key: usize| cache.get(&key_of(key), &mut buffer).unwrap().is_some();
    assert_eq!(stats.entries, (0..held.len()).filter(|key| is_there(*key)).count() as u64);
}
