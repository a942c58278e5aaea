//! The board: what the processes of a run share besides the cache. A file of words with the
//! expected state of every key, the seats of the worker threads with their heartbeats, and what
//! each has under way, so that the supervisor knows what a killed one may have done.
//!
//! Knows how the words are laid out, and nothing of the cache.

use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;

use tuckbox_testkit::oracle::Oracle;
use tuckbox_testkit::process::monotonic_us;
use tuckbox_testkit::shared::SharedWords;

/// How many of each there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Worker threads, over all processes.
    pub seats: usize,
    /// Keys that one seat alone changes.
    pub keys_each: usize,
    /// Keys that all seats change.
    pub contested: usize,
    /// Counters that all seats count up.
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

/// Words by which processes of a run wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// Somebody is held up at a named point.
    Holding,
    /// Who is held up may go on.
    Release,
    /// All may begin.
    Go,
    /// How many have come so far.
    Arrived,
    /// A process id that somebody shall know.
    ProcessId,
}

/// What a seat counts or shows. Counters outlive the process that had the seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatWord {
    /// When the operation under way began, in microseconds; 0 between operations.
    StartedUs,
    /// How long its thread had waited for a processor by then, in microseconds.
    WaitedUs,
    /// The thread's number, in its own PID namespace.
    Thread,
    /// Which operation it is.
    Operation,
    /// The last number given to a change.
    Sequence,
    /// The contested key that is being changed, plus one.
    ContestedKey,
    /// That change's ticket.
    ContestedTicket,
    /// The counter that is being counted up, plus one.
    Counter,
    /// By how much.
    CounterDelta,
    /// Operations done.
    Operations,
    /// Reads that found something.
    Hits,
    /// Reads that found nothing.
    Misses,
    /// Answers that were wrong.
    Wrong,
    /// Entries that were gone though nobody had removed them.
    Lost,
    /// Operations that ended with a lock's time limit.
    LockTimeouts,
    /// Operations that ended because no room could be made.
    Full,
    /// Operations that ended with another error.
    Errors,
    /// Operations that took longer than they may.
    Overdue,
    /// Answers about which the board no longer knew enough.
    Unjudged,
    /// The longest operation, in microseconds,
    LongestUs,
    /// and which it was.
    LongestOperation,
    /// Named points that were reached, a bit for each. Only in builds that have them.
    #[cfg_attr(not(feature = "points"), allow(dead_code))]
    Points,
}

const SEAT_WORDS: usize = 24;
/// Set with what is uncertain about a counter, if its entry may have been lost with its writer.
const MAY_RESTART: u64 = 1 << 63;
/// Changes of a contested key that are remembered.
const RING_LEN: usize = 256;
const RING_WORDS: usize = 3;
const CONTESTED_WORDS: usize = 2 + RING_LEN * RING_WORDS;
/// Kinds of operations for which there is a count.
pub const OPERATION_KINDS: usize = 32;

/// What the board says of a value found under a contested key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may be there.
    Right,
    /// It had been replaced or removed before the read began.
    Stale,
    /// Nobody had stored it yet.
    Unborn,
    /// Too long ago to say.
    Unknown,
}

/// The board of a run.
#[derive(Debug)]
pub struct Board {
    words: Arc<SharedWords>,
    shape: Shape,
    findings: PathBuf,
}

/// The file of the board, beside the cache's.
pub fn board_path(cache: &Path) -> PathBuf {
    cache.with_extension("board")
}

/// The file of what was found wrong, beside the cache's.
pub fn findings_path(cache: &Path) -> PathBuf {
    cache.with_extension("findings")
}

impl Shape {
    fn seats_at(self) -> usize {
        header::END
    }

    fn operations_at(self) -> usize {
        self.seats_at() + self.seats * SEAT_WORDS
    }

    fn counted_at(self) -> usize {
        self.operations_at() + OPERATION_KINDS
    }

    fn uncertain_at(self) -> usize {
        self.counted_at() + self.seats * self.counters
    }

    fn contested_at(self) -> usize {
        self.uncertain_at() + self.counters
    }

    fn oracle_at(self) -> usize {
        self.contested_at() + self.contested * CONTESTED_WORDS
    }

    fn word_count(self) -> usize {
        self.oracle_at() + Oracle::word_count(self.seats * self.keys_each)
    }
}

impl Board {
    /// Makes the board for the cache at `cache`.
    ///
    /// # Errors
    /// What the system answers.
    pub fn create(cache: &Path, shape: Shape, may_forget: bool) -> io::Result<Board> {
        let words = Arc::new(SharedWords::create(&board_path(cache), shape.word_count())?);
        let parts = [shape.seats, shape.keys_each, shape.contested, shape.counters];
        for (index, part) in parts.into_iter().enumerate() {
            words.word(header::SHAPE + index).store(part as u64, SeqCst);
        }
        words.word(header::MAY_FORGET).store(u64::from(may_forget), SeqCst);
        Ok(Board { words, shape, findings: findings_path(cache) })
    }

    /// Opens the board that the supervisor made.
    ///
    /// # Errors
    /// What the system answers.
    pub fn open(cache: &Path) -> io::Result<Board> {
        let words = Arc::new(SharedWords::open(&board_path(cache))?);
        let part = |index| words.word(header::SHAPE + index).load(SeqCst) as usize;
        let shape =
            Shape { seats: part(0), keys_each: part(1), contested: part(2), counters: part(3) };
        Ok(Board { words, shape, findings: findings_path(cache) })
    }

    /// How many of each there are.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether the cache may drop entries that nobody removed.
    pub fn may_forget(&self) -> bool {
        self.words.word(header::MAY_FORGET).load(SeqCst) != 0
    }

    /// A word by which processes wait for each other.
    pub fn flag(&self, flag: Flag) -> &AtomicU64 {
        self.words.word(Board::flag_index(flag))
    }

    /// Which of the words a flag is.
    pub fn flag_index(flag: Flag) -> usize {
        header::FLAGS + flag as usize
    }

    /// Waits until a flag is `least` at least; false if that takes longer than `limit`.
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

    /// Whether the workers shall end.
    pub fn is_stopped(&self) -> bool {
        self.words.word(header::STOP).load(SeqCst) != 0
    }

    /// Writes down something that is worth a look.
    pub fn report(&self, finding: &str) {
        let line = format!("{finding}\n");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.findings);
        // One write, so that lines of several processes do not mix.
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        if written.is_err() {
            eprint!("{line}");
        }
    }

    /// The words themselves, for who outlives a borrow of the board.
    #[cfg_attr(not(feature = "points"), allow(dead_code))]
    pub fn words(&self) -> Arc<SharedWords> {
        Arc::clone(&self.words)
    }

    /// Which of the words a word of a seat is.
    pub fn seat_index(&self, seat: usize, word: SeatWord) -> usize {
        assert!(seat < self.shape.seats);
        self.shape.seats_at() + seat * SEAT_WORDS + word as usize
    }

    /// A word of a seat.
    pub fn seat(&self, seat: usize, word: SeatWord) -> &AtomicU64 {
        self.words.word(self.seat_index(seat, word))
    }

    /// A word summed over all seats.
    pub fn sum(&self, word: SeatWord) -> u64 {
        (0..self.shape.seats).map(|seat| self.seat(seat, word).load(SeqCst)).sum()
    }

    /// How often an operation was done.
    pub fn operations(&self, kind: usize) -> &AtomicU64 {
        assert!(kind < OPERATION_KINDS);
        self.words.word(self.shape.operations_at() + kind)
    }

    /// The expected states of the keys that one seat alone changes.
    pub fn oracle(&self) -> Oracle<'_> {
        Oracle::new(&self.words, self.shape.oracle_at(), self.shape.seats * self.shape.keys_each)
    }

    fn counted(&self, seat: usize, counter: usize) -> &AtomicU64 {
        self.words.word(self.shape.counted_at() + counter * self.shape.seats + seat)
    }

    fn uncertain(&self, counter: usize) -> &AtomicU64 {
        self.words.word(self.shape.uncertain_at() + counter)
    }

    /// A seat is about to count a counter up; `replaces` says that it does so by writing the whole
    /// entry, which may be gone if it dies meanwhile.
    pub fn begin_count(&self, seat: usize, counter: usize, delta: u64, replaces: bool) {
        let mark = if replaces { MAY_RESTART } else { 0 };
        self.seat(seat, SeatWord::CounterDelta).store(delta | mark, SeqCst);
        self.seat(seat, SeatWord::Counter).store(counter as u64 + 1, SeqCst);
    }

    /// It has, or it certainly has not.
    pub fn end_count(&self, seat: usize, counter: usize, delta: u64) {
        self.counted(seat, counter).fetch_add(delta, SeqCst);
        self.seat(seat, SeatWord::Counter).store(0, SeqCst);
    }

    /// The least and the most that a counter may hold now, if nothing is under way.
    pub fn count_bounds(&self, counter: usize) -> (u64, u64) {
        let uncertain = self.uncertain(counter).load(SeqCst);
        let seats = 0..self.shape.seats;
        let sum: u64 = seats.map(|seat| self.counted(seat, counter).load(SeqCst)).sum();
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

    /// A seat is about to change a contested key. Returns the change's ticket.
    pub fn begin_contest(&self, seat: usize, key: usize) -> u64 {
        let ticket = self.contested_word(key, 0).fetch_add(1, SeqCst) + 1;
        self.ring_word(key, ticket, 1).store(0, SeqCst);
        self.ring_word(key, ticket, 2).store(0, SeqCst);
        self.ring_word(key, ticket, 0).store(ticket, SeqCst);
        self.seat(seat, SeatWord::ContestedTicket).store(ticket, SeqCst);
        self.seat(seat, SeatWord::ContestedKey).store(key as u64 + 1, SeqCst);
        ticket
    }

    /// The change is over: certainly made if `made`, otherwise made before now or never.
    pub fn end_contest(&self, seat: usize, key: usize, ticket: u64, made: bool) {
        let ended = self.contested_word(key, 0).fetch_add(1, SeqCst) + 1;
        if self.ring_word(key, ticket, 0).load(SeqCst) == ticket {
            self.ring_word(key, ticket, 1).store(ended, SeqCst);
        }
        if made {
            self.contested_word(key, 1).fetch_max(ticket, SeqCst);
        }
        self.seat(seat, SeatWord::ContestedKey).store(0, SeqCst);
    }

    /// The latest change of a contested key that is certainly over. To be asked before a read.
    pub fn contest_floor(&self, key: usize) -> u64 {
        self.contested_word(key, 1).load(SeqCst)
    }

    /// Whether a read that began when the floor was `floor` may find the value of `ticket`: not
    /// if that change was over before the one at the floor began.
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

    /// Notes that a value was popped. False if it had been popped before.
    pub fn note_pop(&self, key: usize, ticket: u64) -> bool {
        if self.ring_word(key, ticket, 0).load(SeqCst) != ticket {
            return true;
        }
        self.ring_word(key, ticket, 2).fetch_add(1, SeqCst) == 0
    }

    /// Settles what the process had under way that was killed in this seat. For the supervisor,
    /// once the process is reaped.
    pub fn bury(&self, seat: usize) {
        let key = self.seat(seat, SeatWord::ContestedKey).load(SeqCst);
        if key != 0 {
            let ticket = self.seat(seat, SeatWord::ContestedTicket).load(SeqCst);
            self.end_contest(seat, key as usize - 1, ticket, false);
        }
        let counter = self.seat(seat, SeatWord::Counter).swap(0, SeqCst);
        if counter != 0 {
            let delta = self.seat(seat, SeatWord::CounterDelta).load(SeqCst);
            let uncertain = self.uncertain(counter as usize - 1);
            uncertain.fetch_add(delta & !MAY_RESTART, SeqCst);
            uncertain.fetch_or(delta & MAY_RESTART, SeqCst);
        }
        self.seat(seat, SeatWord::StartedUs).store(0, SeqCst);
    }

    /// The seats whose operation has been under way for longer than `limit_us`, with that time.
    pub fn overdue(&self, limit_us: u64) -> Vec<(usize, u64)> {
        let now_us = monotonic_us();
        (0..self.shape.seats)
            .filter_map(|seat| {
                let started_us = self.seat(seat, SeatWord::StartedUs).load(SeqCst);
                let took_us = now_us.saturating_sub(started_us);
                (started_us != 0 && took_us > limit_us).then_some((seat, took_us))
            })
            .collect()
    }
}
