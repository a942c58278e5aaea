//! What other handles see at each step of a resize. Deaths at these steps are `torture resize`'s.

#![cfg(feature = "hooks")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::Arc;

use tuckbox_arena::act_as_another_process;
use tuckbox_arena::hooks::{self, Point};
use tuckbox_engine::{
    ArenaError, Buffer, Changes, Config, Error, Handle, Place, Result, Rights, Ttl, Value,
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
            std::thread::sleep(std::time::Duration::from_millis(20));
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
fn a_file_that_loses_its_name_meanwhile_keeps_its_entries() {
    let folder = Folder::new("resize-moved");
    let path = folder.file();
    let one = open(&path, false);
    set(&one, 1).unwrap();
    let (from, moved) = (path.clone(), folder.0.join("moved.tuck"));
    let to_name = moved.clone();
    hooks::set(move |point| {
        // Not hidden yet, but the check of the name has been made.
        if point == Point::SuccessorComplete {
            std::fs::rename(&from, &to_name).unwrap();
        }
    });
    one.resize(to(2 << 20)).unwrap();
    hooks::clear();
    assert_eq!(get(&one), Some(1));
    assert_eq!(get(&open(&path, false)), Some(1));
    // The old file has another name, and its entries come back.
    assert_eq!(get(&open(&moved, false)), Some(1));
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
