//! Keys that one thread changes and all threads read. Each change is announced, made, and
//! acknowledged or withdrawn. So the oracle knows what may be found at any moment, even after a
//! death.

use std::sync::atomic::Ordering::SeqCst;

use tuckbox_engine::{Attributes, Begin, Buffer, Cache, Error, Terms, Ttl, Value};
use tuckbox_testkit::oracle::{Change, Known, Outcome, Wrong};
use tuckbox_testkit::stamp;

use super::{Actor, Kind, Lie};
use crate::board::RowWord;

/// One key in this many has a large value.
pub(super) const LARGE_ONE_IN: usize = 256;

/// A key that only one thread changes.
fn own_key(row: usize, index: usize) -> Vec<u8> {
    format!("own/{row}/{index}").into_bytes()
}

/// Whether the key of this number has a large value.
pub(super) fn is_large(index: usize) -> bool {
    index % LARGE_ONE_IN == LARGE_ONE_IN - 1
}

/// Tags of each thread.
const TAGS_EACH: usize = 4;

/// Whether all values of the key of this number have a tag.
fn is_tagged(index: usize) -> bool {
    index % 16 < TAGS_EACH
}

fn tag_of(row: usize, index: usize) -> String {
    format!("tag/{row}/{}", index % TAGS_EACH)
}

impl Actor<'_> {
    fn own_number(&self, row: usize, index: usize) -> usize {
        row * self.board.shape().keys_each + index
    }

    fn next_sequence(&self) -> u64 {
        self.board.row(self.row, RowWord::Sequence).fetch_add(1, SeqCst) + 1
    }

    fn judge_own(&mut self, number: usize, key: &[u8], before: Known, found: Option<u64>) {
        let name = String::from_utf8_lossy(key);
        match self.board.oracle().judge(number, before, found, self.may_forget) {
            Ok(()) => {}
            Err(Wrong::Lost) if self.gave_up(key) => {}
            Err(Wrong::Lost) => self.lost(&format!("{name}: {before:?}, and nothing was found")),
            Err(wrong) => {
                let after = self.board.oracle().known(number);
                self.wrong(&format!("{name}: found {found:?}, {wrong:?}: {before:?}, {after:?}"));
            }
        }
    }

    pub(super) fn get_any(&mut self) {
        let shape = self.board.shape();
        let row = self.random.usize(..shape.rows);
        let index = self.random.usize(..shape.keys_each);
        self.get(row, index);
    }

    pub(super) fn get(&mut self, row: usize, index: usize) {
        let number = self.own_number(row, index);
        let asked = match self.lie {
            Some(Lie::OtherKey) if self.random.u8(..) == 0 => own_key(row, 0),
            _ => own_key(row, index),
        };
        let key = own_key(row, index);
        let before = self.board.oracle().known(number);
        let kind = if is_large(index) { Kind::GetLarge } else { Kind::Get };
        if asked != key {
            // The negative control: a read of one key gets the answer for another.
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
            self.judge_own(number, &key, before, look.sequence);
        }
    }

    /// A key without a tag, and not a large one.
    pub(super) fn draw_own(&mut self) -> usize {
        self.draw(|index| !is_large(index) && !is_tagged(index))
    }

    pub(super) fn draw_tagged(&mut self) -> usize {
        self.draw(is_tagged)
    }

    fn draw(&mut self, is_meant: impl Fn(usize) -> bool) -> usize {
        loop {
            let index = self.random.usize(..self.board.shape().keys_each);
            if is_meant(index) {
                return index;
            }
        }
    }

    /// Announces a change of an own key, makes it, and acknowledges or withdraws it. Returns the
    /// operation's answer and the key's expected state before.
    fn change(
        &mut self,
        kind: Kind,
        index: usize,
        change: Change,
        work: impl FnOnce(&Cache, &mut Buffer, &[u8], &[u8]) -> Result<bool, Error>,
    ) -> Option<(bool, Known)> {
        let number = self.own_number(self.row, index);
        let key = own_key(self.row, index);
        let board = self.board;
        let before = board.oracle().known(number);
        board.oracle().announce(number, change);
        let value = std::mem::take(&mut self.value);
        let done = self.run(kind, index, |cache, buffer| work(cache, buffer, &key, &value));
        self.value = value;
        match done {
            Some(true) => board.oracle().acknowledge(number),
            // A refused operation must not have changed anything.
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

    pub(super) fn set(&mut self, index: usize) {
        let kind = if is_large(index) { Kind::SetLarge } else { Kind::Set };
        let sequence = self.next_sequence();
        self.make_value(&own_key(self.row, index), index, sequence);
        let change = Change { sequence, outcome: Outcome::Present };
        self.change(kind, index, change, |cache, _, key, value| {
            cache.set(key, Value::bytes(value), Ttl::Never).map(|()| true)
        });
    }

    /// Stores a value with a tag of this thread's.
    pub(super) fn set_tagged(&mut self, index: usize) {
        let sequence = self.next_sequence();
        self.make_value(&own_key(self.row, index), index, sequence);
        let tag = tag_of(self.row, index);
        let change = Change { sequence, outcome: Outcome::Present };
        self.change(Kind::SetTagged, index, change, |cache, _, key, value| {
            let attributes = Attributes { tags: &[&tag], ..Attributes::default() };
            cache.store(key, Value::bytes(value), &Terms { attributes, ..Terms::plain(Ttl::Never) })
        });
    }

    /// Evicts a tag of this thread's.
    pub(super) fn evict(&mut self) {
        let group = self.random.usize(..TAGS_EACH);
        let keys = (0..self.board.shape().keys_each).skip(group).step_by(16);
        let oracle = self.board.oracle();
        for index in keys.clone() {
            let change = Change { sequence: self.next_sequence(), outcome: Outcome::Absent };
            oracle.announce(self.own_number(self.row, index), change);
        }
        let tag = tag_of(self.row, group);
        let done = self.run(Kind::Evict, group, |cache, _| cache.evict(&tag, false));
        for index in keys {
            let number = self.own_number(self.row, index);
            match done {
                Some(()) => oracle.acknowledge(number),
                None => oracle.withdraw(number),
            }
        }
    }

    /// Makes a value with a lease, which only a delete of another key can refuse.
    pub(super) fn make(&mut self, index: usize) {
        let sequence = self.next_sequence();
        self.make_value(&own_key(self.row, index), index, sequence);
        let change = Change { sequence, outcome: Outcome::Present };
        let mut is_busy = false;
        self.change(Kind::Make, index, change, |cache, buffer, key, value| {
            let Begin::Lease(token, _) = cache.begin(key, true, buffer)? else {
                is_busy = true;
                return Ok(false);
            };
            cache.finish(&token, key, Value::bytes(value), Ttl::Never, &Attributes::default())
        });
        if is_busy {
            self.wrong(&format!("own key {index} has another maker, though the last one is dead"));
        }
    }

    pub(super) fn set_ttl(&mut self, index: usize) {
        let sequence = self.next_sequence();
        self.make_value(&own_key(self.row, index), index, sequence);
        let ttl = Ttl::Us(self.random.u64(0..50_000));
        let change = Change { sequence, outcome: Outcome::Expiring };
        self.change(Kind::SetTtl, index, change, |cache, _, key, value| {
            cache.set(key, Value::bytes(value), ttl).map(|()| true)
        });
    }

    pub(super) fn delete(&mut self, index: usize) {
        let change = Change { sequence: self.next_sequence(), outcome: Outcome::Absent };
        let mut existed = false;
        let done = self.change(Kind::Delete, index, change, |cache, _, key, _| {
            existed = cache.delete(key)?;
            // In either case the entry no longer exists.
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

    pub(super) fn add_or_replace(&mut self, index: usize, kind: Kind) {
        let sequence = self.next_sequence();
        self.make_value(&own_key(self.row, index), index, sequence);
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

    pub(super) fn touch(&mut self, index: usize) {
        let known = self.board.oracle().known(self.own_number(self.row, index));
        let (ttl, outcome) = match self.random.u8(0..3) {
            0 => (Ttl::Never, Outcome::Present),
            1 => (Ttl::Us(3_600_000_000), Outcome::Present),
            _ => (Ttl::Us(20_000), Outcome::Expiring),
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

    pub(super) fn pop(&mut self, index: usize) {
        let number = self.own_number(self.row, index);
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
            self.wrong(&format!(
                "own key {index} popped a value that was never stored there: {forgery:?}"
            ));
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

    pub(super) fn compare_and_set(&mut self, index: usize) {
        let key = own_key(self.row, index);
        let number = self.own_number(self.row, index);
        let before = self.board.oracle().known(number);
        let Some(look) = self.look(Kind::Get, index, &key) else { return };
        self.judge_own(number, &key, before, look.sequence);
        let Some(_) = look.sequence else { return };
        // Sometimes uses a version that the entry never had, which must be refused.
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
            self.wrong(&format!("own key {index}: a version that never existed was accepted"));
        }
        if !stored && is_right && self.was_certainly_there(before) {
            self.wrong(&format!("own key {index}: its own version was refused: {before:?}"));
        }
    }

    pub(super) fn contains(&mut self) {
        let index = self.draw_own();
        let before = self.board.oracle().known(self.own_number(self.row, index));
        let key = own_key(self.row, index);
        let found = self.run(Kind::Contains, index, |cache, buffer| cache.contains(&key, buffer));
        if found == Some(false) && self.was_certainly_there(before) && !self.gave_up(&key) {
            self.lost(&format!("own key {index} is not contained: {before:?}"));
        }
        if found == Some(true) && Self::was_certainly_absent(before) {
            self.wrong(&format!("own key {index} is contained after its end: {before:?}"));
        }
    }

    /// Settles the keys that the row's earlier process was changing when it was killed.
    pub fn resolve(&mut self) {
        for index in 0..self.board.shape().keys_each {
            let number = self.own_number(self.row, index);
            if self.board.oracle().known(number).is_settled() {
                continue;
            }
            let key = own_key(self.row, index);
            // Repeats until the look succeeds: a refusal is not a miss.
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

    /// Judges every own key of the row once more. Call it when nothing is under way.
    pub fn judge_all(&mut self) {
        for index in 0..self.board.shape().keys_each {
            self.get(self.row, index);
        }
    }
}
