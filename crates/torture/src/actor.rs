//! An actor: one worker thread, its mix of operations, and the judgement of every answer. What may
//! be answered is on the board; what is asked is drawn from a seeded generator.

use std::time::{Duration, Instant};

use std::sync::atomic::Ordering::SeqCst;

use tuckbox_engine::{ArenaError, Buffer, Cache, Error, Ttl, Value};
use tuckbox_testkit::oracle::{Change, Known, Outcome, Wrong};
use tuckbox_testkit::process::{monotonic_us, thread_id, ProcessorWait};
use tuckbox_testkit::stamp::{self, Stamp, STAMP_BYTES_LEAST};

use crate::board::{Board, SeatWord, Verdict};

/// How long a write waits for a lock.
pub const LOCK_LIMIT_MS: u64 = 1000;
/// An operation that takes longer than this has hung, not counting the time in which its thread was
/// ready and other work had the processors.
pub const HANG_US: u64 = (LOCK_LIMIT_MS + 250) * 1000;
/// The number of entries that the supervisor stores first and nobody touches.
pub const CANARIES: usize = 1000;
/// A key in so many has a large value.
const LARGE_ONE_IN: usize = 256;

/// The operations, for the heartbeat and the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs)]
pub enum Kind {
    Get,
    Set,
    SetTtl,
    Delete,
    Add,
    Replace,
    Touch,
    Pop,
    CompareAndSet,
    Incr,
    CountByCompare,
    ReadCounter,
    ContestedGet,
    ContestedSet,
    ContestedDelete,
    ContestedPop,
    SetLarge,
    GetLarge,
    Contains,
    Expire,
    Scan,
    Resolve,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub fn all() -> &'static [Kind] {
        <Kind as clap::ValueEnum>::value_variants()
    }

    /// From the number in a heartbeat.
    pub fn name(number: u64) -> String {
        let kind = Kind::all().get((number >> 32) as usize);
        kind.map_or_else(|| "unknown".into(), |kind| format!("{kind:?} #{}", number as u32))
    }
}

/// The lies of the negative controls: a cache that answers so must be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Lie {
    /// Every read misses.
    Miss,
    /// Now and then a read answers what it answered the last time, or an older value.
    Stale,
    /// Now and then a read answers another key's value.
    OtherKey,
    /// Now and then an integer is one less than it is.
    LostCount,
}

/// The key that only one seat changes.
pub fn own_key(seat: usize, index: usize) -> Vec<u8> {
    format!("own/{seat}/{index}").into_bytes()
}

/// The key that all seats change.
pub fn contested_key(index: usize) -> Vec<u8> {
    format!("contested/{index}").into_bytes()
}

/// The key of a counter. Even ones are counted up by `incr`, odd ones by compare-and-set.
pub fn counter_key(index: usize) -> Vec<u8> {
    format!("counter/{index}").into_bytes()
}

/// The key of a canary.
pub fn canary_key(index: usize) -> Vec<u8> {
    format!("canary/{index}").into_bytes()
}

/// Stores the canary of this number.
///
/// # Errors
/// As [`Cache::set`].
pub fn store_canary(cache: &Cache, index: usize) -> Result<(), Error> {
    let key = canary_key(index);
    let mut value = Vec::new();
    stamp::make(&key, Stamp { writer: 0, sequence: index as u64 }, 100 + index % 400, &mut value);
    cache.set(&key, Value::bytes(&value), Ttl::Never)
}

/// How many canaries are there and right.
///
/// # Errors
/// As [`Cache::get`].
pub fn count_canaries(cache: &Cache, lie: Option<Lie>) -> Result<usize, Error> {
    let mut buffer = Buffer::new();
    let mut count = 0;
    for index in 0..CANARIES {
        let key = canary_key(index);
        let expected = Ok(Stamp { writer: 0, sequence: index as u64 });
        if let Some(entry) = cache.get(&key, &mut buffer)? {
            if let Value::Bytes { bytes, .. } = entry.value {
                count += usize::from(stamp::read(&key, bytes) == expected);
            }
        }
    }
    Ok(if lie == Some(Lie::Miss) { 0 } else { count })
}

fn is_large(index: usize) -> bool {
    index % LARGE_ONE_IN == LARGE_ONE_IN - 1
}

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
    seat: usize,
    writer: u64,
    random: fastrand::Rng,
    buffer: Buffer,
    value: Vec<u8>,
    lie: Option<Lie>,
    may_forget: bool,
    processor_wait: ProcessorWait,
    /// Values as they were read, for the lie that answers stale ones.
    remembered: Vec<(usize, u64)>,
}

impl<'a> Actor<'a> {
    /// The actor of a seat, for this thread. `incarnation` counts the processes that had it.
    pub fn new(
        cache: &'a Cache,
        board: &'a Board,
        seat: usize,
        incarnation: u64,
        seed: u64,
        lie: Option<Lie>,
    ) -> Actor<'a> {
        let random = fastrand::Rng::with_seed(seed ^ (seat as u64) << 48 ^ incarnation << 16);
        let may_forget = board.may_forget();
        Actor {
            cache,
            board,
            seat,
            writer: incarnation << 16 | seat as u64,
            random,
            buffer: Buffer::new(),
            value: Vec::new(),
            lie,
            may_forget,
            processor_wait: ProcessorWait::mine(),
            remembered: Vec::new(),
        }
    }

    fn add(&self, word: SeatWord, amount: u64) {
        self.board.seat(self.seat, word).fetch_add(amount, SeqCst);
    }

    fn wrong(&self, what: &str) {
        self.add(SeatWord::Wrong, 1);
        self.board.report(&format!("wrong: seat {} (writer {}): {what}", self.seat, self.writer));
    }

    fn lost(&self, what: &str) {
        self.add(SeatWord::Lost, 1);
        self.board.report(&format!("lost: seat {} (writer {}): {what}", self.seat, self.writer));
    }

    /// Runs one operation under the heartbeat. None if it was refused, which is counted.
    fn run<R>(
        &mut self,
        kind: Kind,
        index: usize,
        work: impl FnOnce(&Cache, &mut Buffer) -> Result<R, Error>,
    ) -> Option<R> {
        let (board, seat) = (self.board, self.seat);
        let operation = (kind as u64) << 32 | index as u64;
        board.seat(seat, SeatWord::Operation).store(operation, SeqCst);
        let waited_us = self.processor_wait.us();
        board.seat(seat, SeatWord::WaitedUs).store(waited_us, SeqCst);
        board.seat(seat, SeatWord::Thread).store(u64::from(thread_id()), SeqCst);
        board.seat(seat, SeatWord::StartedUs).store(monotonic_us(), SeqCst);
        let began = Instant::now();
        let result = work(self.cache, &mut self.buffer);
        let took_us = began.elapsed().as_micros() as u64;
        board.seat(seat, SeatWord::StartedUs).store(0, SeqCst);
        self.add(SeatWord::Operations, 1);
        board.operations(kind as usize).fetch_add(1, SeqCst);
        if took_us > board.seat(seat, SeatWord::LongestUs).load(SeqCst) {
            board.seat(seat, SeatWord::LongestUs).store(took_us, SeqCst);
            board.seat(seat, SeatWord::LongestOperation).store(operation, SeqCst);
        }
        let had_us =
            |wait: &ProcessorWait| took_us.saturating_sub(wait.us().saturating_sub(waited_us));
        if took_us > HANG_US && had_us(&self.processor_wait) > HANG_US {
            self.add(SeatWord::Overdue, 1);
            board.report(&format!(
                "hang: seat {seat}: {} took {took_us} microseconds",
                Kind::name(operation)
            ));
        }
        match result {
            Ok(result) => Some(result),
            Err(error) => {
                let word = match &error {
                    Error::Arena(ArenaError::LockTimeout { .. }) => SeatWord::LockTimeouts,
                    Error::Full { .. } => SeatWord::Full,
                    _ => SeatWord::Errors,
                };
                self.add(word, 1);
                board.report(&format!("refused: seat {seat}: {}: {error}", Kind::name(operation)));
                None
            }
        }
    }

    fn own_number(&self, seat: usize, index: usize) -> usize {
        seat * self.board.shape().keys_each + index
    }

    fn value_len(&mut self, index: usize) -> usize {
        let most = self.cache.value_bytes_max();
        let len = if is_large(index) {
            self.random.usize(100_000..1_200_000)
        } else {
            match index % 8 {
                // Always of one length, so that it is rewritten in place.
                0..=4 => 100 + index * 37 % 200,
                5 => self.random.usize(STAMP_BYTES_LEAST..1000),
                6 => self.random.usize(1000..4000),
                // Now and then long enough to cross from one segment into the next.
                _ if self.random.u8(..) < 32 => self.random.usize(4000..40_000),
                _ => 500,
            }
        };
        len.clamp(STAMP_BYTES_LEAST, most / 4)
    }

    /// Puts the value of a new change into `self.value`.
    fn make_value(&mut self, key: &[u8], index: usize, sequence: u64) {
        let len = self.value_len(index);
        let stamp = Stamp { writer: self.writer, sequence };
        let mut value = std::mem::take(&mut self.value);
        stamp::make(key, stamp, len, &mut value);
        self.value = value;
    }

    fn next_sequence(&self) -> u64 {
        self.board.seat(self.seat, SeatWord::Sequence).fetch_add(1, SeqCst) + 1
    }

    /// Reads a key and checks all that the value itself can tell.
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
            self.wrong(&format!("the value of {name} is none of its own: {forgery:?}"));
            return None;
        }
        if expiry_us.is_some_and(|expiry_us| expiry_us <= now_us) {
            self.wrong(&format!("{name} was answered after its expiry"));
        }
        let word = if look.sequence.is_some() { SeatWord::Hits } else { SeatWord::Misses };
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

    fn judge_own(&mut self, number: usize, name: &str, before: Known, found: Option<u64>) {
        match self.board.oracle().judge(number, before, found, self.may_forget) {
            Ok(()) => {}
            Err(Wrong::Lost) => self.lost(&format!("{name}: {before:?}, and nothing was found")),
            Err(wrong) => {
                let after = self.board.oracle().known(number);
                self.wrong(&format!("{name}: found {found:?}, {wrong:?}: {before:?}, {after:?}"));
            }
        }
    }

    fn get_any(&mut self) {
        let shape = self.board.shape();
        let seat = self.random.usize(..shape.seats);
        let index = self.random.usize(..shape.keys_each);
        self.get(seat, index);
    }

    fn get(&mut self, seat: usize, index: usize) {
        let number = self.own_number(seat, index);
        let asked = match self.lie {
            Some(Lie::OtherKey) if self.random.u8(..) == 0 => own_key(seat, 0),
            _ => own_key(seat, index),
        };
        let key = own_key(seat, index);
        let before = self.board.oracle().known(number);
        let kind = if is_large(index) { Kind::GetLarge } else { Kind::Get };
        if asked != key {
            // The control: the answer to one question is given to another.
            let found = self.run(kind, index, |cache, buffer| {
                Ok(cache.get(&asked, buffer)?.and_then(|entry| match entry.value {
                    Value::Bytes { bytes, .. } => Some(stamp::read(&key, bytes).is_ok()),
                    Value::Int(_) => None,
                }))
            });
            if found.flatten() == Some(false) {
                self.wrong("the value is another key's");
            }
            return;
        }
        if let Some(look) = self.look(kind, index, &key) {
            self.judge_own(number, &String::from_utf8_lossy(&key), before, look.sequence);
        }
    }

    fn draw_own(&mut self) -> usize {
        loop {
            let index = self.random.usize(..self.board.shape().keys_each);
            if !is_large(index) {
                return index;
            }
        }
    }

    /// Announces a change of an own key, makes it, and acknowledges or withdraws it. Returns what
    /// the operation answered, and whether the key certainly had an entry before.
    fn change(
        &mut self,
        kind: Kind,
        index: usize,
        change: Change,
        work: impl FnOnce(&Cache, &mut Buffer, &[u8], &[u8]) -> Result<bool, Error>,
    ) -> Option<(bool, Known)> {
        let number = self.own_number(self.seat, index);
        let key = own_key(self.seat, index);
        let board = self.board;
        let before = board.oracle().known(number);
        board.oracle().announce(number, change);
        let value = std::mem::take(&mut self.value);
        let done = self.run(kind, index, |cache, buffer| work(cache, buffer, &key, &value));
        self.value = value;
        match done {
            Some(true) => board.oracle().acknowledge(number),
            // Refused operations promise to have changed nothing.
            _ => board.oracle().withdraw(number),
        }
        done.map(|done| (done, before))
    }

    fn was_certainly_there(&self, before: Known) -> bool {
        !self.may_forget && before.acknowledged.outcome == Outcome::Present
    }

    fn was_certainly_absent(before: Known) -> bool {
        before.acknowledged.outcome == Outcome::Absent
    }

    fn set(&mut self, index: usize) {
        let kind = if is_large(index) { Kind::SetLarge } else { Kind::Set };
        let sequence = self.next_sequence();
        self.make_value(&own_key(self.seat, index), index, sequence);
        let change = Change { sequence, outcome: Outcome::Present };
        self.change(kind, index, change, |cache, _, key, value| {
            cache.set(key, Value::bytes(value), Ttl::Never).map(|()| true)
        });
    }

    fn set_ttl(&mut self, index: usize) {
        let sequence = self.next_sequence();
        self.make_value(&own_key(self.seat, index), index, sequence);
        let ttl = Ttl::Us(self.random.u64(0..50_000));
        let change = Change { sequence, outcome: Outcome::Fading };
        self.change(Kind::SetTtl, index, change, |cache, _, key, value| {
            cache.set(key, Value::bytes(value), ttl).map(|()| true)
        });
    }

    fn delete(&mut self, index: usize) {
        let change = Change { sequence: self.next_sequence(), outcome: Outcome::Absent };
        let mut existed = false;
        let done = self.change(Kind::Delete, index, change, |cache, _, key, _| {
            existed = cache.delete(key)?;
            // Whether it existed or not, it does not from now on.
            Ok(true)
        });
        if let Some((_, before)) = done {
            if !existed && self.was_certainly_there(before) {
                self.lost(&format!("own key {index} had no entry to delete: {before:?}"));
            }
            if existed && Self::was_certainly_absent(before) {
                self.wrong(&format!("own key {index} was deleted twice: {before:?}"));
            }
        }
    }

    fn add_or_replace(&mut self, index: usize, kind: Kind) {
        let sequence = self.next_sequence();
        self.make_value(&own_key(self.seat, index), index, sequence);
        let change = Change { sequence, outcome: Outcome::Present };
        let done = self.change(kind, index, change, |cache, _, key, value| match kind {
            Kind::Add => cache.add(key, Value::bytes(value), Ttl::Never),
            _ => cache.replace(key, Value::bytes(value), Ttl::Never),
        });
        let Some((stored, before)) = done else { return };
        if stored == (kind == Kind::Add) && self.was_certainly_there(before) {
            self.lost(&format!("{kind:?} of own key {index} answered {stored}: {before:?}"));
        }
        if stored != (kind == Kind::Add) && Self::was_certainly_absent(before) {
            self.wrong(&format!("{kind:?} of own key {index} answered {stored}: {before:?}"));
        }
    }

    fn touch(&mut self, index: usize) {
        let known = self.board.oracle().known(self.own_number(self.seat, index));
        let (ttl, outcome) = match self.random.u8(0..3) {
            0 => (Ttl::Never, Outcome::Present),
            1 => (Ttl::Us(3_600_000_000), Outcome::Present),
            _ => (Ttl::Us(20_000), Outcome::Fading),
        };
        // The same value, under another expiry.
        let change = Change { outcome, ..known.acknowledged };
        let done =
            self.change(Kind::Touch, index, change, |cache, _, key, _| cache.touch(key, ttl));
        if let Some((touched, before)) = done {
            if !touched && self.was_certainly_there(before) {
                self.lost(&format!("own key {index} had no entry to touch: {before:?}"));
            }
            if touched && Self::was_certainly_absent(before) {
                self.wrong(&format!("own key {index} was touched after its end: {before:?}"));
            }
        }
    }

    fn pop(&mut self, index: usize) {
        let number = self.own_number(self.seat, index);
        let change = Change { sequence: self.next_sequence(), outcome: Outcome::Absent };
        let mut found = None;
        let mut forgery = None;
        let done = self.change(Kind::Pop, index, change, |cache, buffer, key, _| {
            if let Some(entry) = cache.pop(key, buffer)? {
                match entry.value {
                    Value::Bytes { bytes, .. } => match stamp::read(key, bytes) {
                        Ok(stamp) => found = Some(stamp.sequence),
                        Err(why) => forgery = Some(why),
                    },
                    Value::Int(_) => {}
                }
            }
            Ok(true)
        });
        let Some((_, before)) = done else { return };
        if let Some(forgery) = forgery {
            self.wrong(&format!("own key {index} popped no value of its own: {forgery:?}"));
            return;
        }
        match found {
            Some(sequence) if sequence != before.acknowledged.sequence => {
                self.wrong(&format!("own key {index} popped {sequence}: {before:?}"));
            }
            Some(_) if Self::was_certainly_absent(before) => {
                self.wrong(&format!("own key {number} was popped after its end: {before:?}"));
            }
            None if self.was_certainly_there(before) => {
                self.lost(&format!("own key {index} had no entry to pop: {before:?}"));
            }
            _ => {}
        }
    }

    fn compare_and_set(&mut self, index: usize) {
        let key = own_key(self.seat, index);
        let number = self.own_number(self.seat, index);
        let before = self.board.oracle().known(number);
        let Some(look) = self.look(Kind::Get, index, &key) else { return };
        self.judge_own(number, "own key", before, look.sequence);
        let Some(_) = look.sequence else { return };
        // Sometimes with a version that was never the entry's: it must be refused.
        let is_right = self.random.bool();
        let version = if is_right { look.version } else { look.version + (1 << 40) };
        let sequence = self.next_sequence();
        self.make_value(&key, index, sequence);
        let change = Change { sequence, outcome: Outcome::Present };
        let done = self.change(Kind::CompareAndSet, index, change, |cache, _, key, value| {
            cache.compare_and_set(key, Value::bytes(value), Ttl::Never, version)
        });
        let Some((stored, before)) = done else { return };
        if stored && !is_right {
            self.wrong(&format!("own key {index}: a version that never was, was accepted"));
        }
        if !stored && is_right && self.was_certainly_there(before) {
            self.wrong(&format!("own key {index}: its own version was refused: {before:?}"));
        }
    }

    fn incr(&mut self) {
        let counter = self.random.usize(..self.board.shape().counters) & !1;
        let delta = self.random.u64(1..5);
        let (least, _) = self.board.count_bounds(counter);
        self.board.begin_count(self.seat, counter, delta, false);
        let key = counter_key(counter);
        let sum = self.run(Kind::Incr, counter, |cache, _| {
            cache.incr(&key, delta as i64, Some(0), Ttl::Never)
        });
        let counted = if sum.is_some() { delta } else { 0 };
        self.board.end_count(self.seat, counter, counted);
        if let Some(Some(sum)) = sum {
            self.judge_count(counter, least + delta, sum);
        }
    }

    fn judge_count(&mut self, counter: usize, least: u64, sum: i64) {
        let bent = sum - i64::from(self.lie == Some(Lie::LostCount) && self.random.u8(..) == 0);
        if !self.may_forget && bent < least as i64 && !self.may_have_restarted(counter) {
            self.wrong(&format!("counter {counter} was {bent}, and {least} had been counted"));
        }
    }

    /// Whether the entry of a counter may be gone with a writer that died. Asked when it seems to
    /// be gone, and for a while, because the supervisor notices a death a little later than the
    /// cache does.
    fn may_have_restarted(&self, counter: usize) -> bool {
        let is_replaced = counter % 2 == 1;
        is_replaced
            && (0..200).any(|_| {
                let (least, most) = self.board.count_bounds(counter);
                let may_have = least == 0 && most > 0;
                if !may_have {
                    std::thread::sleep(Duration::from_millis(5));
                }
                may_have
            })
    }

    fn count_by_compare(&mut self) {
        let counter = self.random.usize(..self.board.shape().counters) | 1;
        if counter >= self.board.shape().counters {
            return;
        }
        let key = counter_key(counter);
        let (least, _) = self.board.count_bounds(counter);
        self.board.begin_count(self.seat, counter, 1, true);
        let mut before = None;
        let stored = self.run(Kind::CountByCompare, counter, |cache, buffer| {
            match cache.get(&key, buffer)? {
                Some(entry) => {
                    let Value::Int(number) = entry.value else { return Ok(false) };
                    before = Some(number);
                    let next = Value::Int(number + 1);
                    cache.compare_and_set(&key, next, Ttl::Never, entry.version)
                }
                None => cache.add(&key, Value::Int(1), Ttl::Never),
            }
        });
        self.board.end_count(self.seat, counter, u64::from(stored == Some(true)));
        if let Some(number) = before {
            self.judge_count(counter, least, number);
        }
    }

    fn read_counter(&mut self) {
        let counter = self.random.usize(..self.board.shape().counters);
        let key = counter_key(counter);
        let (least, _) = self.board.count_bounds(counter);
        let found = self.run(Kind::ReadCounter, counter, |cache, buffer| {
            Ok(cache.get(&key, buffer)?.map(|entry| match entry.value {
                Value::Int(number) => Some(number),
                Value::Bytes { .. } => None,
            }))
        });
        match found {
            Some(Some(Some(number))) => self.judge_count(counter, least, number),
            Some(Some(None)) => self.wrong(&format!("counter {counter} is no integer")),
            Some(None) if !self.may_forget && least > 0 && !self.may_have_restarted(counter) => {
                self.lost(&format!("counter {counter} is gone"));
            }
            _ => {}
        }
    }

    fn contested_get(&mut self) {
        let index = self.random.usize(..self.board.shape().contested);
        let floor = self.board.contest_floor(index);
        let key = contested_key(index);
        if let Some(Look { sequence: Some(ticket), .. }) =
            self.look(Kind::ContestedGet, index + (1 << 24), &key)
        {
            self.judge_contested(index, floor, ticket);
        }
    }

    fn judge_contested(&mut self, index: usize, floor: u64, ticket: u64) {
        match self.board.judge_contested(index, floor, ticket) {
            Verdict::Right => {}
            Verdict::Unknown => self.add(SeatWord::Unjudged, 1),
            verdict => self.wrong(&format!(
                "contested key {index}: found {ticket}, {verdict:?}; {floor} was over"
            )),
        }
    }

    fn contested_set(&mut self) {
        let index = self.random.usize(..self.board.shape().contested);
        let key = contested_key(index);
        let ticket = self.board.begin_contest(self.seat, index);
        self.make_value(&key, index, ticket);
        let value = std::mem::take(&mut self.value);
        let done = self.run(Kind::ContestedSet, index, |cache, _| {
            cache.set(&key, Value::bytes(&value), Ttl::Never)
        });
        self.value = value;
        self.board.end_contest(self.seat, index, ticket, done.is_some());
    }

    fn contested_delete(&mut self) {
        let index = self.random.usize(..self.board.shape().contested);
        let key = contested_key(index);
        let ticket = self.board.begin_contest(self.seat, index);
        let done = self.run(Kind::ContestedDelete, index, |cache, _| cache.delete(&key));
        self.board.end_contest(self.seat, index, ticket, done.is_some());
    }

    fn contested_pop(&mut self) {
        let index = self.random.usize(..self.board.shape().contested);
        let key = contested_key(index);
        let floor = self.board.contest_floor(index);
        let ticket = self.board.begin_contest(self.seat, index);
        let popped = self.run(Kind::ContestedPop, index, |cache, buffer| {
            Ok(cache.pop(&key, buffer)?.map(|entry| match entry.value {
                Value::Bytes { bytes, .. } => stamp::read(&key, bytes).map_err(Some),
                Value::Int(_) => Err(None),
            }))
        });
        self.board.end_contest(self.seat, index, ticket, popped.is_some());
        match popped.flatten() {
            Some(Ok(stamp)) => {
                self.judge_contested(index, floor, stamp.sequence);
                if !self.board.note_pop(index, stamp.sequence) {
                    self.wrong(&format!("contested key {index}: {stamp:?} was popped twice"));
                }
            }
            Some(Err(forgery)) => {
                self.wrong(&format!("contested key {index} popped no value: {forgery:?}"));
            }
            None => {}
        }
    }

    fn contains(&mut self) {
        let index = self.draw_own();
        let before = self.board.oracle().known(self.own_number(self.seat, index));
        let key = own_key(self.seat, index);
        let found = self.run(Kind::Contains, index, |cache, _| cache.contains(&key));
        if found == Some(false) && self.was_certainly_there(before) {
            self.lost(&format!("own key {index} is not contained: {before:?}"));
        }
        if found == Some(true) && Self::was_certainly_absent(before) {
            self.wrong(&format!("own key {index} is contained after its end: {before:?}"));
        }
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
            self.wrong(&format!("a scan found under {key} no value of its own: {why:?}"));
        }
    }

    /// Settles the keys that the seat's former process was changing when it was killed.
    pub fn resolve(&mut self) {
        for index in 0..self.board.shape().keys_each {
            let number = self.own_number(self.seat, index);
            if self.board.oracle().known(number).is_settled() {
                continue;
            }
            let key = own_key(self.seat, index);
            // Until the look succeeds: a refusal must not be taken for a miss.
            for _ in 0..100 {
                let Some(look) = self.look(Kind::Resolve, index, &key) else { continue };
                if look.sequence.is_none() && self.is_there(index, &key) {
                    // The read gave up, as reads may.
                    continue;
                }
                if let Err(wrong) = self.board.oracle().resolve(number, look.sequence) {
                    let known = self.board.oracle().known(number);
                    self.wrong(&format!(
                        "after a death, own key {index} holds {:?}: {wrong:?}: {known:?}",
                        look.sequence
                    ));
                }
                break;
            }
        }
    }

    /// Whether a key has an entry, by an operation that takes the lock and so cannot give up.
    fn is_there(&mut self, index: usize, key: &[u8]) -> bool {
        self.run(Kind::Resolve, index, |cache, _| cache.touch(key, Ttl::Never))
            .is_none_or(|is_there| is_there && self.lie != Some(Lie::Miss))
    }

    /// Does one operation, drawn by its weight.
    pub fn step(&mut self) {
        match self.random.u32(0..1000) {
            0..=399 => self.get_any(),
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
                let seat = self.random.usize(..shape.seats);
                self.get(seat, (index + LARGE_ONE_IN - 1).min(shape.keys_each - 1));
            }
            998 if self.random.u8(..) < 64 => {
                self.run(Kind::Expire, 0, |cache, _| cache.expire());
            }
            999 if self.random.u8(..) < 64 => self.scan(),
            _ => self.get_any(),
        }
    }

    /// Judges every own key of the seat once more, when nothing is under way.
    pub fn judge_all(&mut self) {
        for index in 0..self.board.shape().keys_each {
            self.get(self.seat, index);
        }
    }
}
