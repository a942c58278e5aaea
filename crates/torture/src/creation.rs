//! Power cuts at each system call that creates, opens or closes a cache.
//!
//! Creation: synced data is on the disk, and any part of the rest. So each cut leaves either the
//! synced names or all names, and files without their unsynced content. An existing file must open.
//! If there is none, a cache is created.
//!
//! An orderly use of a cache that is emptied after a power cut: on the disk, the page with the use
//! mark may be older or newer than all others. The cache must be emptied, or hold exactly what it
//! held before or after the use.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tuckbox_arena::layout::{header, HEADER_BYTES};
use tuckbox_engine::{Buffer, Cache, Place, Ttl, Value};

use crate::place::Folder;
use crate::report::Report;
use crate::syscalls::{
    clean_file, config_of, earlier, is_nameless, refused_child, value_of, Scenario, EARLIER,
};
use crate::tracer::{Registers, Stop, Traced};

/// The state that a power cut would leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Disk {
    /// The synced content of each file, by its inode.
    synced: BTreeMap<u64, Vec<u8>>,
    /// The names in the folder, and the synced names.
    given: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
}

impl Disk {
    /// Notes the state of the folder after a system call. `synced` is the file that the call
    /// synced, if any.
    fn follow(&mut self, folder: &Path, synced: Option<&Path>) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        self.given.clear();
        for entry in std::fs::read_dir(folder)?.flatten() {
            self.given.insert(entry.file_name().into(), entry.metadata()?.ino());
        }
        if let Some(synced) = synced {
            let data = std::fs::metadata(synced)?;
            if data.is_dir() {
                self.durable = self.given.clone();
            } else {
                self.synced.insert(data.ino(), std::fs::read(synced)?);
            }
        }
        Ok(())
    }

    /// Writes what a cut leaves into a folder: the synced names or all names.
    fn leave(
        &self,
        names: &BTreeMap<PathBuf, u64>,
        len_bytes: u64,
        folder: &Path,
    ) -> io::Result<()> {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir(folder)?;
        for (name, inode) in names {
            let file = std::fs::File::create(folder.join(name))?;
            match self.synced.get(inode) {
                Some(bytes) => std::fs::write(folder.join(name), bytes)?,
                // The file was allocated, and never written.
                None => file.set_len(len_bytes)?,
            }
        }
        Ok(())
    }
}

/// Creates a cache in each way, with a cut at each system call. Returns the number of different
/// cuts.
pub fn run(report: &mut Report) -> u64 {
    let mut cuts = 0;
    for scenario in [Scenario::Create, Scenario::CreateNamed] {
        match create(scenario) {
            Ok(count) => cuts += count,
            Err(what) => report.fail(format!("creation, {scenario:?}: {what}")),
        }
    }
    report.expect(cuts >= 8, || format!("a creation has only {cuts} different cuts"));
    match use_in_order(report) {
        Ok(count) => cuts += count,
        Err(what) => report.fail(format!("a use that ends in order: {what}")),
    }
    cuts
}

/// The state of a cache that the next boot finds after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    AsBefore,
    AsAfter,
    Emptied,
}

/// Opens, uses and closes a cache, with a cut at each system call. Returns the number of different
/// cuts.
fn use_in_order(report: &mut Report) -> Result<u64, String> {
    let in_words = |error: io::Error| error.to_string();
    let folder = Folder::new(None);
    let (path, left) = (folder.file("cache"), folder.file("left"));
    let mut synced = clean_file(&path)?;
    let mark_in = |image: &[u8]| image[header::USE_MARK as usize..][..8].to_vec();
    let first = mark_in(&synced);
    let mut command = refused_child(&path, &folder.file("result"), Scenario::Discard);
    let mut traced = Traced::start(&mut command).map_err(in_words)?;
    let mut seen: Vec<Vec<u8>> = Vec::new();
    while let Some(registers) = next_call(&mut traced, Scenario::Discard).map_err(in_words)? {
        let now = std::fs::read(&path).map_err(in_words)?;
        if synced_by(&traced, &registers).is_some() {
            synced.clone_from(&now);
        }
        for mark_of in [&synced, &now] {
            let other = if std::ptr::eq(mark_of, &synced) { &now } else { &synced };
            let mut image = other.clone();
            let page = HEADER_BYTES as usize;
            image[..page].copy_from_slice(&mark_of[..page]);
            if !seen.contains(&image) {
                seen.push(image);
            }
        }
    }
    // Locks that the child held in an image then belong to a dead process.
    drop(traced);
    let mut counts = std::collections::BTreeMap::new();
    for (number, image) in seen.iter().enumerate() {
        std::fs::write(&left, image).map_err(in_words)?;
        let found = judge_use(&left).map_err(|what| format!("cut {number}: {what}"))?;
        // Entries and mark are of one moment, or the mark tells of a cut.
        let expected = if mark_in(image) == first { Found::AsBefore } else { Found::AsAfter };
        if found != Found::Emptied && found != expected {
            return Err(format!("cut {number}: {found:?} with a mark that says {expected:?}"));
        }
        *counts.entry(found).or_insert(0u64) += 1;
    }
    report.expect(counts.len() == 3, || format!("not every possible outcome occurred: {counts:?}"));
    Ok(seen.len() as u64)
}

fn judge_use(path: &Path) -> Result<Found, String> {
    crate::points::pretend_next_boot();
    let cache = Cache::open(&Place::Path(path.into()), &config_of(Scenario::Discard))
        .map_err(|error| error.to_string())?;
    let mut buffer = Buffer::new();
    let mut has = |key: &str, version: usize| -> Result<bool, String> {
        let entry = cache.get(key.as_bytes(), &mut buffer).map_err(|error| error.to_string())?;
        let value = value_of(key, version);
        match entry.map(|entry| entry.value == Value::bytes(&value)) {
            Some(false) => Err(format!("{key} is present with another version than {version}")),
            found => Ok(found.is_some()),
        }
    };
    if cache.stats().discards > 0 {
        return match cache.is_empty() {
            true => Ok(Found::Emptied),
            false => Err("entries were discarded, but some are present".into()),
        };
    }
    for key in (0..EARLIER).map(earlier) {
        if !has(&key, 0)? {
            return Err(format!("nothing was discarded, and {key} is not there"));
        }
    }
    let deleted = has("deleted", 0)?;
    let after = if deleted { 0 } else { 1 };
    for key in ["other", "replaced", "compared"] {
        if !has(key, after)? {
            return Err(format!("nothing was discarded, and {key} is not there"));
        }
    }
    if deleted != has("popped", 0)? || deleted == has("new", 1)? {
        return Err("the entries come from different moments".into());
    }
    Ok(if deleted { Found::AsBefore } else { Found::AsAfter })
}

fn create(scenario: Scenario) -> Result<u64, String> {
    let in_words = |error: io::Error| error.to_string();
    let folder = Folder::new(None);
    let (made, left) = (folder.file("made"), folder.file("left"));
    std::fs::create_dir(&made).map_err(in_words)?;
    let mut command = refused_child(&made.join("cache"), &folder.file("result"), scenario);
    let mut traced = Traced::start(&mut command).map_err(in_words)?;
    let (mut disk, mut seen, mut calls) = (Disk::default(), Vec::new(), 0u64);
    while let Some(registers) = next_call(&mut traced, scenario).map_err(in_words)? {
        calls += 1;
        let synced = synced_by(&traced, &registers);
        disk.follow(&made, synced.as_deref()).map_err(in_words)?;
        if seen.last() != Some(&disk) {
            seen.push(disk.clone());
        }
        // The cache is in use from here on, and is not judged.
        if disk.durable.contains_key(Path::new("cache")) {
            break;
        }
    }
    if !disk.durable.contains_key(Path::new("cache")) {
        return Err(format!(
            "the name was not durable when the cache was open, after {calls} calls"
        ));
    }
    for (number, disk) in seen.iter().enumerate() {
        for names in [&disk.given, &disk.durable] {
            disk.leave(names, 1 << 20, &left).map_err(in_words)?;
            judge(&left.join("cache")).map_err(|what| format!("cut {number}: {what}"))?;
        }
    }
    Ok(2 * seen.len() as u64)
}

/// Lets the child do its next system call. None if it has opened the cache.
fn next_call(traced: &mut Traced, scenario: Scenario) -> io::Result<Option<Registers>> {
    let ended = |stop| match stop {
        Stop::Signal(libc::SIGSTOP) => Ok(None),
        other => Err(io::Error::other(format!("it ended by {other:?}"))),
    };
    match traced.go_to_system_call(0)? {
        Stop::SystemCall => {}
        other => return ended(other),
    }
    let mut begun = traced.registers()?;
    let is_refused = scenario == Scenario::CreateNamed && is_nameless(&begun);
    if is_refused {
        begun.orig_rax = u64::MAX;
        traced.set_registers(&begun)?;
    }
    match traced.go_to_system_call(0)? {
        Stop::SystemCall => {}
        other => return ended(other),
    }
    let mut done = traced.registers()?;
    if is_refused {
        done.rax = -i64::from(libc::EOPNOTSUPP) as u64;
        traced.set_registers(&done)?;
    }
    Ok(Some(done))
}

/// The file that a completed system call made durable.
fn synced_by(traced: &Traced, done: &Registers) -> Option<PathBuf> {
    let is_sync = done.orig_rax == libc::SYS_fsync as u64 && done.rax == 0;
    is_sync.then(|| PathBuf::from(format!("/proc/{}/fd/{}", traced.id(), done.rdi)))
}

fn judge(path: &Path) -> Result<(), String> {
    let cache = Cache::open(&Place::Path(path.into()), &crate::syscalls::config())
        .map_err(|error| error.to_string())?;
    cache.set(b"key", Value::Int(1), Ttl::Never).map_err(|error| error.to_string())?;
    let report = cache.check().map_err(|error| error.to_string())?;
    if report.is_sound() {
        Ok(())
    } else {
        Err(format!("not sound: {:?}", report.findings))
    }
}
