//! The messages between the runner and a host: one JSON object per line (see `PROTOCOL.md`).
//!
//! Owns the fields of each message. Must not know how a host executes a request, or what the runner
//! does with a reply.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::verify::Judged;

/// The maximum number of examples of a verdict.
pub(crate) const EXAMPLES_MAX: usize = 5;

/// A request of the runner.
#[derive(Debug, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    Load(Load),
    Open(Open),
    // Braces, because a unit variant would accept unknown fields.
    ProbeWrite {},
    ProbeRead { workers: Vec<usize> },
    Prepare(Prepare),
    Run(Run),
    Replay(Replay),
    Clear {},
    Close {},
}

/// Load the adapter and read the keys and the streams.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    /// Empty here: the adapter is linked in.
    #[serde(rename = "adapter")]
    pub(crate) _adapter: String,
    pub(crate) distribution: String,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) seed: u64,
    pub(crate) worker: usize,
    pub(crate) workers: usize,
    pub(crate) keys: PathBuf,
    pub(crate) value: ValueKind,
    pub(crate) phases: Vec<PhaseOf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ValueKind {
    Binary,
    Complex,
}

/// One phase: a stream for each worker, or a single one that any worker may be asked to run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PhaseOf {
    pub(crate) name: String,
    pub(crate) streams: Vec<StreamOf>,
}

/// One worker's operations of a phase. `base` is the sequence of the first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamOf {
    pub(crate) path: PathBuf,
    pub(crate) base: u64,
}

/// Open the store in `folder`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Open {
    pub(crate) folder: PathBuf,
    /// 0 for no limit.
    pub(crate) entries_max: u64,
    pub(crate) bytes_max: u64,
}

/// Run the warm-up of a pass over the worker's stream, and prepare its first stretch.
///
/// `block` and `stretch` count operations: the clock is read after each block, answers are checked
/// after each stretch. `batch` is the number of gets per request; this host supports only 1.
/// `seconds_max` limits the warm-up and, separately, the pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prepare {
    pub(crate) phase: usize,
    pub(crate) measure: Measure,
    pub(crate) warmup: usize,
    pub(crate) block: usize,
    pub(crate) stretch: usize,
    pub(crate) batch: usize,
    pub(crate) seconds_max: f64,
}

/// Run the prepared pass once the monotonic clock has reached `start_ns`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) start_ns: u64,
    /// A file to create, or empty.
    pub(crate) durations: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    Untimed,
    Throughput,
    Latency,
}

/// Look up the keys of the worker's stream of a phase, from `start` up to `stop`; store on a miss.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replay {
    pub(crate) phase: usize,
    pub(crate) start: usize,
    pub(crate) stop: usize,
}

/// The reply of the host.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Reply {
    Loaded { runtime: String, version: String, started_ns: u64, create_ns: u64, timer_ns: Vec<u64> },
    Opened { elapsed_ns: u64 },
    Probed(Probed),
    Prepared {},
    Ran(Ran),
    Replayed(Replayed),
    Cleared { cleared: bool, elapsed_ns: u64 },
    Closed { elapsed_ns: u64 },
    Failed { reason: String, missing: bool },
}

/// The result of checking answers: counts of operations, and `examples` of the first few.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) wrong: u64,
    pub(crate) stale: u64,
    pub(crate) lost: u64,
    pub(crate) weak: u64,
    pub(crate) examples: Vec<String>,
}

impl Verdict {
    /// Adds an example if there is room for it.
    pub(crate) fn tell(&mut self, example: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example());
        }
    }
}

/// One action of one pass: operations, misses, right misses (`absent`), and wrong answers.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) miss: u64,
    pub(crate) absent: u64,
    pub(crate) wrong: u64,
}

impl Tally {
    /// Adds an operation.
    pub(crate) fn count(&mut self, judged: Judged) {
        self.count += 1;
        self.miss += u64::from(judged.miss);
        self.absent += u64::from(judged.absent);
        self.wrong += u64::from(judged.wrong);
    }
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Actions {
    pub(crate) get: Tally,
    pub(crate) set: Tally,
    pub(crate) delete: Tally,
}

/// The result of a probe. `refused` counts sets that the contestant answered with false.
#[derive(Debug, Serialize)]
pub(crate) struct Probed {
    pub(crate) keys: u64,
    pub(crate) refused: u64,
    pub(crate) verdict: Verdict,
}

/// One pass, or the part of it that was done in time.
///
/// `started_ns` and `ended_ns` are readings of the monotonic clock. `elapsed_ns` adds up the
/// stretches without the pauses between them, `cpu_ns` the CPU time of the process in them.
/// `blocks_ns` has the time of each full block of a throughput pass.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Ran {
    pub(crate) done: usize,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) blocks_ns: Vec<u64>,
    pub(crate) actions: Actions,
    pub(crate) verdict: Verdict,
}

/// One slice of a replay.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Replayed {
    pub(crate) hits: u64,
    pub(crate) refused: u64,
    pub(crate) verdict: Verdict,
}
