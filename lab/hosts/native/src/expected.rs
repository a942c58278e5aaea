//! Every value that a stream stores, by key and mark, so that an answer is recognised without
//! keeping the values.
//!
//! Owns that table. Must not know what has been stored so far, or how an answer is judged.

use crate::recorded::{Origin, Phases};
use crate::stream::{Operation, Verb};
use crate::values::{mark_of, Values};

/// A stored value. Two values of one key may share a mark if they are short, or by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stored {
    key: u32,
    mark: u64,
    sequence: u64,
}

/// The values that the streams store under one key.
#[derive(Debug, Clone, Default)]
struct Summary {
    /// The first phase that stores the key.
    phase: Option<usize>,
    count: u64,
    bytes: u64,
}

/// The values that may be answered.
pub(crate) struct Expected {
    stored: Vec<Stored>,
    summaries: Vec<Summary>,
}

impl Expected {
    /// Derives the mark of each value that a stream stores. Keys are below `key_count`.
    pub(crate) fn new(phases: &Phases, values: &Values, key_count: usize) -> Expected {
        let mut stored = Vec::new();
        let mut summaries = vec![Summary::default(); key_count];
        for (origin, recorded) in phases.streams() {
            for (position, operation) in recorded.operations.iter().enumerate() {
                let Operation { verb: Verb::Set, key, size } = *operation else { continue };
                let sequence = recorded.sequence(position);
                let mark = values.mark(key.into(), sequence, size as usize);
                stored.push(Stored { key, mark, sequence });
                let summary = &mut summaries[key as usize];
                summary.phase.get_or_insert(origin.phase);
                summary.count += 1;
                summary.bytes += u64::from(size);
            }
        }
        stored.sort_unstable();
        Expected { stored, summaries }
    }

    /// The sequences of `key` whose value equals `answer`, with their origins. Only values of a few
    /// bytes can have several.
    pub(crate) fn find<'a>(
        &'a self,
        phases: &'a Phases,
        values: &'a Values,
        key: u32,
        answer: &'a [u8],
    ) -> impl Iterator<Item = (u64, Origin)> + 'a {
        let mark = mark_of(answer);
        let start = self.stored.partition_point(|one| (one.key, one.mark) < (key, mark));
        self.stored[start..]
            .iter()
            .take_while(move |one| (one.key, one.mark) == (key, mark))
            .filter_map(move |one| {
                let (origin, operation) = phases.trace(one.sequence);
                let length = operation.size as usize;
                let is = values.is(key.into(), one.sequence, length, answer);
                is.then_some((one.sequence, origin))
            })
    }

    /// Whether a stream of `phase` or of an earlier phase stores the key.
    pub(crate) fn is_stored_by(&self, phase: usize, key: u32) -> bool {
        self.summaries[key as usize].phase.is_some_and(|first| first <= phase)
    }

    /// The usual size of a value of the key: the mean of all stored values, 0 without any.
    pub(crate) fn usual_bytes(&self, key: u32) -> u64 {
        let Summary { count, bytes, .. } = self.summaries[key as usize];
        bytes.checked_div(count).unwrap_or(0)
    }
}
