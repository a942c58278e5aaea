//! What the one worker knows of the store, and what an answer must therefore be.
//!
//! Owns the difference between a right, a stale and a wrong answer. Must not know how operations
//! are timed. There is one worker, so a hit must be exactly the value stored last. A value that was
//! there before is stale, anything else is wrong. A miss is never wrong: a cache may evict.

use crate::protocol::Verdict;
use crate::stream::Keys;
use crate::values::Values;

/// Values shorter than this could be right by chance.
const WEAK_BELOW_BYTES: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Stored {
    sequence: u64,
    size: u32,
}

/// One key.
#[derive(Debug, Default)]
struct Entry {
    /// Every value that was stored under it, in order.
    history: Vec<Stored>,
    /// Whether the last of them may be there: no delete has said that it took it away.
    may_be_there: bool,
    /// A set has asked for it, refused or not, and no delete since.
    wanted: bool,
}

/// What a worker has stored, deleted and not stored.
pub(crate) struct Ledger {
    entries: Vec<Entry>,
}

impl Ledger {
    /// A ledger of an empty store.
    pub(crate) fn new(key_count: usize) -> Ledger {
        Ledger { entries: std::iter::repeat_with(Entry::default).take(key_count).collect() }
    }

    /// Notes that a set was answered. One that was refused may leave the old value or take it away.
    pub(crate) fn stored(&mut self, key: u32, sequence: u64, size: u32, accepted: bool) {
        let entry = &mut self.entries[key as usize];
        entry.wanted = true;
        if accepted {
            entry.history.push(Stored { sequence, size });
            entry.may_be_there = true;
        }
    }

    /// Notes that a delete was answered. One that found nothing leaves us in doubt: the value may
    /// have been evicted before, and the delete may have been refused.
    pub(crate) fn deleted(&mut self, key: u32, found: bool) {
        let entry = &mut self.entries[key as usize];
        entry.wanted = false;
        if found {
            entry.may_be_there = false;
        }
    }

    /// Whether it is right that a get finds nothing.
    pub(crate) fn is_absent(&self, key: u32) -> bool {
        !self.entries[key as usize].wanted
    }

    /// Judges the value that a get found; whether it is wrong.
    pub(crate) fn judge(
        &self,
        keys: &Keys,
        values: &Values,
        key: u32,
        answer: &[u8],
        verdict: &mut Verdict,
    ) -> bool {
        let entry = &self.entries[key as usize];
        let is =
            |stored: &Stored| values.is(key.into(), stored.sequence, stored.size as usize, answer);
        if entry.may_be_there && entry.history.last().is_some_and(is) {
            verdict.weak += u64::from(answer.len() < WEAK_BELOW_BYTES);
            return false;
        }
        let text = keys.text(key);
        if entry.history.iter().rev().any(is) {
            verdict.stale += 1;
            let what = if entry.may_be_there { "overwritten" } else { "deleted" };
            verdict.tell(|| format!("get({text:?}) answered a value that was {what} before"));
            return false;
        }
        verdict.wrong += 1;
        verdict.tell(|| {
            let whose = match self.owner(values, answer) {
                Some(owner) => format!("that belong to the key {:?}", keys.text(owner)),
                None => "that nobody stored".to_owned(),
            };
            format!("get({text:?}) answered {} bytes {whose}", answer.len())
        });
        true
    }

    /// The key under which a value was stored at some time.
    fn owner(&self, values: &Values, answer: &[u8]) -> Option<u32> {
        (0u32..).zip(&self.entries).find_map(|(key, entry)| {
            let mut history = entry.history.iter();
            history
                .any(|s| values.is(key.into(), s.sequence, s.size as usize, answer))
                .then_some(key)
        })
    }
}
