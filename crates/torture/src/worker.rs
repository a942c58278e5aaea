//! A worker process. It opens the cache and the board, runs one actor in each of its threads until
//! the board says stop, and exits.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use tuckbox_engine::{Cache, Config, Place};
use tuckbox_testkit::process::Worker;

use crate::actor::{Actor, Lie, LOCK_LIMIT_MS};
use crate::board::Board;
use crate::points;
use crate::roles::{self, NOT_PERMITTED};

/// The command line of a worker.
#[derive(Debug, Clone, clap::Args)]
pub struct Orders {
    /// The cache file. The board is next to it.
    #[arg(long)]
    pub path: PathBuf,
    /// The first of the worker's rows on the board.
    #[arg(long)]
    pub first_row: usize,
    /// The number of its threads; each uses one row.
    #[arg(long)]
    pub threads: usize,
    /// How many processes used these rows before.
    #[arg(long)]
    pub incarnation: u64,
    /// The seed of the run.
    #[arg(long)]
    pub seed: u64,
    /// Dies at one in this many of the named points that it reaches; 0 means never.
    #[arg(long, default_value_t = 0)]
    pub die_one_in: u64,
    /// First mounts the `/proc` of its own PID namespace.
    #[arg(long)]
    pub own_proc: bool,
    /// What to do at which named point, such as "stop:RewriteHalf" or "kill:CursorMoved".
    #[arg(long)]
    pub at: Option<String>,
    /// Answers wrongly, as a negative control.
    #[arg(long)]
    pub lie: Option<Lie>,
}

/// The configuration with which every process of a run opens the cache.
pub fn config(size_bytes: u64) -> Config {
    let lock_limit = Duration::from_millis(LOCK_LIMIT_MS);
    Config { size_bytes, lock_limit, ..Config::default() }
}

/// Opens the cache that is at `path`.
///
/// # Errors
/// As [`Cache::open`].
pub fn open(path: &Path) -> tuckbox_engine::Result<Cache> {
    Cache::open(&Place::Path(path.into()), &config(64 << 20))
}

/// A command that runs this program again, with other arguments.
pub fn myself() -> Command {
    Command::new("/proc/self/exe")
}

impl Orders {
    /// Starts the worker.
    ///
    /// # Errors
    /// What the system answers.
    pub fn start(&self) -> std::io::Result<Worker> {
        let mut command = myself();
        command.arg("worker").arg("--path").arg(&self.path);
        for (name, value) in [
            ("--first-row", self.first_row as u64),
            ("--threads", self.threads as u64),
            ("--incarnation", self.incarnation),
            ("--seed", self.seed),
            ("--die-one-in", self.die_one_in),
        ] {
            command.arg(name).arg(value.to_string());
        }
        if self.own_proc {
            command.arg("--own-proc");
        }
        if let Some(at) = &self.at {
            command.arg("--at").arg(at);
        }
        if let Some(lie) = self.lie {
            let value = clap::ValueEnum::to_possible_value(&lie).expect("no lie is hidden");
            command.arg("--lie").arg(value.get_name());
        }
        Worker::start(&mut command)
    }
}

/// Runs the worker.
pub fn run(orders: &Orders) -> ExitCode {
    if orders.own_proc {
        if let Err(error) = roles::mount_proc() {
            eprintln!("/proc cannot be mounted: {error}");
            return ExitCode::from(NOT_PERMITTED);
        }
    }
    let board = Board::open(&orders.path).expect("the supervisor made the board");
    let cache = match open(&orders.path) {
        Ok(cache) => cache,
        Err(error) => {
            board.report(&format!("refused: open: {error}"));
            return ExitCode::from(3);
        }
    };
    let (board, cache) = (&board, &cache);
    let panicked = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..orders.threads)
            .map(|thread| {
                scope.spawn(move || {
                    let row = orders.first_row + thread;
                    points::arm(board, row, orders);
                    let (incarnation, seed) = (orders.incarnation, orders.seed);
                    let mut actor = Actor::new(cache, board, row, incarnation, seed, orders.lie);
                    actor.resolve();
                    while !board.is_stopped() {
                        actor.step();
                    }
                })
            })
            .collect();
        threads.into_iter().any(|thread| thread.join().is_err())
    });
    if panicked {
        board.report("panic: a worker thread panicked");
        return ExitCode::from(101);
    }
    ExitCode::SUCCESS
}
