"""The result of a cell: one contestant, once, under one variant of one part of a suite.

Owns the shape of the results, which the records share. Must not compute anything.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from lab.protocol import Action, Tally, Verdict
from lab.runner.catalogue import Placement, Weighed
from lab.runner.rates import Work

# "measured": there are figures, perhaps of fewer operations than planned (`done` of a pass).
# "stopped": filling the store reached its time limit, so nothing was measured; not a fault.
# "failed": it ran and failed. "missing": it could be installed but is not.
# "unavailable": it cannot be installed, and the row keeps the reason; not a fault.
Outcome = Literal["measured", "stopped", "failed", "missing", "unavailable"]


class Source(msgspec.Struct, frozen=True):
    """A text that says where the operations of a cell come from. `recorded`: from a trace."""

    recorded: bool
    text: str


NO_SOURCE = Source(recorded=False, text="")


class Stat(msgspec.Struct):
    """One action of a pass. `histogram` is HdrHistogram's V2 encoding of nanoseconds, or empty."""

    tally: Tally
    total_ns: int = 0
    histogram: str = ""


class Step(msgspec.Struct):
    """The first `count` operations of a latency pass took `total_ns`."""

    count: int
    total_ns: int


class Pass(msgspec.Struct):
    """One pass of all workers together, without the warm-up.

    `planned` and `done` count operations; they differ if the pass reached its time limit.
    `elapsed_ns` is the time under the clock: of one worker the sum of its stretches, of several the
    time from the first start to the last end. `together_ns` is the part of it in which all workers
    were at work. `cpu_ns` is the CPU time of all `workers` in all their `stretches`, on `cores`
    cores. `block_ns` is the median time of a full block. `steps` exist if the suite asks for them.
    """

    planned: int
    done: int
    elapsed_ns: int
    together_ns: int
    cpu_ns: int
    cores: int
    workers: int
    stretches: int
    block_operations: int
    block_ns: int
    actions: dict[Action, Stat]
    verdict: Verdict
    steps: list[Step] = []

    @property
    def work(self) -> Work:
        """The numbers that its rate is computed from."""
        return Work(self.done, self.elapsed_ns, self.cpu_ns, self.cores, self.stretches)


class PhaseResult(msgspec.Struct):
    """A measured phase. A pass that the suite does not ask for is None."""

    name: str
    throughput: Pass | None = None
    latency: Pass | None = None


class Resources(msgspec.Struct):
    """Bytes and CPU time of a cell.

    Client bytes are the proportional set size of all workers, server bytes the server's resident
    set: both after the store was opened and after the last phase. `store_bytes` are the blocks of
    all files of the store before it was closed. `server_cpu_ns` covers the measured phases.
    """

    client_bytes_opened: int = 0
    client_bytes_full: int = 0
    server_bytes_opened: int = 0
    server_bytes_full: int = 0
    server_cpu_ns: int = 0
    store_bytes: int = 0


class Try(msgspec.Struct):
    """One replay by a contestant that was given a limit of `limit` bytes.

    `bytes_peak` is the largest measured size of its store. `bytes_settled` is the size of its files
    after closing, if files are measured. `reason` says why it has no figures.
    """

    limit: int
    requests: int = 0
    hits: int = 0
    refused: int = 0
    bytes_peak: int = 0
    bytes_settled: int = 0
    reason: str = ""

    @property
    def bytes_measured(self) -> int:
        """The largest size of the store, open or closed."""
        return max(self.bytes_peak, self.bytes_settled)


class Held(msgspec.Struct):
    """The size of a store in bytes, and its limit. METHODOLOGY.md says how stores are weighed.

    `bytes_max` is the suite's limit. `told` is the limit that the contestant was given: the suite's
    own, or that of the `tries` under which it used most without exceeding `bytes_max`. If there are
    `tries`, a separate store was weighed before the rounds. `binds`: whether keys and values alone
    come close to the limit. `bytes` is 0 if the size could not be measured. `reason` says why, or
    why no limit keeps the contestant within `bytes_max`.
    """

    weighed: Weighed
    bytes_max: int
    told: int
    binds: bool
    bytes: int = 0
    tries: list[Try] = []
    reason: str = ""


class PhasesCell(msgspec.Struct, tag_field="record", tag="phases"):
    """One contestant under one variant, in one placement and one round.

    `contestant` is the name of the row, `folder` or `folder:form`. `timer` is the histogram of the
    cost of reading the clock. `start_ns` is the time from starting the process to the host's first
    line, `stop_ns` the time that the host took to end. Both, and `create_ns`, `open_ns` and
    `close_ns`, are those of the slowest worker. `clear_ns` is the time to empty the store; None if
    the part does not ask for it or the contestant cannot do it.
    `probe` is the verdict of the probe and the preloads, and `refused` the number of their refused
    sets. Only a contestant's first cell of a part has a probe. `held` is None if the suite has no
    limit in bytes, for null and in the smoke form. `seconds` is the duration of the cell.
    `repeat` is the command that measures this cell alone again.
    """

    suite: str
    part: str
    variant: str
    contestant: str
    placement: Placement
    round: int
    outcome: Outcome
    reason: str = ""
    version: str = ""
    runtime: str = ""
    server_version: str = ""
    timer: str = ""
    start_ns: int = 0
    create_ns: int = 0
    open_ns: int = 0
    clear_ns: int | None = None
    close_ns: int = 0
    stop_ns: int = 0
    phases: list[PhaseResult] = []
    probe: Verdict = msgspec.field(default_factory=Verdict)
    probe_keys: int = 0
    refused: int = 0
    resources: Resources = msgspec.field(default_factory=Resources)
    held: Held | None = None
    seconds: float = 0.0
    source: Source = NO_SOURCE
    repeat: list[str] = []


class ReplayCell(msgspec.Struct, tag_field="record", tag="replay"):
    """One contestant at one capacity.

    `bytes_max` is the most that its store may use, and `tries` are the replays under limits that
    approach it. The figures are those of the try numbered `kept`. `equal` says whether that try
    used at most `bytes_max`, and `reason` why not. For a reference, `bytes_max` is its nominal
    limit, and `equal` is always true.
    """

    suite: str
    contestant: str
    capacity: float
    outcome: Outcome
    weighed: Weighed
    bytes_max: int
    equal: bool = False
    kept: int = 0
    tries: list[Try] = []
    reason: str = ""
    version: str = ""
    runtime: str = ""
    server_version: str = ""
    verdict: Verdict = msgspec.field(default_factory=Verdict)
    seconds: float = 0.0
    source: Source = NO_SOURCE
    repeat: list[str] = []

    @property
    def best(self) -> Try:
        """The try that gives the figures; only for a measured cell."""
        return self.tries[self.kept]

    @property
    def hit_ratio(self) -> float:
        """Hits divided by requests; only for a measured cell."""
        return self.best.hits / self.best.requests


AnyCell = PhasesCell | ReplayCell


def capacity_text(capacity: float) -> str:
    """Return a capacity as a percentage with as many digits as needed."""
    return f"{100 * capacity:g}%"
