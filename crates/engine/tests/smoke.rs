//! Every operation once, and sizes at the limits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use tuckbox_engine::{Buffer, Cache, Clock, Config, Error, Favour, Place, Ttl, Value};

fn cache(size_bytes: u64) -> Cache {
    let config = Config { size_bytes, ..Config::default() };
    Cache::open(&Place::Private, &config).unwrap()
}

fn body(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

fn get(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Buffer::new();
    cache.get(key, &mut buffer).unwrap().map(|entry| match entry.value {
        Value::Bytes { bytes, .. } => bytes.to_vec(),
        Value::Int(number) => number.to_string().into_bytes(),
    })
}

#[track_caller]
fn assert_sound(cache: &Cache) {
    let report = cache.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.entries, cache.len());
}

#[test]
fn values_of_all_sizes_come_back() {
    for size_bytes in [64 << 10, 1 << 20, 20 << 20] {
        let cache = cache(size_bytes);
        let most = cache.value_bytes_max();
        let mut lens = vec![0, 1, 7, 8, 9, 160, 1000, 1023, 1024, 4000, 4096, 4097, 9000, 65535];
        lens.extend([65536, 100_000, 262_143, 262_144, 262_145, 1_000_000, most - 1, most]);
        for (number, len) in lens.into_iter().filter(|len| *len <= most).enumerate() {
            let key = format!("key {number}");
            let value = body(number as u64, len);
            cache.set(key.as_bytes(), Value::Bytes { tag: 63, bytes: &value }, Ttl::Never).unwrap();
            let mut buffer = Buffer::new();
            let entry = cache.get(key.as_bytes(), &mut buffer).unwrap();
            let entry = entry.unwrap_or_else(|| panic!("{len} bytes in {size_bytes}"));
            assert_eq!(entry.value, Value::Bytes { tag: 63, bytes: &value });
            assert_sound(&cache);
        }
        let refused = cache.set(b"k", Value::bytes(&vec![0; most + 1]), Ttl::Never);
        assert!(matches!(refused, Err(Error::ValueTooLarge { .. })));
    }
}

#[test]
fn keys_of_all_lengths_come_back() {
    let cache = cache(4 << 20);
    for len in [0usize, 1, 8, 36, 1022, 1023, 1024, 4096, 20_000, 65_535, 65_536] {
        let key = body(len as u64, len);
        cache.set(&key, Value::bytes(b"value"), Ttl::Never).unwrap();
        assert_eq!(get(&cache, &key).as_deref(), Some(&b"value"[..]), "{len}");
    }
    let refused = cache.set(&body(1, 65_537), Value::bytes(b""), Ttl::Never);
    assert!(matches!(refused, Err(Error::KeyTooLong { len_bytes: 65_537, .. })));
    assert_eq!(cache.len(), 11);
    assert_sound(&cache);
}

#[test]
fn many_entries_split_the_index_and_stay() {
    let cache = cache(64 << 20);
    for number in 0..100_000u64 {
        cache.set(&number.to_be_bytes(), Value::bytes(&body(number, 40)), Ttl::Never).unwrap();
    }
    assert_eq!(cache.len(), 100_000);
    for number in 0..100_000u64 {
        assert_eq!(get(&cache, &number.to_be_bytes()), Some(body(number, 40)), "{number}");
    }
    assert_eq!(cache.stats().evictions, 0);
    assert_sound(&cache);
    let mut seen = vec![false; 100_000];
    let (mut scan, mut buffer) = (cache.scan(), Buffer::new());
    while let Some(item) = scan.next(&mut buffer).unwrap() {
        let number = u64::from_be_bytes(item.key.try_into().unwrap()) as usize;
        assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
    }
    assert!(seen.iter().all(|seen| *seen));
    assert_eq!(cache.clear().unwrap(), 100_000);
    assert!(cache.is_empty() && get(&cache, &7u64.to_be_bytes()).is_none());
    assert_sound(&cache);
}

#[test]
fn a_full_cache_keeps_working_and_stays_sound() {
    for size_bytes in [64 << 10, 1 << 20, 8 << 20] {
        let cache = cache(size_bytes);
        let count = size_bytes / 100;
        for number in 0..count {
            let len = (number * 7919 % 500) as usize;
            cache.set(&number.to_be_bytes(), Value::bytes(&body(number, len)), Ttl::Never).unwrap();
            if number % (count / 8) == 0 {
                assert_sound(&cache);
            }
        }
        assert_sound(&cache);
        let stats = cache.stats();
        assert!(stats.evictions > 0 && stats.file_bytes <= size_bytes, "{stats:?}");
        // The smallest caches have few segments, some of which are log heads, log tails and spare.
        let least_percent = if size_bytes < 1 << 20 { 45 } else { 80 };
        assert!(stats.entry_bytes * 100 > size_bytes * least_percent, "{stats:?}");
        let mut right = 0;
        for number in 0..count {
            let len = (number * 7919 % 500) as usize;
            if let Some(value) = get(&cache, &number.to_be_bytes()) {
                assert_eq!(value, body(number, len));
                right += 1;
            }
        }
        assert_eq!(right, cache.len());
    }
}

#[test]
fn an_entry_that_was_just_stored_is_found() {
    // Large values fill the small log alone; evicting for the next one must not cost the last one.
    for size_bytes in [64 << 10, 1 << 20, 8 << 20] {
        let cache = cache(size_bytes);
        for number in 0..2000u64 {
            let len = number.wrapping_mul(7919) % (size_bytes * 15 / 100);
            let value = body(number, len as usize);
            cache.set(&number.to_be_bytes(), Value::bytes(&value), Ttl::Never).unwrap();
            assert_eq!(get(&cache, &number.to_be_bytes()), Some(value), "{number} in {size_bytes}");
        }
    }
}

#[test]
fn a_limit_of_entries_binds() {
    for most in [1, 2, 10, 100, 1000] {
        let config = Config { max_entries: Some(most), ..Config::default() };
        let cache = Cache::open(&Place::Private, &config).unwrap();
        for number in 0..5000u64 {
            cache.set(&number.to_be_bytes(), Value::bytes(b"value"), Ttl::Never).unwrap();
            assert!(cache.len() <= most, "{} of {most}", cache.len());
            assert!(number < most || cache.len() == most, "{} of {most}", cache.len());
        }
        assert_sound(&cache);
    }
}

#[test]
fn whichever_limit_comes_first_binds() {
    // The limit of entries is never reached, so the policy has to count in bytes.
    let config = Config { size_bytes: 1 << 20, max_entries: Some(1 << 20), ..Config::default() };
    let cache = Cache::open(&Place::Private, &config).unwrap();
    for number in 0..20_000u64 {
        cache.set(&number.to_be_bytes(), Value::bytes(&body(number, 200)), Ttl::Never).unwrap();
    }
    let stats = cache.stats();
    assert!(stats.evictions > 0 && stats.file_bytes <= 1 << 20, "{stats:?}");
    assert!(stats.entry_bytes * 100 > (1 << 20) * 75, "{stats:?}");
    assert_sound(&cache);
}

#[test]
fn operations_do_what_they_say() {
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let config = Config { clock: Clock::Manual(Arc::clone(&clock)), ..Config::default() };
    let cache = Cache::open(&Place::Private, &config).unwrap();
    let mut buffer = Buffer::new();
    assert!(cache.add(b"a", Value::bytes(b"1"), Ttl::Never).unwrap());
    assert!(!cache.add(b"a", Value::bytes(b"2"), Ttl::Never).unwrap());
    assert!(cache.replace(b"a", Value::bytes(b"3"), Ttl::Us(500)).unwrap());
    assert!(!cache.replace(b"b", Value::bytes(b"3"), Ttl::Never).unwrap());
    let entry = cache.get(b"a", &mut buffer).unwrap().unwrap();
    assert_eq!(entry.expiry_us, Some(1_000_500));
    let version = entry.version;
    assert!(!cache.compare_and_set(b"a", Value::bytes(b"4"), Ttl::Never, version + 1).unwrap());
    assert!(cache.compare_and_set(b"a", Value::bytes(b"4"), Ttl::Us(500), version).unwrap());
    assert!(!cache.compare_and_set(b"a", Value::bytes(b"5"), Ttl::Never, version).unwrap());
    clock.store(1_000_499, Ordering::Relaxed);
    let mut buffer = Buffer::new();
    assert!(cache.contains(b"a", &mut buffer).unwrap());
    clock.store(1_000_500, Ordering::Relaxed);
    assert!(!cache.contains(b"a", &mut buffer).unwrap() && get(&cache, b"a").is_none());
    assert_eq!((cache.len(), cache.expire().unwrap(), cache.len()), (1, 1, 0));

    cache.set(b"t", Value::bytes(b"x"), Ttl::Never).unwrap();
    assert!(cache.touch(b"t", Ttl::Us(100)).unwrap());
    assert_eq!(cache.get(b"t", &mut buffer).unwrap().unwrap().expiry_us, Some(1_000_600));
    assert!(cache.touch(b"t", Ttl::Us(200)).unwrap() && cache.touch(b"t", Ttl::Never).unwrap());
    assert_eq!(cache.get(b"t", &mut buffer).unwrap().unwrap().expiry_us, None);
    assert!(!cache.touch(b"u", Ttl::Never).unwrap());

    assert_eq!(cache.incr(b"n", 5, None, Ttl::Never).unwrap(), None);
    assert_eq!(cache.incr(b"n", 5, Some(10), Ttl::Us(50)).unwrap(), Some(15));
    assert_eq!(cache.incr(b"n", -20, None, Ttl::Never).unwrap(), Some(-5));
    let entry = cache.get(b"n", &mut buffer).unwrap().unwrap();
    assert_eq!((entry.value, entry.expiry_us), (Value::Int(-5), Some(1_000_550)));
    assert!(matches!(cache.incr(b"t", 1, None, Ttl::Never), Err(Error::NotAnInteger)));
    cache.set(b"n", Value::Int(i64::MAX), Ttl::Never).unwrap();
    assert!(matches!(cache.incr(b"n", 1, None, Ttl::Never), Err(Error::Overflow { .. })));
    assert_eq!(get(&cache, b"n"), Some(i64::MAX.to_string().into_bytes()));

    assert_eq!(cache.pop(b"t", &mut buffer).unwrap().unwrap().value, Value::bytes(b"x"));
    assert!(cache.pop(b"t", &mut buffer).unwrap().is_none());
    assert!(cache.delete(b"n").unwrap() && !cache.delete(b"n").unwrap());
    assert_sound(&cache);
    cache.close();
    assert!(
        cache.get(b"n", &mut buffer).is_err()
            && cache.set(b"n", Value::Int(1), Ttl::Never).is_err()
    );
}

#[test]
fn a_file_is_there_again_after_it_was_closed() {
    let folder = std::env::temp_dir().join(format!("tuckbox-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("again.tuck");
    let place = Place::Path(path.clone());
    let config = Config { size_bytes: 8 << 20, ..Config::default() };
    let large = body(3, 1_500_000);
    {
        let cache = Cache::open(&place, &config).unwrap();
        for number in 0..1000u64 {
            cache.set(&number.to_be_bytes(), Value::bytes(&body(number, 100)), Ttl::Never).unwrap();
        }
        cache.set(b"large", Value::bytes(&large), Ttl::Never).unwrap();
    }
    let cache = Cache::open(&place, &config).unwrap();
    for number in 0..1000u64 {
        assert_eq!(get(&cache, &number.to_be_bytes()), Some(body(number, 100)));
    }
    assert_eq!(get(&cache, b"large"), Some(large));
    assert_sound(&cache);
    drop(cache);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Many small entries lie at the end of a log while long ones are overwritten: the long ones' need
/// for the last free segments must not evict the small ones.
#[test]
fn overwriting_costs_no_other_entry() {
    for (small, keys, length) in
        [(3000u64, 20u64, 60_000usize), (500, 15, 90_000), (9000, 9, 140_000)]
    {
        let cache = cache(8 << 20);
        for number in 0..small {
            cache.set(&number.to_be_bytes(), Value::bytes(&body(number, 60)), Ttl::Never).unwrap();
        }
        for turn in 0..4000u64 {
            let long = vec![turn as u8; length - (turn * 7919 % 20_000) as usize];
            let key = [b"long".as_slice(), &(turn % keys).to_be_bytes()].concat();
            cache.set(&key, Value::bytes(&long), Ttl::Never).unwrap();
        }
        assert_eq!(cache.stats().evictions, 0, "{small} small entries, {keys} long ones");
        for number in 0..small {
            assert_eq!(get(&cache, &number.to_be_bytes()), Some(body(number, 60)));
        }
        assert_sound(&cache);
    }
}

/// Hits of small and of large entries: equally many, read equally often; the large ones alone do
/// not fit.
fn hits_by_size(favour: Favour) -> (u64, u64) {
    let config = Config { size_bytes: 4 << 20, favour, ..Config::default() };
    let cache = Cache::open(&Place::Private, &config).unwrap();
    assert_eq!(cache.stats().favour, favour);
    let mut buffer = Buffer::new();
    let (mut small, mut large, mut state) = (0, 0, 1u64);
    for _ in 0..60_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = (state >> 33) % 2_000;
        let is_small = key % 2 == 0;
        let (count, len) = if is_small { (&mut small, 1_000) } else { (&mut large, 8_000) };
        match cache.get(&key.to_le_bytes(), &mut buffer).unwrap() {
            Some(_) => *count += 1,
            None => cache.set(&key.to_le_bytes(), Value::bytes(&vec![1; len]), Ttl::Never).unwrap(),
        }
    }
    (small, large)
}

#[test]
fn favoured_entries_are_kept() {
    let (small_of_hits, large_of_hits) = hits_by_size(Favour::Hits);
    let (small_of_bytes, large_of_bytes) = hits_by_size(Favour::Bytes);
    assert!(small_of_hits > 25_000, "{small_of_hits}");
    assert!(small_of_hits + large_of_hits > small_of_bytes + large_of_bytes);
    assert!(large_of_bytes > large_of_hits + 500, "{large_of_bytes} {large_of_hits}");
}

/// Entries of eight sizes, each twice the one before, read equally often; all of the two smallest
/// sizes together are a fifth of what fits. Returns the hit percentage of these two.
fn percent_of_smallest(favour: Favour) -> u64 {
    let config = Config { size_bytes: 4 << 20, favour, ..Config::default() };
    let cache = Cache::open(&Place::Private, &config).unwrap();
    let mut buffer = Buffer::new();
    let (mut hits, mut asked, mut state) = (0, 0, 1u64);
    for request in 0..160_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = (state >> 33) % 16_000;
        let is_there = cache.get(&key.to_le_bytes(), &mut buffer).unwrap().is_some();
        if !is_there {
            let value = vec![1; 100 << (key % 8)];
            cache.set(&key.to_le_bytes(), Value::bytes(&value), Ttl::Never).unwrap();
        }
        if key % 8 < 2 && request >= 80_000 {
            asked += 1;
            hits += u64::from(is_there);
        }
    }
    assert_sound(&cache);
    100 * hits / asked
}

#[test]
fn entries_that_are_cheap_for_their_frequency_are_kept() {
    let [hits, balanced, bytes] =
        [Favour::Hits, Favour::Balanced, Favour::Bytes].map(percent_of_smallest);
    println!("{hits} % of the smallest favouring hits, {balanced} balanced, {bytes} bytes");
    assert!(hits > 90 && balanced > 70 && bytes < 40, "{hits} {balanced} {bytes}");
}

#[test]
fn small_entries_do_not_shield_unused_large_ones() {
    let config = Config { size_bytes: 4 << 20, ..Config::default() };
    let cache = Cache::open(&Place::Private, &config).unwrap();
    let mut buffer = Buffer::new();
    let mut ask = |key: u64, len: usize| {
        let is_there = cache.get(&key.to_le_bytes(), &mut buffer).unwrap().is_some();
        if !is_there {
            cache.set(&key.to_le_bytes(), Value::bytes(&vec![1; len]), Ttl::Never).unwrap();
        }
        u64::from(is_there)
    };
    // Small and large entries that are read often; then others instead of the large ones.
    for round in 0..20 {
        (0..4_000).for_each(|key| _ = ask(key, 50));
        (0..250).for_each(|key| _ = ask((1 << 20) + (key + round) % 250, 12_000));
    }
    let mut hits = 0;
    for round in 0..20 {
        let found: u64 = (0..400).map(|key| ask((2 << 20) + key, 6_000)).sum();
        hits += if round < 10 { 0 } else { found };
    }
    assert!(hits > 2_500, "{hits} of 4,000");
}

/// A record with many bodies can be as long as one without that has a form of the same size.
#[test]
fn a_value_of_many_segments_does_not_take_the_place_of_a_long_one() {
    let cache = Cache::open(&Place::Private, &Config::default()).unwrap();
    let segment_bytes = cache.stats().segment_bytes as usize;
    let key = b"0123456789";
    for (first, second) in [(5_000, segment_bytes + 5_000 - 24), (segment_bytes + 5_000, 5_024)] {
        for len in [first, second] {
            cache.set(key, Value::bytes(&vec![len as u8; len]), Ttl::Never).unwrap();
            let stats = cache.stats();
            assert_eq!(stats.segments_body, (len / segment_bytes) as u64, "{len}");
            assert_eq!(stats.segments_building, 0, "{len}");
        }
        assert_sound(&cache);
        let mut buffer = Buffer::new();
        assert_eq!(cache.get(key, &mut buffer).unwrap().unwrap().value.len(), second);
    }
}
