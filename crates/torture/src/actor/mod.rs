//! An actor: one worker thread. This module draws, runs and times operations, and judges what a
//! value itself tells. The submodules, one for each kind of keys, judge the rest of an answer. A
//! seeded generator draws the operations.

mod canaries;
mod contested;
mod counters;
mod operation;
mod own;

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tuckbox_engine::{ArenaError, Buffer, Cache, Error, Value};
use tuckbox_testkit::process::{monotonic_us, thread_id, ProcessorWait};
use tuckbox_testkit::stamp::{self, Stamp, STAMP_BYTES_MIN};

use crate::board::{Board, RowWord};

pub use canaries::{canary_key, count_canaries, store_canary, CANARIES};
pub use counters::counter_key;
pub use operation::{Kind, Lie};
use own::{is_large, LARGE_ONE_IN};

/// How long a write waits for a lock.
pub const LOCK_LIMIT_MS: u64 = 5_000;
/// An operation that takes longer than this has hung. Time in which its thread was ready but had no
/// processor does not count.
pub const HANG_US: u64 = (LOCK_LIMIT_MS + 5_000) * 1000;

/// What a read found.
struct Look {
    /// The value's sequence; none for a miss.
    sequence: Option<u64>,
    version: u64,
}

/// One worker thread.
pub struct Actor<'a> {
    cache: &'a Cache,
    board: &'a Board,
    row: usize,
    writer: u64,
    random: fastrand::Rng,
    buffer: Buffer,
    value: Vec<u8>,
    lie: Option<Lie>,
    may_forget: bool,
    processor_wait: ProcessorWait,
    /// Earlier values, for the lie that answers stale ones.
    remembered: Vec<(usize, u64)>,
}

impl<'a> Actor<'a> {
    /// The actor of a row, for this thread. `incarnation` counts the processes that used the row.
    pub fn new(
        cache: &'a Cache,
        board: &'a Board,
        row: usize,
        incarnation: u64,
        seed: u64,
        lie: Option<Lie>,
    ) -> Actor<'a> {
        let random = fastrand::Rng::with_seed(seed ^ (row as u64) << 48 ^ incarnation << 16);
        let may_forget = board.may_forget();
        Actor {
            cache,
            board,
            row,
            writer: incarnation << 16 | row as u64,
            random,
            buffer: Buffer::new(),
            value: Vec::new(),
            lie,
            may_forget,
            processor_wait: ProcessorWait::mine(),
            remembered: Vec::new(),
        }
    }

    fn add(&self, word: RowWord, amount: u64) {
        self.board.row(self.row, word).fetch_add(amount, SeqCst);
    }

    fn wrong(&self, what: &str) {
        self.add(RowWord::Wrong, 1);
        self.board
            .report(&format!("wrong: worker thread {} (writer {}): {what}", self.row, self.writer));
    }

    fn lost(&self, what: &str) {
        self.add(RowWord::Lost, 1);
        self.board
            .report(&format!("lost: worker thread {} (writer {}): {what}", self.row, self.writer));
    }

    /// Whether a read that found nothing gave up, as reads may that wait for a writer without a processor:
    /// the entry is there after all, and the cache has counted such a read.
    fn gave_up(&mut self, key: &[u8]) -> bool {
        let is_there = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            matches!(self.cache.get(key, &mut self.buffer), Ok(Some(_)))
        });
        let gave_up = is_there && self.cache.stats().reads_given_up > 0;
        self.add(RowWord::GivenUp, u64::from(gave_up));
        gave_up
    }

    /// Runs one operation under the heartbeat. None if it was refused; refusals are counted.
    fn run<R>(
        &mut self,
        kind: Kind,
        index: usize,
        work: impl FnOnce(&Cache, &mut Buffer) -> Result<R, Error>,
    ) -> Option<R> {
        let (board, row) = (self.board, self.row);
        let operation = (kind as u64) << 32 | index as u64;
        board.row(row, RowWord::Operation).store(operation, SeqCst);
        let waited_us = self.processor_wait.us();
        board.row(row, RowWord::WaitedUs).store(waited_us, SeqCst);
        board.row(row, RowWord::Thread).store(u64::from(thread_id()), SeqCst);
        board.row(row, RowWord::StartedUs).store(monotonic_us(), SeqCst);
        let began = Instant::now();
        let result = work(self.cache, &mut self.buffer);
        let took_us = began.elapsed().as_micros() as u64;
        board.row(row, RowWord::StartedUs).store(0, SeqCst);
        self.add(RowWord::Operations, 1);
        board.operations(kind as usize).fetch_add(1, SeqCst);
        if took_us > board.row(row, RowWord::LongestUs).load(SeqCst) {
            board.row(row, RowWord::LongestUs).store(took_us, SeqCst);
            board.row(row, RowWord::LongestOperation).store(operation, SeqCst);
        }
        let had_us =
            |wait: &ProcessorWait| took_us.saturating_sub(wait.us().saturating_sub(waited_us));
        if took_us > HANG_US && had_us(&self.processor_wait) > HANG_US {
            self.add(RowWord::Overdue, 1);
            board.report(&format!(
                "hang: worker thread {row}: {} took {took_us} microseconds",
                Kind::name(operation)
            ));
        }
        match result {
            Ok(result) => Some(result),
            Err(error) => {
                let word = match &error {
                    Error::Arena(ArenaError::LockTimeout { .. }) => RowWord::LockTimeouts,
                    Error::Full { .. } => RowWord::Full,
                    _ => RowWord::Errors,
                };
                self.add(word, 1);
                board.report(&format!(
                    "refused: worker thread {row}: {}: {error}",
                    Kind::name(operation)
                ));
                None
            }
        }
    }

    fn value_len(&mut self, index: usize) -> usize {
        let most = self.cache.value_bytes_max();
        let len = if is_large(index) {
            self.random.usize(100_000..1_200_000)
        } else {
            match index % 8 {
                // The length is always the same, so that the value is rewritten in place.
                0..=4 => 100 + index * 37 % 200,
                5 => self.random.usize(STAMP_BYTES_MIN..1000),
                6 => self.random.usize(1000..4000),
                // Now and then long enough to cross from one segment into the next.
                _ if self.random.u8(..) < 32 => self.random.usize(4000..40_000),
                _ => 500,
            }
        };
        len.clamp(STAMP_BYTES_MIN, most / 4)
    }

    /// Writes the value of a new change to `self.value`.
    fn make_value(&mut self, key: &[u8], index: usize, sequence: u64) {
        let len = self.value_len(index);
        let stamp = Stamp { writer: self.writer, sequence };
        let mut value = std::mem::take(&mut self.value);
        stamp::make(key, stamp, len, &mut value);
        self.value = value;
    }

    /// Reads a key and checks everything that the value itself tells.
    fn look(&mut self, kind: Kind, index: usize, key: &[u8]) -> Option<Look> {
        let mut now_us = 0;
        let mut forgery = None;
        let mut expiry_us = None;
        let look = self.run(kind, index, |cache, buffer| {
            now_us = cache.now_us();
            let Some(entry) = cache.get(key, buffer)? else {
                return Ok(Look { sequence: None, version: 0 });
            };
            expiry_us = entry.expiry_us;
            let bytes = match entry.value {
                Value::Bytes { bytes, .. } => bytes,
                Value::Int(_) => &[],
            };
            let sequence = match stamp::read(key, bytes) {
                Ok(stamp) => Some(stamp.sequence),
                Err(why) => {
                    forgery = Some(why);
                    None
                }
            };
            Ok(Look { sequence, version: entry.version })
        })?;
        let name = String::from_utf8_lossy(key).into_owned();
        if let Some(forgery) = forgery {
            self.wrong(&format!("the value of {name} was never stored there: {forgery:?}"));
            return None;
        }
        if expiry_us.is_some_and(|expiry_us| expiry_us <= now_us) {
            self.wrong(&format!("{name} was returned after its expiry"));
        }
        let word = if look.sequence.is_some() { RowWord::Hits } else { RowWord::Misses };
        self.add(word, 1);
        Some(self.bend(look, index))
    }

    /// Applies the lie of a negative control.
    fn bend(&mut self, mut look: Look, index: usize) -> Look {
        match self.lie {
            Some(Lie::Miss) => look.sequence = None,
            Some(Lie::Stale) => {
                if let Some(sequence) = look.sequence {
                    let older = self.remembered.iter().find(|(key, _)| *key == index);
                    match older {
                        Some((_, older)) if self.random.u8(..) == 0 => {
                            look.sequence = Some(*older);
                        }
                        Some(_) => {}
                        None if self.remembered.len() < 64 => {
                            self.remembered.push((index, sequence));
                        }
                        None => {}
                    }
                }
            }
            _ => {}
        }
        look
    }

    /// Walks over a part of the entries and checks every value by itself.
    fn scan(&mut self) {
        let mut forged = Vec::new();
        let most = self.random.usize(..2000);
        self.run(Kind::Scan, 0, |cache, buffer| {
            let mut scan = cache.scan();
            for _ in 0..most {
                let Some(item) = scan.next(buffer)? else { break };
                if let Value::Bytes { bytes, .. } = item.entry.value {
                    if let Err(why) = stamp::read(item.key, bytes) {
                        forged.push((String::from_utf8_lossy(item.key).into_owned(), why));
                    }
                }
            }
            Ok(())
        });
        for (key, why) in forged {
            self.wrong(&format!(
                "a scan found a value under {key} that was never stored there: {why:?}"
            ));
        }
    }

    /// Does one operation, drawn by its weight.
    pub fn step(&mut self) {
        match self.random.u32(0..1000) {
            0..=349 => self.get_any(),
            350..=379 => {
                let index = self.draw_tagged();
                self.set_tagged(index);
            }
            380..=384 => self.evict(),
            385..=399 => {
                let index = self.draw_own();
                self.make(index);
            }
            400..=579 => {
                let index = self.draw_own();
                self.set(index);
            }
            580..=599 => {
                let index = self.draw_own();
                self.set_ttl(index);
            }
            600..=639 => {
                let index = self.draw_own();
                self.delete(index);
            }
            640..=679 => {
                let index = self.draw_own();
                self.add_or_replace(index, Kind::Add);
            }
            680..=699 => {
                let index = self.draw_own();
                self.add_or_replace(index, Kind::Replace);
            }
            700..=729 => {
                let index = self.draw_own();
                self.touch(index);
            }
            730..=749 => {
                let index = self.draw_own();
                self.pop(index);
            }
            750..=779 => {
                let index = self.draw_own();
                self.compare_and_set(index);
            }
            780..=829 => self.incr(),
            830..=849 => self.count_by_compare(),
            850..=859 => self.read_counter(),
            860..=899 => self.contested_get(),
            900..=939 => self.contested_set(),
            940..=949 => self.contested_delete(),
            950..=959 => self.contested_pop(),
            960..=984 => self.contains(),
            985..=989 => {
                let keys_each = self.board.shape().keys_each;
                let index = self.random.usize(..keys_each) / LARGE_ONE_IN * LARGE_ONE_IN;
                self.set((index + LARGE_ONE_IN - 1).min(keys_each - 1));
            }
            990..=997 => {
                let shape = self.board.shape();
                let index = self.random.usize(..shape.keys_each) / LARGE_ONE_IN * LARGE_ONE_IN;
                let row = self.random.usize(..shape.rows);
                self.get(row, (index + LARGE_ONE_IN - 1).min(shape.keys_each - 1));
            }
            998 if self.random.u8(..) < 64 => {
                self.run(Kind::Expire, 0, |cache, _| cache.expire());
            }
            999 if self.random.u8(..) < 64 => self.scan(),
            _ => self.get_any(),
        }
    }
}
