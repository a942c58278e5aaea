"""What a cell brings back: one contestant in one round, or at one capacity.

Owns the shape of the results, which is also that of the records. Must not compute anything.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from lab.protocol import Action, Tally, Verdict

Outcome = Literal["measured", "failed", "missing"]


class Pass(msgspec.Struct):
    """One pass of all workers together, warm-up left out.

    `wall_ns` is the time of the slowest worker, `workers_ns` the sum of all, and `timed_ns` the
    part of that sum in which the clock ran.
    """

    wall_ns: int
    workers_ns: int
    timed_ns: int
    actions: dict[Action, Tally]
    verdict: Verdict


class ConcurrentCell(msgspec.Struct, tag_field="record", tag="concurrent"):
    """One contestant in one round. `block_ns` is the median time of a block of 256 operations."""

    contestant: str
    round: int
    outcome: Outcome
    reason: str = ""
    version: str = ""
    runtime: str = ""
    timer: str = ""
    throughput: Pass | None = None
    latency: Pass | None = None
    block_ns: int = 0
    probe: Verdict = msgspec.field(default_factory=Verdict)
    probe_keys: int = 0
    refused: int = 0
    bytes_occupied: int = 0


class ReplayCell(msgspec.Struct, tag_field="record", tag="replay"):
    """One contestant at one capacity.

    `bytes_peak` is the most its folder was seen to occupy, `bytes_settled` what it occupies once
    closed, `bytes_max` what it was told to keep within.
    """

    contestant: str
    capacity: float
    outcome: Outcome
    bytes_max: int
    equal: bool
    reason: str = ""
    version: str = ""
    requests: int = 0
    hits: int = 0
    refused: int = 0
    bytes_peak: int = 0
    bytes_settled: int = 0
    verdict: Verdict = msgspec.field(default_factory=Verdict)

    @property
    def hit_ratio(self) -> float:
        """Hits by requests."""
        return self.hits / self.requests
