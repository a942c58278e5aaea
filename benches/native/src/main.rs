//! - `speed` times the engine, moka, quick_cache and a stripped get.
//! - `full` times sets of new keys into full caches.
//! - `hot-path` repeats single operations, for callgrind to count their instructions.
//! - `watch-lock` measures how long a shard's lock is held.
//!
//! Each prints one object of JSON. Owns the command line; the modules measure.

mod caches;
mod full;
mod hot_path;
mod inputs;
mod lock_watch;
mod speed;
mod stripped_get;
mod stripped_set;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Time gets and sets of all caches, which take turns.
    Speed {
        /// The folder of Tuckbox's file.
        folder: PathBuf,
        /// How many entries each has.
        #[arg(long)]
        entries: usize,
        /// Samples of each figure.
        #[arg(long)]
        rounds: usize,
        /// The time of one contestant for one figure in one round.
        #[arg(long, default_value_t = 60)]
        round_ms: u64,
    },
    /// Time sets of new keys into full caches of the same number of entries, which take turns.
    Full {
        /// The folder of Tuckbox's file.
        folder: PathBuf,
        /// The size of that file.
        #[arg(long)]
        size_bytes: u64,
        /// The limit of entries, 0 for none. The file must be large enough.
        #[arg(long, default_value_t = 0)]
        max_entries: u64,
        /// The size of a value.
        #[arg(long, default_value_t = inputs::VALUE_BYTES)]
        value_bytes: usize,
        /// Every second key was stored before, and evicted.
        #[arg(long)]
        half_known: bool,
        /// Samples of each figure.
        #[arg(long)]
        rounds: usize,
    },
    /// Run the engine's hot paths, with marks for callgrind.
    HotPath {
        /// The folder of Tuckbox's file.
        folder: PathBuf,
    },
    /// Watch the lock of a cache's first shard while others write, until the standard input ends.
    WatchLock {
        /// The cache's file.
        path: PathBuf,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Speed { folder, entries, rounds, round_ms } => {
            speed::measure(&folder, entries, rounds, round_ms)
        }
        Command::Full { folder, size_bytes, max_entries, value_bytes, half_known, rounds } => {
            let filled = full::Filled { folder, size_bytes, max_entries, value_bytes, half_known };
            filled.measure(rounds)
        }
        Command::HotPath { folder } => hot_path::run(&folder),
        Command::WatchLock { path } => lock_watch::watch(&path),
    };
    match result {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tuckbox-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
