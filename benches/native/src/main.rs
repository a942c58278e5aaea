//! `speed` times the engine, moka and quick_cache, `full` their sets of new keys into full caches,
//! `hot-path` runs single operations again and
//! again, for a tool that counts their instructions, and `watch-lock` tells for how long a shard's
//! lock is held. Each prints one object of JSON.
//!
//! Owns the command line. What is measured, and how, is in the modules.

mod caches;
mod full;
mod hot_path;
mod inputs;
mod lock_watch;
mod speed;

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
        /// Where Tuckbox's file is made.
        folder: PathBuf,
        /// Samples of each figure.
        #[arg(long)]
        rounds: usize,
        /// The time that one contestant has for one figure in one round.
        #[arg(long, default_value_t = 60)]
        round_ms: u64,
    },
    /// Time sets of new keys into full caches of the same number of entries, which take turns.
    Full {
        /// Where Tuckbox's file is made.
        folder: PathBuf,
        /// The size of that file.
        #[arg(long)]
        size_bytes: u64,
        /// Samples of each figure.
        #[arg(long)]
        rounds: usize,
    },
    /// Run the engine's hot paths, with marks for callgrind.
    HotPath {
        /// Where Tuckbox's file is made.
        folder: PathBuf,
    },
    /// Watch the lock of a cache's first shard, while others write, until the input ends.
    WatchLock {
        /// The cache.
        path: PathBuf,
    },
}

fn main() -> ExitCode {
    let told = match Arguments::parse().command {
        Command::Speed { folder, rounds, round_ms } => speed::measure(&folder, rounds, round_ms),
        Command::Full { folder, size_bytes, rounds } => full::measure(&folder, size_bytes, rounds),
        Command::HotPath { folder } => hot_path::run(&folder),
        Command::WatchLock { path } => lock_watch::watch(&path),
    };
    match told {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tuckbox-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
