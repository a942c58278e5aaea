//! The recorded streams of a run, and the stream of each sequence.
//!
//! Owns the numbering of sequences, and which worker has which stream of a phase. Must not know
//! keys, values or stores.

use crate::contract::Result;
use crate::protocol::Load;
use crate::stream::{self, Operation};

/// One stream. Its first operation has the sequence `base`.
pub(crate) struct Recorded {
    base: u64,
    pub(crate) operations: Vec<Operation>,
}

impl Recorded {
    /// The sequence of the operation at a position.
    pub(crate) fn sequence(&self, position: usize) -> u64 {
        self.base + position as u64
    }
}

/// The origin of a sequence: the phase, and the number of the stream in the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) phase: usize,
    pub(crate) stream: usize,
}

/// All streams of a run, from the point of view of one worker.
pub(crate) struct Phases {
    worker: usize,
    phases: Vec<Vec<Recorded>>,
    /// The first sequence of each non-empty stream, in ascending order.
    bases: Vec<(u64, Origin)>,
}

impl Phases {
    /// Reads the streams that `load` names.
    pub(crate) fn read(load: &Load) -> Result<Phases> {
        if load.worker >= load.workers {
            let (worker, workers) = (load.worker, load.workers);
            return Err(format!("there is no worker {worker} among {workers}").into());
        }
        let mut phases = Vec::new();
        for phase in &load.phases {
            let count = phase.streams.len();
            if count != 1 && count != load.workers {
                let (name, workers) = (&phase.name, load.workers);
                return Err(format!("{name:?} has {count} streams for {workers} workers").into());
            }
            let read = phase.streams.iter().map(|stream| {
                Ok(Recorded { base: stream.base, operations: stream::read(&stream.path)? })
            });
            phases.push(read.collect::<Result<Vec<Recorded>>>()?);
        }
        let bases = bases(&phases)?;
        Ok(Phases { worker: load.worker, phases, bases })
    }

    /// Every stream of every phase, phase by phase.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (Origin, &Recorded)> {
        streams(&self.phases)
    }

    /// How many streams a phase has.
    pub(crate) fn width(&self, phase: usize) -> usize {
        self.phases[phase].len()
    }

    /// The number of the stream of a phase that this worker runs.
    pub(crate) fn own_number(&self, phase: usize) -> usize {
        if self.width(phase) > 1 {
            self.worker
        } else {
            0
        }
    }

    /// Fails for a phase that was not loaded. The other functions take only loaded phases.
    pub(crate) fn require(&self, phase: usize) -> Result<()> {
        match self.phases.len() {
            count if phase < count => Ok(()),
            count => Err(format!("there is no phase {phase}: {count} were loaded").into()),
        }
    }

    /// The stream of a phase that this worker runs.
    pub(crate) fn own(&self, phase: usize) -> &Recorded {
        &self.phases[phase][self.own_number(phase)]
    }

    /// The origin of a sequence of this run, and its operation.
    pub(crate) fn trace(&self, sequence: u64) -> (Origin, Operation) {
        let index = self.bases.partition_point(|(base, _)| *base <= sequence) - 1;
        let (base, origin) = self.bases[index];
        let position = (sequence - base) as usize;
        (origin, self.phases[origin.phase][origin.stream].operations[position])
    }
}

fn streams(phases: &[Vec<Recorded>]) -> impl Iterator<Item = (Origin, &Recorded)> {
    phases.iter().enumerate().flat_map(|(phase, streams)| {
        let numbered = streams.iter().enumerate();
        numbered.map(move |(stream, recorded)| (Origin { phase, stream }, recorded))
    })
}

fn bases(phases: &[Vec<Recorded>]) -> Result<Vec<(u64, Origin)>> {
    let mut ranges: Vec<(u64, u64, Origin)> = streams(phases)
        .filter(|(_, recorded)| !recorded.operations.is_empty())
        .map(|(origin, one)| (one.base, one.sequence(one.operations.len()), origin))
        .collect();
    ranges.sort_unstable_by_key(|(base, _, _)| *base);
    for pair in ranges.windows(2) {
        let [(_, end, _), (base, _, _)] = pair else { unreachable!("a window of two") };
        if base < end {
            return Err(format!("the sequence {base} belongs to two streams").into());
        }
    }
    Ok(ranges.into_iter().map(|(base, _, origin)| (base, origin)).collect())
}
