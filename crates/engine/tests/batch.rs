//! Reading many keys at once answers what reading each of them does.

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
    let mut seen = 0;
    cache
        .get_each(&keys, &mut Buffer::new(), |place, entry| {
            assert_eq!(place, seen);
            seen += 1;
            let expected = (place % 3 != 0).then(|| value_of(place));
            assert_eq!(entry.map(|entry| entry.value), expected.as_deref().map(Value::bytes));
            Ok::<(), Error>(())
        })
        .unwrap();
    let after = cache.stats();
    assert_eq!(seen, keys.len());
    assert_eq!((after.hits - before.hits, after.misses - before.misses), (666, 334));
}

#[test]
fn what_has_expired_is_not_there() {
    let cache = cache();
    cache.set(b"gone", Value::bytes(b"value"), Ttl::Us(0)).unwrap();
    let mut answers = Vec::new();
    let keys: [&[u8]; 2] = [b"gone", b"never"];
    let answer = |_, entry: Option<tuckbox_engine::Entry<'_>>| {
        answers.push(entry.is_some());
        Ok::<(), Error>(())
    };
    cache.get_each(&keys, &mut Buffer::new(), answer).unwrap();
    assert_eq!(answers, [false, false]);
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
fn who_is_asked_may_end_it() {
    let cache = cache();
    let keys = ["1", "2", "3", "4"];
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
