//! Reading and storing many keys at once has the same results as one after the other.

use tuckbox_engine::{Buffer, Cache, Config, Error, Place, Ttl, Value, KEY_BYTES_MAX};

fn cache() -> Cache {
    Cache::open(&Place::Private, &Config::default()).unwrap()
}

fn value_of(number: usize) -> Vec<u8> {
    vec![number as u8; 1 + number * 37 % 4000]
}

#[test]
fn every_key_is_answered_in_its_place() {
    let cache = cache();
    let keys: Vec<String> = (0..1000).map(|number| format!("key {number}")).collect();
    for (number, key) in keys.iter().enumerate().filter(|(number, _)| number % 3 != 0) {
        cache.set(key.as_bytes(), Value::bytes(&value_of(number)), Ttl::Never).unwrap();
    }
    let before = cache.stats();
    let mut answered = Vec::new();
    cache
        .get_each(&keys, &mut Buffer::new(), |place, entry| {
            assert_eq!(entry.value, Value::bytes(&value_of(place)));
            answered.push(place);
            Ok::<(), Error>(())
        })
        .unwrap();
    let after = cache.stats();
    let stored: Vec<usize> = (0..keys.len()).filter(|number| number % 3 != 0).collect();
    assert_eq!(answered, stored);
    assert_eq!((after.hits - before.hits, after.misses - before.misses), (666, 334));
}

#[test]
fn expired_entries_are_not_found() {
    let cache = cache();
    cache.set(b"gone", Value::bytes(b"value"), Ttl::Us(0)).unwrap();
    cache.set(b"there", Value::bytes(b"value"), Ttl::Never).unwrap();
    let mut answers = Vec::new();
    let keys: [&[u8]; 3] = [b"gone", b"never", b"there"];
    let answer = |place, _: tuckbox_engine::Entry<'_>| {
        answers.push(place);
        Ok::<(), Error>(())
    };
    cache.get_each(&keys, &mut Buffer::new(), answer).unwrap();
    assert_eq!(answers, [2]);
}

#[test]
fn a_key_that_is_too_long_is_refused_before_any_is_read() {
    let cache = cache();
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    let mut asked = 0;
    let refused = cache.get_each(&[b"short".as_slice(), &long], &mut Buffer::new(), |_, _| {
        asked += 1;
        Ok::<(), Error>(())
    });
    assert!(matches!(refused, Err(Error::KeyTooLong { .. })), "{refused:?}");
    assert_eq!((asked, cache.stats().misses), (0, 0));
}

#[test]
fn the_callback_may_end_the_reading() {
    let cache = cache();
    let keys = ["1", "2", "3", "4"];
    for key in keys {
        cache.set(key.as_bytes(), Value::Int(1), Ttl::Never).unwrap();
    }
    let mut asked = 0;
    let ended = cache.get_each(&keys, &mut Buffer::new(), |place, _| {
        asked += 1;
        if place == 1 {
            return Err(Error::NotAnInteger);
        }
        Ok(())
    });
    assert!(matches!(ended, Err(Error::NotAnInteger)));
    assert_eq!(asked, 2);
}

fn in_a_file_of(size_bytes: u64) -> Cache {
    Cache::open(&Place::Private, &Config { size_bytes, ..Config::default() }).unwrap()
}

#[test]
fn all_values_are_stored_whatever_their_size_and_shard() {
    // One shard, and several.
    for size_bytes in [64 << 20, 512 << 20] {
        let cache = in_a_file_of(size_bytes);
        for round in 0..3 {
            let sizes = [0, 1, 160, 1000, 4000, 4096, 5000, 70_000, 1 << 20];
            let value_of = |place: usize| vec![(place + round) as u8; sizes[place % sizes.len()]];
            let values: Vec<Vec<u8>> = (0..200).map(value_of).collect();
            let keys: Vec<String> = (0..200).map(|place| format!("key {place}")).collect();
            let value = |place: usize| match place % 7 {
                0 => Value::Int(place as i64 - round as i64),
                // New keys, rewrites in place, and rewrites in another place.
                _ => Value::bytes(&values[(place + round / 2) % values.len()]),
            };
            let entries: Vec<_> =
                keys.iter().enumerate().map(|(at, key)| (key.as_bytes(), value(at))).collect();
            let sets = cache.stats().sets;
            cache.set_each(&entries, Ttl::Never).unwrap();
            assert_eq!(cache.stats().sets - sets, keys.len() as u64);
            let mut buffer = Buffer::new();
            for (place, key) in keys.iter().enumerate() {
                let found = cache.get(key.as_bytes(), &mut buffer).unwrap().unwrap();
                assert_eq!(
                    (found.value, found.expiry_us),
                    (value(place), None),
                    "{key} {size_bytes}"
                );
            }
        }
        assert!(cache.check().unwrap().is_sound());
    }
}

#[test]
fn the_last_value_of_a_repeated_key_wins() {
    let cache = cache();
    let entries: Vec<_> = (0..100).map(|place| (b"key".as_slice(), Value::Int(place))).collect();
    cache.set_each(&entries, Ttl::Us(60_000_000)).unwrap();
    let mut buffer = Buffer::new();
    let found = cache.get(b"key", &mut buffer).unwrap().unwrap();
    assert_eq!(found.value, Value::Int(99));
    assert!(found.expiry_us.is_some());
    cache.set_each(&[], Ttl::Never).unwrap();
    cache.set_each(&entries[..1], Ttl::Us(0)).unwrap();
    assert_eq!(cache.get(b"key", &mut buffer).unwrap(), None);
}

#[test]
fn more_than_there_is_room_for_evicts() {
    let cache = in_a_file_of(1 << 20);
    let keys: Vec<String> = (0..20_000).map(|place| format!("key {place}")).collect();
    let value = [7; 160];
    let entries: Vec<_> = keys.iter().map(|key| (key.as_bytes(), Value::bytes(&value))).collect();
    for _ in 0..3 {
        cache.set_each(&entries, Ttl::Never).unwrap();
    }
    let stats = cache.stats();
    assert!(stats.evictions > 0 && stats.entries > 3000, "{stats:?}");
    assert!(cache.check().unwrap().is_sound());
}

#[test]
fn long_keys_and_values_are_refused_before_any_is_stored() {
    let cache = cache();
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    let entries = [(b"short".as_slice(), Value::Int(1)), (&long, Value::Int(1))];
    let stored = cache.set_each(&entries, Ttl::Never);
    assert!(matches!(stored, Err(Error::KeyTooLong { .. })), "{stored:?}");
    assert_eq!(cache.len(), 0);
}

#[test]
fn a_value_of_a_whole_segment_is_no_short_one() {
    let cache = in_a_file_of(512 << 10);
    assert_eq!(cache.stats().segment_bytes, 4096);
    for len in [4000, 4095, 4096, 4097] {
        let value = vec![len as u8; len];
        let entries = [(b"a".as_slice(), Value::Int(1)), (b"", Value::bytes(&value))];
        cache.set_each(&entries, Ttl::Never).unwrap();
        let found = cache.get(b"", &mut Buffer::new()).unwrap().map(|entry| entry.value.len());
        assert_eq!(found, Some(len));
    }
    assert!(cache.check().unwrap().is_sound());
}
