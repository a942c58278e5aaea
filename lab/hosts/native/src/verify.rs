//! Checks answers against everything that the recorded streams allow.
//!
//! Owns the rules of METHODOLOGY.md: which value is wrong, which is stale, which miss is right. Must
//! not run while a clock runs, nor know which contestant answered.
//!
//! An answer is wrong unless it is, byte for byte, a value that some stream stores under this key.
//! It is also wrong if this worker has yet to store it, if a later phase stores it, or if this
//! worker's set of it was refused. It is stale if it was certainly overwritten or deleted before
//! the get began. All workers end a phase before any begins the next, and the order of one worker's
//! own operations is known. So these values are stale:
//! - a value of an earlier phase than the last one in which the key is known to have been written:
//!   this worker wrote or deleted it there, or saw a value of that phase;
//! - a value of this worker, older than its own last set or delete of the key;
//! - a value of another worker, older than one of the same worker that was seen before.
//!
//! With one worker, only the value stored last is right.

use std::collections::{HashMap, HashSet};

use crate::protocol::Verdict;
use crate::recorded::Origin;
use crate::work::Work;

/// Values shorter than this could be right by chance.
const WEAK_BELOW_BYTES: usize = 8;

/// An operation of this worker, and when it was requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) phase: usize,
    pub(crate) sequence: u64,
    pub(crate) key: u32,
}

/// How an answer counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) miss: bool,
    /// A right miss of a get.
    pub(crate) absent: bool,
    pub(crate) wrong: bool,
}

/// The knowledge of one worker about one key.
struct Known {
    /// The last phase in which the key is known to have been written.
    phase: usize,
    /// For each stream of that phase: a value with a lower sequence is stale.
    newest: Vec<u64>,
}

/// The knowledge of one worker about one store, which was opened empty.
#[derive(Default)]
pub(crate) struct Verifier {
    known: HashMap<u32, Known>,
    /// Sequences of the refused sets.
    refused: HashSet<u64>,
    /// Keys that were set, refused or not, and not deleted since.
    wanted: HashSet<u32>,
    pub(crate) verdict: Verdict,
}

impl Verifier {
    /// Judges the answer to a get.
    pub(crate) fn got(&mut self, work: &Work, asked: Asked, answer: Option<&[u8]>) -> Judged {
        match answer {
            None => Judged { miss: true, absent: self.is_absent(work, asked), wrong: false },
            Some(bytes) => Judged { wrong: self.is_wrong(work, asked, bytes), ..Judged::default() },
        }
    }

    /// Notes the answer to a set. A refused set may keep or remove the old value.
    pub(crate) fn stored(&mut self, work: &Work, asked: Asked, accepted: bool) -> Judged {
        self.wanted.insert(asked.key);
        if accepted {
            self.write(work, asked);
        } else {
            self.refused.insert(asked.sequence);
        }
        Judged { miss: !accepted, ..Judged::default() }
    }

    /// Notes the answer to a delete. If it found nothing, it may have been refused, and the old
    /// value is still right.
    pub(crate) fn deleted(&mut self, work: &Work, asked: Asked, found: bool) -> Judged {
        if found {
            self.write(work, asked);
        }
        self.wanted.remove(&asked.key);
        Judged { miss: !found, ..Judged::default() }
    }

    fn write(&mut self, work: &Work, Asked { phase, sequence, key }: Asked) {
        let stream = work.phases.own_number(phase);
        self.see(work, key, sequence, Origin { phase, stream });
    }

    fn see(&mut self, work: &Work, key: u32, sequence: u64, Origin { phase, stream }: Origin) {
        let new = || Known { phase, newest: vec![0; work.phases.width(phase)] };
        let known = self.known.entry(key).or_insert_with(new);
        if known.phase < phase {
            *known = new();
        }
        known.newest[stream] = sequence;
    }

    fn is_absent(&self, work: &Work, Asked { phase, key, .. }: Asked) -> bool {
        if work.workers > 1 {
            // It is unknown what the others have stored so far, only what they ever store.
            return !work.expected.is_stored_by(phase, key);
        }
        !self.wanted.contains(&key)
    }

    /// Judges a value. Counts a stale value too, which is not wrong.
    fn is_wrong(&mut self, work: &Work, asked: Asked, answer: &[u8]) -> bool {
        let (mut is_stored, mut is_possible) = (false, false);
        let mut admissible = Vec::new();
        for (sequence, origin) in work.stored(asked.key, answer) {
            is_stored = true;
            if self.is_possible(work, asked, sequence, origin) {
                is_possible = true;
                if !self.is_stale(asked.key, sequence, origin) {
                    admissible.push((sequence, origin));
                }
            }
        }
        let text = work.keys.text(asked.key);
        if !is_stored {
            self.verdict.wrong += 1;
            self.verdict.tell(|| {
                let whose = match work.owner(answer) {
                    Some(owner) => format!("that belong to the key {owner:?}"),
                    None => "that were never stored".to_owned(),
                };
                format!("get({text:?}) returned {} bytes {whose}", answer.len())
            });
            return true;
        }
        self.verdict.weak += u64::from(answer.len() < WEAK_BELOW_BYTES);
        if let [(sequence, origin)] = admissible[..] {
            self.see(work, asked.key, sequence, origin);
        }
        if !admissible.is_empty() {
            return false;
        }
        let what = if is_possible {
            self.verdict.stale += 1;
            "a value that was overwritten or deleted before"
        } else {
            self.verdict.wrong += 1;
            "a value whose set was refused or comes later"
        };
        self.verdict.tell(|| format!("get({text:?}) returned {what}"));
        !is_possible
    }

    fn is_possible(&self, work: &Work, asked: Asked, sequence: u64, origin: Origin) -> bool {
        if self.refused.contains(&sequence) || origin.phase > asked.phase {
            return false;
        }
        let own = Origin { phase: asked.phase, stream: work.phases.own_number(asked.phase) };
        origin != own || sequence <= asked.sequence
    }

    fn is_stale(&self, key: u32, sequence: u64, origin: Origin) -> bool {
        let Some(known) = self.known.get(&key) else { return false };
        origin.phase < known.phase
            || (origin.phase == known.phase && sequence < known.newest[origin.stream])
    }
}
