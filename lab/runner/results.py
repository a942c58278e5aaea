"""What a cell brings back: one contestant, once, under one variant of one part of a suite.

Owns the shape of the results, which is also that of the records. Must not compute anything.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from lab.protocol import Action, Tally, Verdict
from lab.runner.catalogue import Placement, Weighed
from lab.runner.rates import Work

# "measured": there are figures, if perhaps fewer than planned: `done` of a pass says where it
# ended. "stopped": filling the store met its time limit, so that there was nothing to measure; no
# fault. "failed": it was here and went wrong. "missing": it is not here, and could be.
# "unavailable": it is not here because it cannot be installed; its row keeps the reason, no fault.
Outcome = Literal["measured", "stopped", "failed", "missing", "unavailable"]


class Source(msgspec.Struct, frozen=True):
    """Where the operations of a cell came from, in words. `recorded`: real requests of a trace."""

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
    """One pass of all workers together, warm-up left out.

    `planned` and `done` count operations; they differ where the pass met its time limit.
    `elapsed_ns` is the time under the clock: of one worker the sum of its stretches, of several the
    time from the first start to the last end. `together_ns` is the part of it in which all workers
    were at work. `cpu_ns` is the CPU time of all `workers` in their stretches, of which there were
    `stretches` in all, on `cores` cores. `block_ns` is the median time of a full block. `steps` are
    there when the suite asks for them.
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
        """What its rate is computed from."""
        return Work(self.done, self.elapsed_ns, self.cpu_ns, self.cores, self.stretches)


class PhaseResult(msgspec.Struct):
    """A measured phase. A pass that the suite does not ask for is None."""

    name: str
    throughput: Pass | None = None
    latency: Pass | None = None


class Resources(msgspec.Struct):
    """Bytes and CPU time of a cell.

    Client bytes are the proportional set size of all workers, once the store was open and after
    the last phase; server bytes its resident set at the same moments. `store_bytes` are the blocks
    of all files of the store before it was closed. `server_cpu_ns` was used during measured phases.
    """

    client_bytes_opened: int = 0
    client_bytes_full: int = 0
    server_bytes_opened: int = 0
    server_bytes_full: int = 0
    server_cpu_ns: int = 0
    store_bytes: int = 0


class Try(msgspec.Struct):
    """One replay by a contestant that was told to keep within `limit` bytes.

    `bytes_peak` is the most that its store was seen to occupy, `bytes_settled` what its files
    occupy once it is closed, where files are what is measured. `reason` says why it has no figures.
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
        """The most that the store occupied, open or closed."""
        return max(self.bytes_peak, self.bytes_settled)


class Held(msgspec.Struct):
    """What a store occupied in bytes, and under which limit. METHODOLOGY.md says how it is weighed.

    `bytes_max` is the suite's limit. `told` is what the contestant was told: that limit, or the one
    of `tries` under which it occupied most without exceeding `bytes_max`. Where there are `tries`,
    a store of its own was weighed before the rounds. `binds`: whether keys and values alone come
    near to the limit. `bytes` is 0 when they could not be measured; `reason` says why, or why no
    limit keeps the contestant within `bytes_max`.
    """

    weighed: Weighed
    bytes_max: int
    told: int
    binds: bool
    bytes: int = 0
    tries: list[Try] = []
    reason: str = ""


class PhasesCell(msgspec.Struct, tag_field="record", tag="phases"):
    """One contestant under one variant, placed somehow, in one round.

    `contestant` is the name of the row, `folder` or `folder:form`. `timer` is the histogram of the
    clock's own cost. `start_ns` is the time from starting the process to the host's first line,
    `stop_ns` the time that the host took to end. Both, and `create_ns`, `open_ns` and `close_ns`,
    are those of the slowest worker. `clear_ns` is the time that emptying the store took, None if
    the part does not ask for it or the contestant cannot.
    `probe` is what the probe and the preloads showed, and `refused` how many of their sets were
    refused; the probe is in a contestant's first cell of a part. `held` is None where the suite has
    no limit in bytes, for null and in the smoke form. `seconds` is what the cell took.
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

    `bytes_max` is what its store may occupy, and `tries` are the replays under limits that come
    nearer and nearer to that; the figures are those of the one numbered `kept`. `equal` says
    whether that one occupied no more than `bytes_max`; `reason` why not. A reference is equal to
    the others by its limit: `bytes_max` is then its nominal limit.
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
        """The try whose figures count; only of a measured cell."""
        return self.tries[self.kept]

    @property
    def hit_ratio(self) -> float:
        """Hits by requests; only of a measured cell."""
        return self.best.hits / self.best.requests


AnyCell = PhasesCell | ReplayCell


def capacity_text(capacity: float) -> str:
    """Return a capacity as a percentage that tells it from every other one."""
    return f"{100 * capacity:g}%"
