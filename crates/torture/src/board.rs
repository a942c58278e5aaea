//! The board: a file of words that the processes of a run share besides the cache. It has the
//! expected state of every key, and a row for each worker thread with its heartbeat and what it is
//! doing. The rows tell the supervisor what a killed thread may have done.
//!
//! This module knows how the words are laid out. It knows nothing of the cache.

use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;

use tuckbox_testkit::oracle::Oracle;
use tuckbox_testkit::process::monotonic_us;
use tuckbox_testkit::shared::SharedWords;

/// Numbers of rows, keys and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows: one for each worker thread of all processes.
    pub rows: usize,
    /// Keys that only one thread changes, for each thread.
    pub keys_each: usize,
    /// Keys that all threads change.
    pub contested: usize,
    /// Counters that all threads count up.
    pub counters: usize,
}

/// The words of the header.
mod header {
    pub const SHAPE: usize = 0;
    pub const STOP: usize = 4;
    pub const MAY_FORGET: usize = 5;
    pub const FLAGS: usize = 6;
    pub const END: usize = 16;
}

/// Words that processes of a run use to wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// A process is held up at a named point.
    Holding,
    /// The process that is held up may go on.
    Release,
    /// All processes may begin.
    Go,
    /// How many processes have arrived.
    Arrived,
    /// A process id, for another process to read.
    ProcessId,
}

/// The words of a row. Counters outlive the process that uses the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowWord {
    /// When the operation under way began, in microseconds; 0 between operations.
    StartedUs,
    /// How long its thread had waited for a processor by then, in microseconds.
    WaitedUs,
    /// The thread's number, in its own PID namespace.
    Thread,
    /// The kind and key of the operation under way.
    Operation,
    /// The last number given to a change.
    Sequence,
    /// The contested key that is being changed, plus one.
    ContestedKey,
    /// The ticket of that change.
    ContestedTicket,
    /// The counter that is being counted up, plus one.
    Counter,
    /// By how much that counter is counted up.
    CounterDelta,
    /// Operations done.
    Operations,
    /// Reads that found something.
    Hits,
    /// Reads that found nothing.
    Misses,
    /// Answers that were wrong.
    Wrong,
    /// Entries that were missing though nobody had removed them.
    Lost,
    /// Reads that found nothing because they gave up.
    GivenUp,
    /// Operations that failed at a lock's time limit.
    LockTimeouts,
    /// Operations that failed because no room could be made.
    Full,
    /// Operations that failed with another error.
    Errors,
    /// Operations that took longer than they may.
    Overdue,
    /// Answers that the board could not judge any more.
    Unjudged,
    /// Duration of the longest operation, in microseconds.
    LongestUs,
    /// The kind and key of the longest operation.
    LongestOperation,
    /// Named points that the thread reached, a bit for each. Only in builds with named points.
    #[cfg_attr(not(feature = "points"), allow(dead_code))]
    Points,
}

const ROW_WORDS: usize = 24;
/// Set in a counter's uncertain amount if its entry may have been lost with its writer.
const MAY_RESTART: u64 = 1 << 63;
/// How many changes of a contested key the board remembers.
const RING_LEN: usize = 256;
const RING_WORDS: usize = 3;
const CONTESTED_WORDS: usize = 2 + RING_LEN * RING_WORDS;
/// Kinds of operations that are counted.
pub const OPERATION_KINDS: usize = 32;

/// What the board says about a value found under a contested key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The value may be there.
    Right,
    /// The value had been replaced or removed before the read began.
    Stale,
    /// Nobody had stored the value yet.
    Unborn,
    /// The change is too long ago to judge.
    Unknown,
}

/// The board of a run.
#[derive(Debug)]
pub struct Board {
    words: Arc<SharedWords>,
    shape: Shape,
    findings: PathBuf,
}

/// The path of the board, next to the cache file.
pub fn board_path(cache: &Path) -> PathBuf {
    cache.with_extension("board")
}

/// The path of the findings, next to the cache file.
pub fn findings_path(cache: &Path) -> PathBuf {
    cache.with_extension("findings")
}

impl Shape {
    fn rows_at(self) -> usize {
        header::END
    }

    fn operations_at(self) -> usize {
        self.rows_at() + self.rows * ROW_WORDS
    }

    fn counted_at(self) -> usize {
        self.operations_at() + OPERATION_KINDS
    }

    fn uncertain_at(self) -> usize {
        self.counted_at() + self.rows * self.counters
    }

    fn contested_at(self) -> usize {
        self.uncertain_at() + self.counters
    }

    fn oracle_at(self) -> usize {
        self.contested_at() + self.contested * CONTESTED_WORDS
    }

    fn word_count(self) -> usize {
        self.oracle_at() + Oracle::word_count(self.rows * self.keys_each)
    }
}

impl Board {
    /// Creates the board for the cache at `cache`.
    ///
    /// # Errors
    /// What the system answers.
    pub fn create(cache: &Path, shape: Shape, may_forget: bool) -> io::Result<Board> {
        let words = Arc::new(SharedWords::create(&board_path(cache), shape.word_count())?);
        let parts = [shape.rows, shape.keys_each, shape.contested, shape.counters];
        for (index, part) in parts.into_iter().enumerate() {
            words.word(header::SHAPE + index).store(part as u64, SeqCst);
        }
        words.word(header::MAY_FORGET).store(u64::from(may_forget), SeqCst);
        Ok(Board { words, shape, findings: findings_path(cache) })
    }

    /// Opens the board that the supervisor created.
    ///
    /// # Errors
    /// What the system answers.
    pub fn open(cache: &Path) -> io::Result<Board> {
        let words = Arc::new(SharedWords::open(&board_path(cache))?);
        let part = |index| words.word(header::SHAPE + index).load(SeqCst) as usize;
        let shape =
            Shape { rows: part(0), keys_each: part(1), contested: part(2), counters: part(3) };
        Ok(Board { words, shape, findings: findings_path(cache) })
    }

    /// Numbers of rows, keys and counters.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether the cache may drop entries that nobody removed.
    pub fn may_forget(&self) -> bool {
        self.words.word(header::MAY_FORGET).load(SeqCst) != 0
    }

    /// The word of a flag.
    pub fn flag(&self, flag: Flag) -> &AtomicU64 {
        self.words.word(Board::flag_index(flag))
    }

    /// The index of a flag's word.
    pub fn flag_index(flag: Flag) -> usize {
        header::FLAGS + flag as usize
    }

    /// Waits until a flag is at least `least`. False if that takes longer than `limit`.
    pub fn wait_for(&self, flag: Flag, least: u64, limit: std::time::Duration) -> bool {
        let began = std::time::Instant::now();
        while self.flag(flag).load(SeqCst) < least {
            if began.elapsed() > limit {
                return false;
            }
            // Hundreds of processes may be waiting.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        true
    }

    /// Tells the workers to end.
    pub fn stop(&self) {
        self.words.word(header::STOP).store(1, SeqCst);
    }

    /// Whether the workers should end.
    pub fn is_stopped(&self) -> bool {
        self.words.word(header::STOP).load(SeqCst) != 0
    }

    /// Appends a finding to the findings file.
    pub fn report(&self, finding: &str) {
        let line = format!("{finding}\n");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.findings);
        // A single write keeps lines of several processes apart.
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        if written.is_err() {
            eprint!("{line}");
        }
    }

    /// The words themselves, for callers that outlive a borrow of the board.
    #[cfg_attr(not(feature = "points"), allow(dead_code))]
    pub fn words(&self) -> Arc<SharedWords> {
        Arc::clone(&self.words)
    }

    /// The index of a row's word.
    pub fn row_index(&self, row: usize, word: RowWord) -> usize {
        assert!(row < self.shape.rows);
        self.shape.rows_at() + row * ROW_WORDS + word as usize
    }

    /// A word of a row.
    pub fn row(&self, row: usize, word: RowWord) -> &AtomicU64 {
        self.words.word(self.row_index(row, word))
    }

    /// The sum of a word over all rows.
    pub fn sum(&self, word: RowWord) -> u64 {
        (0..self.shape.rows).map(|row| self.row(row, word).load(SeqCst)).sum()
    }

    /// How often an operation was done.
    pub fn operations(&self, kind: usize) -> &AtomicU64 {
        assert!(kind < OPERATION_KINDS);
        self.words.word(self.shape.operations_at() + kind)
    }

    /// The expected states of the keys that only one thread changes.
    pub fn oracle(&self) -> Oracle<'_> {
        Oracle::new(&self.words, self.shape.oracle_at(), self.shape.rows * self.shape.keys_each)
    }

    fn counted(&self, row: usize, counter: usize) -> &AtomicU64 {
        self.words.word(self.shape.counted_at() + counter * self.shape.rows + row)
    }

    fn uncertain(&self, counter: usize) -> &AtomicU64 {
        self.words.word(self.shape.uncertain_at() + counter)
    }

    /// Notes that a thread is about to count a counter up. With `replaces` it writes the whole
    /// entry, which may be lost if the thread dies meanwhile.
    pub fn begin_count(&self, row: usize, counter: usize, delta: u64, replaces: bool) {
        let mark = if replaces { MAY_RESTART } else { 0 };
        self.row(row, RowWord::CounterDelta).store(delta | mark, SeqCst);
        self.row(row, RowWord::Counter).store(counter as u64 + 1, SeqCst);
    }

    /// Notes that the thread added `delta` (0 if it certainly did not count).
    pub fn end_count(&self, row: usize, counter: usize, delta: u64) {
        self.counted(row, counter).fetch_add(delta, SeqCst);
        self.row(row, RowWord::Counter).store(0, SeqCst);
    }

    /// The lowest and highest possible number of a counter, if nothing is under way.
    pub fn count_bounds(&self, counter: usize) -> (u64, u64) {
        let uncertain = self.uncertain(counter).load(SeqCst);
        let rows = 0..self.shape.rows;
        let sum: u64 = rows.map(|row| self.counted(row, counter).load(SeqCst)).sum();
        let least = if uncertain & MAY_RESTART == 0 { sum } else { 0 };
        (least, sum + (uncertain & !MAY_RESTART))
    }

    fn contested_word(&self, key: usize, word: usize) -> &AtomicU64 {
        assert!(key < self.shape.contested);
        self.words.word(self.shape.contested_at() + key * CONTESTED_WORDS + word)
    }

    fn ring_word(&self, key: usize, ticket: u64, word: usize) -> &AtomicU64 {
        let place = ticket as usize % RING_LEN;
        self.contested_word(key, 2 + place * RING_WORDS + word)
    }

    /// Notes that a thread is about to change a contested key. Returns the ticket of the change.
    pub fn begin_contest(&self, row: usize, key: usize) -> u64 {
        let ticket = self.contested_word(key, 0).fetch_add(1, SeqCst) + 1;
        self.ring_word(key, ticket, 1).store(0, SeqCst);
        self.ring_word(key, ticket, 2).store(0, SeqCst);
        self.ring_word(key, ticket, 0).store(ticket, SeqCst);
        self.row(row, RowWord::ContestedTicket).store(ticket, SeqCst);
        self.row(row, RowWord::ContestedKey).store(key as u64 + 1, SeqCst);
        ticket
    }

    /// Notes that a change is over. It was certainly made if `made`; otherwise it was made before
    /// now or never will be.
    pub fn end_contest(&self, row: usize, key: usize, ticket: u64, made: bool) {
        let ended = self.contested_word(key, 0).fetch_add(1, SeqCst) + 1;
        if self.ring_word(key, ticket, 0).load(SeqCst) == ticket {
            self.ring_word(key, ticket, 1).store(ended, SeqCst);
        }
        if made {
            self.contested_word(key, 1).fetch_max(ticket, SeqCst);
        }
        self.row(row, RowWord::ContestedKey).store(0, SeqCst);
    }

    /// The latest change of a contested key that is certainly over. Call it before a read.
    pub fn contest_floor(&self, key: usize) -> u64 {
        self.contested_word(key, 1).load(SeqCst)
    }

    /// Whether a read that began when the floor was `floor` may find the value of `ticket`. It may
    /// not if that change was over before the change at the floor began.
    pub fn judge_contested(&self, key: usize, floor: u64, ticket: u64) -> Verdict {
        if ticket > self.contested_word(key, 0).load(SeqCst) {
            return Verdict::Unborn;
        }
        if ticket >= floor {
            return Verdict::Right;
        }
        let ended = self.ring_word(key, ticket, 1).load(SeqCst);
        if self.ring_word(key, ticket, 0).load(SeqCst) != ticket {
            return Verdict::Unknown;
        }
        if ended != 0 && ended < floor {
            Verdict::Stale
        } else {
            Verdict::Right
        }
    }

    /// Notes that a value was popped. False if the value had been popped before.
    pub fn note_pop(&self, key: usize, ticket: u64) -> bool {
        if self.ring_word(key, ticket, 0).load(SeqCst) != ticket {
            return true;
        }
        self.ring_word(key, ticket, 2).fetch_add(1, SeqCst) == 0
    }

    /// Accounts for the operation in which the thread of this row was killed. The supervisor calls
    /// it once it has reaped the process.
    pub fn account_for_death(&self, row: usize) {
        let key = self.row(row, RowWord::ContestedKey).load(SeqCst);
        if key != 0 {
            let ticket = self.row(row, RowWord::ContestedTicket).load(SeqCst);
            self.end_contest(row, key as usize - 1, ticket, false);
        }
        let counter = self.row(row, RowWord::Counter).swap(0, SeqCst);
        if counter != 0 {
            let delta = self.row(row, RowWord::CounterDelta).load(SeqCst);
            let uncertain = self.uncertain(counter as usize - 1);
            uncertain.fetch_add(delta & !MAY_RESTART, SeqCst);
            uncertain.fetch_or(delta & MAY_RESTART, SeqCst);
        }
        self.row(row, RowWord::StartedUs).store(0, SeqCst);
    }

    /// The rows whose operation has taken longer than `limit_us` so far, with that time.
    pub fn overdue(&self, limit_us: u64) -> Vec<(usize, u64)> {
        let now_us = monotonic_us();
        (0..self.shape.rows)
            .filter_map(|row| {
                let started_us = self.row(row, RowWord::StartedUs).load(SeqCst);
                let took_us = now_us.saturating_sub(started_us);
                (started_us != 0 && took_us > limit_us).then_some((row, took_us))
            })
            .collect()
    }
}
