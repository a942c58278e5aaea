"""Small suites for the tests, and a watcher that watches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lab.runner import catalogue, concurrent, replay, streams
from lab.runner.catalogue import ConcurrentSuite, Contestant, Form, ReplaySuite
from lab.runner.results import ConcurrentCell, ReplayCell
from lab.runner.session import Session
from lab.runner.workspace import workspace

CONTESTANTS = Path(__file__).parent / "contestants"
FORM = Form(operations=700, warmup=50, rounds=1, cell_seconds_max=60)
PROCESSES = 3
KEYS = 60


class Unwatched:
    """Ignores everything."""

    def starts(self, contestant: str, detail: str) -> None:
        """Ignore it."""

    def ended(self, contestant: str, detail: str, seconds: float, failure: str) -> None:
        """Ignore it."""


def contestant(name: str) -> Contestant:
    """Return a contestant of the tests."""
    return catalogue.contestants(CONTESTANTS)[name]


def concurrent_suite() -> ConcurrentSuite:
    """Return the suite `django` with three processes and sixty keys."""
    return msgspec.convert(
        {
            "kind": "concurrent",
            "name": "small",
            "title": "small",
            "origin": "the tests",
            "workload": {
                "processes": PROCESSES,
                "keys": KEYS,
                "key_format": "{number}",
                "shares": {"get": 0.6, "set": 0.35, "delete": 0.05},
                "lengths": {"numbers": 100_000, "repeats_min": 2, "repeats_max": 99},
                "limits": {"entries": 1000, "bytes": 16_000_000},
            },
            "quick": {"operations": 700, "warmup": 50, "rounds": 1, "cell_seconds_max": 60},
            "full": {"operations": 700, "warmup": 50, "rounds": 1, "cell_seconds_max": 60},
        },
        ConcurrentSuite,
    )


def replay_suite(references: Sequence[str]) -> ReplaySuite:
    """Return a replay of a short Zipf stream at one capacity."""
    return msgspec.convert(
        {
            "kind": "replay",
            "name": "small",
            "title": "small",
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


def run_concurrent(
    data: Path, *names: str, form: Form = FORM, seed: int = 1
) -> list[ConcurrentCell]:
    """Run contestants of the tests with their data in `data`."""
    chosen = [contestant(name) for name in names]
    with workspace(data) as space:
        return asyncio.run(
            concurrent.run(
                Session(seed, space, lambda cell: None),
                concurrent_suite(),
                form,
                chosen,
                Unwatched(),
            )
        )


def run_replay(data: Path, *names: str, references: Sequence[str]) -> list[ReplayCell]:
    """Replay on contestants of the tests."""
    suite = replay_suite(references)
    chosen = [contestant(name) for name in names]
    requests = streams.requests(suite)
    with workspace(data) as space:
        return asyncio.run(
            replay.run(Session(1, space, lambda cell: None), suite, requests, chosen, Unwatched())
        )
