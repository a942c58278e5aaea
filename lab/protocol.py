"""The messages between the runner and a host: one JSON object per line (see PROTOCOL.md).

Owns the fields of each message. Must not know how a host executes a request, or what the runner
does with a reply.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Measure = Literal["untimed", "throughput", "latency"]
ValueKind = Literal["binary", "complex"]
Action = Literal["get", "set", "delete"]
ACTIONS: tuple[Action, ...] = ("get", "set", "delete")


class StreamOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One worker's operations of a phase. `base` is the sequence of the first."""

    path: str
    base: int


class PhaseOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One phase: a stream for each worker, or a single one that any worker may be asked to run."""

    name: str
    streams: list[StreamOf]


class Request(msgspec.Struct, tag_field="verb", frozen=True, forbid_unknown_fields=True):
    """A request of the runner to a host."""


class Load(Request, tag="load", frozen=True):
    """Import the adapter and read the keys and the streams."""

    adapter: str
    distribution: str
    settings: dict[str, str]
    seed: int
    worker: int
    workers: int
    keys: str
    value: ValueKind
    phases: list[PhaseOf]


class Open(Request, tag="open", frozen=True):
    """Open the store in `folder`."""

    folder: str
    entries_max: int
    bytes_max: int


class ProbeWrite(Request, tag="probe_write", frozen=True):
    """Store, overwrite and delete this worker's own probe keys."""


class ProbeRead(Request, tag="probe_read", frozen=True):
    """Read the probe keys of `workers` and report what is lost, stale or wrong."""

    workers: list[int]


class Prepare(Request, tag="prepare", frozen=True):
    """Run the warm-up of a pass over the worker's stream, and prepare its first stretch.

    `block` and `stretch` count operations: the clock is read after each block, answers are checked
    after each stretch. `batch` is the number of gets per request; above 1 the stream has only gets,
    and all other counts are multiples of it. `seconds_max` limits the warm-up and, separately, the
    pass.
    """

    phase: int
    measure: Measure
    warmup: int
    block: int
    stretch: int
    batch: int
    seconds_max: float


class Run(Request, tag="run", frozen=True):
    """Run the prepared pass once the monotonic clock has reached `start_ns`.

    `durations` is a file to create, or empty.
    """

    start_ns: int
    durations: str


class Replay(Request, tag="replay", frozen=True):
    """Look up the keys of a slice of the worker's stream of a phase, and store on a miss.

    Slices follow each other. An empty slice only makes the host allocate its own memory.
    """

    phase: int
    start: int
    stop: int


class Clear(Request, tag="clear", frozen=True):
    """Empty the store, if the contestant has an operation for that."""


class Close(Request, tag="close", frozen=True):
    """Close the store. The host waits for another open, or exits at the end of its input."""


AnyRequest = Load | Open | ProbeWrite | ProbeRead | Prepare | Run | Replay | Clear | Close


class Verdict(msgspec.Struct, forbid_unknown_fields=True):
    """The result of checking answers: counts of operations, and `examples` of the first few."""

    wrong: int = 0
    stale: int = 0
    lost: int = 0
    weak: int = 0
    examples: list[str] = []

    def add(self, other: Verdict) -> None:
        """Add the counts of `other`, and as many of its examples as fit."""
        self.wrong += other.wrong
        self.stale += other.stale
        self.lost += other.lost
        self.weak += other.weak
        self.examples = (self.examples + other.examples)[:EXAMPLES_MAX]


EXAMPLES_MAX = 5


class Tally(msgspec.Struct, forbid_unknown_fields=True):
    """One action of one pass: operations, misses, right misses (`absent`), and wrong answers."""

    count: int = 0
    miss: int = 0
    absent: int = 0
    wrong: int = 0


class Reply(msgspec.Struct, tag_field="event", frozen=True, forbid_unknown_fields=True):
    """The reply of a host."""


class Loaded(Reply, tag="loaded", frozen=True):
    """The adapter is loaded. `timer_ns` has the differences of pairs of clock readings.

    `started_ns` is the monotonic clock at the start of the host's program.
    """

    runtime: str
    version: str
    started_ns: int
    create_ns: int
    timer_ns: list[int]


class Opened(Reply, tag="opened", frozen=True):
    """The store is open."""

    elapsed_ns: int


class Probed(Reply, tag="probed", frozen=True):
    """The result of a probe. `refused` counts sets that the contestant answered with False."""

    keys: int
    refused: int
    verdict: Verdict


class Prepared(Reply, tag="prepared", frozen=True):
    """The pass can start."""


class Ran(Reply, tag="ran", frozen=True):
    """One pass, or the part of it that was done in time.

    `started_ns` and `ended_ns` are readings of the monotonic clock. `elapsed_ns` adds up the
    stretches without the pauses between them, `cpu_ns` the CPU time of the process in them.
    `blocks_ns` has the time of each full block of a throughput pass.
    """

    done: int
    started_ns: int
    ended_ns: int
    elapsed_ns: int
    cpu_ns: int
    blocks_ns: list[int]
    actions: dict[Action, Tally]
    verdict: Verdict


class Replayed(Reply, tag="replayed", frozen=True):
    """One slice of a replay. `refused` counts sets that the contestant answered with False."""

    hits: int
    refused: int
    verdict: Verdict


class Cleared(Reply, tag="cleared", frozen=True):
    """The store is empty, or, without `cleared`, the contestant cannot empty it."""

    cleared: bool
    elapsed_ns: int


class Closed(Reply, tag="closed", frozen=True):
    """The store is closed."""

    elapsed_ns: int


class Failed(Reply, tag="failed", frozen=True):
    """The request failed. `missing` says that the contestant is not installed."""

    reason: str
    missing: bool = False


AnyReply = Loaded | Opened | Probed | Prepared | Ran | Replayed | Cleared | Closed | Failed
