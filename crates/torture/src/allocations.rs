//! `torture allocations`: makes the n-th allocation of an operation fail, once or from then on, for
//! every n up to the number of allocations of the operation.
//!
//! Each trial is a forked child on a file with entries. The promises (docs/reference/semantics.md):
//!
//! * a thread that has worked before and has a large enough buffer allocates nothing in an
//!   operation on an entry, so the operation cannot fail;
//! * another thread gets an error if it would have to allocate, and nothing has changed;
//! * a repair, check, scan or open may end the process. The cache is then sound for other
//!   processes, and no other entry is lost.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::Mutex;
use std::time::Duration;

use clap::Args;
use tuckbox_engine::{ArenaError, Buffer, Cache, Config, Error, Place, Ttl, Value};
use tuckbox_testkit::shared::SharedWords;
use tuckbox_testkit::stamp::{self, Stamp};

use crate::memory;
use crate::place::Folder;
use crate::report::Report;

/// Fails the n-th allocation of every operation, for every n.
#[derive(Args)]
pub struct Arguments {
    /// The highest n that is tried.
    #[arg(long, default_value_t = 200)]
    most: u64,
    /// The number of rounds, each with a cache of another size and fill.
    #[arg(long, default_value_t = 1)]
    rounds: u64,
    /// The seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const KEYS: u64 = 48;
/// The key that the operations change. Other keys must not be affected.
const OWN: u64 = 0;
const LARGE: u64 = 1;
const NUMBER: &[u8] = b"a number";
const LOCK_LIMIT: Duration = Duration::from_secs(5);
/// The exit status of a child.
const DONE: i32 = 0;
const NO_MEMORY: i32 = 10;
const REFUSED: i32 = 11;
const UNARMED: i32 = 12;
const PANICKED: i32 = 13;

/// The promise for an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// Allocates nothing in a thread that has worked before. In another thread, may return an
    /// error.
    AllocatesNothing,
    /// Allocates memory for the value. Returns an error if there is none.
    IsRefused,
    /// May end the process.
    MayEnd,
}

struct Operation {
    name: &'static str,
    promise: Promise,
    play: fn(&Stage<'_>) -> Result<(), Error>,
}

/// The inputs of an operation.
struct Stage<'a> {
    cache: &'a Cache,
    path: &'a Path,
    buffer: Mutex<Buffer>,
    values: &'a Values,
}

/// Values that are created before memory is short.
struct Values {
    same_size: Vec<u8>,
    longer: Vec<u8>,
    large: Vec<u8>,
    version: u64,
    own: Vec<u8>,
    large_key: Vec<u8>,
    absent: Vec<u8>,
}

fn ok<T>(_: T) {}

use Promise::{AllocatesNothing, IsRefused, MayEnd};

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "get",
        promise: AllocatesNothing,
        play: |at| at.cache.get(&at.values.own, &mut at.buffer.lock().unwrap()).map(ok),
    },
    Operation {
        name: "get a large value",
        promise: AllocatesNothing,
        play: |at| at.cache.get(&at.values.large_key, &mut at.buffer.lock().unwrap()).map(ok),
    },
    Operation {
        name: "get into an empty buffer",
        promise: IsRefused,
        play: |at| at.cache.get(&at.values.own, &mut Buffer::new()).map(ok),
    },
    Operation {
        name: "get a large value into an empty buffer",
        promise: IsRefused,
        play: |at| at.cache.get(&at.values.large_key, &mut Buffer::new()).map(ok),
    },
    Operation {
        name: "contains",
        promise: IsRefused,
        play: |at| at.cache.contains(&at.values.own, &mut Buffer::new()).map(ok),
    },
    Operation {
        name: "set in place",
        promise: AllocatesNothing,
        play: |at| at.cache.set(&at.values.own, Value::bytes(&at.values.same_size), Ttl::Never),
    },
    Operation {
        name: "many sets",
        promise: IsRefused,
        play: |at| {
            let own = |value| (at.values.own.as_slice(), Value::bytes(value));
            let (same_size, longer) = (own(&at.values.same_size), own(&at.values.longer));
            at.cache.set_each(&[same_size, same_size, longer, longer, same_size], Ttl::Never)
        },
    },
    Operation {
        name: "set of another size",
        promise: AllocatesNothing,
        play: |at| at.cache.set(&at.values.own, Value::bytes(&at.values.longer), Ttl::Never),
    },
    Operation {
        name: "set of many, which evict",
        promise: AllocatesNothing,
        play: |at| {
            (0u64..400).try_for_each(|number| {
                let key = [b"filler: ", &number.to_le_bytes()[..]];
                let mut name = [0u8; 16];
                name[..8].copy_from_slice(key[0]);
                name[8..].copy_from_slice(key[1]);
                let len = 100 + (number as usize * 37) % 400;
                at.cache.set(&name, Value::bytes(&at.values.large[..len]), Ttl::Never)
            })
        },
    },
    Operation {
        name: "set of a large value",
        promise: IsRefused,
        play: |at| at.cache.set(&at.values.large_key, Value::bytes(&at.values.large), Ttl::Never),
    },
    Operation {
        name: "add",
        promise: AllocatesNothing,
        play: |at| {
            at.cache
                .add(&at.values.absent, Value::bytes(&at.values.longer), Ttl::Us(1 << 40))
                .map(ok)
        },
    },
    Operation {
        name: "replace",
        promise: AllocatesNothing,
        play: |at| {
            at.cache.replace(&at.values.own, Value::bytes(&at.values.longer), Ttl::Never).map(ok)
        },
    },
    Operation {
        name: "compare and set",
        promise: AllocatesNothing,
        play: |at| {
            let value = Value::bytes(&at.values.same_size);
            let version = at.values.version;
            at.cache.compare_and_set(&at.values.own, value, Ttl::Never, version).map(ok)
        },
    },
    Operation {
        name: "delete",
        promise: AllocatesNothing,
        play: |at| at.cache.delete(&at.values.own).map(ok),
    },
    Operation {
        name: "delete a large value",
        promise: AllocatesNothing,
        play: |at| at.cache.delete(&at.values.large_key).map(ok),
    },
    Operation {
        name: "pop",
        promise: AllocatesNothing,
        play: |at| at.cache.pop(&at.values.own, &mut at.buffer.lock().unwrap()).map(ok),
    },
    Operation {
        name: "pop into an empty buffer",
        promise: IsRefused,
        play: |at| at.cache.pop(&at.values.large_key, &mut Buffer::new()).map(ok),
    },
    Operation {
        name: "touch",
        promise: AllocatesNothing,
        play: |at| at.cache.touch(&at.values.own, Ttl::Us(1 << 40)).map(ok),
    },
    Operation {
        name: "incr",
        promise: AllocatesNothing,
        play: |at| at.cache.incr(NUMBER, 1, None, Ttl::Never).map(ok),
    },
    Operation {
        name: "incr of a new number",
        promise: AllocatesNothing,
        play: |at| at.cache.incr(&at.values.absent, 1, Some(0), Ttl::Never).map(ok),
    },
    Operation { name: "expire", promise: AllocatesNothing, play: |at| at.cache.expire().map(ok) },
    Operation {
        name: "len and stats",
        promise: AllocatesNothing,
        play: |at| {
            assert!(at.cache.len() <= at.cache.stats().entries);
            Ok(())
        },
    },
    Operation { name: "check", promise: MayEnd, play: |at| at.cache.check().map(ok) },
    Operation {
        name: "scan",
        promise: MayEnd,
        play: |at| {
            let (mut walk, mut buffer) = (at.cache.scan(), Buffer::new());
            while walk.next(&mut buffer)?.is_some() {}
            Ok(())
        },
    },
    Operation { name: "open", promise: MayEnd, play: |at| open(at.path).map(ok) },
    Operation {
        name: "make a cache",
        promise: MayEnd,
        play: |at| {
            let made = at.path.with_extension("made");
            let config = Config { size_bytes: 1 << 20, ..Config::default() };
            Cache::open(&Place::Path(made), &config).map(ok)
        },
    },
    Operation { name: "clear", promise: MayEnd, play: |at| at.cache.clear().map(ok) },
];

fn open(path: &Path) -> Result<Cache, Error> {
    let config = Config { size_bytes: 1 << 20, lock_limit: LOCK_LIMIT, ..Config::default() };
    Cache::open(&Place::Path(path.into()), &config)
}

fn name(key: u64) -> Vec<u8> {
    format!("key {key:08}").into_bytes()
}

fn stamped(key: u64, sequence: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    stamp::make(&name(key), Stamp { writer: 0, sequence }, len, &mut value);
    value
}

fn len_of(key: u64) -> usize {
    match key {
        LARGE => 60_000,
        key => 100 + (key as usize * 53) % 700,
    }
}

/// Stores the entries that each trial starts with. Returns the version of the entry `OWN`.
fn prepare(cache: &Cache) -> Result<u64, Error> {
    for key in 0..KEYS {
        cache.set(&name(key), Value::bytes(&stamped(key, 1, len_of(key))), Ttl::Never)?;
    }
    cache.set(NUMBER, Value::Int(1), Ttl::Never)?;
    cache.delete(&name(KEYS))?;
    let mut buffer = Buffer::new();
    Ok(cache.get(&name(OWN), &mut buffer)?.expect("it was just stored").version)
}

/// How a child ended, and how many allocations it requested.
struct Ended {
    status: i32,
    asked: u64,
}

impl Ended {
    fn code(&self) -> Option<i32> {
        libc::WIFEXITED(self.status).then(|| libc::WEXITSTATUS(self.status))
    }
}

/// Runs an operation in a forked child whose n-th allocation fails.
fn play(
    operation: &Operation,
    stage: &Stage<'_>,
    asked: &SharedWords,
    is_warm: bool,
    fail_at: u64,
    fails_on: bool,
) -> Ended {
    // SAFETY: this program has one thread, so the child misses none.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        let status = in_child(operation, stage, asked, is_warm, fail_at, fails_on);
        // SAFETY: ends this process without the exit handlers of its parent.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: waits for the child; the status outlives the call.
    unsafe { libc::waitpid(child, &mut status, 0) };
    Ended { status, asked: asked.word(0).load(Ordering::SeqCst) }
}

fn in_child(
    operation: &Operation,
    stage: &Stage<'_>,
    asked: &SharedWords,
    is_warm: bool,
    fail_at: u64,
    fails_on: bool,
) -> i32 {
    silence();
    // The first operation takes a process slot. That is not tested here.
    if stage.cache.contains(b"nothing", &mut Buffer::new()).is_err() {
        return UNARMED;
    }
    let armed = || {
        memory::begin_to_refuse(fail_at, fails_on);
        let result = (operation.play)(stage);
        asked.word(0).store(memory::end_to_refuse(), Ordering::SeqCst);
        match result {
            Ok(()) => DONE,
            Err(Error::OutOfMemory { .. }) => NO_MEMORY,
            // The standard library reports this if it has no memory to read a system file.
            Err(Error::Arena(ArenaError::Io { source, .. }))
                if source.kind() == std::io::ErrorKind::OutOfMemory =>
            {
                NO_MEMORY
            }
            Err(_) => REFUSED,
        }
    };
    if is_warm {
        warm_up(stage);
        return armed();
    }
    // A new thread has no buffers yet. The thread that forked has those of its parent.
    std::thread::scope(|scope| scope.spawn(armed).join().unwrap_or(PANICKED))
}

/// Suppresses error output and core dumps of processes that end for lack of memory.
fn silence() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: opens a file and duplicates it to standard error; the arguments are constant or
    // outlive the calls.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
        libc::dup2(nowhere, 2);
    }
}

/// Does what a thread does that has worked before, so that its own memory has its final size.
fn warm_up(stage: &Stage<'_>) {
    let key = b"a key to warm up with";
    let mut buffer = stage.buffer.lock().unwrap();
    for len in [10, 5_000, 60_000] {
        let value = Value::bytes(&stage.values.large[..len]);
        stage.cache.set(key, value, Ttl::Never).unwrap();
        stage.cache.get(key, &mut buffer).unwrap();
    }
    stage.cache.pop(key, &mut buffer).unwrap();
}

/// Judges what other processes find. The cache must be sound and all other entries there and whole.
/// Entries that the operation changes must be whole or missing.
fn judge(cache: &Cache, may_evict: bool, may_clear: bool) -> Result<u64, String> {
    let before = cache.stats();
    let report = cache.check().map_err(|error| format!("check answers {error}"))?;
    if report.damaged_entries > 0 {
        return Err(format!("entries are damaged: {report:?}"));
    }
    if !report.is_sound() {
        let again = cache.check().map_err(|error| format!("check answers {error}"))?;
        if !again.is_sound() {
            return Err(format!("the cache is not sound after check repaired it: {again:?}"));
        }
    }
    let mut buffer = Buffer::new();
    let mut missing = 0;
    for key in 0..KEYS {
        let name = name(key);
        match cache.get(&name, &mut buffer).map_err(|error| error.to_string())? {
            Some(entry) => {
                let Value::Bytes { bytes, .. } = entry.value else {
                    return Err(format!("key {key} has become a number"));
                };
                stamp::read(&name, bytes).map_err(|forgery| format!("key {key}: {forgery:?}"))?;
            }
            None if key == OWN || key == LARGE || may_clear => {}
            None => missing += 1,
        }
    }
    if missing > 0 && !may_evict {
        return Err(format!("{missing} entries that nobody touched are gone"));
    }
    if cache.stats().checksum_mismatches != before.checksum_mismatches {
        return Err("a read met a wrong checksum".into());
    }
    Ok(u64::from(!report.is_sound()))
}

/// Runs `torture allocations`.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::new("allocations");
    let folder = Folder::new(None);
    let asked = SharedWords::create(&folder.file("asked"), 1).expect("a file of one word");
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let (mut trials, mut ended, mut refused, mut mended) = (0u64, 0u64, 0u64, 0u64);
    let mut most_asked = serde_json::Map::new();
    'rounds: for round in 0..arguments.rounds {
        let path = folder.file(&format!("cache-{round}"));
        let cache = open(&path).expect("a cache can be made");
        // From an empty file to one in which every write has to evict.
        let fill = if round % 2 == 0 { 0 } else { random.u64(100..6_000) };
        for number in 0..fill {
            let value = [7; 300];
            cache.set(&number.to_le_bytes(), Value::bytes(&value), Ttl::Never).unwrap();
        }
        for operation in OPERATIONS {
            let mut most = 0;
            let ways: &[(bool, bool)] = match operation.promise {
                // Such an operation ends the process in either case.
                MayEnd => &[(false, false)],
                _ => &[(true, false), (false, false), (false, true)],
            };
            for &(is_warm, fails_on) in ways {
                for fail_at in 1..=arguments.most {
                    let version = match prepare(&cache) {
                        Ok(version) => version,
                        Err(error) => {
                            report.fail(format!("before {}: {error}", operation.name));
                            break 'rounds;
                        }
                    };
                    let stage = Stage {
                        cache: &cache,
                        path: &path,
                        buffer: Mutex::default(),
                        values: &Values::new(version),
                    };
                    asked.word(0).store(u64::MAX, Ordering::SeqCst);
                    let end = play(operation, &stage, &asked, is_warm, fail_at, fails_on);
                    trials += 1;
                    let what = || {
                        let (name, warm) = (operation.name, if is_warm { "warm" } else { "cold" });
                        let on = if fails_on { " and all after it" } else { "" };
                        format!("{name}, in a {warm} thread, allocation {fail_at}{on}")
                    };
                    let _ = std::fs::remove_file(path.with_extension("made"));
                    if is_warm && operation.promise == AllocatesNothing && end.asked != 0 {
                        report.fail(format!("{}: it allocated {} times", what(), end.asked));
                    }
                    match end.code() {
                        Some(DONE) => {}
                        Some(NO_MEMORY) => refused += 1,
                        _ if operation.promise == MayEnd && is_abort(end.status) => ended += 1,
                        _ => report.fail(format!("{}: it ended with {}", what(), end.status)),
                    }
                    let may_evict = fill > 0 || operation.name.contains("evict");
                    match judge(&cache, may_evict, operation.name == "clear") {
                        Ok(was_mended) => mended += was_mended,
                        Err(why) => report.fail(format!("{}: {why}", what())),
                    }
                    if end.asked != u64::MAX {
                        most = most.max(end.asked);
                        if end.asked < fail_at {
                            break;
                        }
                    }
                }
            }
            most_asked.insert(operation.name.into(), most.into());
        }
    }
    report.trials(trials, "operations with a failing allocation");
    report.figure("seed", arguments.seed);
    report.figure("operations", OPERATIONS.len());
    report.figure("refused_with_an_error", refused);
    report.figure("ended_the_process", ended);
    report.figure("mended_by_check", mended);
    report.figure("allocations_most", serde_json::Value::Object(most_asked));
    // A run in which nothing was refused, or no process ended, has tested nothing.
    report.expect(refused > 0, || "no operation was ever refused memory".into());
    report.expect(ended > 0, || "no process ended for lack of memory".into());
    report.finish()
}

/// Whether a process ended as Rust ends a program without memory.
fn is_abort(status: i32) -> bool {
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT
}

impl Values {
    fn new(version: u64) -> Values {
        Values {
            same_size: stamped(OWN, 2, len_of(OWN)),
            longer: stamped(OWN, 3, len_of(OWN) + 200),
            large: stamped(LARGE, 2, 70_000),
            version,
            own: name(OWN),
            large_key: name(LARGE),
            absent: name(KEYS),
        }
    }
}
