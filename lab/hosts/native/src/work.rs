//! What a worker has to do: its phases, with the keys and values they name.
//!
//! Owns all that is read once and never changes. Must not touch a store.

use crate::contract::Result;
use crate::protocol::{Load, ValueKind};
use crate::stream::{self, Keys, Operation};
use crate::values::{Values, VALUE_BYTES_MAX};

/// The worker's own stream of one phase. `base` is the sequence of its first operation.
pub(crate) struct Phase {
    pub(crate) base: u64,
    pub(crate) operations: Vec<Operation>,
}

impl Phase {
    /// The sequence of the operation at a position.
    pub(crate) fn sequence(&self, position: usize) -> u64 {
        self.base + position as u64
    }
}

/// The worker's part of a run.
pub(crate) struct Work {
    pub(crate) worker: u64,
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    phases: Vec<Phase>,
}

impl Work {
    /// Reads what `load` names.
    pub(crate) fn read(load: &Load) -> Result<Work> {
        if load.value == ValueKind::Complex {
            let reason = "native contestants store bytes; they have no serialiser for complex \
                          values: ask for binary ones";
            return Err(reason.into());
        }
        if load.workers != 1 || load.worker != 0 {
            let reason = "the native host checks the answers of one worker alone: workers_max is 1";
            return Err(reason.into());
        }
        let keys = Keys::read(&load.keys)?;
        let mut phases = Vec::new();
        for phase in &load.phases {
            let [stream] = phase.streams.as_slice() else {
                let count = phase.streams.len();
                return Err(format!("the phase {:?} has {count} streams, not 1", phase.name).into());
            };
            let operations = stream::read(&stream.path)?;
            for operation in &operations {
                let known = (operation.key as usize) < keys.count();
                if !known || operation.size as usize > VALUE_BYTES_MAX {
                    let path = stream.path.display();
                    return Err(format!(
                        "{path} has {operation:?}, but there are {} keys, and values have {} \
                         bytes at most",
                        keys.count(),
                        VALUE_BYTES_MAX
                    )
                    .into());
                }
            }
            phases.push(Phase { base: stream.base, operations });
        }
        Ok(Work { worker: load.worker, keys, values: Values::new(load.seed), phases })
    }

    pub(crate) fn phase(&self, index: usize) -> Result<&Phase> {
        let count = self.phases.len();
        self.phases
            .get(index)
            .ok_or_else(|| format!("there is no phase {index}: {count} were loaded").into())
    }
}
