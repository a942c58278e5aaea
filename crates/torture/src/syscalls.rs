//! `torture calls`: makes the n-th system call of each kind fail while a cache is created, opened,
//! extended and used. It fails once, or from then on, or is interrupted many times. The operation
//! must return an error or work in another way. Nothing may panic, hang or leak. Afterwards the
//! file opens, is sound, and has its earlier entries.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;
use std::time::Duration;

use clap::ValueEnum;
use tuckbox_arena::layout::{header, process};
use tuckbox_arena::Geometry;
use tuckbox_engine::format::layout::shard;
use tuckbox_engine::format::plan::plan;
use tuckbox_engine::{AfterPowerCut, ArenaError, Buffer, Cache, Config, Error, Place, Ttl, Value};
use tuckbox_testkit::process::signal_myself;
use tuckbox_testkit::watchdog::Watchdog;

use crate::place::Folder;
use crate::report::Report;
use crate::tracer::{Stop, Traced};
use crate::worker::myself;

/// The arguments of `torture calls`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Only these scenarios.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub scenarios: Vec<Scenario>,
    /// Tries one in this many cases.
    #[arg(long, default_value_t = 1)]
    pub one_in: usize,
    /// The number of threads.
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
    /// The seed of the choice of cases.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// The scenarios of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// Creates a cache and uses it.
    Create,
    /// Creates a cache on a file system without unnamed files, and uses it.
    CreateNamed,
    /// Opens a cache and uses it until the file grows.
    Open,
    /// Creates a private cache, whose file has no name.
    Private,
    /// Opens a closed cache that is emptied after a power cut, uses it and closes it.
    Discard,
    /// Opens a cache whose lock a dead process holds.
    Heir,
    /// Opens a cache with a lock of a live process that lost all its descriptors.
    Waiter,
}

/// The command line of the child.
#[derive(Debug, Clone, clap::Args)]
pub struct Child {
    /// The cache file.
    #[arg(long)]
    pub path: PathBuf,
    /// Where the child writes its outcome.
    #[arg(long)]
    pub result: PathBuf,
    /// The scenario.
    #[arg(long, value_enum)]
    pub scenario: Scenario,
}

const SIZE_BYTES: u64 = 1 << 20;
/// Entries that are stored before and must be kept.
pub const EARLIER: usize = 40;
/// The number of long values, which make the file grow.
const GROWTH: usize = 30;
/// The errors that calls return.
const ERRORS: [(libc::c_int, &str); 7] = [
    (libc::EIO, "EIO"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EMFILE, "EMFILE"),
    (libc::EINTR, "EINTR"),
    (libc::EACCES, "EACCES"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
];
/// How many of these any call may return. The last one is for calls that a file system may lack.
const ERRORS_OF_ALL: usize = 6;
/// How often in a row a call is interrupted.
const STORM: u64 = 100;
/// A child that makes more calls than this does not end.
const CALLS_MOST: u64 = 20_000;
/// How long a child may take.
const SECONDS_MOST: libc::c_uint = 20;

pub fn config() -> Config {
    Config { size_bytes: SIZE_BYTES, lock_limit: Duration::from_millis(20), ..Config::default() }
}

pub fn value_of(key: &str, version: usize) -> Vec<u8> {
    let mut value = Vec::new();
    let stamp = tuckbox_testkit::stamp::Stamp { writer: 1, sequence: version as u64 };
    let len = if key.starts_with("growth") { 8000 } else { 100 + 40 * version };
    tuckbox_testkit::stamp::make(key.as_bytes(), stamp, len, &mut value);
    value
}

pub fn earlier(number: usize) -> String {
    format!("earlier/{number}")
}

/// The earlier keys that operations change.
const CHANGED: [&str; 6] = ["other", "replaced", "compared", "deleted", "popped", "touched"];

fn fill(cache: &Cache) -> Result<(), Error> {
    for key in (0..EARLIER).map(earlier).chain(CHANGED.map(String::from)) {
        cache.set(key.as_bytes(), Value::bytes(&value_of(&key, 0)), Ttl::Never)?;
    }
    Ok(())
}

/// After this many timeouts the remaining operations are left out: each would wait for a lock that
/// is never released.
const TIMEOUTS_MOST: usize = 3;

/// Does every operation once. Returns the keys whose operations were refused.
fn use_cache(cache: &Cache) -> Vec<(String, Error)> {
    let new = |key: &str| value_of(key, 1);
    let set = |key: &str, value: &[u8]| cache.set(key.as_bytes(), Value::bytes(value), Ttl::Never);
    let buffer = std::cell::RefCell::new(Buffer::new());
    let compare = || {
        let mut buffer = buffer.borrow_mut();
        let version = cache.get(b"compared", &mut buffer)?.map_or(0, |entry| entry.version);
        let value = new("compared");
        cache.compare_and_set(b"compared", Value::bytes(&value), Ttl::Never, version).map(|_| ())
    };
    let add = || cache.add(b"added", Value::bytes(&new("added")), Ttl::Never).map(|_| ());
    let replace = || {
        let value = new("replaced");
        cache.replace(b"replaced", Value::bytes(&value), Ttl::Never).map(|_| ())
    };
    let large = vec![9; cache.stats().segment_bytes as usize * 3];
    let pop = || cache.pop(b"popped", &mut buffer.borrow_mut()).map(|_| ());
    let count = || cache.incr(b"counted", 2, Some(5), Ttl::Never).map(|_| ());
    type Step<'a> = (String, Box<dyn Fn() -> Result<(), Error> + 'a>);
    let mut steps: Vec<Step<'_>> = vec![
        ("new".into(), Box::new(|| set("new", &new("new")))),
        ("other".into(), Box::new(|| set("other", &new("other")))),
        ("added".into(), Box::new(add)),
        ("replaced".into(), Box::new(replace)),
        ("compared".into(), Box::new(compare)),
        ("deleted".into(), Box::new(|| cache.delete(b"deleted").map(|_| ()))),
        ("popped".into(), Box::new(pop)),
        ("touched".into(), Box::new(|| cache.touch(b"touched", Ttl::Us(1 << 50)).map(|_| ()))),
        ("counted".into(), Box::new(count)),
        ("counted".into(), Box::new(count)),
        ("large".into(), Box::new(|| set("large", &large))),
    ];
    for number in 0..GROWTH {
        let key = format!("growth/{number}");
        steps.push((key.clone(), Box::new(move || set(&key, &new(&key)))));
    }
    steps.push((String::new(), Box::new(|| cache.expire().map(|_| ()))));
    steps.push((String::new(), Box::new(|| cache.check().map(|_| ()))));
    let mut refused = Vec::new();
    let mut timeouts = 0;
    for (key, step) in steps {
        let result = match timeouts < TIMEOUTS_MOST {
            true => step(),
            false => Err(Error::Full { wanted_bytes: 0 }),
        };
        if let Err(error) = result {
            timeouts += usize::from(matches!(error, Error::Arena(ArenaError::LockTimeout { .. })));
            refused.push((key, error));
        }
    }
    cache.stats();
    refused
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// The child. It writes one line each: whether it opened the cache, how many descriptors were open
/// before and after, and the refused operations.
pub fn be_refused(child: &Child) -> ExitCode {
    // SAFETY: no memory is passed. The signal ends a child that hangs.
    unsafe { libc::alarm(SECONDS_MOST) };
    let before = descriptors();
    let place = match child.scenario {
        Scenario::Private => Place::Private,
        _ => Place::Path(child.path.clone()),
    };
    signal_myself(libc::SIGSTOP);
    let (is_open, refused) = match Cache::open(&place, &config_of(child.scenario)) {
        Ok(cache) => (true, use_cache(&cache)),
        Err(error) => (false, vec![(String::new(), error)]),
    };
    signal_myself(libc::SIGSTOP);
    let mut text = format!("{} {before} {}\n", u8::from(is_open), descriptors());
    for (key, error) in refused {
        text += &format!("{key}\t{}\n", error.to_string().replace('\n', " "));
    }
    match std::fs::write(&child.result, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A kind of system call: its number.
type Kind = u64;

fn name_of(kind: Kind) -> String {
    let known = [
        (libc::SYS_openat, "openat"),
        (libc::SYS_fallocate, "fallocate"),
        (libc::SYS_mmap, "mmap"),
        (libc::SYS_fcntl, "fcntl"),
        (libc::SYS_futex, "futex"),
        (libc::SYS_renameat2, "renameat2"),
        (libc::SYS_linkat, "linkat"),
        (libc::SYS_link, "link"),
        (libc::SYS_unlink, "unlink"),
        (libc::SYS_fstat, "fstat"),
        (libc::SYS_newfstatat, "newfstatat"),
        (libc::SYS_statx, "statx"),
        (libc::SYS_fchmod, "fchmod"),
        (libc::SYS_memfd_create, "memfd_create"),
        (libc::SYS_getrandom, "getrandom"),
        (libc::SYS_read, "read"),
        (libc::SYS_lseek, "lseek"),
        (libc::SYS_readlink, "readlink"),
        (libc::SYS_close, "close"),
        (libc::SYS_prlimit64, "prlimit64"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_munmap, "munmap"),
        (libc::SYS_fadvise64, "fadvise64"),
        (libc::SYS_fsync, "fsync"),
    ];
    let found = known.iter().find(|(number, _)| *number as u64 == kind);
    found.map_or_else(|| format!("call {kind}"), |(_, name)| (*name).into())
}

/// Calls that never fail here: those that the program's memory, signals and threads need. Failing
/// allocations are tested in `allocations`; an unmap has no alternative.
fn is_left_alone(kind: Kind, registers: &crate::tracer::Registers) -> bool {
    const ALONE: [libc::c_long; 14] = [
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_mremap,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigaction,
        libc::SYS_sigaltstack,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_tgkill,
        libc::SYS_sched_yield,
        libc::SYS_restart_syscall,
        libc::SYS_exit_group,
    ];
    let is_memory = kind == libc::SYS_mmap as u64 && (registers.r8 as i32) < 0;
    is_memory || ALONE.contains(&(kind as libc::c_long))
}

/// A fault in the child's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    kind: Kind,
    /// The first call of the kind that fails, from 0.
    from: u64,
    /// How many calls fail from there on.
    count: u64,
    error: usize,
}

impl Fault {
    /// Whether the fault keeps the file from growing, so that entries are evicted.
    fn is_about_length(&self) -> bool {
        // glibc's `fstat` is either call. In musl, `newfstatat` looks at paths alone.
        let is_fstat = self.kind == libc::SYS_fstat as u64
            || self.kind == libc::SYS_newfstatat as u64 && !cfg!(target_env = "musl");
        let is_look = is_fstat && self.count > 1;
        is_look || self.kind == libc::SYS_fallocate as u64
    }

    /// Whether the fault reports at the first call that the file system lacks `fallocate`.
    fn lacks_fallocate(&self) -> bool {
        let is_fallocate = self.kind == libc::SYS_fallocate as u64;
        is_fallocate && self.from == 0 && ERRORS[self.error].0 == libc::EOPNOTSUPP
    }

    fn name(&self, scenario: Scenario) -> String {
        let how = if self.count == 1 { String::new() } else { format!(" x {}", self.count) };
        let (kind, error) = (name_of(self.kind), ERRORS[self.error].1);
        format!("{scenario:?}: {kind} {}{how}: {error}", self.from)
    }
}

/// The outcome of a child.
struct Outcome {
    /// The number of calls of each kind.
    calls: BTreeMap<Kind, u64>,
    met: u64,
    is_open: bool,
    refused: BTreeMap<String, String>,
}

fn run_child(child: &Child, fault: Option<Fault>) -> Result<Outcome, String> {
    let in_words = |error: io::Error| error.to_string();
    let mut command = refused_child(&child.path, &child.result, child.scenario);
    let mut traced = Traced::start(&mut command).map_err(in_words)?;
    let mut calls = BTreeMap::new();
    let (mut met, mut total) = (0, 0);
    loop {
        match traced.go_to_system_call(0).map_err(in_words)? {
            Stop::SystemCall => {}
            Stop::Signal(libc::SIGSTOP) => break,
            Stop::Signal(libc::SIGALRM) => return Err("it hangs".into()),
            other => return Err(format!("it ended by {other:?}")),
        }
        total += 1;
        if total > CALLS_MOST {
            return Err("it never stops making system calls".into());
        }
        let mut registers = traced.registers().map_err(in_words)?;
        let kind = registers.orig_rax;
        let mut error = None;
        if child.scenario == Scenario::CreateNamed && is_nameless(&registers) {
            error = Some(libc::EOPNOTSUPP);
        } else if !is_left_alone(kind, &registers) {
            let number = calls.entry(kind).or_insert(0);
            if let Some(fault) = fault.filter(|fault| fault.kind == kind) {
                if (fault.from..fault.from + fault.count).contains(number) {
                    error = Some(ERRORS[fault.error].0);
                    met += 1;
                }
            }
            *number += 1;
        }
        // A close that fails has still closed the descriptor.
        if error.is_some() && kind != libc::SYS_close as u64 {
            registers.orig_rax = u64::MAX;
            traced.set_registers(&registers).map_err(in_words)?;
        }
        match traced.go_to_system_call(0).map_err(in_words)? {
            Stop::SystemCall => {}
            Stop::Signal(libc::SIGSTOP) => break,
            Stop::Signal(libc::SIGALRM) => return Err("it hangs".into()),
            other => return Err(format!("it ended by {other:?}")),
        }
        if let Some(error) = error {
            let mut registers = traced.registers().map_err(in_words)?;
            registers.rax = -i64::from(error) as u64;
            traced.set_registers(&registers).map_err(in_words)?;
        }
    }
    match traced.go_on(0).map_err(in_words)? {
        Stop::Exited(0) => {}
        other => return Err(format!("it ended by {other:?}")),
    }
    let text = std::fs::read_to_string(&child.result).map_err(in_words)?;
    let mut lines = text.lines();
    let numbers: Vec<u64> = lines
        .next()
        .unwrap_or_default()
        .split(' ')
        .filter_map(|number| number.parse().ok())
        .collect();
    let &[is_open, before, after] = &numbers[..] else { return Err("it wrote no result".into()) };
    // A process that cannot learn which file a descriptor refers to does not close it: the
    // descriptor may belong to other code.
    let cannot_tell = fault.is_some_and(|fault| {
        let kinds = [libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx];
        fault.count > 1 && kinds.iter().any(|kind| *kind as u64 == fault.kind)
    });
    if before != after && !cannot_tell {
        return Err(format!("the number of open descriptors changed from {before} to {after}"));
    }
    let refused = lines
        .filter_map(|line| line.split_once('\t'))
        .map(|(key, error)| (key.to_string(), error.to_string()))
        .collect();
    Ok(Outcome { calls, met, is_open: is_open == 1, refused })
}

/// Whether a call creates a file without a name.
pub fn is_nameless(registers: &crate::tracer::Registers) -> bool {
    registers.orig_rax == libc::SYS_openat as u64
        && registers.rdx as i32 & libc::O_TMPFILE == libc::O_TMPFILE
}

/// A child that does what a scenario says, to be traced.
pub fn refused_child(path: &Path, result: &Path, scenario: Scenario) -> Command {
    let mut command = myself();
    let child = Child { path: path.into(), result: result.into(), scenario };
    add_arguments(&mut command, &child);
    command
}

fn add_arguments(command: &mut Command, child: &Child) {
    let value = child.scenario.to_possible_value().expect("no scenario is hidden");
    command.arg("refused").arg("--path").arg(&child.path).arg("--result").arg(&child.result);
    command.args(["--scenario", value.get_name()]);
}

/// The files that the scenarios start with.
struct Beginning {
    /// A closed cache with entries.
    closed: Vec<u8>,
    /// A cache that is emptied after a power cut, closed in order.
    clean: Vec<u8>,
    /// The cache `closed` with a lock of a dead process.
    left: Vec<u8>,
    /// The cache `closed` with a lock of a live process that has no liveness lock.
    held: Vec<u8>,
    lock_at: usize,
    /// Keeps the first slot of `held` in use by this process.
    _other: Cache,
}

/// The word of a held lock, see `docs/explanation/format.md`: the owner, and the check of owner and
/// place.
fn lock_word(file: &[u8], at: usize, owner: u64) -> u64 {
    let key = |index: usize| {
        let at = header::HASH_KEY as usize + index * 8;
        u64::from_ne_bytes(file[at..at + 8].try_into().expect("eight bytes"))
    };
    let check = (owner ^ (at as u64).rotate_left(32) ^ key(0)).wrapping_mul(key(1) | 1);
    check & !0xffff_ffff | owner
}

/// The configuration with which a scenario's cache is opened.
pub fn config_of(scenario: Scenario) -> Config {
    match scenario {
        Scenario::Discard => Config { after_power_cut: AfterPowerCut::Discard, ..config() },
        _ => config(),
    }
}

/// Creates a cache with entries that is emptied after a power cut, and closes it. Returns its
/// bytes.
pub fn clean_file(path: &Path) -> Result<Vec<u8>, String> {
    let cache = Cache::open(&Place::Path(path.into()), &config_of(Scenario::Discard))
        .map_err(|error| error.to_string())?;
    fill(&cache).map_err(|error| error.to_string())?;
    drop(cache);
    std::fs::read(path).map_err(|error| error.to_string())
}

impl Beginning {
    fn new(folder: &Folder) -> Result<Beginning, String> {
        let path = folder.file("beginning");
        let other =
            Cache::open(&Place::Path(path.clone()), &config()).map_err(|e| e.to_string())?;
        fill(&other).map_err(|error| error.to_string())?;
        let clean = clean_file(&folder.file("clean"))?;
        let mut held = std::fs::read(&path).map_err(|error| error.to_string())?;
        let geometry = Geometry::new(plan(SIZE_BYTES, 0)).map_err(|error| error.to_string())?;
        let slot_at = geometry.process_at(0) as usize;
        let lock_at = (geometry.shard_at(0) + shard::LOCK) as usize;
        let mut closed = held.clone();
        closed[slot_at + process::STATE as usize + 4] &= !1;
        let mut incarnation = [0; 4];
        incarnation.copy_from_slice(&held[slot_at..slot_at + 4]);
        let owner = u64::from(u32::from_ne_bytes(incarnation) << 12 | 1);
        let held_word = lock_word(&held, lock_at, owner);
        held[lock_at..lock_at + 8].copy_from_slice(&held_word.to_ne_bytes());
        let mut left = held.clone();
        left[slot_at + process::START_TICKS as usize + 7] = 0x40;
        Ok(Beginning { closed, clean, left, held, lock_at, _other: other })
    }

    fn of(&self, scenario: Scenario) -> Option<&[u8]> {
        match scenario {
            Scenario::Create | Scenario::CreateNamed | Scenario::Private => None,
            Scenario::Open => Some(&self.closed),
            Scenario::Discard => Some(&self.clean),
            Scenario::Heir => Some(&self.left),
            Scenario::Waiter => Some(&self.held),
        }
    }
}

/// Runs one child with one fault, and judges what it left.
fn try_fault(
    beginning: &Beginning,
    folder: &Path,
    scenario: Scenario,
    fault: Option<Fault>,
) -> Result<Outcome, String> {
    let in_words = |error: io::Error| error.to_string();
    std::fs::create_dir_all(folder).map_err(in_words)?;
    let path = folder.join("cache");
    if let Some(bytes) = beginning.of(scenario) {
        std::fs::write(&path, bytes).map_err(in_words)?;
    }
    let child = Child { path: path.clone(), result: folder.join("result"), scenario };
    let outcome = run_child(&child, fault)?;
    let left: Vec<_> = std::fs::read_dir(folder)
        .map_err(in_words)?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "cache" && name != "result")
        .collect();
    let keeps_names = fault.is_some_and(|fault| fault.kind == libc::SYS_unlink as u64);
    if !left.is_empty() && !keeps_names {
        return Err(format!("{left:?} was left behind"));
    }
    let cannot_grow = fault.is_some_and(|fault| fault.lacks_fallocate());
    if cannot_grow && outcome.is_open {
        return Err("it opened a cache that cannot grow".into());
    }
    let may_evict = fault.is_some_and(|fault| fault.is_about_length());
    judge(beginning, &path, scenario, &outcome, may_evict)?;
    std::fs::remove_dir_all(folder).map_err(in_words)?;
    Ok(outcome)
}

fn judge(
    beginning: &Beginning,
    path: &Path,
    scenario: Scenario,
    outcome: &Outcome,
    may_evict: bool,
) -> Result<(), String> {
    if scenario == Scenario::Private {
        return Ok(());
    }
    if !path.exists() {
        let may_be = beginning.of(scenario).is_none() && !outcome.is_open;
        return if may_be { Ok(()) } else { Err("the file is gone".into()) };
    }
    if scenario == Scenario::Waiter {
        let mut bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        let at = beginning.lock_at;
        // Ignores the bit that a sleeping waiter sets.
        bytes[at + 3] &= 0x7f;
        if bytes[at..at + 8] != beginning.held[at..at + 8] {
            return Err("the lock of a live process was taken from it".into());
        }
        // Replaces the owner by a dead one, so that the rest is judged as in other scenarios.
        let began = beginning.left.iter().zip(&beginning.held).position(|(a, b)| a != b);
        if let Some(began) = began {
            bytes[began] = beginning.left[began];
        }
        std::fs::write(path, &bytes).map_err(|error| error.to_string())?;
    }
    // A second row would belong to another boot or time namespace.
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let rows = &bytes[header::CLOCK_NEXT as usize..][..8];
    if rows != [1, 0, 0, 0, 0, 0, 0, 0] && outcome.is_open {
        return Err(format!("the number of clock rows is {rows:?}"));
    }
    let patient = Config { lock_limit: Duration::from_secs(2), ..config() };
    let cache = Cache::open(&Place::Path(path.into()), &patient)
        .map_err(|error| format!("it does not open afterwards: {error}"))?;
    let report = cache.check().map_err(|error| format!("check is refused: {error}"))?;
    if !report.is_sound() {
        return Err(format!("not sound: {:?}", report.findings));
    }
    let mut buffer = Buffer::new();
    let evictions = if may_evict { cache.stats().evictions } else { 0 };
    let mut missing = 0;
    let mut lacks = |key: &str, version: usize| {
        let value = value_of(key, version);
        let entry = cache.get(key.as_bytes(), &mut buffer).ok().flatten();
        missing += u64::from(entry.is_none());
        entry.map_or(missing > evictions, |entry| entry.value != Value::bytes(&value))
    };
    if beginning.of(scenario).is_some() {
        for key in (0..EARLIER).map(earlier) {
            if lacks(&key, 0) {
                return Err(format!("{key} is missing, and {evictions} entries were evicted"));
            }
        }
    }
    if !outcome.is_open {
        return Ok(());
    }
    // Demands that every operation that was not refused was done.
    let is_done = |key: &str| !outcome.refused.contains_key(key);
    let stored = ["new", "other", "added", "replaced", "compared"];
    let was_there = beginning.of(scenario).is_some();
    let growth = (0..GROWTH).map(|number| format!("growth/{number}"));
    for key in stored.iter().map(|key| key.to_string()).chain(growth) {
        let needs_one = key == "replaced" || key == "compared";
        if is_done(&key) && (was_there || !needs_one) && lacks(&key, 1) {
            return Err(format!(
                "{key} was stored but is missing, and {evictions} entries were evicted"
            ));
        }
    }
    for key in ["deleted", "popped"] {
        if is_done(key) && cache.contains(key.as_bytes(), &mut buffer).unwrap_or(true) {
            return Err(format!("{key} was removed but is present"));
        }
    }
    let counted = cache.get(b"counted", &mut buffer).ok().flatten().map(|entry| entry.value);
    let may_be = counted == Some(Value::Int(9)) || (counted.is_none() && evictions > 0);
    if is_done("counted") && !may_be {
        return Err("the counter is missing".into());
    }
    Ok(())
}

/// Runs `torture calls`.
pub fn run(arguments: &Arguments) -> ExitCode {
    let folder = Folder::new(None);
    let _watchdog = Watchdog::new("torture calls", Duration::from_secs(1800));
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut report = Report::new("calls");
    report.figure("seed", seed);
    let beginning = match Beginning::new(&folder) {
        Ok(beginning) => beginning,
        Err(error) => {
            report.fail(format!("the scenario could not be prepared: {error}"));
            return report.finish();
        }
    };
    let scenarios = match &arguments.scenarios[..] {
        [] => Scenario::value_variants(),
        some => some,
    };
    let mut cases: Vec<(Scenario, Fault)> = Vec::new();
    let mut kinds = std::collections::BTreeSet::new();
    for scenario in scenarios {
        match try_fault(&beginning, &folder.file("sound"), *scenario, None) {
            Ok(outcome) => {
                let expected = *scenario == Scenario::Waiter;
                report.expect(outcome.is_open && outcome.refused.is_empty() != expected, || {
                    format!("{scenario:?} without a fault: {:?}", outcome.refused)
                });
                for (kind, count) in outcome.calls {
                    kinds.insert(name_of(kind));
                    cases.extend(faults(kind, count).map(|fault| (*scenario, fault)));
                }
            }
            Err(error) => report.fail(format!("{scenario:?} without a fault: {error}")),
        }
    }
    report.figure("faults_possible", cases.len());
    let mut random = fastrand::Rng::with_seed(seed);
    cases.retain(|_| random.usize(..arguments.one_in.max(1)) == 0);
    let next = AtomicUsize::new(0);
    let results = Mutex::new((Vec::new(), 0u64, 0u64));
    std::thread::scope(|scope| {
        for job in 0..arguments.jobs.max(1) {
            let (folder, beginning, cases) = (&folder, &beginning, &cases);
            let (next, results) = (&next, &results);
            scope.spawn(move || {
                while let Some((scenario, fault)) = cases.get(next.fetch_add(1, SeqCst)) {
                    let here = folder.file(&format!("job-{job}"));
                    let _ = std::fs::remove_dir_all(&here);
                    let result = try_fault(beginning, &here, *scenario, Some(*fault));
                    let mut results = results.lock().unwrap_or_else(|broken| broken.into_inner());
                    match result {
                        Ok(outcome) => {
                            results.1 += outcome.met;
                            results.2 += u64::from(!outcome.refused.is_empty());
                        }
                        Err(error) => {
                            results.0.push(format!("{}: {error}", fault.name(*scenario)));
                        }
                    }
                }
            });
        }
    });
    let (failures, met, refusals) =
        results.into_inner().unwrap_or_else(|broken| broken.into_inner());
    failures.iter().for_each(|failure| report.fail(failure));
    report.figure("calls_failed", met);
    report.figure("cases_with_errors", refusals);
    report.figure("kinds", kinds.into_iter().collect::<Vec<_>>().join(" "));
    report.expect(met >= cases.len() as u64 * 9 / 10, || {
        format!("only {met} of {} faults occurred", cases.len())
    });
    report.trials(cases.len() as u64, "faults");
    report.finish()
}

/// The faults of a kind: each call fails once in each way, all calls fail, and each call is
/// interrupted many times.
fn faults(kind: Kind, count: u64) -> impl Iterator<Item = Fault> {
    let is_optional = kind == libc::SYS_fallocate as u64;
    let errors = if is_optional { ERRORS.len() } else { ERRORS_OF_ALL };
    let single = (0..count)
        .flat_map(move |from| (0..errors).map(move |error| Fault { kind, from, count: 1, error }));
    let lasting = (0..count).flat_map(move |from| {
        (0..errors).map(move |error| {
            let is_storm = ERRORS[error].0 == libc::EINTR;
            Fault { kind, from, count: if is_storm { STORM } else { CALLS_MOST }, error }
        })
    });
    single.chain(lasting)
}
