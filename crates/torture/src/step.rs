//! `torture step`: runs an operation one instruction at a time. After each instruction it judges
//! the file as if the process had been killed there: a kill leaves exactly the stores that were
//! done. `torture repair` does the same with the repair after such a death: it is killed after each
//! of its stores, and so is the repair of some of those images.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tuckbox_testkit::process::signal_myself;
use tuckbox_testkit::watchdog::Watchdog;

use crate::images::{open, patiently, Case, Contents, Copy, Operation, State};
use crate::place::Folder;
use crate::report::Report;
use crate::tracer::{Traced, View};
use crate::worker::myself;

/// The arguments of `torture step` and `torture repair`.
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
    /// For `torture repair`: how many images are drawn, equally many from each operation in each
    /// state. Some of these have fewer.
    #[arg(long, default_value_t = 1400)]
    pub images: usize,
    /// One in this many images of a killed repair has its own repair killed, too.
    #[arg(long, default_value_t = 32)]
    pub nested_one_in: usize,
    /// While one instruction copies a long string, an image is taken every this many bytes.
    #[arg(long, default_value_t = 64)]
    pub string_bytes: usize,
    /// Ends the run after this many seconds. The report names what was left out.
    #[arg(long)]
    pub seconds: Option<u64>,
    /// The number of threads.
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
    /// The seed of the random choices.
    #[arg(long)]
    pub seed: Option<u64>,
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
    /// The operation. Without it, the child takes over a lock from a dead process.
    #[arg(long)]
    pub operation: Option<Operation>,
    /// The version of the entry.
    #[arg(long, default_value_t = 0)]
    pub version: u64,
}

impl Child {
    fn start(&self) -> std::io::Result<Traced> {
        let mut command = myself();
        command.arg("stepped").arg("--path").arg(&self.path);
        command.args(["--size-bytes", &self.size_bytes.to_string()]);
        command.args(["--version", &self.version.to_string()]);
        if let Some(operation) = self.operation {
            let value = operation.to_possible_value().expect("no operation is hidden");
            command.args(["--operation", value.get_name()]);
        }
        Traced::start(&mut command)
    }
}

/// The child: opens the cache, and does one operation between two stops of its own.
pub fn be_stepped(child: &Child) -> ExitCode {
    let cache = match patiently(|| open(&child.path, child.size_bytes)) {
        Ok(cache) => cache,
        Err(error) => {
            eprintln!("the child cannot open its cache: {error}");
            return ExitCode::FAILURE;
        }
    };
    let inputs = child.operation.map(|operation| operation.inputs(&cache));
    signal_myself(libc::SIGSTOP);
    let result = match child.operation {
        Some(operation) => {
            operation.perform(&cache, inputs.as_deref().unwrap_or_default(), child.version)
        }
        // Nobody stores this key. The delete only takes the lock and repairs the shard.
        None => patiently(|| cache.delete(b"nobody's")).map(|_| ()),
    };
    if let Err(error) = result {
        eprintln!("the child's operation was refused: {error}");
        return ExitCode::FAILURE;
    }
    signal_myself(libc::SIGSTOP);
    ExitCode::SUCCESS
}

/// The counts and failures of a run.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<&'static str, u64>,
    failures: Vec<String>,
    failed_images: Vec<(String, Vec<u8>)>,
}

impl Tally {
    fn count(&mut self, name: &'static str, amount: u64) {
        *self.counts.entry(name).or_default() += amount;
    }

    fn fail(&mut self, what: String, image: Option<&[u8]>) {
        if let Some(image) = image {
            if self.failed_images.len() < 5 {
                self.failed_images.push((what.clone(), image.to_vec()));
            }
        }
        self.failures.push(what);
    }

    fn add(&mut self, other: Tally) {
        other.counts.into_iter().for_each(|(name, amount)| self.count(name, amount));
        self.failures.extend(other.failures);
        self.failed_images.extend(other.failed_images);
    }
}

/// The state of a job: its own files and random choices.
struct Job<'a> {
    arguments: &'a Arguments,
    folder: &'a Folder,
    number: usize,
    until: Option<Instant>,
    random: fastrand::Rng,
    tally: Tally,
}

impl Job<'_> {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() > until)
    }

    fn copy(&self, name: &str) -> Copy {
        Copy::new(self.folder.file(&format!("{name}-{}", self.number))).expect("a new file")
    }

    /// Prepares a case in its own file. Returns the case and the path.
    fn prepare(
        &mut self,
        operation: Operation,
        state: State,
        size_kib: u64,
    ) -> Option<(Case, PathBuf)> {
        let path = self.folder.file(&format!("{size_kib}-{state:?}-{operation:?}"));
        let copy = self.copy("trial");
        match Case::prepare(operation, state, size_kib << 10, &path, &copy) {
            Ok(case) => Some((case, path)),
            Err(error) => {
                let what = format!("{operation:?} in {state:?}: it cannot be prepared: {error}");
                self.tally.fail(what, None);
                None
            }
        }
    }
}

fn child_of(case: &Case, path: &std::path::Path) -> Child {
    Child {
        path: path.into(),
        size_bytes: case.size_bytes,
        operation: Some(case.operation),
        version: case.version,
    }
}

/// Turns a panic of the engine into an error.
fn guarded<R>(work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without a text")))
    })
}

fn all_of(arguments: &Arguments) -> Vec<(u64, State, Operation)> {
    let given = |all: &[Operation], some: &[Operation]| match some {
        [] => all.to_vec(),
        some => some.to_vec(),
    };
    let operations = given(Operation::value_variants(), &arguments.operations);
    let states = match &arguments.states[..] {
        [] => State::value_variants().to_vec(),
        some => some.to_vec(),
    };
    let mut all = Vec::new();
    for size in &arguments.sizes_kib {
        for state in &states {
            all.extend(operations.iter().map(|operation| (*size, *state, *operation)));
        }
    }
    all
}

/// Works on all cases with several threads.
fn in_jobs(
    what: &str,
    arguments: &Arguments,
    work: fn(&mut Job<'_>, u64, State, Operation),
) -> (Report, Tally) {
    let mut folder = Folder::new(None);
    let limit = arguments.seconds.map_or(3600, |seconds| seconds + 120);
    let _watchdog = Watchdog::new(what, Duration::from_secs(limit));
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let until = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut report = Report::new(what);
    let cases = all_of(arguments);
    let next = AtomicUsize::new(0);
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for number in 0..arguments.jobs.max(1) {
            let (folder, next, tally, cases) = (&folder, &next, &tally, &cases);
            scope.spawn(move || {
                let random = fastrand::Rng::with_seed(seed ^ number as u64);
                let tally_here = Tally::default();
                let mut job = Job { arguments, folder, number, until, random, tally: tally_here };
                while let Some((size, state, operation)) = cases.get(next.fetch_add(1, SeqCst)) {
                    if job.is_over() {
                        job.tally.count("cases_left_out", 1);
                        continue;
                    }
                    job.random.seed(seed ^ size << 32 ^ (*state as u64) << 16 ^ *operation as u64);
                    job.tally.count("cases", 1);
                    work(&mut job, *size, *state, *operation);
                }
                tally.lock().unwrap_or_else(|broken| broken.into_inner()).add(job.tally);
            });
        }
    });
    let tally = tally.into_inner().unwrap_or_else(|broken| broken.into_inner());
    report.figure("seed", seed);
    for (name, count) in &tally.counts {
        report.figure(name, *count);
    }
    tally.failures.iter().for_each(|failure| report.fail(failure));
    for (number, (what, image)) in tally.failed_images.iter().enumerate() {
        folder.keep();
        let written = std::fs::write(folder.file(&format!("failed-{number}")), image);
        if written.is_ok() {
            eprintln!("  failed-{number}: {what}");
        }
    }
    (report, tally)
}

/// Runs `torture step`.
pub fn run(arguments: &Arguments) -> ExitCode {
    let (mut report, tally) = in_jobs("step", arguments, step_case);
    let count = |name| tally.counts.get(name).copied().unwrap_or(0);
    report.expect(count("evicting_cases") > 0 || !arguments.states.is_empty(), || {
        "no operation evicted anything: the caches are too large".into()
    });
    report.expect(count("images") > 0, || "nothing was changed, so the run proves nothing".into());
    report.trials(count("instructions"), "instruction boundaries");
    report.finish()
}

fn step_case(job: &mut Job<'_>, size: u64, state: State, operation: Operation) {
    let Some((case, path)) = job.prepare(operation, state, size) else { return };
    let (_, evicted) = case.entries();
    job.tally.count("entries_before", case.entries().0 as u64);
    job.tally.count("evicting_cases", u64::from(evicted > 0));
    let copy = job.copy("image");
    let string_bytes = job.arguments.string_bytes.max(1);
    let result = stepped(&mut job.tally, &case, &path, &copy, string_bytes);
    if let Err(error) = result {
        job.tally.fail(format!("{}: {error}", case.name()), None);
    }
    let _ = std::fs::remove_file(path);
}

fn stepped(
    tally: &mut Tally,
    case: &Case,
    path: &std::path::Path,
    copy: &Copy,
    string_bytes: usize,
) -> std::io::Result<()> {
    let mut child = child_of(case, path).start()?;
    let mut view = View::new(path, case.file_bytes_max as usize)?;
    let mut images = 0;
    let mut last = judge(tally, case, view.bytes(), copy, 0);
    let count = child.by_instructions(&mut view, string_bytes, &mut |image| {
        images += 1;
        last = judge(tally, case, image, copy, images);
    })?;
    // The result of the completed operation is there.
    if last.is_some_and(|last| !case.is_done(&last)) {
        tally.fail(format!("{}: its result is missing after it ended", case.name()), None);
    }
    tally.count("images", images);
    tally.count("instructions", count);
    Ok(())
}

fn judge(
    tally: &mut Tally,
    case: &Case,
    image: &[u8],
    copy: &Copy,
    number: u64,
) -> Option<Contents> {
    tally.count("judged", 1);
    tally.count("judged_locked", u64::from(case.is_locked(image)));
    match guarded(|| case.judge(image, copy, number % 2 == 0)) {
        Ok(contents) => Some(contents),
        Err(error) => {
            tally.fail(format!("{}, image {number}: {error}", case.name()), Some(image));
            None
        }
    }
}

/// Runs `torture repair`.
pub fn repair(arguments: &Arguments) -> ExitCode {
    let (mut report, tally) = in_jobs("repair", arguments, repair_case);
    let count = |name| tally.counts.get(name).copied().unwrap_or(0);
    report.expect(count("repairs_killed_twice") > 0, || "no repair was killed twice".into());
    let killed = count("repairs_killed") + count("repairs_killed_twice");
    report.trials(killed, "killed repairs");
    report.finish()
}

fn repair_case(job: &mut Job<'_>, size: u64, state: State, operation: Operation) {
    let Some((case, path)) = job.prepare(operation, state, size) else { return };
    let cases = all_of(job.arguments).len().max(1);
    let share = job.arguments.images.div_ceil(cases);
    if let Err(error) = repaired(job, &case, &path, share) {
        job.tally.fail(format!("{}: {error}", case.name()), None);
    }
    let _ = std::fs::remove_file(path);
}

fn repaired(
    job: &mut Job<'_>,
    case: &Case,
    path: &std::path::Path,
    share: usize,
) -> std::io::Result<()> {
    let beginning = std::fs::read(path)?;
    let mut child = child_of(case, path).start()?;
    let mut view = View::new(path, case.file_bytes_max as usize)?;
    // Drawn with equal probability from all images in which the lock is held.
    let mut drawn: Vec<Vec<u8>> = Vec::new();
    let mut seen = 0;
    let mut all = 0;
    let random = &mut job.random;
    child.by_stores(path, &mut view, &mut |image| {
        all += 1;
        if !case.is_locked(image) {
            return;
        }
        seen += 1;
        if drawn.len() < share {
            drawn.push(image.to_vec());
        } else {
            let place = random.usize(..seen);
            if place < share {
                drawn[place] = image.to_vec();
            }
        }
    })?;
    drop(child);
    job.tally.count("images", seen as u64);
    if case.state == State::Empty && case.operation.is_short() {
        agree(job, case, &beginning, all)?;
    }
    let copy = job.copy("image");
    let [first, second] = ["repair", "again"].map(|name| job.copy(name));
    for image in &drawn {
        if job.is_over() {
            job.tally.count("images_left_out", 1);
            continue;
        }
        job.tally.count("images_repaired", 1);
        let reference = match guarded(|| case.repair(image, &copy, true)) {
            Ok(reference) => reference,
            Err(error) => {
                job.tally.fail(format!("{}: {error}", case.name()), Some(image));
                continue;
            }
        };
        let once = stores_of_repair(case, image, &first, true)?;
        for image in &once {
            job.tally.count("repairs_killed", 1);
            compare(&mut job.tally, case, image, &copy, &reference, "once");
            if job.random.usize(..job.arguments.nested_one_in.max(1)) > 0 {
                continue;
            }
            for image in &stores_of_repair(case, image, &second, false)? {
                job.tally.count("repairs_killed_twice", 1);
                compare(&mut job.tally, case, image, &copy, &reference, "twice");
            }
        }
    }
    Ok(())
}

/// Demands that stepping by stores, which is fast, shows as many images as stepping by
/// instructions.
fn agree(job: &mut Job<'_>, case: &Case, beginning: &[u8], stores: u64) -> std::io::Result<()> {
    let copy = job.copy("agree");
    copy.fill(beginning)?;
    let mut child = child_of(case, copy.path()).start()?;
    let mut view = View::new(copy.path(), case.file_bytes_max as usize)?;
    let mut steps = 0;
    child.by_instructions(&mut view, 1, &mut |_| steps += 1)?;
    job.tally.count("cases_stepped_both_ways", 1);
    if steps != stores {
        let name = case.name();
        job.tally.fail(format!("{name}: {stores} images by stores, {steps} by steps"), None);
    }
    Ok(())
}

/// The images that a repair leaves if it is killed after each of its stores.
fn stores_of_repair(
    case: &Case,
    image: &[u8],
    copy: &Copy,
    frees_first: bool,
) -> std::io::Result<Vec<Vec<u8>>> {
    let mut image = image.to_vec();
    case.mark_owners_dead(&mut image, frees_first);
    copy.fill(&image)?;
    let mut child = Child {
        path: copy.path().into(),
        size_bytes: case.size_bytes,
        operation: None,
        version: 0,
    }
    .start()?;
    let mut view = View::new(copy.path(), case.file_bytes_max as usize)?;
    let mut images = Vec::new();
    child.by_stores(copy.path(), &mut view, &mut |image| images.push(image.to_vec()))?;
    Ok(images)
}

fn compare(
    tally: &mut Tally,
    case: &Case,
    image: &[u8],
    copy: &Copy,
    reference: &Contents,
    how_often: &str,
) {
    let frees_first = tally.counts.values().sum::<u64>() % 2 == 0;
    let name = case.name();
    match guarded(|| case.repair(image, copy, frees_first)) {
        Ok(contents) if contents == *reference => {}
        Ok(contents) => {
            let differ = reference
                .keys()
                .chain(contents.keys())
                .find(|key| reference.get(*key) != contents.get(*key))
                .map(|key| String::from_utf8_lossy(key).into_owned());
            let what = format!(
                "{name}: the repair that was killed {how_often} had another result: {:?}",
                differ.unwrap_or_default()
            );
            tally.fail(what, Some(image));
        }
        Err(error) => tally
            .fail(format!("{name}: after the repair was killed {how_often}: {error}"), Some(image)),
    }
}
