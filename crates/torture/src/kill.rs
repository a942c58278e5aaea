//! `torture kill`: workers do all operations on one cache while the supervisor kills one after the
//! other. No promise to the surviving workers may be broken.

use std::process::ExitCode;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tuckbox_engine::{Cache, Value};
use tuckbox_testkit::process::{describe_threads, ProcessorWait, Worker};
use tuckbox_testkit::watchdog::Watchdog;

use crate::actor::{self, Actor, Kind, Lie, CANARIES, HANG_US};
use crate::board::{findings_path, Board, RowWord, Shape};
use crate::place::Folder;
use crate::points;
use crate::report::Report;
use crate::worker::{config, Orders};

/// The arguments of `torture kill`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Worker processes at any time.
    #[arg(long, default_value_t = 8)]
    pub processes: usize,
    /// Threads of each process.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// How long the run takes.
    #[arg(long, default_value_t = 60.0)]
    pub seconds: f64,
    /// Ends after this many deaths, however long they take, instead of after `--seconds`.
    #[arg(long, conflicts_with = "seconds")]
    pub kills: Option<u64>,
    /// The seed of the random choices. It does not determine the timing of the processes.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The folder for the run's files.
    #[arg(long)]
    pub path: Option<std::path::PathBuf>,
    /// Fills the cache so that it must evict. Otherwise nothing may be lost.
    #[arg(long)]
    pub evict: bool,
    /// The cache's size in bytes.
    #[arg(long)]
    pub size: Option<u64>,
    /// Milliseconds from one kill to the next: "1000", or "0-5" for a random time.
    #[arg(long, default_value = "1000")]
    pub kill_every_ms: String,
    /// The whole cache is checked after each time this many kills, and at the end.
    #[arg(long, default_value_t = 50)]
    pub check_every: u64,
    /// Also lets workers die by themselves, at one in this many named points.
    #[arg(long, default_value_t = 0)]
    pub die_one_in: u64,
    /// Answers wrongly, as a negative control.
    #[arg(long)]
    pub lie: Option<Lie>,
}

impl Arguments {
    fn interval_ms(&self) -> (u64, u64) {
        let mut parts = self.kill_every_ms.splitn(2, '-').map(|part| {
            part.parse::<u64>().unwrap_or_else(|_| {
                eprintln!("--kill-every-ms is {:?}; give \"1000\" or \"0-5\"", self.kill_every_ms);
                std::process::exit(2);
            })
        });
        let least = parts.next().unwrap_or(1000);
        (least, parts.next().unwrap_or(least))
    }

    /// The time after which a run has hung. Each death and restart takes some milliseconds more.
    fn limit(&self) -> Duration {
        let (_, most_ms) = self.interval_ms();
        let work = match self.kills {
            Some(kills) => Duration::from_millis(most_ms + 100) * kills.min(10_000_000) as u32,
            None => Duration::from_secs_f64(self.seconds),
        };
        work + Duration::from_secs(60)
    }

    fn is_over(&self, ran: Duration, deaths: u64) -> bool {
        match self.kills {
            Some(kills) => deaths >= kills,
            None => ran.as_secs_f64() >= self.seconds,
        }
    }

    fn shape(&self) -> Shape {
        let rows = self.processes * self.threads;
        Shape {
            rows,
            // The same number of keys in total for any number of threads, so that the cache is
            // equally full.
            keys_each: (if self.evict { 16_384 } else { 8192 } / rows).max(64),
            contested: 32,
            counters: 16,
        }
    }

    fn size_bytes(&self) -> u64 {
        self.size.unwrap_or(if self.evict { 40 << 20 } else { 128 << 20 })
    }
}

/// The workers of a run, and how they ended.
struct Crew<'a> {
    arguments: &'a Arguments,
    board: &'a Board,
    orders: Orders,
    workers: Vec<Worker>,
    incarnations: Vec<u64>,
    kills: u64,
    own_deaths: u64,
    /// Workers that ended though nobody killed them.
    failed: Vec<String>,
}

impl<'a> Crew<'a> {
    fn new(arguments: &'a Arguments, board: &'a Board, orders: Orders) -> Crew<'a> {
        let mut crew = Crew {
            arguments,
            board,
            orders,
            workers: Vec::new(),
            incarnations: vec![0; arguments.processes],
            kills: 0,
            own_deaths: 0,
            failed: Vec::new(),
        };
        for place in 0..arguments.processes {
            let worker = crew.start(place);
            crew.workers.push(worker);
        }
        crew
    }

    fn deaths(&self) -> u64 {
        self.kills + self.own_deaths
    }

    fn start(&mut self, place: usize) -> Worker {
        self.incarnations[place] += 1;
        self.orders.first_row = place * self.arguments.threads;
        self.orders.incarnation = self.incarnations[place];
        self.orders.start().expect("a worker can be started")
    }

    fn bury_and_replace(&mut self, place: usize) {
        for thread in 0..self.arguments.threads {
            self.board.account_for_death(place * self.arguments.threads + thread);
        }
        self.workers[place] = self.start(place);
    }

    fn kill(&mut self, place: usize) {
        if self.workers[place].kill() {
            self.kills += 1;
        }
        self.bury_and_replace(place);
    }

    /// Replaces workers that died by themselves, as their orders may say.
    fn look_after(&mut self) {
        for place in 0..self.workers.len() {
            let Some(status) = self.workers[place].poll() else { continue };
            use std::os::unix::process::ExitStatusExt;
            if self.arguments.die_one_in != 0 && status.signal() == Some(libc::SIGKILL) {
                self.own_deaths += 1;
            } else if self.failed.len() < 100 {
                self.failed.push(format!("a worker ended by itself: {status}"));
            }
            self.bury_and_replace(place);
        }
    }

    fn watch_for_hangs(&mut self, report: &mut Report) {
        for (row, took_us) in self.board.overdue(HANG_US) {
            let operation = self.board.row(row, RowWord::Operation).load(SeqCst);
            let place = row / self.arguments.threads;
            let id = self.workers[place].id();
            let thread = self.board.row(row, RowWord::Thread).load(SeqCst) as u32;
            let waited_us = ProcessorWait::of(id, thread).us();
            let before_us = self.board.row(row, RowWord::WaitedUs).load(SeqCst);
            if took_us.saturating_sub(waited_us.saturating_sub(before_us)) <= HANG_US {
                continue;
            }
            report.fail(format!(
                "hang: worker thread {row} (process {id}) is in {} for {took_us} microseconds\n{}",
                Kind::name(operation),
                describe_threads(id)
            ));
            self.kill(place);
        }
    }

    fn end(&mut self, report: &mut Report) {
        self.board.stop();
        for place in 0..self.workers.len() {
            match self.workers[place].wait(Duration::from_secs(10)) {
                Some(status) if status.success() => {}
                Some(status) => {
                    use std::os::unix::process::ExitStatusExt;
                    let meant =
                        self.arguments.die_one_in != 0 && status.signal() == Some(libc::SIGKILL);
                    report.expect(meant, || format!("a worker ended by itself: {status}"));
                }
                None => {
                    let id = self.workers[place].id();
                    report.fail(format!(
                        "hang: process {id} did not stop when asked\n{}",
                        describe_threads(id)
                    ));
                    self.workers[place].kill();
                }
            }
            for thread in 0..self.arguments.threads {
                self.board.account_for_death(place * self.arguments.threads + thread);
            }
        }
    }
}

/// What `check` found during the run.
#[derive(Default)]
struct Checks {
    count: u64,
    unsound: u64,
}

impl Checks {
    fn check(&mut self, cache: &Cache, board: &Board, report: &mut Report) {
        self.count += 1;
        match cache.check() {
            Ok(found) if found.is_sound() => {}
            Ok(found) => {
                self.unsound += 1;
                let findings: Vec<_> = found.findings.into_iter().take(5).collect();
                board.report(&format!("check: {findings:?}"));
                report.fail(format!(
                    "check: {} damaged entries, {} leaked segments, {} wrong counts: {findings:?}",
                    found.damaged_entries, found.leaked_segments, found.wrong_counts
                ));
            }
            Err(error) => report.fail(format!("check was refused: {error}")),
        }
    }
}

/// Runs `torture kill`.
pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.die_one_in != 0 {
        points::require("--die-one-in");
    }
    let mut report =
        Report::new(if arguments.evict { "kill, evicting" } else { "kill, not evicting" });
    let _watchdog = Watchdog::new("torture kill", arguments.limit());
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut folder = Folder::new(arguments.path.as_deref());
    let path = folder.file("cache.tuck");
    let size_bytes = arguments.size_bytes();
    let cache = Cache::open(&tuckbox_engine::Place::Path(path.clone()), &config(size_bytes))
        .unwrap_or_else(|error| panic!("the cache cannot be created: {error}"));
    let board = Board::create(&path, arguments.shape(), arguments.evict).expect("a new board");
    if !arguments.evict {
        for index in 0..CANARIES {
            actor::store_canary(&cache, index).expect("an empty cache takes the canaries");
        }
    }
    let orders = Orders {
        path: path.clone(),
        first_row: 0,
        threads: arguments.threads,
        incarnation: 0,
        seed,
        die_one_in: arguments.die_one_in,
        own_proc: false,
        at: None,
        lie: arguments.lie,
    };
    let mut crew = Crew::new(arguments, &board, orders);
    let mut checks = Checks::default();
    let (least_ms, most_ms) = arguments.interval_ms();
    let began = Instant::now();
    let mut next_kill = began;
    let mut next_check = arguments.check_every;
    // A lie that was found need not be found again.
    let is_caught = || arguments.lie.is_some() && board.sum(RowWord::Wrong) > 0;
    while !arguments.is_over(began.elapsed(), crew.deaths()) && !is_caught() {
        if Instant::now() >= next_kill {
            next_kill = Instant::now() + Duration::from_millis(random.u64(least_ms..=most_ms));
            crew.kill(random.usize(..arguments.processes));
        }
        crew.look_after();
        crew.watch_for_hangs(&mut report);
        if crew.deaths() >= next_check {
            next_check += arguments.check_every;
            checks.check(&cache, &board, &mut report);
        }
        let pause = next_kill.saturating_duration_since(Instant::now());
        std::thread::sleep(pause.min(Duration::from_millis(10)));
        if !report.is_good() {
            break;
        }
    }
    let ran = began.elapsed();
    crew.end(&mut report);
    crew.failed.iter().for_each(|failure| report.fail(failure));
    checks.check(&cache, &board, &mut report);
    settle(arguments, &cache, &board, seed, &mut report);
    figures(&cache, &board, &crew, &checks, &mut report);
    report.figure("seed", seed);
    report.figure("seconds", (ran.as_secs_f64() * 10.0).round() / 10.0);
    report.figure("size_bytes", size_bytes);
    report.trials(crew.deaths(), "kills");
    if !report.is_good() {
        show_findings(&path);
        // A control is meant to fail.
        if arguments.lie.is_none() {
            folder.keep();
        }
    }
    drop(cache);
    report.finish()
}

/// Judges everything once more, when nothing is under way.
fn settle(arguments: &Arguments, cache: &Cache, board: &Board, seed: u64, report: &mut Report) {
    for row in 0..board.shape().rows {
        let mut actor = Actor::new(cache, board, row, 0, seed, arguments.lie);
        actor.resolve();
        actor.judge_all();
    }
    let mut buffer = tuckbox_engine::Buffer::new();
    for counter in 0..board.shape().counters {
        let (least, most) = board.count_bounds(counter);
        let number = match cache.get(&actor::counter_key(counter), &mut buffer) {
            Ok(Some(entry)) => match entry.value {
                Value::Int(number) => number,
                Value::Bytes { .. } => -1,
            },
            _ => 0,
        };
        let bent = number - i64::from(arguments.lie == Some(Lie::LostCount));
        let least = if arguments.evict { 0 } else { least as i64 };
        report.expect((least..=most as i64).contains(&bent), || {
            format!("counter {counter} is {bent}, not between {least} and {most}")
        });
    }
    if !arguments.evict {
        let canaries = actor::count_canaries(cache, arguments.lie).unwrap_or(0);
        report.figure("canaries_there", canaries as u64);
        report.figure("canaries", CANARIES as u64);
        report.expect(canaries == CANARIES, || {
            format!("{canaries} of {CANARIES} entries that nobody touched are there and right")
        });
    }
}

fn figures(cache: &Cache, board: &Board, crew: &Crew<'_>, checks: &Checks, report: &mut Report) {
    let stats = cache.stats();
    for (name, word) in [
        ("operations", RowWord::Operations),
        ("hits", RowWord::Hits),
        ("misses", RowWord::Misses),
        ("wrong", RowWord::Wrong),
        ("lost", RowWord::Lost),
        ("found_when_repeated", RowWord::GivenUp),
        ("lock_timeouts", RowWord::LockTimeouts),
        ("refused_full", RowWord::Full),
        ("other_errors", RowWord::Errors),
        ("overdue", RowWord::Overdue),
        ("unjudged", RowWord::Unjudged),
    ] {
        report.figure(name, board.sum(word));
    }
    let rows = 0..board.shape().rows;
    if let Some(row) = rows.max_by_key(|row| board.row(*row, RowWord::LongestUs).load(SeqCst)) {
        let operation = board.row(row, RowWord::LongestOperation).load(SeqCst);
        report.figure("longest_us", board.row(row, RowWord::LongestUs).load(SeqCst));
        report.figure("longest_operation", Kind::name(operation));
    }
    let mut counts = serde_json::Map::new();
    for (number, kind) in Kind::all().iter().enumerate() {
        counts.insert(format!("{kind:?}"), board.operations(number).load(SeqCst).into());
    }
    report.figure("operations_of_kind", counts);
    report.figure("kills", crew.kills);
    report.figure("own_deaths", crew.own_deaths);
    report.figure("takeovers", stats.takeovers);
    report.figure("lost_half_written", stats.lost_entries);
    report.figure("evictions", stats.evictions);
    report.figure("reads_under_lock", stats.reads_under_lock);
    report.figure("reads_given_up", stats.reads_given_up);
    report.figure("checksum_mismatches", stats.checksum_mismatches);
    report.figure("entries", stats.entries);
    report.figure("checks", checks.count);
    report.figure("checks_unsound", checks.unsound);
    for (word, what) in [
        (RowWord::Wrong, "wrong answers"),
        (RowWord::Lost, "entries lost that nobody touched"),
        (RowWord::LockTimeouts, "lock timeouts, though no process was stopped"),
        (RowWord::Full, "values refused because the cache was full"),
        (RowWord::Errors, "other errors"),
        (RowWord::Overdue, "operations that took too long"),
    ] {
        let count = board.sum(word);
        report.expect(count == 0, || format!("{count} {what}"));
    }
    report.expect(board.sum(RowWord::GivenUp) <= stats.reads_given_up, || {
        "more reads found nothing until they were repeated than have given up".into()
    });
    let operations = board.sum(RowWord::Operations);
    report.expect(operations > 0, || "no operation was done at all".into());
    report.expect(board.sum(RowWord::Hits) * 10 > operations, || {
        "almost no read found an entry, so the run proves nothing".into()
    });
    if crew.arguments.evict {
        report.expect(stats.evictions > 0, || "nothing was evicted: the cache is too large".into());
    } else {
        report.expect(stats.evictions == 0, || {
            format!("{} entries were evicted though all fit", stats.evictions)
        });
    }
}

fn show_findings(cache: &std::path::Path) {
    let text = std::fs::read_to_string(findings_path(cache)).unwrap_or_default();
    text.lines().take(40).for_each(|line| eprintln!("  {line}"));
}
