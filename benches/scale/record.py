"""The record of the page: what was replayed and measured.

Owns its format and its file. Must not measure, compute, nor know how it is shown.
"""

from __future__ import annotations

import msgspec

from rig.machine import Disturbance, Machine
from rig.sources import ROOT, Sources

PATH = ROOT / "docs" / "explanation" / "scale.json"

#: Files that a run itself changes. They are not part of its sources.
RESULTS = ("docs/explanation/scale*",)


class Fleet(msgspec.Struct, frozen=True):
    """One replay of a trace that is divided over machines: see `crates/engine/examples/replay.rs`.

    `percent` of the trace's objects are the entries of each near tier. A value expires after
    `stale` lookups of a machine, 0 for never. `gets` and `hits` have equal parts of the trace.
    """

    trace: str
    percent: float
    entries: int
    machines: int
    route: str
    stale: int
    is_cleared: bool
    gets: list[int]
    hits: list[int]


class FanOut(msgspec.Struct, frozen=True):
    """Changes that a server told to listening connections, with a figure for each round.

    `changes` arrive at the server together. `cpu_us` is the server's CPU time for each message,
    without that of the writes. `per_second` is the rate of messages.
    """

    connections: int
    changes: int
    cpu_us: list[float]
    per_second: list[float]


class Measured(msgspec.Struct, frozen=True):
    """What was measured on a server and on a process that listens. Lists have a figure per round.

    The `_us` are CPU time: of the server for one command or message, of the listening process for
    one message (`applied_us`), and in each second without any (`idle_us`). `told` has the number of
    messages of each operation.
    """

    server: str
    rounds: int
    key_bytes: int
    message_bytes: int
    more_key_bytes: int
    read_us: list[float]
    write_us: list[float]
    ping_us: list[float]
    fan_out: list[FanOut]
    connection_bytes: list[float]
    tracked_key_bytes: list[float]
    applied_us: list[float]
    idle_us: list[float]
    told: dict[str, int]


class Run(msgspec.Struct, frozen=True):
    """The circumstances of a part of the record."""

    date: str
    sources: Sources
    machine: Machine
    disturbance: Disturbance


class Record(msgspec.Struct, frozen=True):
    """All that the page is made of. A part is None until it was measured."""

    fleets: list[Fleet] = []
    measured: Measured | None = None
    run: Run | None = None
