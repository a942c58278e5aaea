//! Operation results: the input becomes a series of operations on a small cache, and every result
//! is compared with a map. Entries may be evicted; a value that is there must be the map's.

#![no_main]

#[path = "clock.rs"]
mod clock;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tuckbox_engine::{Attributes, Buffer, Cache, Clock, Config, Error, Terms, Ttl, Value};

/// Takes numbers from the input until it ends.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Held {
    Bytes(Vec<u8>),
    Number(i64),
}

impl Held {
    fn take(input: &mut Input<'_>) -> Option<Held> {
        let (seed, len) = (input.byte()?, input.word()?);
        if len % 16 == 15 {
            return Some(Held::Number(i64::from(seed) - 128));
        }
        // Mostly short, up to three segments.
        let len = if len % 8 < 6 { len >> 8 } else { len >> 2 };
        Some(Held::Bytes((0..len).map(|at| seed.wrapping_add(at as u8)).collect()))
    }

    fn value(&self) -> Value<'_> {
        match self {
            Held::Bytes(bytes) => Value::bytes(bytes),
            Held::Number(number) => Value::Int(*number),
        }
    }

    fn of(value: Value<'_>) -> Held {
        match value {
            Value::Bytes { bytes, .. } => Held::Bytes(bytes.to_vec()),
            Value::Int(number) => Held::Number(number),
        }
    }
}

type Map = BTreeMap<Vec<u8>, (Held, Option<u64>)>;

const TAGS: [&str; 3] = ["users", "staff", "guests"];

/// The tag of an entry.
fn tag_of(cache: &Cache, key: &[u8], buffer: &mut Buffer) -> Option<Vec<u8>> {
    let mut full = cache.get_full(key, false, buffer).unwrap()?;
    full.tags.next().map(<[u8]>::to_vec)
}

fn compare(map: &mut Map, key: &[u8], found: Option<(Held, Option<u64>)>) {
    match found {
        Some(found) => assert_eq!(map.get(key), Some(&found)),
        None => drop(map.remove(key)),
    }
}

fn play(data: &[u8]) -> Option<()> {
    let mut input = Input(data);
    let now_us = Arc::new(AtomicU64::new(1_000_000));
    let first = input.byte()?;
    let config = Config {
        size_bytes: (64 << 10) + u64::from(first) * 1_000,
        max_entries: (first % 3 == 0).then_some(u64::from(first) / 3 + 1),
        clock: Clock::Manual(Arc::clone(&now_us)),
        ..Config::default()
    };
    let cache = Cache::twins(&config, 1).unwrap().remove(0);
    let (mut map, mut buffer) = (Map::new(), Buffer::new());
    // The tags of entries that have one.
    let mut tags: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    while let Some(op) = input.byte() {
        let now = now_us.load(Ordering::Relaxed);
        map.retain(|_, (_, expiry_us)| expiry_us.is_none_or(|expiry_us| expiry_us > now));
        let which = input.byte()?;
        let mut key = vec![which % 64];
        key.resize(1 + usize::from(which / 64) * 300, which);
        let ttl = match op >> 5 {
            0..=4 => Ttl::Never,
            5 => Ttl::Us(0),
            _ => Ttl::Us(u64::from(which) + 1),
        };
        let expiry_us = match ttl {
            Ttl::Never => None,
            Ttl::Us(ttl_us) => Some(now + ttl_us),
        };
        match op % 16 {
            0..=2 => {
                let found = cache.get(&key, &mut buffer).unwrap();
                let found = found.map(|entry| (Held::of(entry.value), entry.expiry_us));
                compare(&mut map, &key, found);
            }
            3..=5 => {
                let held = Held::take(&mut input)?;
                match cache.set(&key, held.value(), ttl) {
                    Ok(()) => {
                        tags.remove(&key);
                        map.insert(key, (held, expiry_us));
                    }
                    Err(Error::ValueTooLarge { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            6 => {
                let held = Held::take(&mut input)?;
                let tag = TAGS[usize::from(which) % TAGS.len()];
                let made_us = (which % 2 == 0).then_some(7);
                let attributes = Attributes { tags: &[tag], made_us, ..Attributes::default() };
                let terms = Terms { attributes, ..Terms::plain(ttl) };
                match cache.store(&key, held.value(), &terms) {
                    Ok(stored) => {
                        assert!(stored);
                        tags.insert(key.clone(), tag.into());
                        map.insert(key, (held, expiry_us));
                    }
                    Err(Error::ValueTooLarge { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            7 => {
                let held = Held::take(&mut input)?;
                match cache.add(&key, held.value(), ttl) {
                    Ok(true) => {
                        tags.remove(&key);
                        map.insert(key, (held, expiry_us));
                    }
                    Ok(false) => assert!(map.contains_key(&key)),
                    Err(Error::ValueTooLarge { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            8 => {
                let held = Held::take(&mut input)?;
                match cache.replace(&key, held.value(), ttl) {
                    Ok(true) => {
                        tags.remove(&key);
                        assert!(map.insert(key, (held, expiry_us)).is_some());
                    }
                    Ok(false) => drop(map.remove(&key)),
                    Err(Error::ValueTooLarge { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            9 => {
                let was_there = cache.delete(&key).unwrap();
                assert!(map.remove(&key).is_some() || !was_there);
            }
            10 => {
                let found = cache.pop(&key, &mut buffer).unwrap();
                let found = found.map(|entry| (Held::of(entry.value), entry.expiry_us));
                compare(&mut map, &key, found);
                map.remove(&key);
            }
            11 => match (cache.touch(&key, ttl).unwrap(), map.get_mut(&key)) {
                (true, Some(entry)) => entry.1 = expiry_us,
                (true, None) => panic!("touched what is not there"),
                (false, _) => drop(map.remove(&key)),
            },
            12 => {
                let known = map.get(&key).cloned();
                let sum = cache.incr(&key, i64::from(which), Some(7), ttl);
                // The old entry, or a new one if that was evicted.
                match tag_of(&cache, &key, &mut buffer) {
                    Some(tag) => assert_eq!(tags.get(&key), Some(&tag)),
                    None => drop(tags.remove(&key)),
                }
                match sum {
                    Ok(Some(sum)) if sum == 7 + i64::from(which) => {
                        // It may have been evicted, or it was seven: the expiry tells.
                        let entry = cache.get(&key, &mut buffer).unwrap();
                        match entry.map(|entry| entry.expiry_us).or(Some(expiry_us)) {
                            Some(found) => {
                                let kept = known.as_ref().map(|known| known.1);
                                assert!(found == expiry_us || Some(found) == kept);
                                map.insert(key, (Held::Number(sum), found));
                            }
                            None => unreachable!("there is always one"),
                        }
                    }
                    Ok(Some(sum)) => match known {
                        Some((Held::Number(number), kept)) => {
                            assert_eq!(number + i64::from(which), sum);
                            map.insert(key, (Held::Number(sum), kept));
                        }
                        known => panic!("{sum} out of {known:?}"),
                    },
                    Ok(None) => panic!("there was an initial value"),
                    Err(Error::NotAnInteger) => {
                        assert!(matches!(known, Some((Held::Bytes(_), _))));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            13 => {
                if which % 8 == 0 {
                    cache.clear().unwrap();
                    map.clear();
                    assert!(cache.is_empty());
                } else {
                    cache.expire().unwrap();
                    assert!(cache.len() <= map.len() as u64);
                }
            }
            14 => {
                let (mut scan, mut count) = (cache.scan(), 0u64);
                while let Some(item) = scan.next(&mut buffer).unwrap() {
                    let found = (Held::of(item.entry.value), item.entry.expiry_us);
                    assert_eq!(map.get(item.key), Some(&found));
                    count += 1;
                }
                assert!(count <= cache.len());
            }
            _ if which % 8 == 7 => {
                let tag = TAGS[usize::from(which / 8) % TAGS.len()];
                cache.evict(tag, false).unwrap();
                map.retain(|key, _| tags.get(key).is_none_or(|its| its != tag.as_bytes()));
            }
            _ => {
                now_us.fetch_add(u64::from(which), Ordering::Relaxed);
            }
        }
        let stats = cache.stats();
        assert!(stats.max_entries == 0 || stats.entries <= stats.max_entries);
        assert_eq!((stats.lost_entries, stats.checksum_mismatches), (0, 0));
    }
    let report = cache.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    Some(())
}

fuzz_target!(|data: &[u8]| {
    clock::restart();
    play(data);
});
