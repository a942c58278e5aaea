//! `torture stop`: a worker is stopped, or killed, between two named steps of the engine. While it
//! is stopped, nobody takes its locks from it; reads go on, writes to other shards go on, and
//! writes to its shard end with the time limit. When it goes on, or is dead, all is sound.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tuckbox_testkit::watchdog::Watchdog;

use crate::actor::{self, CANARIES};
use crate::points;
use crate::report::Report;
use crate::scene::{look, probe, Probe, Scene};

/// The arguments of `torture stop`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// What happens to the worker.
    #[arg(long, value_enum, default_value_t = Deed::Both)]
    pub deed: Deed,
    /// Only at the points whose names hold this.
    #[arg(long, default_value = "")]
    pub point: String,
    /// Goes through all points so often.
    #[arg(long, default_value_t = 1)]
    pub rounds: u64,
    /// Seeds the workers.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// What happens to the worker at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Deed {
    /// It is stopped and goes on later.
    Stop,
    /// It is killed.
    Kill,
    /// One trial of each.
    Both,
}

/// Which lock a thread holds at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    Shard,
    /// A shard's, or none: it depends on what grows.
    Either,
}

/// The points that the workers reach, what they hold there, and whether only a full cache leads
/// there.
const POINTS: [(&str, Held, bool); 18] = [
    ("SlotLoaded", Held::Nothing, false),
    ("SlotConfirmed", Held::Nothing, false),
    ("RecordCopied", Held::Nothing, false),
    ("ProbeMissed", Held::Nothing, false),
    ("RecordWritten", Held::Shard, false),
    ("CursorMoved", Held::Shard, false),
    ("RewriteBegun", Held::Shard, false),
    ("RewriteHalf", Held::Shard, false),
    ("SplitCopied", Held::Shard, false),
    ("SplitPublished", Held::Shard, false),
    ("MoveCopied", Held::Shard, false),
    ("GenerationBumped", Held::Shard, false),
    ("BodyBuilt", Held::Nothing, false),
    // The canaries leave no segment free: these are behind what was the file's end.
    ("BodyAdopted", Held::Shard, false),
    ("SegmentTaken", Held::Either, false),
    ("GrowthBegun", Held::Either, false),
    ("EntryDropped", Held::Shard, true),
    ("SegmentUnlinked", Held::Shard, true),
];

const PROBES: usize = 40;
/// How long the supervisor waits for a lock.
const LIMIT: Duration = Duration::from_millis(30);
/// What a busy machine may add to any time that is measured.
const SLACK: Duration = Duration::from_millis(500);

/// Runs it.
pub fn run(arguments: &Arguments) -> ExitCode {
    points::require("torture stop");
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut report = Report::new("stop");
    let mut trials = 0;
    for round in 0..arguments.rounds {
        for (point, held, when_full) in POINTS {
            if !point.contains(&arguments.point) {
                continue;
            }
            let _watchdog = Watchdog::new(point, Duration::from_secs(60));
            for deed in [Deed::Stop, Deed::Kill] {
                if arguments.deed == Deed::Both || arguments.deed == deed {
                    trials += 1;
                    let trial = format!("{deed:?} at {point}");
                    let seed = seed.wrapping_add(round * 1000 + trials);
                    try_point(&mut report, &trial, deed, point, held, when_full, seed);
                }
            }
        }
    }
    report.figure("seed", seed);
    report.figure("points", POINTS.len() as u64);
    report.trials(trials, "trials");
    report.finish()
}

/// Long enough that some of the probes need another segment, and so a longer file.
const PROBE_BYTES: usize = 100_000;

fn key(index: usize) -> Vec<u8> {
    format!("probe/{index}").into_bytes()
}

fn try_point(
    report: &mut Report,
    trial: &str,
    deed: Deed,
    point: &str,
    held: Held,
    when_full: bool,
    seed: u64,
) {
    let size_bytes = if when_full { 33 << 20 } else { 64 << 20 };
    let scene = Scene::new(size_bytes, 1, 4096, when_full);
    for index in 0..CANARIES {
        actor::store_canary(&scene.cache, index).expect("an empty cache takes the canaries");
    }
    for index in 0..if when_full { 10_000 } else { 0 } {
        let (stored, _) = probe(&scene.cache, format!("filler/{index}").as_bytes(), 4000);
        report.expect(stored == Probe::Done, || format!("{trial}: the cache could not be filled"));
    }
    let before = scene.cache.stats();
    let mut orders = scene.orders(0, 1, seed);
    let deed_name = if deed == Deed::Kill { "kill" } else { "stop" };
    orders.at = Some(format!("{deed_name}:{point}"));
    let mut worker = orders.start().expect("a worker can be started");
    let limit = Duration::from_secs(20);
    let arrived = match deed {
        Deed::Kill => worker.wait(limit).is_some(),
        _ => worker.wait_stopped(limit),
    };
    if !arrived {
        report.fail(format!("{trial}: the point was never reached"));
        return;
    }
    if deed == Deed::Kill {
        scene.board.bury(0);
    }
    let mut done = 0;
    if deed == Deed::Kill {
        // Takes the lock over with a handle that does not know yet whether the dead one made the
        // file longer: the figures, and a write that needs a segment, would tell it.
        for index in 0..PROBES {
            let result = scene.cache.delete(&key(index));
            report.expect(result.is_ok(), || format!("{trial}: delete {index}: {result:?}"));
        }
    }
    if deed == Deed::Stop {
        let impatient = scene.impatient(LIMIT);
        done = probe_all(report, trial, held, &impatient);
        read_all(report, trial, &scene);
        let stolen = scene.cache.stats().takeovers - before.takeovers;
        report.expect(stolen == 0, || {
            format!("{trial}: {stolen} locks of a live process were taken")
        });
        worker.signal(libc::SIGCONT);
    }
    // From now on every lock is free, or its owner is dead: all writes are done in time.
    for index in 0..PROBES {
        let (stored, took) = probe(&scene.cache, &key(index), PROBE_BYTES);
        report.expect(stored == Probe::Done, || format!("{trial}: probe {index}: {stored:?}"));
        let most = Duration::from_secs(1) + SLACK;
        report.expect(took < most, || format!("{trial}: probe {index} took {took:?}"));
    }
    if deed == Deed::Stop {
        std::thread::sleep(Duration::from_millis(20));
        scene.board.stop();
        let status = worker.wait(Duration::from_secs(10));
        report.expect(status.is_some_and(|status| status.success()), || {
            format!("{trial}: the worker did not end well: {status:?} after {done} probes")
        });
    } else if held == Held::Shard {
        let takeovers = scene.cache.stats().takeovers - before.takeovers;
        report.expect(takeovers >= 1, || format!("{trial}: nobody took the dead one's lock"));
    }
    scene.settle(report, trial);
    if !when_full {
        let canaries = actor::count_canaries(&scene.cache, None).unwrap_or(0);
        report.expect(canaries == CANARIES, || format!("{trial}: {canaries} canaries are left"));
    }
}

/// Writes to all shards while a worker is stopped. How many writes were done.
fn probe_all(report: &mut Report, trial: &str, held: Held, cache: &tuckbox_engine::Cache) -> usize {
    let (mut done, mut timed_out) = (0, 0);
    for index in 0..PROBES {
        let (stored, took) = probe(cache, &key(index), PROBE_BYTES);
        match stored {
            Probe::Done => done += 1,
            Probe::TimedOut => timed_out += 1,
            Probe::Failed => report.fail(format!("{trial}: probe {index} failed")),
        }
        let most = LIMIT + SLACK;
        report.expect(took < most, || format!("{trial}: probe {index} took {took:?}: {stored:?}"));
    }
    report.expect(done > 0, || format!("{trial}: no shard could be written to"));
    let is_right = held == Held::Either || (timed_out > 0) == (held == Held::Shard);
    report.expect(is_right, || {
        format!("{trial}: {timed_out} writes of {PROBES} ended with the time limit")
    });
    done
}

/// Reads while a worker is stopped: at once, and what is right.
fn read_all(report: &mut Report, trial: &str, scene: &Scene) {
    let mut longest = Duration::ZERO;
    for index in 0..CANARIES {
        let began = Instant::now();
        let found = look(&scene.cache, &actor::canary_key(index));
        longest = longest.max(began.elapsed());
        report.expect(found != Some(false), || format!("{trial}: canary {index} is wrong"));
    }
    report.expect(longest < Duration::from_millis(50) + SLACK, || {
        format!("{trial}: a read took {longest:?}")
    });
}
