//! `torture resize`: processes write and read while one or two resize the file again and again, and
//! are stopped or killed in the middle. A writer is stopped across resizes, too. Every write that
//! returned must be there, and no read may return a value that was replaced before it began.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tuckbox_engine::{Buffer, Changes, Config, Favour, Handle, Place, Result, Rights, Ttl, Value};
use tuckbox_testkit::process::Worker;
use tuckbox_testkit::shared::SharedWords;
use tuckbox_testkit::watchdog::Watchdog;

use crate::place::Folder;
use crate::report::Report;
use crate::worker::myself;

/// The arguments of `torture resize`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// How many resizing processes are killed.
    #[arg(long, default_value_t = 200)]
    pub kills: u64,
    /// The seed of the random choices.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Answers wrongly, as a negative control: every read misses.
    #[arg(long)]
    pub lie_miss: bool,
}

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Stores numbers under keys of its own, and counts.
    Writer,
    /// Reads what the writers store.
    Reader,
    /// The same with a read-only handle.
    ReadOnly,
    /// Resizes the file.
    Resizer,
}

/// The command line of a child.
#[derive(Debug, Clone, clap::Args)]
pub struct Child {
    /// The cache file. The board is next to it.
    #[arg(long)]
    pub path: PathBuf,
    /// What it does.
    #[arg(long, value_enum)]
    pub part: Part,
    /// Which of the writers it is; for others the seed.
    #[arg(long)]
    pub number: u64,
    /// The named point at which it dies.
    #[arg(long)]
    pub dies_at: Option<String>,
    /// Reads miss.
    #[arg(long)]
    pub lie_miss: bool,
}

const WRITERS: u64 = 2;
const KEYS: u64 = 48;
/// The sizes in turn. Everything that is stored fits into each.
const SIZES: [u64; 3] = [1 << 20, 2 << 20, 4 << 20];
/// Values are padded to at most this length.
const PADDING: usize = 1500;
/// A read that finds nothing is repeated for this long: a successor may be about to take the name.
const MISS_LIMIT: Duration = Duration::from_secs(20);
const POINTS: [&str; 6] = [
    "SuccessorComplete",
    "EntriesHidden",
    "SuccessorNamed",
    "NameTaken",
    "NameUnsynced",
    "GrowthBegun",
];

/// Words of the board.
#[derive(Clone, Copy)]
enum Word {
    Stop,
    Writes,
    Hits,
    Misses,
    Resizes,
    Wrong,
    Count,
}

/// What the processes share: the flags above and, for each key, the number that a writer began to
/// store and the one whose write has returned.
struct Board(SharedWords);

impl Board {
    fn create(path: &Path) -> Board {
        let count = Word::Count as usize + (WRITERS * KEYS * 2) as usize;
        Board(SharedWords::create(&path.with_extension("board"), count).expect("a new file"))
    }

    fn open(path: &Path) -> Board {
        Board(SharedWords::open(&path.with_extension("board")).expect("the supervisor made it"))
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        self.0.word(word as usize)
    }

    fn begun(&self, writer: u64, key: u64) -> &AtomicU64 {
        self.0.word(Word::Count as usize + ((writer * KEYS + key) * 2) as usize)
    }

    fn returned(&self, writer: u64, key: u64) -> &AtomicU64 {
        self.0.word(Word::Count as usize + ((writer * KEYS + key) * 2 + 1) as usize)
    }

    fn count(&self, word: Word) {
        self.word(word).fetch_add(1, SeqCst);
    }

    fn wrong(&self, what: &str) {
        self.count(Word::Wrong);
        eprintln!("  wrong: {what}");
    }

    fn is_stopped(&self) -> bool {
        self.word(Word::Stop).load(SeqCst) != 0
    }
}

fn open(path: &Path, read_only: bool) -> Result<Handle> {
    let rights = Rights { read_only, ..Rights::default() };
    // A writer waits for the copy.
    let lock_limit = Duration::from_secs(20);
    let config = Config { size_bytes: SIZES[0], rights, lock_limit, ..Config::default() };
    Ok(Handle::open(Place::Path(path.into()), config)?.0)
}

fn key_of(writer: u64, key: u64) -> Vec<u8> {
    format!("{writer}:{key}").into_bytes()
}

fn value_of(writer: u64, key: u64, number: u64) -> Vec<u8> {
    let padding = (number.wrapping_mul(0x9e37_79b9) % PADDING as u64) as usize;
    let mut value = format!("{writer}:{key}:{number};").into_bytes();
    value.resize(value.len() + padding, b'.');
    value
}

/// The number in a value; none if no writer stored this value under this key.
fn number_in(value: Value<'_>, writer: u64, key: u64) -> Option<u64> {
    let Value::Bytes { bytes, .. } = value else { return None };
    let text = std::str::from_utf8(bytes).ok()?.split(';').next()?;
    let number = text.strip_prefix(&format!("{writer}:{key}:"))?.parse().ok()?;
    (value_of(writer, key, number) == bytes).then_some(number)
}

/// Reads a key until it is found. What was stored must be at least what had been returned before.
fn look(cache: &Handle, board: &Board, writer: u64, key: u64, buffer: &mut Buffer, lie: bool) {
    let began = Instant::now();
    loop {
        let least = board.returned(writer, key).load(SeqCst);
        let found = match cache.get(&key_of(writer, key), buffer) {
            Ok(found) => found.filter(|_| !lie),
            Err(error) => return board.wrong(&format!("a read: {error}")),
        };
        let most = board.begun(writer, key).load(SeqCst);
        if let Some(entry) = found {
            board.count(Word::Hits);
            match number_in(entry.value, writer, key) {
                Some(number) if (least..=most).contains(&number) => {}
                Some(number) => {
                    board.wrong(&format!("{writer}:{key} was {number}, not {least} to {most}"));
                }
                None => board.wrong(&format!("{writer}:{key} has another key's value")),
            }
            return;
        }
        if least == 0 {
            return;
        }
        board.count(Word::Misses);
        if began.elapsed() > MISS_LIMIT {
            return board.wrong(&format!("{writer}:{key} is lost; it was {least}"));
        }
    }
}

/// Plays a part.
pub fn play(child: &Child) -> ExitCode {
    let board = Board::open(&child.path);
    let cache = match open(&child.path, child.part == Part::ReadOnly) {
        Ok(cache) => cache,
        Err(error) => {
            board.wrong(&format!("{:?}: open: {error}", child.part));
            return ExitCode::FAILURE;
        }
    };
    let mut random = fastrand::Rng::with_seed(child.number);
    let mut buffer = Buffer::new();
    match child.part {
        Part::Writer => write(&cache, &board, child.number, child.lie_miss),
        Part::Reader | Part::ReadOnly => {
            while !board.is_stopped() {
                let (writer, key) = (random.u64(..WRITERS), random.u64(..KEYS));
                look(&cache, &board, writer, key, &mut buffer, child.lie_miss);
            }
        }
        Part::Resizer => {
            die_at(child.dies_at.clone());
            for number in random.usize(..SIZES.len()).. {
                let changes = Changes {
                    size_bytes: Some(SIZES[number % SIZES.len()]),
                    max_entries: Some(number as u64 % 2 * 1_000_000),
                    favour: Some([Favour::Balanced, Favour::Hits][number % 2]),
                };
                match cache.resize(changes) {
                    Ok(()) => board.count(Word::Resizes),
                    Err(error) => board.wrong(&format!("resize: {error}")),
                }
                if board.is_stopped() {
                    break;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

fn write(cache: &Handle, board: &Board, writer: u64, lie: bool) {
    let mut random = fastrand::Rng::with_seed(writer);
    let (mut buffer, mut count) = (Buffer::new(), 0);
    let counter = format!("counter {writer}").into_bytes();
    while !board.is_stopped() {
        let key = random.u64(..KEYS);
        let number = board.begun(writer, key).fetch_add(1, SeqCst) + 1;
        let value = value_of(writer, key, number);
        if let Err(error) = cache.set(&key_of(writer, key), Value::bytes(&value), Ttl::Never) {
            board.wrong(&format!("a write: {error}"));
            continue;
        }
        board.returned(writer, key).store(number, SeqCst);
        board.count(Word::Writes);
        look(cache, board, writer, key, &mut buffer, lie);
        count += 1;
        match cache.incr(&counter, 1, Some(0), Ttl::Never) {
            Ok(Some(sum)) if sum == count => {}
            other => {
                board.wrong(&format!("counter {writer} is {other:?}, not {count}"));
                count = other.ok().flatten().unwrap_or(count);
            }
        }
    }
}

/// Kills this process at a named point.
fn die_at(point: Option<String>) {
    let Some(point) = point else { return };
    crate::points::require("to die at a named point");
    #[cfg(feature = "points")]
    tuckbox_arena::hooks::set(move |reached| {
        if format!("{reached:?}") == point {
            tuckbox_testkit::process::signal_myself(libc::SIGKILL);
        }
    });
    #[cfg(not(feature = "points"))]
    drop(point);
}

fn start(path: &Path, part: Part, number: u64, dies_at: Option<&str>, lie: bool) -> Worker {
    let mut command = myself();
    let name = part.to_possible_value().expect("no part is hidden");
    command.arg("resizing").arg("--path").arg(path).args(["--part", name.get_name()]);
    command.args(["--number", &number.to_string()]);
    if let Some(point) = dies_at {
        command.args(["--dies-at", point]);
    }
    if lie {
        command.arg("--lie-miss");
    }
    Worker::start(&mut command).expect("this program can be run again")
}

/// Runs `torture resize`.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::new("resize");
    let _watchdog = Watchdog::new("torture resize", Duration::from_secs(60 + arguments.kills / 2));
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    report.figure("seed", seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = Folder::new(None);
    let path = folder.file("cache.tuck");
    let board = Board::create(&path);
    let cache = open(&path, false).expect("the first handle");
    let lie = arguments.lie_miss;
    let mut workers: Vec<Worker> = (0..WRITERS)
        .map(|writer| start(&path, Part::Writer, writer, None, lie))
        .chain([Part::Reader, Part::ReadOnly].map(|part| start(&path, part, seed, None, lie)))
        .collect();
    let (mut by_point, mut killed) = (0, 0);
    for round in 0..arguments.kills {
        let at_point = crate::points::ARE_BUILT && random.bool();
        let point = at_point.then(|| POINTS[round as usize % POINTS.len()]);
        // A writer that is stopped, perhaps in the middle of a write, across whole resizes.
        let mut stopped = match random.u8(..4) {
            0 => workers.get_mut(random.usize(..WRITERS as usize)),
            _ => None,
        };
        stopped.iter_mut().for_each(|writer| writer.signal(libc::SIGSTOP));
        let mut resizer = start(&path, Part::Resizer, random.u64(..), point, lie);
        let mut rival =
            random.bool().then(|| start(&path, Part::Resizer, random.u64(..), None, lie));
        // Without a point, at a random moment: a resize takes about as long as the others.
        let limit = Duration::from_micros(random.u64(2_000..40_000));
        match point {
            Some(_) => by_point += u64::from(resizer.wait(Duration::from_millis(500)).is_some()),
            None => {
                std::thread::sleep(limit);
                resizer.signal(libc::SIGSTOP);
                std::thread::sleep(limit / 4);
                resizer.signal(libc::SIGCONT);
                std::thread::sleep(limit / 4);
            }
        }
        killed += u64::from(resizer.kill());
        killed += rival.as_mut().map_or(0, |rival| u64::from(rival.kill()));
        stopped.iter_mut().for_each(|writer| writer.signal(libc::SIGCONT));
        let mut buffer = Buffer::new();
        for writer in 0..WRITERS {
            for key in 0..KEYS {
                look(&cache, &board, writer, key, &mut buffer, false);
            }
        }
        if board.word(Word::Wrong).load(SeqCst) > 20 {
            break;
        }
    }
    board.word(Word::Stop).store(1, SeqCst);
    for worker in &mut workers {
        let status = worker.wait(Duration::from_secs(30));
        report.expect(status.is_some_and(|status| status.success()), || {
            format!("a worker ended with {status:?}")
        });
    }
    settle(&mut report, &cache, &board, &path);
    let load = |word: Word| board.word(word).load(SeqCst);
    report.figure("killed", killed);
    report.figure("killed_at_points", by_point);
    for (name, word) in [
        ("resizes", Word::Resizes),
        ("writes", Word::Writes),
        ("hits", Word::Hits),
        ("misses", Word::Misses),
        ("wrong", Word::Wrong),
    ] {
        report.figure(name, load(word));
    }
    report.expect(load(Word::Wrong) == 0, || format!("{} answers were wrong", load(Word::Wrong)));
    report.expect(load(Word::Hits) > 10 * arguments.kills, || "reads found almost nothing".into());
    report.expect(load(Word::Misses) * 50 < load(Word::Hits), || "too many reads missed".into());
    report.expect(load(Word::Resizes) > arguments.kills / 10, || "few resizes succeeded".into());
    report.trials(killed, "kills");
    report.finish()
}

/// One whole file is left, with everything in it.
fn settle(report: &mut Report, cache: &Handle, board: &Board, path: &Path) {
    // A last resize removes what a dead one has left.
    for size_bytes in [SIZES[1], SIZES[2]] {
        let changes = Changes { size_bytes: Some(size_bytes), ..Changes::default() };
        if let Err(error) = cache.resize(changes) {
            report.fail(format!("the last resize: {error}"));
        }
    }
    match cache.check() {
        Ok(found) => report.expect(found.is_sound(), || format!("not sound: {found:?}")),
        Err(error) => report.fail(format!("check: {error}")),
    }
    let stats = cache.stats();
    report.expect(stats.evictions == 0 && stats.lost_entries == 0, || {
        format!("{} entries were evicted, {} lost", stats.evictions, stats.lost_entries)
    });
    let fresh = match open(path, false) {
        Ok(fresh) => fresh,
        Err(error) => return report.fail(format!("it cannot be opened: {error}")),
    };
    let mut buffer = Buffer::new();
    for writer in 0..WRITERS {
        for key in 0..KEYS {
            look(&fresh, board, writer, key, &mut buffer, false);
        }
    }
    let folder = path.parent().expect("it is in a folder");
    let names: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".new"))
        .collect();
    report.expect(names.is_empty(), || format!("left behind: {names:?}"));
}
