//! `torture matrix`: kills, stops and panics every operation in every state at every named point
//! that it reaches. Each point of the engine must be reached by some operation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use tuckbox_engine::{ArenaError, Error, Ttl};
use tuckbox_testkit::process::Worker;
use tuckbox_testkit::watchdog::Watchdog;

use crate::images::{Case, Copy, Operation, State};
use crate::place::Folder;
use crate::points;
use crate::report::Report;
use crate::worker::myself;

/// The arguments of `torture matrix`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Sizes of the caches, in KiB.
    #[arg(long, value_delimiter = ',', default_value = "64")]
    pub sizes_kib: Vec<u64>,
    /// Only these operations.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub operations: Vec<Operation>,
    /// Only these states.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub states: Vec<State>,
    /// How often a point is tried in one operation that reaches it repeatedly.
    #[arg(long, default_value_t = 2)]
    pub times: usize,
}

/// What happens at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Deed {
    /// The process is killed.
    Kill,
    /// The process is stopped, and goes on later.
    Stop,
    /// A panic ends the operation; the process goes on.
    Error,
    /// The points are written down.
    List,
}

/// The command line of the child.
#[derive(Debug, Clone, clap::Args)]
pub struct Child {
    /// The cache file.
    #[arg(long)]
    pub path: PathBuf,
    /// The size of the cache.
    #[arg(long)]
    pub size_bytes: u64,
    /// The operation.
    #[arg(long, value_enum)]
    pub operation: Operation,
    /// The version of the entry.
    #[arg(long)]
    pub version: u64,
    /// The index of the point among those that the operation reaches, from 0.
    #[arg(long)]
    pub at: u64,
    /// What happens there.
    #[arg(long, value_enum)]
    pub deed: Deed,
    /// Where the points are written down.
    #[arg(long)]
    pub list: PathBuf,
}

/// All points of the engine except those of a resize, and three that the protocol's tests play:
/// `OtherKeyFound` needs keys with the same tag, `IndexReset` a value that takes nearly the whole
/// cache, and `ClaimAwaited` another process that makes a value.
const POINTS: [&str; 30] = [
    "StateLoaded",
    "SlotLoaded",
    "SlotConfirmed",
    "RecordCopied",
    "RareRecordFound",
    "RecordVerified",
    "ProbeMissed",
    "RecordWritten",
    "CursorMoved",
    "RewriteBegun",
    "RewriteHalf",
    "SplitCopied",
    "SplitPublished",
    "MoveCopied",
    "EntryDropped",
    "SegmentUnlinked",
    "GenerationBumped",
    "BodyBuilt",
    "SegmentTaken",
    "SegmentTakenUnmarked",
    "SegmentMarkedFree",
    "BodyAdopted",
    "GrowthBegun",
    "EpochAdvanced",
    "RowTaken",
    "StampAdvanced",
    "Invalidated",
    "MakerNamed",
    "ClaimReleased",
    "RepairStep",
];
/// Further caches that are created for points that no operation has reached.
const MORE_CASES: usize = 60;
const LIMIT: Duration = Duration::from_secs(20);

/// The child.
#[cfg(not(feature = "points"))]
pub fn be_hit(_child: &Child) -> ExitCode {
    points::require("torture matrix");
    ExitCode::FAILURE
}

/// The child.
#[cfg(feature = "points")]
pub fn be_hit(child: &Child) -> ExitCode {
    use std::panic::{catch_unwind, AssertUnwindSafe};
    use tuckbox_arena::hooks;
    use tuckbox_testkit::process::signal_myself;

    use crate::images::{open, patiently};

    let Ok(cache) = patiently(|| open(&child.path, child.size_bytes)) else {
        return ExitCode::FAILURE;
    };
    let inputs = child.operation.inputs(&cache);
    let (at, deed, list) = (child.at, child.deed, child.list.clone());
    let mut count = 0;
    let mut names = String::new();
    hooks::set(move |point| {
        if deed == Deed::List {
            names += &format!("{point:?}\n");
            std::fs::write(&list, &names).expect("the supervisor made the folder");
        } else if count == at {
            match deed {
                Deed::Kill => signal_myself(libc::SIGKILL),
                Deed::Stop => signal_myself(libc::SIGSTOP),
                _ => {
                    count += 1;
                    // Panics without a message on standard error.
                    std::panic::resume_unwind(Box::new("an error at a point"));
                }
            }
        }
        count += 1;
    });
    let work = || child.operation.perform(&cache, &inputs, child.version);
    let done = catch_unwind(AssertUnwindSafe(work));
    hooks::clear();
    let is_as_expected = match done {
        Ok(result) => result.is_ok() && deed != Deed::Error,
        Err(_) => deed == Deed::Error,
    };
    // The process and its cache must go on working.
    let is_sound = match cache.check() {
        Ok(report) => {
            let counts = report.damaged_entries + report.wrong_counts + report.leaked_segments;
            counts == 0
        }
        Err(_) => false,
    };
    if is_as_expected && is_sound {
        ExitCode::SUCCESS
    } else {
        eprintln!("as expected: {is_as_expected}, sound: {is_sound}");
        ExitCode::FAILURE
    }
}

fn start(child: &Child) -> Worker {
    let mut command = myself();
    let name = |value: Option<clap::builder::PossibleValue>| {
        value.expect("no value is hidden").get_name().to_string()
    };
    command.arg("hit").arg("--path").arg(&child.path).arg("--list").arg(&child.list);
    command.args(["--size-bytes", &child.size_bytes.to_string()]);
    command.args(["--version", &child.version.to_string(), "--at", &child.at.to_string()]);
    command.args(["--operation", &name(child.operation.to_possible_value())]);
    command.args(["--deed", &name(child.deed.to_possible_value())]);
    Worker::start(&mut command).expect("a child can be started")
}

/// Runs `torture matrix`.
pub fn run(arguments: &Arguments) -> ExitCode {
    points::require("torture matrix");
    let _watchdog = Watchdog::new("torture matrix", Duration::from_secs(1800));
    let folder = Folder::new(None);
    let mut report = Report::new("matrix");
    let mut matrix = Matrix {
        copy: Copy::new(folder.file("copy")).expect("a new file"),
        path: folder.file("cache"),
        list: folder.file("list"),
        hit: BTreeSet::new(),
        trials: BTreeMap::new(),
    };
    let operations = match &arguments.operations[..] {
        [] => Operation::value_variants(),
        some => some,
    };
    let states = match &arguments.states[..] {
        [] => State::value_variants(),
        some => some,
    };
    for size in &arguments.sizes_kib {
        for state in states {
            for operation in operations {
                let case = matrix.prepare(*operation, *state, size << 10);
                let name = format!("{operation:?} in {state:?}");
                let result = case.and_then(|case| matrix.try_case(&case, arguments.times));
                match result {
                    Ok(failures) => failures.iter().for_each(|failure| report.fail(failure)),
                    Err(error) => report.fail(format!("{name}: {error}")),
                }
            }
        }
    }
    let is_whole = arguments.states.is_empty() && arguments.operations.is_empty();
    // The random hash key decides whether an entry has to move to its other bucket.
    for _ in 0..MORE_CASES {
        if !is_whole || POINTS.iter().all(|point| matrix.hit.contains(*point)) {
            break;
        }
        let case = matrix.prepare(Operation::SetNew, State::Growing, arguments.sizes_kib[0] << 10);
        match case.and_then(|case| matrix.try_case(&case, 1)) {
            Ok(failures) => failures.iter().for_each(|failure| report.fail(failure)),
            Err(error) => report.fail(error),
        }
    }
    for point in POINTS {
        let is_hit = matrix.hit.contains(point);
        report.expect(is_hit || !is_whole, || format!("{point} was never reached"));
    }
    report.figure("points", POINTS.len());
    report.figure("points_hit", matrix.hit.len());
    for (deed, count) in &matrix.trials {
        report.figure(deed, *count);
    }
    report.trials(matrix.trials.values().sum(), "operations ended at a point");
    report.finish()
}

struct Matrix {
    copy: Copy,
    path: PathBuf,
    list: PathBuf,
    hit: BTreeSet<String>,
    trials: BTreeMap<&'static str, u64>,
}

impl Matrix {
    fn prepare(&self, operation: Operation, state: State, size_bytes: u64) -> Result<Case, String> {
        let _ = std::fs::remove_file(&self.path);
        Case::prepare(operation, state, size_bytes, &self.path, &self.copy)
    }

    fn child(&self, case: &Case, path: &Path, at: u64, deed: Deed) -> Child {
        Child {
            path: path.into(),
            size_bytes: case.size_bytes,
            operation: case.operation,
            version: case.version,
            at,
            deed,
            list: self.list.clone(),
        }
    }

    /// Tries a case. Returns what is wrong, trial by trial.
    fn try_case(&mut self, case: &Case, times: usize) -> Result<Vec<String>, String> {
        let in_words = |error: std::io::Error| error.to_string();
        let beginning = std::fs::read(&self.path).map_err(in_words)?;
        // Each trial uses a copy of the cache's bytes; the cache itself is kept.
        let path = self.path.with_extension("trial");
        let _ = std::fs::remove_file(&self.list);
        std::fs::write(&path, &beginning).map_err(in_words)?;
        let status = start(&self.child(case, &path, 0, Deed::List)).wait(LIMIT);
        if !status.is_some_and(|status| status.success()) {
            return Err(format!("the operation itself ends with {status:?}"));
        }
        let points = std::fs::read_to_string(&self.list).unwrap_or_default();
        let mut seen: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (at, point) in (0..).zip(points.lines()) {
            seen.entry(point).or_default().push(at);
        }
        let mut failures = Vec::new();
        for (point, places) in seen {
            self.hit.insert(point.into());
            // The first, and more up to the last, evenly spaced.
            let step = (places.len() - 1).max(1).div_ceil(times.max(2) - 1);
            for at in places.iter().step_by(step).take(times) {
                for deed in [Deed::Kill, Deed::Stop, Deed::Error] {
                    *self.trials.entry(name_of(deed)).or_default() += 1;
                    std::fs::write(&path, &beginning).map_err(in_words)?;
                    let child = self.child(case, &path, *at, deed);
                    if let Err(error) = self.try_deed(case, &child) {
                        failures.push(format!("{}, {deed:?} at {point}: {error}", case.name()));
                    }
                    std::fs::remove_file(&path).map_err(in_words)?;
                }
            }
        }
        Ok(failures)
    }

    fn try_deed(&self, case: &Case, child: &Child) -> Result<(), String> {
        let mut worker = start(child);
        let arrived = match child.deed {
            Deed::Stop => worker.wait_stopped(LIMIT),
            _ => worker.wait(LIMIT).is_some(),
        };
        if !arrived {
            return Err("the point was never reached".into());
        }
        if child.deed == Deed::Stop {
            self.meanwhile(case, child)?;
            worker.signal(libc::SIGCONT);
        }
        let status = worker.wait(LIMIT);
        let is_right = match child.deed {
            Deed::Kill => status.is_some_and(|status| status.code().is_none()),
            _ => status.is_some_and(|status| status.success()),
        };
        if !is_right {
            return Err(format!("the process ended with {status:?}"));
        }
        let image = std::fs::read(&child.path).map_err(|error| error.to_string())?;
        if child.deed != Deed::Stop {
            return case.judge(&image, &self.copy, child.at % 2 == 0).map(|_| ());
        }
        let beginning = std::fs::read(&self.path).map_err(|error| error.to_string())?;
        let evicted = case.evictions(&image) - case.evictions(&beginning);
        case.judge_evicting(&image, &self.copy, evicted)
    }

    /// While the child is stopped, others can read, and nobody takes its lock.
    fn meanwhile(&self, case: &Case, child: &Child) -> Result<(), String> {
        let image = std::fs::read(&child.path).map_err(|error| error.to_string())?;
        let cache = crate::images::open(&child.path, child.size_bytes)
            .map_err(|error| format!("it cannot be opened meanwhile: {error}"))?;
        case.read_meanwhile(&cache)?;
        // Not a delete, which could refuse a lease on a key with the same counter.
        let written = cache.touch(b"nobody's", Ttl::Never);
        let is_right = match &written {
            Err(Error::Arena(ArenaError::LockTimeout { .. })) => case.is_locked(&image),
            Ok(false) => !case.is_locked(&image),
            _ => false,
        };
        if !is_right || cache.stats().takeovers > 0 {
            return Err(format!("a write in the meantime returned {written:?}"));
        }
        Ok(())
    }
}

fn name_of(deed: Deed) -> &'static str {
    match deed {
        Deed::Kill => "killed",
        Deed::Stop => "stopped",
        Deed::Error => "ended_by_error",
        Deed::List => "listed",
    }
}
