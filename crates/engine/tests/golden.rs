//! Files by earlier builds: this build reads every entry exactly and continues, or it refuses the
//! file, names the format that it found, and leaves the file unchanged.
//!
//! A release adds its files here and changes none. Until the first release the files are recreated
//! when the format changes: delete them, and run this test with `--ignored`.
#![cfg(all(target_endian = "little", target_pointer_width = "64"))]

use std::path::PathBuf;

use tuckbox_engine::{
    ArenaError, Attributes, Buffer, Cache, Config, Error, Place, Terms, Ttl, Value,
};
use tuckbox_testkit::specimen::{config, name, stamped, works_after_check, Scratch};

const FILE_BYTES_MAX: u64 = 256 << 10;

/// `TUCKBOX_GOLDEN` is a folder of files that were made on another system (`systems.sh`).
fn path(file: &str) -> PathBuf {
    let kept = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::env::var_os("TUCKBOX_GOLDEN").map_or(kept, PathBuf::from).join(file)
}

/// A kind of file: how it is opened, and how many keys of each kind it has.
struct Kind {
    file: &'static str,
    config: Config,
    keys: u64,
    large: u64,
}

fn kinds() -> [Kind; 4] {
    let limited = Config { max_entries: Some(100), ..config(64 << 10) };
    let ordered = Config { is_ordered: true, ..config(64 << 10) };
    [
        Kind { file: "format-1-64k.tuck", config: config(64 << 10), keys: 120, large: 1 },
        Kind { file: "format-1-limited.tuck", config: limited, keys: 60, large: 0 },
        Kind { file: "format-1-large-values.tuck", config: config(256 << 10), keys: 20, large: 4 },
        Kind { file: "format-1-ordered.tuck", config: ordered, keys: 60, large: 0 },
    ]
}

/// Key, value and time to live. Every seventh key is a number.
fn entries(kind: &Kind) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>, Ttl)> + '_ {
    (0..kind.keys + kind.large).map(|key| {
        let ttl = if key % 5 == 2 { Ttl::Us(1 << 40) } else { Ttl::Never };
        let len = if key < kind.keys { 40 + key as usize * 2 } else { 11_000 };
        let mut name = name(key);
        if key == 11 {
            name.resize(2_000, b'k');
        }
        let value = if name.len() < 100 { stamped(key, key, len) } else { vec![7; 3_000] };
        (name, (key % 7 != 0).then_some(value), ttl)
    })
}

fn as_value<'a>(value: &'a Option<Vec<u8>>, name: &[u8]) -> Value<'a> {
    match value {
        Some(bytes) => Value::Bytes { tag: (bytes.len() % 64) as u8, bytes: &bytes[..] },
        None => Value::Int(-(name.len() as i64)),
    }
}

/// Every ninth entry has tags, and is kept for an hour as a stale one.
fn tags_of(key: u64) -> &'static [&'static str] {
    match key {
        key if key % 9 != 4 => &[],
        key if key % 2 == 0 => &["even", "ninth"],
        _ => &["ninth"],
    }
}

/// In the ordered file, every sixth entry is pinned.
fn is_pinned(kind: &Kind, key: u64) -> bool {
    kind.config.is_ordered && key % 6 == 1
}

#[test]
#[ignore = "makes the files that are not there"]
fn make_the_files() {
    for kind in kinds() {
        if path(kind.file).exists() {
            continue;
        }
        let cache = Cache::open(&Place::Path(path(kind.file)), &kind.config).unwrap();
        for name in ["even", "evicted"] {
            cache.evict(name, false).unwrap();
        }
        for (key, (name, value, ttl)) in (0..).zip(entries(&kind)) {
            cache.set(&name, Value::bytes(b"what is overwritten"), Ttl::Never).unwrap();
            let mut terms = Terms::plain(ttl);
            if !tags_of(key).is_empty() {
                let stale = Some(Ttl::Us(3_600_000_000));
                terms.attributes =
                    Attributes { tags: tags_of(key), stale, ..Attributes::default() };
            }
            terms.attributes.is_pinned = is_pinned(&kind, key);
            assert!(cache.store(&name, as_value(&value, &name), &terms).unwrap());
        }
        let tags: &[&str] = &["evicted"];
        let attributes = Attributes { tags, stamp: Some(0), ..Attributes::default() };
        let terms = Terms { attributes, ..Terms::plain(Ttl::Never) };
        assert!(cache.store(b"invalid", Value::Int(0), &terms).unwrap());
        cache.advance_era(b"blog").unwrap();
        assert_eq!(cache.stats().evictions, 0, "all of it fits");
    }
}

#[test]
fn files_of_this_format_are_read_exactly() {
    for kind in kinds() {
        let bytes = std::fs::read(path(kind.file)).expect("a golden file");
        assert!(bytes.len() as u64 <= FILE_BYTES_MAX, "{}", kind.file);
        let scratch = Scratch::new();
        scratch.fill(&bytes);
        // The options of the program that opens the file do not matter.
        let cache = Cache::open(&scratch.place(), &config(1 << 20)).unwrap();
        let stats = cache.stats();
        assert_eq!(stats.size_bytes, kind.config.size_bytes, "{}", kind.file);
        assert_eq!(stats.max_entries, kind.config.max_entries.unwrap_or(0), "{}", kind.file);
        let mut buffer = Buffer::new();
        let mut count = 0;
        for (name, value, ttl) in entries(&kind) {
            let full = cache.get_full(&name, false, &mut buffer).unwrap().expect("it was stored");
            let entry = full.entry;
            assert_eq!(entry.value, as_value(&value, &name), "{} of {}", count, kind.file);
            assert_eq!(entry.expiry_us.is_some(), ttl != Ttl::Never);
            assert_eq!(full.is_pinned, is_pinned(&kind, count));
            let tags = tags_of(count).iter().map(|tag| tag.as_bytes());
            assert!(full.tags.eq(tags), "{} of {}", count, kind.file);
            count += 1;
        }
        assert_eq!(cache.get(b"invalid", &mut buffer).unwrap(), None);
        if kind.config.is_ordered {
            let mut scan = cache.scan();
            for (name, ..) in entries(&kind) {
                let item = scan.next(&mut buffer).unwrap().expect("it was stored");
                assert_eq!(item.key, name);
            }
        }
        assert!(cache.era(b"blog").unwrap() > 1 && cache.era(b"other").unwrap() == 1);
        assert_eq!(cache.expire().unwrap(), 1);
        let report = cache.check().unwrap();
        assert!(report.is_sound() && report.entries == count, "{}: {report:?}", kind.file);
        works_after_check(&cache, kind.config.size_bytes.min(stats.max_entries.max(1) << 20))
            .unwrap();
    }
}

#[test]
fn files_of_another_layout_are_refused_and_left_alone() {
    let bytes = std::fs::read(path("layout-before-1-64k.tuck")).expect("a golden file");
    let mut newer = std::fs::read(path("format-1-64k.tuck")).expect("a golden file");
    newer[8] = 2;
    for bytes in [bytes, newer] {
        let scratch = Scratch::new();
        scratch.fill(&bytes);
        match Cache::open(&scratch.place(), &config(64 << 10)) {
            Err(Error::Arena(ArenaError::VersionMismatch { found, known, .. })) => {
                assert_ne!(found, known);
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was opened"),
        }
        assert!(scratch.bytes() == bytes, "what is refused stays as it is");
    }
}
