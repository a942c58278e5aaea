//! A power cut at each system call that creates a cache. On the disk is then what was synced, and of
//! what was not, anything: so each cut leaves the names that were synced, or all that were given, and a
//! file without its unsynced content. Whatever is there opens, or there is nothing and a cache is
//! created.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tuckbox_engine::{Cache, Place, Ttl, Value};

use crate::place::Folder;
use crate::report::Report;
use crate::syscalls::{is_nameless, refused_child, Scenario};
use crate::tracer::{Registers, Stop, Traced};

/// What a power cut would leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Disk {
    /// What was synced of each file, by its inode.
    synced: BTreeMap<u64, Vec<u8>>,
    /// The names that the folder has, and those that were synced.
    given: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
}

impl Disk {
    /// Looks at the folder after a system call, which synced what a descriptor leads to if it has one.
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

    /// Puts what a cut leaves into a folder: names that were synced, or all.
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
                // Allocated, and never written.
                None => file.set_len(len_bytes)?,
            }
        }
        Ok(())
    }
}

/// Creates a cache in each way, with a cut at each system call. How many cuts differed.
pub fn run(report: &mut Report) -> u64 {
    let mut cuts = 0;
    for scenario in [Scenario::Create, Scenario::CreateNamed] {
        match create(scenario) {
            Ok(count) => cuts += count,
            Err(what) => report.fail(format!("creation, {scenario:?}: {what}")),
        }
    }
    report.expect(cuts >= 8, || format!("a creation has only {cuts} different cuts"));
    cuts
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
        // From here on the cache is used, and is not judged.
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

/// Lets the child do its next system call; none if it has opened the cache.
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

/// What a system call that has ended made durable.
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
