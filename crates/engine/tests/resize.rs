//! What other handles see at each step of a resize. Deaths at these steps are `torture resize`'s.

#![cfg(feature = "hooks")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use tuckbox_arena::act_as_another_process;
use tuckbox_arena::hooks::{self, Point};
use tuckbox_engine::{
    ArenaError, Attributes, Buffer, Changes, Config, Error, Handle, Interrupted, Place, Result,
    Rights, Terms, Ttl, Value, Waiter, Walk,
};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(format!("tuckbox-{name}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
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

/// A handle that shares nothing with the others.
fn open(path: &Path, read_only: bool) -> Handle {
    act_as_another_process();
    let rights = Rights { read_only, ..Rights::default() };
    let config = Config { size_bytes: 1 << 20, rights, ..Config::default() };
    Handle::open(Place::Path(path.into()), config).unwrap().0
}

fn to(size_bytes: u64) -> Changes {
    Changes { size_bytes: Some(size_bytes), ..Changes::default() }
}

fn get(cache: &Handle) -> Option<i64> {
    let mut buffer = Buffer::new();
    cache.get(b"key", &mut buffer).unwrap().map(|entry| match entry.value {
        Value::Int(number) => number,
        other => panic!("{other:?}"),
    })
}

fn set(cache: &Handle, number: i64) -> Result<()> {
    cache.set(b"key", Value::Int(number), Ttl::Never)
}

#[test]
fn once_the_new_file_can_be_written_to_no_read_returns_an_old_value() {
    let folder = Folder::new("resize-reads");
    let path = folder.file();
    let one = open(&path, false);
    let others = [false, true].map(|read_only| Arc::new(open(&path, read_only)));
    set(&one, 1).unwrap();
    let steps = Arc::new(AtomicU32::new(0));
    let (seen, watching, at) = (Arc::clone(&steps), others.clone(), path.clone());
    hooks::set(move |point| match point {
        Point::SuccessorComplete => {
            assert_eq!(watching.each_ref().map(|other| get(other)), [Some(1); 2]);
            seen.fetch_add(1, SeqCst);
        }
        Point::EntriesHidden | Point::SuccessorNamed => {
            // They come back, or are in the new file.
            assert_eq!(watching.each_ref().map(|other| get(other)), [None; 2]);
            seen.fetch_add(1, SeqCst);
        }
        Point::NameTaken => {
            let fresh = open(&at, false);
            assert_eq!((get(&fresh), set(&fresh, 2).is_ok()), (Some(1), true));
            for other in &watching {
                assert!(matches!(get(other), None | Some(2)));
            }
            seen.fetch_add(1, SeqCst);
        }
        _ => {}
    });
    one.resize(to(2 << 20)).unwrap();
    hooks::clear();
    assert_eq!(steps.load(SeqCst), 4);
    assert_eq!(get(&one), Some(2));
    assert_eq!(others.each_ref().map(|other| get(other)), [Some(2); 2]);
    set(&others[0], 3).unwrap();
    assert_eq!(get(&one), Some(3));
}

#[test]
fn a_write_waits_for_the_copy_and_is_in_the_new_file() {
    let folder = Folder::new("resize-writes");
    let path = folder.file();
    let one = open(&path, false);
    let other = Arc::new(open(&path, false));
    set(&one, 1).unwrap();
    let writer = Arc::clone(&other);
    let threads = Arc::new(std::sync::Mutex::new(Vec::new()));
    let started = Arc::clone(&threads);
    hooks::set(move |point| {
        if let Point::SuccessorComplete | Point::EntriesHidden | Point::NameTaken = point {
            let writer = Arc::clone(&writer);
            let work = move || writer.incr(b"key", 10, None, Ttl::Never).unwrap();
            started.lock().unwrap().push(std::thread::spawn(work));
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    one.resize(to(2 << 20)).unwrap();
    hooks::clear();
    for thread in threads.lock().unwrap().drain(..) {
        thread.join().unwrap();
    }
    assert_eq!((get(&one), get(&other)), (Some(31), Some(31)));
}

#[test]
fn no_write_waits_until_the_new_name_is_on_the_disk() {
    let folder = Folder::new("resize-sync");
    let path = folder.file();
    let (one, other) = (open(&path, false), Arc::new(open(&path, false)));
    set(&one, 1).unwrap();
    let stored = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&stored);
    hooks::set(move |point| {
        if point == Point::NameUnsynced {
            let writer = Arc::clone(&other);
            let work = move || writer.incr(b"key", 10, None, Ttl::Never).unwrap();
            assert_eq!(std::thread::spawn(work).join().unwrap(), Some(11));
            count.fetch_add(1, SeqCst);
        }
    });
    one.resize(to(2 << 20)).unwrap();
    hooks::clear();
    assert_eq!((stored.load(SeqCst), get(&one)), (1, Some(11)));
}

#[test]
fn a_former_file_with_a_second_name_is_not_used_when_the_new_one_is_removed() {
    let folder = Folder::new("resize-link");
    let path = folder.file();
    let (one, other) = (open(&path, false), open(&path, false));
    set(&one, 1).unwrap();
    std::fs::hard_link(&path, folder.0.join("second.tuck")).unwrap();
    one.resize(to(2 << 20)).unwrap();
    set(&one, 2).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(get(&other), None);
    set(&other, 3).unwrap();
    assert_eq!(get(&open(&path, false)), Some(3));
}

#[test]
fn a_file_that_loses_its_name_meanwhile_keeps_its_entries_and_so_does_the_one_in_its_place() {
    for is_replaced in [false, true] {
        let folder = Folder::new("resize-moved");
        let path = folder.file();
        let one = open(&path, false);
        set(&one, 1).unwrap();
        let (from, moved) = (path.clone(), folder.0.join("moved.tuck"));
        let to_name = moved.clone();
        let mut is_over = false;
        hooks::set(move |point| {
            if point == Point::SuccessorNamed && !std::mem::replace(&mut is_over, true) {
                std::fs::rename(&from, &to_name).unwrap();
                if is_replaced {
                    set(&open(&from, false), 2).unwrap();
                }
            }
        });
        one.resize(to(2 << 20)).unwrap();
        hooks::clear();
        let there = is_replaced.then_some(2);
        assert_eq!((get(&one), get(&open(&path, false))), (there, there));
        assert_eq!(one.latest().settings().size_bytes, 2 << 20);
        // The old file has another name, and its entries came back.
        assert_eq!(get(&open(&moved, false)), Some(1));
    }
}

#[test]
fn what_cannot_be_resized_is_refused() {
    let (private, _) = Handle::open(Place::Private, Config::default()).unwrap();
    assert!(matches!(private.resize(to(2 << 20)), Err(Error::NotResizable)));
    let folder = Folder::new("resize-refused");
    let path = folder.file();
    set(&open(&path, false), 1).unwrap();
    let reader = open(&path, true);
    let refused = reader.resize(to(2 << 20));
    assert!(matches!(refused, Err(Error::Arena(ArenaError::ReadOnly { .. }))), "{refused:?}");
    let (_, changed) = Handle::open(
        Place::Path(path.clone()),
        Config { changes: to(1 << 10), ..Config::default() },
    )
    .unwrap();
    assert!(changed.is_err(), "too small");
    assert_eq!(get(&open(&path, false)), Some(1));
}

/// Whether it found what is there.
type Read<'a> = &'a dyn Fn(&Handle) -> bool;

#[test]
fn a_read_during_which_another_thread_follows_is_not_a_miss() {
    let folder = Folder::new("resize-follow");
    let path = folder.file();
    let (one, resizer) = (Arc::new(open(&path, false)), Arc::new(open(&path, false)));
    for number in 0..20i64 {
        one.set(&number.to_le_bytes(), Value::Int(number), Ttl::Never).unwrap();
    }
    let key = 7i64.to_le_bytes();
    let keys: Vec<_> = (0..20i64).map(i64::to_le_bytes).collect();
    let reads: [(&str, Read<'_>); 4] = [
        ("get", &|cache| cache.get(&key, &mut Buffer::new()).unwrap().is_some()),
        ("contains", &|cache| cache.contains(&key, &mut Buffer::new()).unwrap()),
        ("get_each", &|cache| {
            let mut found = 0;
            let count = |_: usize, _: tuckbox_engine::Entry<'_>| {
                found += 1;
                Ok::<(), Error>(())
            };
            cache.get_each(&keys, &mut Buffer::new(), count).unwrap();
            found == 20
        }),
        ("scan", &|cache| {
            let (mut walk, mut buffer, mut count) = (Walk::default(), Buffer::new(), 0);
            loop {
                match cache.scan_next(&mut walk, &mut buffer) {
                    Ok(Some(_)) => count += 1,
                    Ok(None) => return count == 20,
                    Err(error) => return matches!(error, Error::ScanLost { .. }),
                }
            }
        }),
    ];
    for (size_bytes, (name, read)) in (2..).map(|size| size << 20).zip(reads) {
        let (follower, other) = (Arc::clone(&one), Arc::clone(&resizer));
        let mut is_over = false;
        hooks::set(move |_| {
            if !std::mem::replace(&mut is_over, true) {
                other.resize(to(size_bytes)).unwrap();
                // Replaces the memory that the read is about to look at by zeros.
                set(&follower, 1).unwrap();
            }
        });
        let is_right = read(&one);
        hooks::clear();
        assert!(is_right, "{name}");
        one.delete(b"key").unwrap();
    }
}

#[test]
fn many_writes_that_go_on_in_the_new_file_undo_nothing_there() {
    let folder = Folder::new("resize-many");
    let path = folder.file();
    let (one, other) = (open(&path, false), Arc::new(open(&path, false)));
    // Its parts are written without a lock, after some of the short values were stored.
    let large = vec![7u8; 200_000];
    let numbers: Vec<_> = (0..40u64).map(u64::to_le_bytes).collect();
    let mut entries: Vec<(&[u8], Value<'_>)> =
        numbers.iter().map(|key| (key.as_slice(), Value::Int(0))).collect();
    entries.insert(20, (b"large", Value::bytes(&large)));
    let counted = Arc::new(AtomicU32::new(0));
    let (counts, keys) = (Arc::clone(&counted), numbers.clone());
    hooks::set(move |point| {
        if point == Point::BodyBuilt && counts.load(SeqCst) == 0 {
            other.resize(to(2 << 20)).unwrap();
            for key in &keys {
                if other.incr(key, 5, None, Ttl::Never).unwrap().is_some() {
                    counts.fetch_add(1, SeqCst);
                }
            }
        }
    });
    one.set_each(&entries, Ttl::Never).unwrap();
    hooks::clear();
    let mut buffer = Buffer::new();
    let mut sum = 0;
    for key in &numbers {
        match one.get(key, &mut buffer).unwrap().unwrap().value {
            Value::Int(number) => sum += number,
            other => panic!("{other:?}"),
        }
    }
    let counted = counted.load(SeqCst);
    assert!((1..40).contains(&counted), "some were stored, but not all");
    assert_eq!(sum, i64::from(counted) * 5);
    assert_eq!(one.get(b"large", &mut buffer).unwrap().unwrap().value, Value::bytes(&large));
}

fn set_tagged(cache: &Handle, key: &[u8], ttl: Ttl, tags: &[&str], stale: Option<Ttl>) {
    let attributes = Attributes { tags, stale, made_us: Some(7), ..Attributes::default() };
    let terms = Terms { attributes, ..Terms::plain(ttl) };
    assert!(cache.store(key, Value::Int(1), &terms).unwrap());
}

/// Whether the entry is stale; none if it is not there.
fn staleness(cache: &Handle, key: &[u8]) -> Option<bool> {
    let mut buffer = Buffer::new();
    cache.get_full(key, true, &mut buffer).unwrap().map(|found| found.is_stale)
}

#[test]
fn tags_and_staleness_are_those_of_before() {
    let folder = Folder::new("resize-tags");
    let path = folder.file();
    let (one, other) = (open(&path, false), open(&path, false));
    let hour = Ttl::Us(3_600_000_000);
    set_tagged(&one, b"evicted", Ttl::Never, &["evicted", "kept"], None);
    set_tagged(&one, b"soft", hour, &["soft"], Some(hour));
    set_tagged(&one, b"soft for ever", Ttl::Never, &["soft"], None);
    set_tagged(&one, b"past", Ttl::Us(0), &[], Some(hour));
    set_tagged(&one, b"fresh", hour, &["kept", "e"], Some(hour));
    one.evict("evicted", false).unwrap();
    one.evict("soft", true).unwrap();
    let states = |cache: &Handle| {
        let keys: [&[u8]; 5] = [b"evicted", b"soft", b"soft for ever", b"past", b"fresh"];
        keys.map(|key| staleness(cache, key))
    };
    let before = states(&one);
    assert_eq!(before, [None, Some(true), Some(true), Some(true), Some(false)]);
    for size_bytes in [2 << 20, 64 << 10, 1 << 20] {
        let expiry = |cache: &Handle| {
            let mut buffer = Buffer::new();
            cache.get(b"fresh", &mut buffer).unwrap().unwrap().expiry_us.unwrap()
        };
        let until_us = expiry(&one);
        one.resize(to(size_bytes)).unwrap();
        for cache in [&one, &other] {
            assert_eq!(states(cache), before, "in {size_bytes}");
            assert_eq!(cache.latest().len(), 4, "the invalid one is not copied");
            assert!(expiry(cache).abs_diff(until_us) < 60_000_000);
            let mut buffer = Buffer::new();
            let found = cache.get_full(b"fresh", false, &mut buffer).unwrap().unwrap();
            assert!(found.tags.eq([&b"kept"[..], b"e"]) && found.made_us == Some(7));
        }
    }
    one.evict("kept", false).unwrap();
    assert_eq!(staleness(&other, b"fresh"), None);
    set_tagged(&other, b"fresh", hour, &["kept"], None);
    assert_eq!(staleness(&one, b"fresh"), Some(false));
}

#[test]
fn an_era_is_that_of_before_or_a_new_one() {
    // With 30, some share a row in the smaller files, by the hash key of each, and each has one of
    // its own in the largest.
    for advanced in [4].into_iter().chain([30; 24]) {
        let folder = Folder::new("resize-eras");
        let path = folder.file();
        let (one, other) = (open(&path, false), open(&path, false));
        let names: Vec<_> = (0..32u64).map(|number| format!("namespace {number}")).collect();
        let era = |cache: &Handle, name: &String| cache.era(name.as_bytes()).unwrap();
        let mut former: Vec<Vec<u64>> = names.iter().map(|name| vec![era(&one, name)]).collect();
        for (name, former) in names.iter().zip(&mut former).take(advanced) {
            one.advance_era(name.as_bytes()).unwrap();
            // Another name may share its row, and so its era.
            former.push(era(&one, name));
        }
        for size_bytes in [2 << 20, 64 << 20, 64 << 10, 1 << 20] {
            one.resize(to(size_bytes)).unwrap();
            for (number, (name, former)) in names.iter().zip(&mut former).enumerate() {
                let now = era(&other, name);
                assert_eq!(era(&one, name), now);
                let is_last = former.last() == Some(&now);
                assert!(is_last || !former.contains(&now), "{name} has an earlier era again");
                // Four rows are enough for four names. Then they are full, and may have been shared.
                let was_full = size_bytes == 1 << 20;
                assert!(is_last || advanced > 4 || was_full || number >= 4, "{name}");
                former.push(now);
            }
        }
    }
}

#[test]
fn an_eviction_during_the_copy_holds_in_the_new_file() {
    for at in [Point::SuccessorComplete, Point::EntriesHidden, Point::NameTaken] {
        let folder = Folder::new("resize-evicts");
        let path = folder.file();
        let (one, other) = (open(&path, false), Arc::new(open(&path, false)));
        set_tagged(&one, b"key", Ttl::Never, &["users"], None);
        let era = one.advance_era(b"blog").unwrap();
        let threads = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (started, evicting) = (Arc::clone(&threads), Arc::clone(&other));
        hooks::set(move |point| {
            if point == at {
                let evicting = Arc::clone(&evicting);
                started.lock().unwrap().push(std::thread::spawn(move || {
                    evicting.evict("users", false).unwrap();
                    evicting.advance_era(b"blog").unwrap();
                }));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        one.resize(to(2 << 20)).unwrap();
        hooks::clear();
        threads.lock().unwrap().drain(..).for_each(|thread| thread.join().unwrap());
        assert_eq!(staleness(&open(&path, false), b"key"), None, "{at:?}");
        assert_ne!(one.era(b"blog").unwrap(), era, "{at:?}");
    }
}

#[test]
fn a_read_whose_memory_is_given_back_before_it_looks_at_the_tags_is_a_miss() {
    let folder = Folder::new("resize-judged");
    let path = folder.file();
    let (one, resizer) = (Arc::new(open(&path, false)), Arc::new(open(&path, false)));
    set_tagged(&one, b"tagged", Ttl::Never, &["users"], None);
    one.evict("users", false).unwrap();
    let follower = Arc::clone(&one);
    let mut is_over = false;
    hooks::set(move |point| {
        if point == Point::RecordVerified && !std::mem::replace(&mut is_over, true) {
            resizer.resize(to(2 << 20)).unwrap();
            set(&follower, 1).unwrap();
        }
    });
    let found = one.get(b"tagged", &mut Buffer::new()).unwrap().is_some();
    hooks::clear();
    assert!(!found, "an entry that was evicted long ago");
    assert_eq!(get(&one), Some(1), "the file was replaced meanwhile");
}

/// Counts how often the host could have run code of its own.
#[derive(Default)]
struct Counting(AtomicU32);

impl Waiter for Counting {
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> std::result::Result<(), Interrupted> {
        self.0.fetch_add(1, SeqCst);
        work();
        Ok(())
    }
}

#[test]
fn no_signal_handler_runs_while_all_locks_are_held() {
    let folder = Folder::new("resize-host");
    let path = folder.file();
    let (sender, begun) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let at = path.clone();
    let holder = std::thread::spawn(move || {
        let cache = open(&at, false);
        hooks::set(move |point| {
            if point == Point::RecordWritten {
                sender.send(()).unwrap();
                ends.recv().unwrap();
            }
        });
        set(&cache, 2).unwrap();
        hooks::clear();
    });
    begun.recv().unwrap();
    act_as_another_process();
    let host = Arc::new(Counting::default());
    let config = Config {
        size_bytes: 1 << 20,
        lock_limit: Duration::from_millis(60),
        waiter: host.clone(),
        ..Config::default()
    };
    let cache = Handle::open(Place::Path(path), config).unwrap().0;
    // A live writer keeps a lock.
    let refused = cache.resize(to(2 << 20));
    assert_eq!(host.0.load(SeqCst), 0);
    assert!(matches!(refused, Err(Error::Arena(ArenaError::LockTimeout { .. }))), "{refused:?}");
    end.send(()).unwrap();
    holder.join().unwrap();
    // The parts of a large value are copied by the host's leave, but not in a resize.
    let before = host.0.load(SeqCst);
    cache.set(b"large", Value::bytes(&vec![7; 200_000]), Ttl::Never).unwrap();
    assert!(host.0.load(SeqCst) > before);
    let before = host.0.load(SeqCst);
    cache.resize(to(2 << 20)).unwrap();
    assert_eq!((before > 0, host.0.load(SeqCst)), (true, before));
    assert_eq!(get(&cache), Some(2));
}

#[test]
fn a_shard_that_damage_has_hidden_is_read_and_walked() {
    let folder = Folder::new("resize-damage");
    let path = folder.file();
    let one = open(&path, false);
    set(&one, 1).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    one.close();
    // Everything that may be an epoch.
    for at in (0..16_384).step_by(8) {
        let mut damaged = bytes.clone();
        damaged[at..at + 8].fill(0xff);
        std::fs::write(&path, &damaged).unwrap();
        for read_only in [false, true] {
            let rights = Rights { read_only, ..Rights::default() };
            let config = Config { size_bytes: 1 << 20, rights, ..Config::default() };
            let Ok((cache, _)) = Handle::open(Place::Path(path.clone()), config) else { continue };
            let (mut walk, mut buffer) = (Walk::default(), Buffer::new());
            let _ = cache.get(b"key", &mut buffer);
            while let Ok(Some(_)) = cache.scan_next(&mut walk, &mut buffer) {}
            if !read_only {
                let _ = set(&cache, 2);
                // The first one repairs.
                let _ = cache.check();
                assert!(cache.check().is_ok_and(|report| report.is_sound()), "{at}");
            }
        }
    }
}
