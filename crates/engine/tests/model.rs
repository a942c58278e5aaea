//! The whole API compared with a plain map under random operations. The clock stands still unless
//! an operation moves it.
//!
//! A *roomy* cache has space for everything, so it must agree with the map exactly: nothing is
//! evicted, whatever was overwritten, deleted or expired in between. A *crowded* cache evicts: a
//! miss is always right, but never another value than the map's. Limits hold after every operation,
//! and `check` verifies both kinds in between.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use proptest::prelude::*;
use tuckbox_engine::{
    Buffer, Cache, Clock, Config, Error, Place, Ttl, Value, EXPIRY_US_MAX, KEY_BYTES_MAX,
};
use tuckbox_testkit::stamp::Stream;

const KEYS: u8 = 40;

/// One operation. Keys are numbers; [`key_bytes`] has their bytes.
#[derive(Debug, Clone)]
enum Op {
    Get(u8),
    Contains(u8),
    Set(u8, Content, Life),
    Add(u8, Content, Life),
    Replace(u8, Content, Life),
    /// With the present version plus this number.
    CompareAndSet(u8, Content, Life, u64),
    Delete(u8),
    Pop(u8),
    Touch(u8, Life),
    Incr(u8, i64, Option<i64>, Life),
    Clear,
    Expire,
    Scan,
    Check,
    Reopen,
    Pass(u64),
}

/// A value to store: a length in bytes, or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Bytes { tag: u8, len: usize, seed: u64 },
    Number(i64),
}

/// A time to live.
#[derive(Debug, Clone, Copy)]
enum Life {
    Never,
    Us(u64),
}

impl From<Life> for Ttl {
    fn from(life: Life) -> Ttl {
        match life {
            Life::Never => Ttl::Never,
            Life::Us(ttl_us) => Ttl::Us(ttl_us),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Held {
    Bytes(u8, Vec<u8>),
    Number(i64),
}

impl Held {
    fn new(content: Content) -> Held {
        match content {
            Content::Number(number) => Held::Number(number),
            Content::Bytes { tag, len, seed } => {
                let mut stream = Stream::new(seed);
                let mut bytes = Vec::with_capacity(len + 8);
                while bytes.len() < len {
                    bytes.extend(stream.next_word().to_le_bytes());
                }
                bytes.truncate(len);
                Held::Bytes(tag, bytes)
            }
        }
    }

    fn of(value: Value<'_>) -> Held {
        match value {
            Value::Bytes { tag, bytes } => Held::Bytes(tag, bytes.to_vec()),
            Value::Int(number) => Held::Number(number),
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Held::Bytes(tag, bytes) => Value::Bytes { tag: *tag, bytes },
            Held::Number(number) => Value::Int(*number),
        }
    }
}

#[derive(Debug, Clone)]
struct Entry {
    held: Held,
    expiry_us: Option<u64>,
    /// None until it has been read.
    version: Option<u64>,
}

/// The bytes of a key: most are short, some are at or beyond the limits.
fn key_bytes(key: u8) -> Vec<u8> {
    let len = match key {
        0 => 0,
        1 => 1,
        2 => 1_022,
        3 => 1_023,
        4 => 1_024,
        5 => 5_000,
        6 => KEY_BYTES_MAX,
        7 => KEY_BYTES_MAX + 1,
        8 => 70_000,
        _ => 2 + usize::from(key) % 40,
    };
    let mut stream = Stream::new(u64::from(key));
    (0..len).map(|_| stream.next_word() as u8).collect()
}

#[derive(Debug, Clone, Copy)]
struct Setting {
    size_bytes: u64,
    max_entries: Option<u64>,
    /// Everything fits: the map and the cache agree exactly.
    is_roomy: bool,
    /// Bytes that the entries of a roomy cache may have together.
    bytes_max: u64,
}

/// The cache, the map, and the clock of both.
struct Machine {
    setting: Setting,
    path: PathBuf,
    cache: Option<Cache>,
    now_us: Arc<AtomicU64>,
    map: BTreeMap<Vec<u8>, Entry>,
    /// Expired entries that the cache may still count.
    expired: HashSet<Vec<u8>>,
    versions: HashMap<u64, Vec<u8>>,
    buffer: Buffer,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Machine {
    fn new(setting: Setting) -> Machine {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tuckbox-model-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut machine = Machine {
            setting,
            path,
            cache: None,
            now_us: Arc::new(AtomicU64::new(1_700_000_000_000_000)),
            map: BTreeMap::new(),
            expired: HashSet::new(),
            versions: HashMap::new(),
            buffer: Buffer::new(),
        };
        machine.open();
        machine
    }

    fn open(&mut self) {
        self.cache = None;
        let config = Config {
            size_bytes: self.setting.size_bytes,
            max_entries: self.setting.max_entries,
            clock: Clock::Manual(Arc::clone(&self.now_us)),
            ..Config::default()
        };
        self.cache = Some(Cache::open(&Place::Path(self.path.clone()), &config).unwrap());
    }

    fn cache(&self) -> &Cache {
        self.cache.as_ref().expect("open between operations")
    }

    fn now(&self) -> u64 {
        self.now_us.load(Ordering::Relaxed)
    }

    fn is_roomy(&self) -> bool {
        self.setting.is_roomy
    }

    fn expiry_of(&self, life: Life) -> Option<u64> {
        match life {
            Life::Never => None,
            Life::Us(ttl_us) => Some(self.now().saturating_add(ttl_us).min(EXPIRY_US_MAX)),
        }
    }

    /// Removes expired entries from the map.
    fn let_expire(&mut self) {
        let now = self.now();
        let gone: Vec<_> = self
            .map
            .iter()
            .filter(|(_, entry)| entry.expiry_us.is_some_and(|expiry_us| expiry_us <= now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.map.remove(&key);
            self.expired.insert(key);
        }
    }

    /// The cache does not have this entry, which is right only if it may evict.
    fn forget(&mut self, key: &[u8]) {
        if self.map.remove(key).is_some() {
            assert!(!self.is_roomy(), "an entry is gone from a cache with room for all");
        }
    }

    /// Whether the operation must be refused; checks that it was then.
    fn is_refused(&self, key: &[u8], held: Option<&Held>, result: Result<(), &Error>) -> bool {
        let value_len = held.map_or(0, |held| held.value().len());
        let most = self.cache().value_bytes_max();
        if key.len() > KEY_BYTES_MAX {
            assert!(matches!(result, Err(Error::KeyTooLong { .. })), "{result:?}");
            return true;
        }
        if held.is_some() && (value_len > most || value_len + key.len() > most + 256) {
            assert!(matches!(result, Err(Error::ValueTooLarge { .. })), "{result:?}");
            return true;
        }
        assert!(result.is_ok(), "{result:?}");
        false
    }

    /// Whether a roomy cache has space for this, too.
    fn fits(&self, key: &[u8], held: &Held) -> bool {
        let cost = |key: &[u8], held: &Held| (key.len() + held.value().len() + 100) as u64;
        let all: u64 = self.map.iter().map(|(key, entry)| cost(key, &entry.held)).sum();
        !self.is_roomy() || all + cost(key, held) <= self.setting.bytes_max
    }

    /// Compares a result with the map, and learns the version of the entry.
    fn compare(&mut self, key: &[u8], found: Option<(Held, Option<u64>, u64)>) {
        let Some((held, expiry_us, version)) = found else { return self.forget(key) };
        let entry = self.map.get_mut(key).expect("nothing is found that is not there");
        assert!(entry.held == held, "another value than the one that was stored");
        assert_eq!(entry.expiry_us, expiry_us);
        match entry.version {
            Some(known) => assert_eq!(known, version, "a version changed by itself"),
            None => {
                let former = self.versions.insert(version, key.to_vec());
                assert!(former.is_none(), "version {version} was used before");
                entry.version = Some(version);
            }
        }
    }

    fn get(&mut self, key: &[u8]) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let found = self.cache().get(key, &mut buffer);
        let refused = self.is_refused(key, None, found.as_ref().map(|_| ()));
        if !refused {
            let found = found.unwrap();
            let found = found.map(|entry| (Held::of(entry.value), entry.expiry_us, entry.version));
            self.compare(key, found);
        }
        self.buffer = buffer;
    }

    fn stored(&mut self, key: &[u8], held: Held, expiry_us: Option<u64>) {
        self.expired.remove(key);
        self.map.insert(key.to_vec(), Entry { held, expiry_us, version: None });
        if expiry_us.is_none_or(|expiry_us| expiry_us > self.now()) {
            // Even an entry that was just stored may be evicted, but not before its write was
            // complete.
            self.get(key);
        }
    }

    fn store(
        &mut self,
        key: &[u8],
        content: Content,
        life: Life,
        store: impl FnOnce(&Cache, &[u8], Value<'_>, Ttl) -> tuckbox_engine::Result<bool>,
        // Whether it must be stored; none if only the cache knows.
        is_due: impl FnOnce(Option<&Entry>, bool) -> Option<bool>,
    ) {
        let held = Held::new(content);
        if !self.fits(key, &held) {
            return;
        }
        let before = self.cache().len();
        let result = store(self.cache(), key, held.value(), life.into());
        if self.is_refused(key, Some(&held), result.as_ref().map(|_| ())) {
            assert_eq!(self.cache().len(), before);
            return self.get(key);
        }
        let is_stored = result.unwrap();
        if let Some(is_due) = is_due(self.map.get(key), self.is_roomy()) {
            assert_eq!(is_stored, is_due);
        }
        if is_stored {
            let expiry_us = self.expiry_of(life);
            self.stored(key, held, expiry_us);
        }
    }

    fn incr(&mut self, key: &[u8], delta: i64, initial: Option<i64>, life: Life) {
        if !self.fits(key, &Held::Number(0)) {
            return;
        }
        let result = self.cache().incr(key, delta, initial, life.into());
        if key.len() > KEY_BYTES_MAX {
            assert!(matches!(result, Err(Error::KeyTooLong { .. })));
            return;
        }
        let too_long = key.len() > self.cache().value_bytes_max() + 248;
        let known = self.map.get(key).cloned();
        let as_absent = |result: &tuckbox_engine::Result<Option<i64>>| match initial {
            None => matches!(result, Ok(None)),
            Some(initial) => match initial.checked_add(delta) {
                Some(_) if too_long => matches!(result, Err(Error::ValueTooLarge { .. })),
                Some(sum) => matches!(result, Ok(Some(is)) if *is == sum),
                None => matches!(result, Err(Error::Overflow { .. })),
            },
        };
        let as_present = |result: &tuckbox_engine::Result<Option<i64>>| match &known {
            None => false,
            Some(Entry { held: Held::Bytes(..), .. }) => {
                matches!(result, Err(Error::NotAnInteger))
            }
            Some(Entry { held: Held::Number(number), .. }) => match number.checked_add(delta) {
                Some(sum) => matches!(result, Ok(Some(is)) if *is == sum),
                None => matches!(result, Err(Error::Overflow { .. })),
            },
        };
        let was_there = as_present(&result);
        if !was_there {
            assert!(as_absent(&result), "{result:?} of {known:?}");
            self.forget(key);
        }
        let Ok(Some(sum)) = result else { return };
        // If both results are the same, the expiry tells which case it was.
        let kept = known.as_ref().and_then(|entry| entry.expiry_us);
        let new = self.expiry_of(life);
        let mut buffer = std::mem::take(&mut self.buffer);
        let is_now = self.cache().get(key, &mut buffer).unwrap().map(|entry| entry.expiry_us);
        self.buffer = buffer;
        let expiry_us = match is_now {
            Some(expiry_us) if was_there && (self.is_roomy() || expiry_us == kept) => kept,
            _ if was_there && self.is_roomy() => kept,
            _ => new,
        };
        self.stored(key, Held::Number(sum), expiry_us);
    }

    fn scan(&mut self) {
        let mut met = BTreeMap::new();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut scan = self.cache().scan();
        while let Some(item) = scan.next(&mut buffer).unwrap() {
            let entry = (Held::of(item.entry.value), item.entry.expiry_us, item.entry.version);
            assert!(met.insert(item.key.to_vec(), entry).is_none(), "a scan met a key twice");
        }
        self.buffer = buffer;
        let keys: Vec<_> = self.map.keys().cloned().collect();
        for key in &keys {
            let found = met.remove(key);
            self.compare(key, found);
        }
        assert!(met.is_empty(), "a scan found what is not there");
    }

    fn apply(&mut self, op: &Op) {
        self.let_expire();
        let maybe = |is_due: bool, is_roomy: bool| (is_roomy || !is_due).then_some(is_due);
        match op {
            Op::Get(key) => self.get(&key_bytes(*key)),
            Op::Contains(key) => {
                let key = key_bytes(*key);
                let found = self.cache().contains(&key, &mut Buffer::new());
                if !self.is_refused(&key, None, found.as_ref().map(|_| ())) {
                    match found.unwrap() {
                        true => assert!(self.map.contains_key(&key)),
                        false => self.forget(&key),
                    }
                }
            }
            Op::Set(key, content, life) => self.store(
                &key_bytes(*key),
                *content,
                *life,
                |cache, key, value, ttl| cache.set(key, value, ttl).map(|()| true),
                |_, _| Some(true),
            ),
            Op::Add(key, content, life) => self.store(
                &key_bytes(*key),
                *content,
                *life,
                |cache, key, value, ttl| cache.add(key, value, ttl),
                // An existing entry may have been evicted; a missing one cannot have come.
                |entry, is_roomy| match entry {
                    None => Some(true),
                    Some(_) => is_roomy.then_some(false),
                },
            ),
            Op::Replace(key, content, life) => self.store(
                &key_bytes(*key),
                *content,
                *life,
                |cache, key, value, ttl| cache.replace(key, value, ttl),
                |entry, is_roomy| maybe(entry.is_some(), is_roomy),
            ),
            Op::CompareAndSet(key, content, life, off) => {
                let key = key_bytes(*key);
                let version = self.map.get(&key).and_then(|entry| entry.version).unwrap_or(1);
                let version = version.wrapping_add(*off);
                self.store(
                    &key,
                    *content,
                    *life,
                    |cache, key, value, ttl| cache.compare_and_set(key, value, ttl, version),
                    |entry, is_roomy| {
                        // An entry that expired at once was never read: only the cache knows its
                        // version.
                        let entry_version = entry.map(|entry| entry.version);
                        match entry_version {
                            Some(None) => None,
                            other => maybe(other == Some(Some(version)), is_roomy),
                        }
                    },
                );
            }
            Op::Delete(key) => {
                let key = key_bytes(*key);
                let result = self.cache().delete(&key);
                if !self.is_refused(&key, None, result.as_ref().map(|_| ())) {
                    let was_there = result.unwrap();
                    assert!(!was_there || self.map.contains_key(&key));
                    match was_there {
                        true => drop(self.map.remove(&key)),
                        false => self.forget(&key),
                    }
                    self.expired.remove(&key);
                }
            }
            Op::Pop(key) => {
                let key = key_bytes(*key);
                let mut buffer = std::mem::take(&mut self.buffer);
                let result = self.cache().pop(&key, &mut buffer);
                if !self.is_refused(&key, None, result.as_ref().map(|_| ())) {
                    let found = result.unwrap();
                    let found =
                        found.map(|entry| (Held::of(entry.value), entry.expiry_us, entry.version));
                    let was_there = found.is_some();
                    self.compare(&key, found);
                    if was_there {
                        self.map.remove(&key);
                    }
                    self.expired.remove(&key);
                }
                self.buffer = buffer;
            }
            Op::Touch(key, life) => {
                let key = key_bytes(*key);
                let result = self.cache().touch(&key, (*life).into());
                if !self.is_refused(&key, None, result.as_ref().map(|_| ())) {
                    match result.unwrap() {
                        false => self.forget(&key),
                        true => {
                            let expiry_us = self.expiry_of(*life);
                            let entry = self.map.get_mut(&key).expect("it was touched");
                            entry.expiry_us = expiry_us;
                        }
                    }
                }
            }
            Op::Incr(key, delta, initial, life) => {
                self.incr(&key_bytes(*key), *delta, *initial, *life);
            }
            Op::Clear => {
                let count = self.cache().clear().unwrap();
                let (least, most) = self.bounds();
                assert!((least..=most).contains(&count), "{count} of {least} to {most}");
                self.map.clear();
                self.expired.clear();
                assert!(self.cache().is_empty());
            }
            Op::Expire => {
                let before = self.cache().len();
                let count = self.cache().expire().unwrap();
                assert_eq!(self.cache().len(), before - count);
                assert!(count <= self.expired.len() as u64);
                self.expired.clear();
            }
            Op::Scan => self.scan(),
            Op::Check => self.check(),
            Op::Reopen => self.open(),
            Op::Pass(us) => {
                self.now_us.fetch_add(*us, Ordering::Relaxed);
                self.let_expire();
            }
        }
        self.let_expire();
        let (least, most) = self.bounds();
        let stats = self.cache().stats();
        assert!((least..=most).contains(&stats.entries), "{} of {least}..{most}", stats.entries);
        assert!(stats.file_bytes <= self.setting.size_bytes);
        let file_bytes = std::fs::metadata(&self.path).unwrap().len();
        assert!(file_bytes <= self.setting.size_bytes);
        if let Some(max_entries) = self.setting.max_entries {
            assert!(stats.entries <= max_entries);
        }
        assert_eq!((stats.lost_entries, stats.checksum_mismatches), (0, 0));
        assert!(!self.is_roomy() || stats.evictions == 0, "evicted though there was room");
    }

    /// The least and most entries that the cache may count.
    fn bounds(&self) -> (u64, u64) {
        let least = if self.is_roomy() { self.map.len() as u64 } else { 0 };
        (least, (self.map.len() + self.expired.len()) as u64)
    }

    fn check(&mut self) {
        let report = self.cache().check().unwrap();
        assert!(report.is_sound(), "{report:?}");
        assert_eq!(report.entries, self.cache().len());
        assert_eq!(report.entry_bytes, self.cache().stats().entry_bytes);
    }

    fn run(setting: Setting, ops: &[Op]) {
        let mut machine = Machine::new(setting);
        for (number, op) in ops.iter().enumerate() {
            machine.apply(op);
            if number % 16 == 15 {
                machine.check();
            }
        }
        machine.scan();
        machine.check();
        for key in 0..KEYS {
            machine.apply(&Op::Get(key));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![
        6 => Just(Life::Never),
        4 => (1u64..2_000).prop_map(Life::Us),
        1 => Just(Life::Us(0)),
        1 => Just(Life::Us(1)),
        1 => Just(Life::Us(u64::MAX)),
        1 => Just(Life::Us(u64::MAX - 1_700_000_000_000_000)),
    ]
}

/// Lengths around the limits of record forms: nothing, around a word, with a word of their own, up
/// to three segments and a bit.
fn content(segment_bytes: usize) -> impl Strategy<Value = Content> {
    let edge = (0usize..=3, 0usize..=2)
        .prop_map(move |(segments, near)| (segments * segment_bytes + near).saturating_sub(1));
    let len = prop_oneof![
        8 => 0usize..200,
        2 => 200usize..2_000,
        1 => 0..=3 * segment_bytes + 100,
        1 => edge,
        1 => 65_530usize..65_540,
    ];
    prop_oneof![
        8 => (len, 0u8..64, any::<u64>())
            .prop_map(|(len, tag, seed)| Content::Bytes { tag, len, seed }),
        1 => any::<i64>().prop_map(Content::Number),
        1 => (-3i64..3).prop_map(Content::Number),
    ]
}

fn op(segment_bytes: usize) -> impl Strategy<Value = Op> {
    let key = || prop_oneof![1 => 0u8..9, 8 => 9u8..KEYS];
    let content = move || content(segment_bytes);
    let delta = || prop_oneof![-5i64..5, Just(i64::MAX), Just(i64::MIN)];
    let initial = || prop_oneof![Just(None), (-5i64..5).prop_map(Some), Just(Some(i64::MAX))];
    prop_oneof![
        12 => key().prop_map(Op::Get),
        2 => key().prop_map(Op::Contains),
        24 => (key(), content(), life()).prop_map(|(key, content, life)| Op::Set(key, content, life)),
        6 => (key(), content(), life()).prop_map(|(key, content, life)| Op::Add(key, content, life)),
        4 => (key(), content(), life())
            .prop_map(|(key, content, life)| Op::Replace(key, content, life)),
        6 => (key(), content(), life(), prop_oneof![3 => Just(0), 1 => any::<u64>()])
            .prop_map(|(key, content, life, off)| Op::CompareAndSet(key, content, life, off)),
        6 => key().prop_map(Op::Delete),
        3 => key().prop_map(Op::Pop),
        6 => (key(), life()).prop_map(|(key, life)| Op::Touch(key, life)),
        8 => (key(), delta(), initial(), life())
            .prop_map(|(key, delta, initial, life)| Op::Incr(key, delta, initial, life)),
        1 => Just(Op::Clear),
        2 => Just(Op::Expire),
        2 => Just(Op::Scan),
        1 => Just(Op::Check),
        1 => Just(Op::Reopen),
        4 => prop_oneof![Just(1u64), 1u64..3_000].prop_map(Op::Pass),
    ]
}

fn ops(segment_bytes: usize, most: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(segment_bytes), 1..most)
}

fn cases(cases: u32) -> ProptestConfig {
    // `PROPTEST_CASES` asks for more in long runs.
    let config = ProptestConfig::default();
    ProptestConfig { cases: if config.cases == 256 { cases } else { config.cases }, ..config }
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn a_roomy_cache_is_a_map_with_a_clock(ops in ops(65_536, 200)) {
        let setting = Setting {
            size_bytes: 4 << 20,
            max_entries: None,
            is_roomy: true,
            bytes_max: 2 << 20,
        };
        Machine::run(setting, &ops);
    }

    #[test]
    fn a_small_roomy_cache_is_a_map_with_a_clock(ops in ops(8_192, 300)) {
        let setting = Setting {
            size_bytes: 512 << 10,
            max_entries: None,
            is_roomy: true,
            bytes_max: 200 << 10,
        };
        Machine::run(setting, &ops);
    }

    #[test]
    fn a_crowded_cache_never_answers_what_is_not_so(ops in ops(4_096, 300)) {
        let setting =
            Setting { size_bytes: 64 << 10, max_entries: None, is_roomy: false, bytes_max: 0 };
        Machine::run(setting, &ops);
    }

    #[test]
    fn a_cache_of_odd_size_never_answers_what_is_not_so(
        size_bytes in 65_536u64..400_000,
        ops in ops(4_096, 200),
    ) {
        let setting = Setting { size_bytes, max_entries: None, is_roomy: false, bytes_max: 0 };
        Machine::run(setting, &ops);
    }

    #[test]
    fn a_limit_of_entries_holds_after_every_operation(
        most in 1u64..30,
        ops in ops(8_192, 200),
    ) {
        let setting = Setting {
            size_bytes: 1 << 20,
            max_entries: Some(most),
            is_roomy: false,
            bytes_max: 0,
        };
        Machine::run(setting, &ops);
    }
}

/// A write to a shard full of dead space moves live entries: any amount may be written as long as
/// the live entries fit.
#[test]
fn endless_overwriting_costs_no_entry() {
    for (size_bytes, live, len) in [(1 << 20, 400u64, 1_200u64), (256 << 10, 60, 1_500)] {
        let config = Config { size_bytes, ..Config::default() };
        let cache = Cache::open(&Place::Private, &config).unwrap();
        let value = vec![7; 4_000];
        let mut random = Stream::new(1);
        for key in 0..live {
            cache
                .set(&key.to_le_bytes(), Value::bytes(&value[..len as usize]), Ttl::Never)
                .unwrap();
        }
        for _ in 0..20 * size_bytes / len {
            let key = random.below(live);
            let len = (len - 100 + random.below(200)) as usize;
            cache.set(&key.to_le_bytes(), Value::bytes(&value[..len]), Ttl::Never).unwrap();
        }
        let stats = cache.stats();
        assert_eq!((stats.entries, stats.evictions), (live, 0), "{stats:?}");
        assert!(cache.check().unwrap().is_sound());
    }
}
