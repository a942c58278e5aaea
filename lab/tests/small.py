"""Small suites for the tests, sessions to run them in, and watchers."""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lab.runner import catalogue, phases, replay, traces
from lab.runner.catalogue import Contestant, PhasesSuite, ReplaySuite
from lab.runner.guard import Guard
from lab.runner.plan import CellName, Choice
from lab.runner.results import AnyCell, PhasesCell, ReplayCell
from lab.runner.servers import Servers
from lab.runner.session import Session
from lab.runner.workspace import workspace
from rig.cores import Cores
from rig.cores import cores as all_cores

CONTESTANTS = Path(__file__).parent / "contestants"
_FOLDER = tempfile.TemporaryDirectory(prefix="lab-tests-")
PROCESSES = 3
KEYS = 60
OPERATIONS = 700
WARMUP = 50

# The smallest complete form; tests replace single fields.
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
    """Records everything."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str]] = []
        self.failures: dict[str, str] = {}
        self.skipped: list[tuple[str, str]] = []

    def starts(self, contestant: str, where: str) -> None:
        """Record the cell."""
        self.started.append((contestant, where))

    def ended(self, contestant: str, where: str, seconds: float, failure: str) -> None:
        """Record how it ended."""
        if seconds == 0:
            self.skipped.append((contestant, where))
        if failure:
            self.failures[contestant] = failure


def contestant(name: str, suite: str = "small") -> Contestant:
    """Return a contestant of the tests that takes part in `suite`."""
    return msgspec.structs.replace(catalogue.contestants(CONTESTANTS)[name], suites=[suite])


def variant(name: str = "short", **fields: object) -> dict[str, object]:
    """Return a variant in the form of a suite's file."""
    return {"name": name, "value": "binary", "sizes": SIZES, **fields}


def suite(
    processes: int = PROCESSES,
    *,
    steps: Sequence[Mapping[str, object]] = (FILL, MIX),
    variants: Sequence[Mapping[str, object]] = (),
    form: Mapping[str, object] | None = None,
    **fields: object,
) -> PhasesSuite:
    """Return a suite of one part with sixty keys; `form` replaces fields of FORM."""
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


def replay_suite(
    references: Sequence[str],
    *,
    requests: int = 1_500,
    keys: int = 200,
    value_bytes: int = 500,
    capacity: float = 0.5,
) -> ReplaySuite:
    """Return a replay at one capacity of a trace in which small key numbers are more frequent."""
    dice = random.Random(7)
    numbers = [int(keys * dice.random() ** 3) for _ in range(requests)]
    content = "key,size\n" + "".join(f"{number},1\n" for number in numbers)
    path = Path(_FOLDER.name, f"{requests}-{keys}.csv")
    path.write_text(content, "ascii")
    return msgspec.convert(
        {
            "kind": "replay",
            "name": "small",
            "title": "small",
            "question": "",
            "trace": {
                "file": str(path),
                "what": "requests",
                "origin": "the tests",
                "licence": "none",
                "sha256": hashlib.sha256(content.encode("ascii")).hexdigest(),
                "requests": requests,
                "distinct": len(set(numbers)),
            },
            "replay": {
                "value_bytes": value_bytes,
                "capacities": [capacity],
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
    """Return a session with its stores in `data`, which adds the cells to `kept`."""
    with Guard() as guard, workspace(guard) as desk, workspace(guard, data) as stores:
        yield Session(
            seed=seed,
            guard=guard,
            data=stores,
            desk=desk,
            servers=Servers(guard, stores, desk),
            cores=cores or all_cores(),
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
    *rows: str | Contestant,
    references: Sequence[str],
    of: ReplaySuite | None = None,
    recorded: Mapping[CellName, ReplayCell] | None = None,
) -> list[ReplayCell]:
    """Replay on contestants: those of the tests by name, others as given."""
    suite = of or replay_suite(references)
    chosen = [contestant(row) if isinstance(row, str) else row for row in rows]
    requests = traces.requests(suite.trace)
    with session(data) as one:
        choice = Choice("full", chosen)
        work = replay.run(one, suite, choice, requests, recorded or {}, Unwatched())
        return asyncio.run(work)


def shipped(name: str, suite: str = "small", **fields: object) -> Contestant:
    """Return a contestant of the lab that takes part only in `suite`, with `fields` replaced."""
    row = catalogue.contestants()[name]
    return msgspec.structs.replace(row, suites=[suite], **fields)
