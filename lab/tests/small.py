"""Small suites for the tests, sessions to run them in, and a watcher that watches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lab.runner import catalogue, phases, placement, replay, traces
from lab.runner.catalogue import Contestant, PhasesSuite, ReplaySuite
from lab.runner.guard import Guard
from lab.runner.placement import Cores
from lab.runner.plan import CellName, Choice
from lab.runner.results import AnyCell, PhasesCell, ReplayCell
from lab.runner.servers import Servers
from lab.runner.session import Session
from lab.runner.workspace import workspace

CONTESTANTS = Path(__file__).parent / "contestants"
PROCESSES = 3
KEYS = 60
OPERATIONS = 700
WARMUP = 50

# The smallest form that has everything; a test replaces what it is about.
FORM: dict[str, object] = {
    "operations": 1.0,
    "operations_min": 1,
    "rounds": 1,
    "phase_seconds_max": 60.0,
    "cell_seconds_max": 60.0,
}
FILL: dict[str, object] = {
    "name": "fill",
    "operations_per_key": 1,
    "shares": {"set": 1.0},
    "order": "sweep",
}
MIX: dict[str, object] = {
    "name": "mix",
    "operations": OPERATIONS,
    "shares": {"get": 0.6, "set": 0.35, "delete": 0.05},
    "passes": ["throughput", "latency"],
    "warmup": WARMUP,
}
SIZES: dict[str, object] = {
    "shape": "digits",
    "numbers": 100_000,
    "repeats_min": 2,
    "repeats_max": 99,
}


class Unwatched:
    """Ignores everything."""

    def starts(self, contestant: str, where: str) -> None:
        """Ignore it."""

    def ended(self, contestant: str, where: str, seconds: float, failure: str) -> None:
        """Ignore it."""


class Watching:
    """Notes everything."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str]] = []
        self.failures: dict[str, str] = {}
        self.skipped: list[tuple[str, str]] = []

    def starts(self, contestant: str, where: str) -> None:
        """Note the cell."""
        self.started.append((contestant, where))

    def ended(self, contestant: str, where: str, seconds: float, failure: str) -> None:
        """Note how it ended."""
        if seconds == 0:
            self.skipped.append((contestant, where))
        if failure:
            self.failures[contestant] = failure


def contestant(name: str, suite: str = "small") -> Contestant:
    """Return a contestant of the tests that takes part in `suite`."""
    return msgspec.structs.replace(catalogue.contestants(CONTESTANTS)[name], suites=[suite])


def variant(name: str = "short", **fields: object) -> dict[str, object]:
    """Return a variant as a suite's file has it."""
    return {"name": name, "value": "binary", "sizes": SIZES, **fields}


def suite(
    processes: int = PROCESSES,
    *,
    steps: Sequence[Mapping[str, object]] = (FILL, MIX),
    variants: Sequence[Mapping[str, object]] = (),
    form: Mapping[str, object] | None = None,
    **fields: object,
) -> PhasesSuite:
    """Return a suite of one part with sixty keys; `form` replaces what it has of FORM."""
    part = {
        "name": "main",
        "title": "main",
        "processes": processes,
        "keys": KEYS,
        "key_shape": "decimal",
        "limits": {"entries": 1000, "bytes": 16_000_000},
        "variants": list(variants) or [variant()],
        "phases": list(steps),
        **fields,
    }
    of_form = {**FORM, **(form or {})}
    return msgspec.convert(
        {
            "kind": "phases",
            "name": "small",
            "title": "small",
            "question": "",
            "origin": "the tests",
            "audit": "",
            "layout": "plain",
            "parts": [part],
            "forms": {"smoke": of_form, "quick": of_form, "middle": of_form, "full": of_form},
        },
        PhasesSuite,
    )


def replay_suite(references: Sequence[str]) -> ReplaySuite:
    """Return a replay of a short Zipf stream at one capacity."""
    return msgspec.convert(
        {
            "kind": "replay",
            "name": "small",
            "title": "small",
            "question": "",
            "origin": "the tests",
            "trace": "no/such/trace.csv.zst",
            "zipf": {"requests": 1500, "keys": 200, "exponent": 0.9, "seed": 7},
            "replay": {
                "value_bytes": 500,
                "capacities": [0.5],
                "references": list(references),
                "cell_seconds_max": 60,
            },
        },
        ReplaySuite,
    )


@contextmanager
def session(
    data: Path,
    *,
    seed: int = 1,
    kept: list[AnyCell] | None = None,
    cores: Cores | None = None,
    at_once: int = 1,
) -> Iterator[Session]:
    """Give a session with its stores in `data`, which adds the cells to `kept`."""
    with Guard() as guard, workspace(guard) as desk, workspace(guard, data) as stores:
        yield Session(
            seed=seed,
            guard=guard,
            data=stores,
            desk=desk,
            servers=Servers(guard, stores, desk),
            cores=cores or placement.cores(),
            record=(kept if kept is not None else []).append,
            at_once=at_once,
        )


def run_suite(
    data: Path,
    *names: str,
    of: PhasesSuite | None = None,
    seed: int = 1,
    recorded: Mapping[CellName, PhasesCell] | None = None,
    watcher: Watching | None = None,
    form: catalogue.FormName = "full",
) -> list[PhasesCell]:
    """Run contestants of the tests with their data in `data`."""
    choice = Choice(form, [contestant(name) for name in names])
    with session(data, seed=seed) as one:
        work = phases.run(one, of or suite(), choice, recorded or {}, watcher or Unwatched())
        return asyncio.run(work)


def run_replay(
    data: Path,
    *names: str,
    references: Sequence[str],
    recorded: Mapping[CellName, ReplayCell] | None = None,
) -> list[ReplayCell]:
    """Replay on contestants of the tests."""
    of = replay_suite(references)
    choice = Choice("full", [contestant(name) for name in names])
    requests = traces.requests(of)
    with session(data) as one:
        work = replay.run(one, of, choice, requests, recorded or {}, Unwatched())
        return asyncio.run(work)
