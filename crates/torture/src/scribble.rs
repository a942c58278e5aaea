//! `torture scribble`: writes random words and bits all over the mapping while processes use the
//! cache: tables, index, logs, lock words, clock, process slots.
//!
//! No process may crash, panic or hang, and no answer may be a value that was not stored. After the
//! last write, `check` makes the cache sound, and the cache works.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tuckbox_arena::layout::header;
use tuckbox_engine::{ArenaError, Buffer, Cache, Config, Error, Place, Ttl, Value};
use tuckbox_testkit::process::{describe_threads, ProcessorWait, Worker};
use tuckbox_testkit::specimen::{name, stamped};
use tuckbox_testkit::stamp;
use tuckbox_testkit::watchdog::Watchdog;

use crate::place::Folder;
use crate::report::Report;
use crate::worker::myself;

/// The arguments of `torture scribble`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// How long the writes go on.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Processes that use the cache.
    #[arg(long, default_value_t = 2)]
    pub victims: u64,
    /// The size limit of the file.
    #[arg(long, default_value_t = 1 << 20)]
    pub size_bytes: u64,
    /// The highest number of words written in a millisecond.
    #[arg(long, default_value_t = 3)]
    pub words_per_ms: u64,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Negative control: claims that nothing is ever found.
    #[arg(long)]
    pub lie_miss: bool,
    /// Uses the cache at this path, in a child of the supervisor.
    #[arg(long, hide = true)]
    pub victim: Option<PathBuf>,
}

const LOCK_LIMIT: Duration = Duration::from_millis(250);
/// A repair of a shard that is being scribbled on may have to start again. Only a hang is a
/// failure; the record has the duration of the slowest operation.
const OVERTIME: Duration = Duration::from_secs(5);
const KEYS: u64 = 600;
const NUMBER_STEP: i64 = 1_000_000;

/// Runs `torture scribble`.
pub fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.victim {
        Some(path) => run_victim(path, arguments),
        None => supervise(arguments),
    }
}

fn config(size_bytes: u64) -> Config {
    Config { size_bytes, lock_limit: LOCK_LIMIT, ..Config::default() }
}

fn number_name(key: u64) -> Vec<u8> {
    format!("number {key}").into_bytes()
}

/// A second mapping of the whole file.
struct Mapping {
    base: *mut u8,
    len_bytes: usize,
}

impl Mapping {
    fn new(path: &Path, len_bytes: u64) -> Mapping {
        let file =
            OpenOptions::new().read(true).write(true).open(path).expect("the cache is there");
        let len_bytes = len_bytes as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choosing.
        let base = unsafe {
            let (null, fd) = (std::ptr::null_mut(), file.as_raw_fd());
            libc::mmap(null, len_bytes, access, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(base, libc::MAP_FAILED, "the cache cannot be mapped");
        Mapping { base: base.cast(), len_bytes }
    }

    /// A word within the current length of the file.
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at % 8 == 0 && at as usize + 8 <= self.len_bytes);
        // SAFETY: aligned and within the mapping by the assertion; all users of the mapping use
        // atomics.
        unsafe { AtomicU64::from_ptr(self.base.add(at as usize).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it is left.
        unsafe { libc::munmap(self.base.cast(), self.len_bytes) };
    }
}

/// Writes one word. Half of the words go to the first 1/20 of the file, where the tables are.
fn scribble(mapping: &Mapping, len_bytes: u64, random: &mut fastrand::Rng) {
    let first = header::FIXED_END / 8;
    let words = len_bytes / 8;
    let place = |random: &mut fastrand::Rng| {
        let end = if random.bool() { (words / 20).max(first + 1) } else { words };
        random.u64(first..end) * 8
    };
    let at = place(random);
    let old = mapping.word(at).load(Ordering::Relaxed);
    let new = match random.u8(..6) {
        0 => random.u64(..),
        1 => old ^ 1 << random.u32(..64),
        2 => old.wrapping_add(random.u64(..64)).wrapping_sub(32),
        3 => mapping.word(place(random)).load(Ordering::Relaxed),
        4 => random.u64(..1 << 14),
        _ => (random.u64(..64) << 32) | (random.u64(..1 << 14) * 8),
    };
    mapping.word(at).store(new, Ordering::Relaxed);
}

fn supervise(arguments: &Arguments) -> ExitCode {
    let mut report = Report::new("scribble");
    let limit = Duration::from_secs_f64(arguments.seconds + 90.0);
    let _watchdog = Watchdog::new("torture scribble", limit);
    let folder = Folder::new(None);
    let path = folder.file("cache.tuck");
    let config = config(arguments.size_bytes);
    let cache = Cache::open(&Place::Path(path.clone()), &config).expect("a new cache");
    let mapping = Mapping::new(&path, arguments.size_bytes);
    let mut victims: Vec<Worker> = (0..arguments.victims)
        .map(|number| {
            let mut command = myself();
            command.arg("scribble").arg("--victim").arg(&path);
            command.arg("--seconds").arg((arguments.seconds + 0.5).to_string());
            command.arg("--seed").arg((arguments.seed + number).to_string());
            if arguments.lie_miss {
                command.arg("--lie-miss");
            }
            Worker::start(&mut command).expect("a victim")
        })
        .collect();
    // Waits until all victims have opened the cache: a later open may fail because of damage.
    let began = Instant::now();
    let ready = |number: u64| path.with_extension(format!("ready{number}")).exists();
    while !(0..arguments.victims).all(|number| ready(arguments.seed + number))
        && began.elapsed() < Duration::from_secs(30)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let (mut words, began) = (0u64, Instant::now());
    while began.elapsed().as_secs_f64() < arguments.seconds {
        let len_bytes = std::fs::metadata(&path).expect("it is there").len();
        for _ in 0..random.u64(0..=arguments.words_per_ms) {
            scribble(&mapping, len_bytes.min(arguments.size_bytes), &mut random);
            words += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    for (number, victim) in (arguments.seed..).zip(&mut victims) {
        match victim.wait(Duration::from_secs(20)) {
            Some(status) if status.success() => {}
            Some(status) => report.fail(format!("victim {number} ended with {status}")),
            None => {
                let threads = describe_threads(victim.id());
                report.fail(format!("victim {number} hangs: {threads}"));
                victim.kill();
            }
        }
        let text = std::fs::read_to_string(path.with_extension(format!("lines{number}")));
        for line in text.unwrap_or_default().lines() {
            match line.split_once(' ') {
                Some(("figure", rest)) => {
                    let (name, count) = rest.split_once(' ').expect("a name and a number");
                    report.figure(&format!("victim_{number}_{name}"), count.parse::<u64>().ok());
                }
                _ => report.fail(format!("victim {number}: {line}")),
            }
        }
    }
    settle(&mut report, &cache);
    report.figure("seed", arguments.seed);
    report.trials(words, "words scribbled");
    report.finish()
}

/// After the last scribble: demands that a check repairs everything and that the cache works.
fn settle(report: &mut Report, cache: &Cache) {
    let mut buffer = Buffer::new();
    let checked = cache.check().and_then(|first| Ok((first, cache.check()?)));
    match checked {
        Ok((first, second)) => {
            report.figure("lost_by_first_check", first.lost_entries);
            report.figure("leaked_by_first_check", first.leaked_segments);
            report.expect(second.is_sound(), || format!("not sound after a check: {second:?}"));
        }
        Err(error) => report.fail(format!("check: {error}")),
    }
    let (mut found, count) = (0, 500);
    for key in 0..count {
        let value = stamped(key, 77, 200);
        if let Err(error) = cache.set(&name(key), Value::bytes(&value), Ttl::Us(60_000_000)) {
            return report.fail(format!("a write afterwards: {error}"));
        }
        let read = cache.get(&name(key), &mut buffer).expect("a read");
        found += u64::from(read.is_some_and(|entry| entry.value == Value::bytes(&value)));
    }
    report.expect(found == count, || format!("{found} of {count} writes are found afterwards"));
    let sound = cache.check().map(|report| report.is_sound());
    report.expect(matches!(sound, Ok(true)), || format!("a last check: {sound:?}"));
}

/// One victim. It reports its findings in a file.
struct Victim<'a> {
    cache: &'a Cache,
    random: fastrand::Rng,
    buffer: Buffer,
    value: Vec<u8>,
    lines: Vec<String>,
    lies: bool,
    reads: u64,
    hits: u64,
    timeouts: u64,
    full: u64,
    wait: ProcessorWait,
    slowest: Duration,
}

/// When an operation began.
struct Began {
    at: Instant,
    waited_us: u64,
}

fn run_victim(path: &Path, arguments: &Arguments) -> ExitCode {
    let number = arguments.seed;
    let config = config(arguments.size_bytes);
    let cache = Cache::open(&Place::Path(path.into()), &config).expect("the cache is sound yet");
    std::fs::write(path.with_extension(format!("ready{number}")), "").expect("a file");
    let mut victim = Victim {
        cache: &cache,
        random: fastrand::Rng::with_seed(number),
        buffer: Buffer::new(),
        value: Vec::new(),
        lines: Vec::new(),
        lies: arguments.lie_miss,
        reads: 0,
        hits: 0,
        timeouts: 0,
        full: 0,
        wait: ProcessorWait::mine(),
        slowest: Duration::ZERO,
    };
    let (began, mut operations) = (Instant::now(), 0u64);
    let (mut rises, mut mismatches) = (0u64, cache.stats().checksum_mismatches);
    while began.elapsed().as_secs_f64() < arguments.seconds && victim.lines.len() < 20 {
        let began = victim.begin();
        if let Some(what) = victim.step() {
            victim.judge_time(what, &began);
        }
        operations += 1;
        if operations % 256 == 0 {
            // The counters are scribbled on, too. Only a small step is a real count.
            let now = cache.stats().checksum_mismatches;
            rises += u64::from((1..100_000).contains(&now.wrapping_sub(mismatches)));
            mismatches = now;
        }
    }
    if rises == 0 {
        victim.lines.push("the counter of mismatches never rose".into());
    }
    if victim.hits * 10 < victim.reads {
        let (hits, reads) = (victim.hits, victim.reads);
        victim.lines.push(format!("only {hits} of {reads} reads found anything"));
    }
    for (name, count) in [
        ("operations", operations),
        ("reads", victim.reads),
        ("hits", victim.hits),
        ("timeouts", victim.timeouts),
        ("full", victim.full),
        ("mismatch_rises", rises),
        ("slowest_us", victim.slowest.as_micros() as u64),
    ] {
        victim.lines.push(format!("figure {name} {count}"));
    }
    std::fs::write(path.with_extension(format!("lines{number}")), victim.lines.join("\n"))
        .expect("a file");
    ExitCode::SUCCESS
}

impl Victim<'_> {
    fn allow<T>(&mut self, what: &str, result: tuckbox_engine::Result<T>) -> Option<T> {
        match result {
            Ok(answer) => return Some(answer),
            Err(Error::Full { .. }) => self.full += 1,
            Err(Error::Arena(ArenaError::LockTimeout { .. })) => self.timeouts += 1,
            Err(error) => self.lines.push(format!("{what}: {error}")),
        }
        None
    }

    fn judge(&mut self, key: u64) {
        let name = name(key);
        let found = self.cache.get(&name, &mut self.buffer);
        let entry = match found {
            Ok(entry) => entry.filter(|_| !self.lies),
            Err(error) => return self.lines.push(format!("get: {error}")),
        };
        self.reads += 1;
        let Some(entry) = entry else { return };
        self.hits += 1;
        let wrong = match entry.value {
            Value::Bytes { bytes, tag: 0 } => stamp::read(&name, bytes).err(),
            _ => Some(stamp::StampError::Body),
        };
        if let Some(forgery) = wrong {
            self.lines.push(format!("key {key} has a wrong value: {forgery:?}"));
        }
    }

    fn judge_sum(&mut self, key: u64, sum: i64) {
        let least = key as i64 * NUMBER_STEP;
        if !(least..least + NUMBER_STEP).contains(&sum) {
            self.lines.push(format!("number {key} is {sum}"));
        }
    }

    fn begin(&self) -> Began {
        Began { at: Instant::now(), waited_us: self.wait.us() }
    }

    /// No operation may take much longer than the lock limit, not counting the time in which its
    /// thread had no processor.
    fn judge_time(&mut self, what: &str, began: &Began) {
        let idle = Duration::from_micros(self.wait.us() - began.waited_us);
        let took = began.at.elapsed().saturating_sub(idle);
        self.slowest = self.slowest.max(took);
        if took > LOCK_LIMIT + OVERTIME {
            self.lines.push(format!("{what} took {took:?}"));
        }
    }

    /// Does one step. Returns its name, unless the step has judged its operations itself.
    fn step(&mut self) -> Option<&'static str> {
        let cache = self.cache;
        let key = self.random.u64(..KEYS);
        let ttl = if self.random.u8(..4) == 0 { Ttl::Us(30_000_000) } else { Ttl::Never };
        let what = match self.random.u16(..1000) {
            0..550 => {
                self.judge(key);
                "get"
            }
            550..800 => {
                let len = match self.random.u8(..40) {
                    0 => self.random.usize(40_000..100_000),
                    1..4 => self.random.usize(2_000..20_000),
                    _ => self.random.usize(60..600),
                };
                let sequence = self.random.u64(..);
                self.value = stamped(key, sequence, len);
                let value = Value::bytes(&self.value);
                let result = match self.random.u8(..5) {
                    0 => cache.add(&name(key), value, ttl).map(drop),
                    1 => cache.replace(&name(key), value, ttl).map(drop),
                    2 => cache.compare_and_set(&name(key), value, ttl, sequence).map(drop),
                    _ => cache.set(&name(key), value, ttl),
                };
                self.allow("set", result);
                "set"
            }
            800..880 => {
                let initial = Some(key as i64 * NUMBER_STEP);
                let result = cache.incr(&number_name(key), 1, initial, ttl);
                if let Some(Some(sum)) = self.allow("incr", result) {
                    self.judge_sum(key, sum);
                }
                "incr"
            }
            880..920 => {
                let mut buffer = std::mem::take(&mut self.buffer);
                let found = cache.get(&number_name(key), &mut buffer);
                if let Ok(Some(entry)) = found {
                    match entry.value {
                        Value::Int(sum) => self.judge_sum(key, sum),
                        Value::Bytes { .. } => self.lines.push(format!("number {key} is bytes")),
                    }
                }
                self.buffer = buffer;
                "get of a number"
            }
            920..950 => {
                self.allow("touch", cache.touch(&name(key), ttl));
                "touch"
            }
            950..975 => {
                self.allow("delete", cache.delete(&name(key)));
                "delete"
            }
            975..985 => {
                let mut buffer = std::mem::take(&mut self.buffer);
                if let Some(Some(entry)) = self.allow("pop", cache.pop(&name(key), &mut buffer)) {
                    let whole = matches!(entry.value, Value::Bytes { bytes, .. }
                        if stamp::read(&name(key), bytes).is_ok());
                    if !whole {
                        self.lines.push(format!("key {key}: a wrong value was popped"));
                    }
                }
                self.buffer = buffer;
                "pop"
            }
            985..990 => {
                let mut scan = cache.scan();
                let mut buffer = std::mem::take(&mut self.buffer);
                let mut count = 0;
                loop {
                    let began = self.begin();
                    let next = self.allow("scan", scan.next(&mut buffer));
                    self.judge_time("a step of a scan", &began);
                    let Some(Some(item)) = next else { break };
                    count += 1;
                    let is_whole = match item.entry.value {
                        Value::Bytes { bytes, .. } => stamp::read(item.key, bytes).is_ok(),
                        Value::Int(_) => item.key.starts_with(b"number "),
                    };
                    if !is_whole || count > 100_000 {
                        self.lines.push("a scan met a wrong value, or does not end".into());
                        break;
                    }
                }
                self.buffer = buffer;
                return None;
            }
            990..994 => {
                self.allow("expire", cache.expire());
                "expire"
            }
            994..997 => {
                cache.stats();
                cache.len();
                "stats"
            }
            997..999 => {
                self.allow("check", cache.check().map(drop));
                "check"
            }
            _ => {
                if self.random.u8(..4) == 0 {
                    self.allow("clear", cache.clear().map(drop));
                }
                "clear"
            }
        };
        Some(what)
    }
}
