//! The inputs of a worker: the operations, and the values that may be answered.
//!
//! Owns everything that is read once and never changes. Must not touch a store, or keep a value.

use crate::contract::Result;
use crate::expected::Expected;
use crate::protocol::{Load, StreamOf, ValueKind};
use crate::recorded::{Origin, Phases};
use crate::stream::{Keys, Operation};
use crate::values::{Values, VALUE_BYTES_MAX};

/// The worker's part of a run.
pub(crate) struct Work {
    pub(crate) worker: usize,
    pub(crate) workers: usize,
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    pub(crate) phases: Phases,
    pub(crate) expected: Expected,
}

impl Work {
    /// Reads the files that `load` names.
    pub(crate) fn read(load: &Load) -> Result<Work> {
        if load.value == ValueKind::Complex {
            let reason = "native contestants store bytes; they have no serialiser for complex \
                          values: ask for binary ones";
            return Err(reason.into());
        }
        let phases = Phases::read(load)?;
        let keys = Keys::read(&load.keys)?;
        let paths = load.phases.iter().flat_map(|phase| &phase.streams);
        for ((_, recorded), stream) in phases.streams().zip(paths) {
            check(&recorded.operations, stream, keys.count())?;
        }
        let values = Values::new(load.seed);
        let expected = Expected::new(&phases, &values, keys.count());
        Ok(Work { worker: load.worker, workers: load.workers, keys, values, phases, expected })
    }

    /// The sequences of `key` whose value equals `answer`, with their origins.
    pub(crate) fn stored<'a>(
        &'a self,
        key: u32,
        answer: &'a [u8],
    ) -> impl Iterator<Item = (u64, Origin)> + 'a {
        self.expected.find(&self.phases, &self.values, key, answer)
    }

    /// A key under which some stream stores `answer`.
    pub(crate) fn owner(&self, answer: &[u8]) -> Option<&'static str> {
        let mut keys = 0..self.keys.count() as u32;
        let owner = keys.find(|key| self.stored(*key, answer).next().is_some());
        owner.map(|key| self.keys.text(key))
    }
}

fn check(operations: &[Operation], stream: &StreamOf, key_count: usize) -> Result<()> {
    let is_known =
        |one: &&Operation| (one.key as usize) < key_count && one.size as usize <= VALUE_BYTES_MAX;
    match operations.iter().find(|one| !is_known(one)) {
        None => Ok(()),
        Some(operation) => Err(format!(
            "{} has {operation:?}, but there are {key_count} keys, and values have {} bytes at \
             most",
            stream.path.display(),
            VALUE_BYTES_MAX
        )
        .into()),
    }
}
