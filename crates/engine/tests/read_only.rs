//! A read-only handle reads what others stored, needs nothing from them, and leaves no trace in the
//! file.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tuckbox_arena::act_as_another_process;
use tuckbox_arena::layout::header;
use tuckbox_engine::{ArenaError, Buffer, Cache, Config, Error, Place, Rights, Ttl, Value};

/// A test's own folder, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tuckbox-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        // Regardless of the umask.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("cache.tuck")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn writer(path: &Path) -> Cache {
    let config = Config { size_bytes: 4 << 20, ..Config::default() };
    Cache::open(&Place::Path(path.into()), &config).unwrap()
}

fn reader(path: &Path) -> Cache {
    try_reader(path).unwrap()
}

fn try_reader(path: &Path) -> Result<Cache, Error> {
    let rights = Rights { read_only: true, ..Rights::default() };
    Cache::open(&Place::Path(path.into()), &Config { rights, ..Config::default() })
}

fn get(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Buffer::new();
    cache.get(key, &mut buffer).unwrap().map(|entry| match entry.value {
        Value::Bytes { bytes, .. } => bytes.to_vec(),
        Value::Int(number) => number.to_string().into_bytes(),
    })
}

fn patch(path: &Path, at: u64, words: &[u64]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    file.write_all_at(&bytes, at).unwrap();
}

#[test]
fn a_reader_sees_what_others_store_before_and_after_it_was_opened() {
    let folder = Folder::new("reads");
    let writer = writer(&folder.file());
    writer.set(b"old", Value::bytes(b"1"), Ttl::Never).unwrap();
    let reader = reader(&folder.file());
    assert_eq!(get(&reader, b"old").unwrap(), b"1");
    // Larger than the file is now, so that it grows; and a value of many segments.
    let large = vec![7u8; 600_000];
    for number in 0..5_000u64 {
        writer.set(&number.to_be_bytes(), Value::bytes(&[number as u8; 100]), Ttl::Never).unwrap();
    }
    writer.set(b"large", Value::bytes(&large), Ttl::Never).unwrap();
    for number in 0..5_000u64 {
        assert_eq!(get(&reader, &number.to_be_bytes()).unwrap(), [number as u8; 100]);
    }
    assert_eq!(get(&reader, b"large").unwrap(), large);
    let mut buffer = Buffer::new();
    assert!(reader.contains(b"large", &mut buffer).unwrap());
    assert!(!reader.contains(b"none", &mut buffer).unwrap());
    assert_eq!(reader.len(), writer.len());
    let (mut scan, mut met) = (reader.scan(), 0);
    while scan.next(&mut buffer).unwrap().is_some() {
        met += 1;
    }
    assert_eq!(met, writer.len());
    assert_eq!(reader.stats(), writer.stats());
}

#[test]
fn it_leaves_no_trace_in_the_file() {
    let folder = Folder::new("trace");
    let path = folder.file();
    {
        let writer = writer(&path);
        for number in 0..1_000u64 {
            writer.set(&number.to_be_bytes(), Value::bytes(b"value"), Ttl::Us(1 << 40)).unwrap();
        }
    }
    let before = std::fs::read(&path).unwrap();
    let reader = reader(&path);
    for number in 0..2_000u64 {
        assert_eq!(get(&reader, &number.to_be_bytes()).is_some(), number < 1_000);
    }
    let mut buffer = Buffer::new();
    let mut scan = reader.scan();
    while scan.next(&mut buffer).unwrap().is_some() {}
    reader.stats();
    reader.close();
    assert!(matches!(reader.get(b"k", &mut buffer), Err(Error::Arena(ArenaError::Closed))));
    drop(reader);
    assert!(std::fs::read(&path).unwrap() == before, "the file was changed");
}

#[test]
fn whatever_changes_something_is_refused_before_it_does() {
    let folder = Folder::new("refused");
    writer(&folder.file()).set(b"k", Value::Int(1), Ttl::Never).unwrap();
    let before = std::fs::read(folder.file()).unwrap();
    let reader = reader(&folder.file());
    let value = Value::bytes(b"new");
    let large = vec![0u8; 600_000];
    let mut buffer = Buffer::new();
    let refusals = [
        reader.set(b"k", value, Ttl::Never).err(),
        reader.set(b"k", Value::bytes(&large), Ttl::Never).err(),
        reader.add(b"k", value, Ttl::Never).err(),
        reader.replace(b"k", value, Ttl::Never).err(),
        reader.compare_and_set(b"k", value, Ttl::Never, 1).err(),
        reader.delete(b"k").err(),
        reader.pop(b"k", &mut buffer).err(),
        reader.touch(b"k", Ttl::Never).err(),
        reader.incr(b"k", 1, None, Ttl::Never).err(),
        reader.clear().err(),
        reader.expire().err(),
        reader.check().err(),
    ];
    for (number, refusal) in refusals.into_iter().enumerate() {
        let is_right = matches!(&refusal, Some(Error::Arena(ArenaError::ReadOnly { path }))
            if *path == folder.file());
        assert!(is_right, "operation {number}: {refusal:?}");
    }
    assert_eq!(get(&reader, b"k").unwrap(), b"1");
    assert!(std::fs::read(folder.file()).unwrap() == before, "the file was changed");
}

#[test]
fn a_missing_file_is_an_error_and_is_not_made() {
    let folder = Folder::new("missing");
    let refusal = try_reader(&folder.file()).err();
    assert!(matches!(refusal, Some(Error::Arena(ArenaError::Missing { .. }))), "{refusal:?}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

/// How many processes can have the cache open for writing before the process slots run out.
fn writer_slots(path: &Path) -> usize {
    let mut writers = vec![writer(path)];
    loop {
        act_as_another_process();
        match Cache::open(&Place::Path(path.into()), &Config::default()) {
            Ok(cache) => writers.push(cache),
            Err(_) => return writers.len(),
        }
    }
}

#[test]
fn it_takes_no_process_slot() {
    let folder = Folder::new("slots");
    let before = writer_slots(&folder.file());
    let readers: Vec<Cache> = (0..2 * before).map(|_| reader(&folder.file())).collect();
    assert_eq!(writer_slots(&folder.file()), before);
    drop(readers);
}

#[test]
fn without_a_clock_row_of_this_boot_it_has_a_time_of_its_own_until_there_is_one() {
    let folder = Folder::new("clock");
    let path = folder.file();
    writer(&path).set(b"k", Value::bytes(b"value"), Ttl::Us(60_000_000)).unwrap();
    // Rows of another boot, and a latest recorded time half a minute ahead.
    let stale = [1, 1, 0, 0].repeat(header::CLOCK_ROW_COUNT as usize);
    patch(&path, header::CLOCK_ROWS, &stale);
    let now_us = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    let later_us = now_us + 30_000_000;
    patch(&path, header::LAST_SEEN_US, &[later_us]);
    let before = std::fs::read(&path).unwrap();
    let reader = reader(&path);
    assert!(reader.now_us() >= later_us);
    assert_eq!(get(&reader, b"k").unwrap(), b"value");
    assert!(std::fs::read(&path).unwrap() == before, "the file was changed");
    // A writer creates a row, from a later time; the reader adopts it.
    patch(&path, header::LAST_SEEN_US, &[later_us + 60_000_000]);
    let writer = writer(&path);
    assert_eq!(get(&reader, b"k"), None);
    assert!(reader.now_us().abs_diff(writer.now_us()) < 1_000_000);
}

#[test]
fn a_record_that_is_being_changed_all_the_time_is_a_miss_at_once() {
    let folder = Folder::new("busy");
    let path = folder.file();
    let key = b"a key that is found in the file";
    writer(&path).set(key, Value::bytes(b"value"), Ttl::Never).unwrap();
    let content = std::fs::read(&path).unwrap();
    let key_at = content.windows(key.len()).position(|window| window == key).unwrap();
    // A record begins with its sequence lock; bit 3 is the busy bit, which a stopped writer leaves
    // set.
    let mut refused = 0;
    for at in (key_at.saturating_sub(48) / 8 * 8..key_at).step_by(8) {
        let word = u64::from_ne_bytes(content[at..at + 8].try_into().unwrap());
        patch(&path, at as u64, &[word | 1 << 3]);
        let reader = reader(&path);
        let began = std::time::Instant::now();
        refused += u32::from(get(&reader, key).is_none());
        assert!(began.elapsed() < Duration::from_secs(5));
        patch(&path, at as u64, &[word]);
        assert_eq!(get(&reader, key).unwrap(), b"value");
    }
    assert!(refused > 0, "no word of the record made it busy");
}
