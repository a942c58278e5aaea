//! `torture stop`: stops or kills a worker between two named steps of the engine. While the worker
//! is stopped, nobody takes its locks, reads and writes to other shards go on, and writes to its
//! shard fail at the time limit. After it goes on or dies, the cache is sound.

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
    /// Only points whose names contain this text.
    #[arg(long, default_value = "")]
    pub point: String,
    /// How often all points are tried.
    #[arg(long, default_value_t = 1)]
    pub rounds: u64,
    /// The shortest stop of a worker, in milliseconds. Others read meanwhile.
    #[arg(long, default_value_t = 0)]
    pub stopped_ms: u64,
    /// The seed of the workers.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// What happens to the worker at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Deed {
    /// The worker is stopped and goes on later.
    Stop,
    /// The worker is killed.
    Kill,
    /// One trial of each.
    Both,
}

/// Which lock a thread holds at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    Shard,
    /// A shard's lock or none, depending on what grows.
    Either,
}

/// The points that the workers reach, the lock they hold there, and whether only a full cache leads
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
    // The canaries leave no segment free, so these segments are beyond the earlier end of the file.
    ("BodyAdopted", Held::Shard, false),
    ("SegmentTaken", Held::Either, false),
    ("GrowthBegun", Held::Either, false),
    ("EntryDropped", Held::Shard, true),
    ("SegmentUnlinked", Held::Shard, true),
];

/// Figures from the time in which a worker was stopped.
#[derive(Debug, Default)]
struct Figures {
    /// Durations of reads before and during the stop, in nanoseconds.
    reads_ns: [Vec<u64>; 2],
    /// By how much writes to the held shard exceeded the time limit, in microseconds.
    late_us: Vec<u64>,
    stopped_ms: Vec<u64>,
    stopped_least: Duration,
}

/// The p-th percentile.
fn percentile(values: &mut [u64], p: usize) -> u64 {
    values.sort_unstable();
    values.get((values.len() * p / 100).min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}

impl Figures {
    fn report(mut self, report: &mut Report) {
        let [before, meanwhile] = &mut self.reads_ns;
        report.figure("get_ns_p99_before", percentile(before, 99));
        report.figure("get_ns_p99_while_stopped", percentile(meanwhile, 99));
        report.figure("lock_timeouts", self.late_us.len());
        report.figure("lock_timeout_late_us_p50", percentile(&mut self.late_us, 50));
        report.figure("lock_timeout_late_us_max", percentile(&mut self.late_us, 100));
        report.figure("stopped_ms_p50", percentile(&mut self.stopped_ms, 50));
    }
}

/// Enough that one of them meets the locked shard, one of four, except once in a hundred million
/// times.
const PROBES: usize = 64;
/// How long the supervisor waits for a lock.
const LIMIT: Duration = Duration::from_millis(30);
/// What a busy machine may add to any time. What is longer hangs.
const SLACK: Duration = Duration::from_secs(10);

/// Runs `torture stop`.
pub fn run(arguments: &Arguments) -> ExitCode {
    points::require("torture stop");
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut report = Report::new("stop");
    let mut trials = 0;
    let mut figures = Figures::default();
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
                    let place = (point, held, when_full);
                    figures.stopped_least = Duration::from_millis(arguments.stopped_ms);
                    try_point(&mut report, &mut figures, &trial, deed, place, seed);
                }
            }
        }
    }
    report.figure("seed", seed);
    report.figure("points", POINTS.len() as u64);
    if arguments.deed != Deed::Kill {
        figures.report(&mut report);
    }
    report.trials(trials, "trials");
    report.finish()
}

/// Long enough that some probes need another segment, and so a longer file.
const PROBE_BYTES: usize = 100_000;

fn key(index: usize) -> Vec<u8> {
    format!("probe/{index}").into_bytes()
}

fn try_point(
    report: &mut Report,
    figures: &mut Figures,
    trial: &str,
    deed: Deed,
    (point, held, when_full): (&str, Held, bool),
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
    if deed == Deed::Stop {
        read_all(report, &mut figures.reads_ns[0], trial, &scene);
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
        scene.board.account_for_death(0);
    }
    let mut done = 0;
    if deed == Deed::Kill {
        // Takes over the lock with a handle that does not know whether the dead process made the
        // file longer. Statistics, or a write that needs a segment, would let it learn that.
        for index in 0..PROBES {
            let result = scene.cache.delete(&key(index));
            report.expect(result.is_ok(), || format!("{trial}: delete {index}: {result:?}"));
        }
    }
    if deed == Deed::Stop {
        let began = Instant::now();
        let impatient = scene.impatient(LIMIT);
        done = probe_all(report, &mut figures.late_us, trial, held, &impatient);
        read_all(report, &mut figures.reads_ns[1], trial, &scene);
        while began.elapsed() < figures.stopped_least {
            read_all(report, &mut figures.reads_ns[1], trial, &scene);
            std::thread::sleep(Duration::from_millis(5));
        }
        figures.stopped_ms.push(began.elapsed().as_millis() as u64);
        let stolen = scene.cache.stats().takeovers - before.takeovers;
        report.expect(stolen == 0, || {
            format!("{trial}: {stolen} locks of a live process were taken")
        });
        worker.signal(libc::SIGCONT);
    }
    // Every lock is free or its owner is dead, so all writes must succeed in time.
    for index in 0..PROBES {
        let (stored, took) = probe(&scene.cache, &key(index), PROBE_BYTES);
        if stored != Probe::Done {
            report.fail(format!("{trial}: probe {index}: {stored:?} after {took:?}"));
            break;
        }
    }
    if deed == Deed::Stop {
        std::thread::sleep(Duration::from_millis(20));
        scene.board.stop();
        let status = worker.wait(Duration::from_secs(10));
        report.expect(status.is_some_and(|status| status.success()), || {
            format!("{trial}: the worker failed: {status:?} after {done} probes")
        });
    } else if held == Held::Shard {
        let takeovers = scene.cache.stats().takeovers - before.takeovers;
        report.expect(takeovers >= 1, || {
            format!("{trial}: no process took over the dead process's lock")
        });
    }
    scene.settle(report, trial);
    if !when_full {
        let canaries = actor::count_canaries(&scene.cache, None).unwrap_or(0);
        report.expect(canaries == CANARIES, || format!("{trial}: {canaries} canaries are left"));
    }
}

/// Writes to all shards while a worker is stopped. Returns the number of writes done.
fn probe_all(
    report: &mut Report,
    late_us: &mut Vec<u64>,
    trial: &str,
    held: Held,
    cache: &tuckbox_engine::Cache,
) -> usize {
    let (mut done, mut timed_out) = (0, 0);
    for index in 0..PROBES {
        let (stored, took) = probe(cache, &key(index), PROBE_BYTES);
        match stored {
            Probe::Done => done += 1,
            Probe::TimedOut => {
                timed_out += 1;
                report.expect(took >= LIMIT, || {
                    format!("{trial}: probe {index} gave up after {took:?} of {LIMIT:?}")
                });
                late_us.push(took.saturating_sub(LIMIT).as_micros() as u64);
            }
            Probe::Failed => report.fail(format!("{trial}: probe {index} failed")),
        }
        let most = LIMIT + SLACK;
        report.expect(took < most, || format!("{trial}: probe {index} took {took:?}: {stored:?}"));
    }
    report.expect(done > 0, || format!("{trial}: no shard could be written to"));
    let is_right = held == Held::Either || (timed_out > 0) == (held == Held::Shard);
    report.expect(is_right, || {
        format!("{trial}: {timed_out} of {PROBES} writes reached the time limit")
    });
    done
}

/// Reads while a worker is stopped. Reads must be fast and right.
fn read_all(report: &mut Report, took_ns: &mut Vec<u64>, trial: &str, scene: &Scene) {
    let mut longest = Duration::ZERO;
    let mut found_count = 0;
    for index in 0..CANARIES {
        let began = Instant::now();
        let found = look(&scene.cache, &actor::canary_key(index));
        let took = began.elapsed();
        took_ns.push(took.as_nanos() as u64);
        longest = longest.max(took);
        found_count += usize::from(found.is_some());
        report.expect(found != Some(false), || format!("{trial}: canary {index} is wrong"));
    }
    // A read that meets the record or the bucket of the stopped worker may miss.
    report.expect(scene.cache.stats().evictions > 0 || found_count * 100 >= CANARIES * 99, || {
        format!("{trial}: {found_count} of {CANARIES} entries that nobody touches are found")
    });
    report.expect(longest < SLACK, || format!("{trial}: a read took {longest:?}"));
}
