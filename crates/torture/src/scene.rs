//! A scene: a folder with one cache and its board, its workers, and the checks that end every
//! trial.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tuckbox_arena::act_as_another_process;
use tuckbox_engine::{ArenaError, Buffer, Cache, Config, Error, Place, Ttl, Value};
use tuckbox_testkit::stamp::{self, Stamp};

use crate::actor::Actor;
use crate::board::{Board, RowWord, Shape};
use crate::place::Folder;
use crate::report::Report;
use crate::worker::{config, Orders};

/// A cache under trial.
pub struct Scene {
    /// The run's files.
    pub folder: Folder,
    /// The cache file.
    pub path: PathBuf,
    /// The supervisor's own handle.
    pub cache: Cache,
    /// The board.
    pub board: Board,
}

/// The outcome of a write that may have met a held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// The write was done.
    Done,
    /// A live process kept the lock.
    TimedOut,
    /// Something else.
    Failed,
}

impl Scene {
    /// A new cache of `size_bytes` with a board for `rows`.
    ///
    /// # Panics
    /// If the cache cannot be created.
    pub fn new(size_bytes: u64, rows: usize, keys_each: usize, may_forget: bool) -> Scene {
        let folder = Folder::new(None);
        let path = folder.file("cache.tuck");
        let cache = Cache::open(&Place::Path(path.clone()), &config(size_bytes))
            .unwrap_or_else(|error| panic!("the cache cannot be made: {error}"));
        let shape = Shape { rows, keys_each, contested: 16, counters: 8 };
        let board = Board::create(&path, shape, may_forget).expect("a new board");
        Scene { folder, path, cache, board }
    }

    /// Orders for a worker with `threads` threads, in the rows that begin with `first_row`.
    pub fn orders(&self, first_row: usize, threads: usize, seed: u64) -> Orders {
        Orders {
            path: self.path.clone(),
            first_row,
            threads,
            incarnation: 1,
            seed,
            die_one_in: 0,
            own_proc: false,
            at: None,
            lie: None,
        }
    }

    /// Another handle, which waits for locks for at most `lock_limit`.
    ///
    /// # Panics
    /// If the cache cannot be opened.
    pub fn impatient(&self, lock_limit: Duration) -> Cache {
        let config = Config { lock_limit, ..Config::default() };
        Cache::open(&Place::Path(self.path.clone()), &config).expect("the cache is there")
    }

    /// The first findings.
    pub fn findings(&self) -> String {
        let text = std::fs::read_to_string(crate::board::findings_path(&self.path));
        text.unwrap_or_default().lines().take(5).collect::<Vec<_>>().join("; ")
    }

    /// Ends a trial: demands that the cache is sound and that there are no findings.
    pub fn settle(&self, report: &mut Report, trial: &str) {
        match self.cache.check() {
            Ok(found) => report.expect(found.is_sound(), || {
                format!("{trial}: check: {:?}", found.findings.iter().take(4).collect::<Vec<_>>())
            }),
            Err(error) => report.fail(format!("{trial}: check was refused: {error}")),
        }
        for row in 0..self.board.shape().rows {
            let mut actor = Actor::new(&self.cache, &self.board, row, 0, 0, None);
            actor.resolve();
            actor.judge_all();
        }
        for word in [RowWord::Wrong, RowWord::Lost, RowWord::Errors] {
            let count = self.board.sum(word);
            if count > 0 {
                report.fail(format!("{trial}: {count} times {word:?}: {}", self.findings()));
            }
        }
    }
}

/// Stores a value under `key`. Returns the outcome and the duration.
pub fn probe(cache: &Cache, key: &[u8], len: usize) -> (Probe, Duration) {
    let mut value = Vec::new();
    stamp::make(key, Stamp { writer: 1 << 40, sequence: 1 }, len, &mut value);
    let began = Instant::now();
    let result = cache.set(key, Value::bytes(&value), Ttl::Never);
    let took = began.elapsed();
    let probe = match result {
        Ok(()) => Probe::Done,
        Err(Error::Arena(ArenaError::LockTimeout { .. })) => Probe::TimedOut,
        Err(error) => {
            eprintln!("a write was refused: {error}");
            Probe::Failed
        }
    };
    (probe, took)
}

/// Whether `key` has the value that [`probe`] stores. None if it has no value.
pub fn look(cache: &Cache, key: &[u8]) -> Option<bool> {
    let mut buffer = Buffer::new();
    let entry = cache.get(key, &mut buffer).ok()??;
    match entry.value {
        Value::Bytes { bytes, .. } => Some(stamp::read(key, bytes).is_ok()),
        Value::Int(_) => Some(false),
    }
}

/// Opens a handle for each of `count` further processes. Each takes a process slot. An error if one
/// of the slots is not available.
///
/// # Errors
/// As [`Cache::open`].
pub fn open_many(path: &std::path::Path, count: usize) -> tuckbox_engine::Result<()> {
    let open = |_| {
        act_as_another_process();
        crate::worker::open(path)
    };
    let handles: Result<Vec<Cache>, Error> = (0..count).map(open).collect();
    handles.map(drop)
}
