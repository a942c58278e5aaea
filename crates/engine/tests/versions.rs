//! An entry has one version, however it was read: a short record is summed while it is copied, a
//! longer one by other code, and reads under a lock and writes by yet other code. Uses lengths on
//! either side of these limits.

use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};

const KEY: &[u8] = b"twenty bytes of key.";

fn version(cache: &Cache, buffer: &mut Buffer, expected: &[u8]) -> u64 {
    let entry = cache.get(KEY, buffer).unwrap().expect("it was stored");
    assert_eq!(entry.value, Value::bytes(expected));
    entry.version
}

#[test]
fn all_readers_and_writers_agree_on_a_version() {
    let cache = Cache::open(&Place::Private, &Config::default()).unwrap();
    let mut buffer = Buffer::new();
    for len in (0..40).chain(440..560).chain([3_000, 5_000, 20_000]) {
        for ttl in [Ttl::Never, Ttl::Us(3_600_000_000)] {
            let value: Vec<u8> = (0..len).map(|n| (n * 7 + len) as u8).collect();
            cache.set(KEY, Value::bytes(&value), ttl).unwrap();
            let first = version(&cache, &mut buffer, &value);
            // Another layout with the same content.
            for ttl in [Ttl::Us(7_200_000_000), Ttl::Never, ttl] {
                assert!(cache.touch(KEY, ttl).unwrap());
                assert_eq!(version(&cache, &mut buffer, &value), first, "{len} bytes, {ttl:?}");
            }
            let changed = cache.compare_and_set(KEY, Value::bytes(b"other"), ttl, first + 1);
            assert!(!changed.unwrap(), "{len} bytes: another version");
            assert!(cache.compare_and_set(KEY, Value::bytes(&value), ttl, first).unwrap());
            let second = version(&cache, &mut buffer, &value);
            assert_ne!(second, first);
            let popped = cache.pop(KEY, &mut buffer).unwrap().expect("it is there");
            assert_eq!((popped.version, popped.value), (second, Value::bytes(&value)));
        }
    }
    assert!(cache.check().unwrap().is_sound());
}
