"""Replays recorded traces on the engine, divided over machines.

Owns which replays there are. Must not compute what they mean.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import zstandard

from benches.scale.record import Fleet

#: Traces by file name, and the number of their objects.
TRACES = {"cache2k_orm_busy": 76_349, "arc_oltp": 186_880, "meta_kv_syn": 674_395}
MACHINES = (1, 10, 100, 1_000)
PERCENTS = (0.1, 1.0, 10.0)
ROUTES = ("random", "sticky")

#: How many machines a trace is divided over, and how large a near tier is, where only the time that
#: a copy lives is varied.
STALE_MACHINES, STALE_PERCENT = 10, 1.0
STALES = (500, 5_000, 50_000)


def entries_of(trace: str, percent: float) -> int:
    """Return the entries of a near tier."""
    return round(TRACES[trace] * percent / 100)


def asked(trace: str) -> list[Fleet]:
    """Return the replays of a trace, without what they come to."""

    def one(
        percent: float, machines: int, route: str = "random", stale: int = 0, cleared: bool = False
    ) -> Fleet:
        entries = entries_of(trace, percent)
        return Fleet(trace, percent, entries, machines, route, stale, cleared, [], [])

    divided = [
        one(percent, machines, route)
        for percent in PERCENTS
        for machines in MACHINES
        for route in ROUTES
        # One machine has every key.
        if machines > 1 or route == "random"
    ]
    stale = [one(STALE_PERCENT, STALE_MACHINES, stale=stale) for stale in STALES]
    cleared = [one(percent, STALE_MACHINES, cleared=True) for percent in PERCENTS]
    return divided + stale + cleared


def replay(program: Path, traces: Path, trace: str) -> Iterator[Fleet]:
    """Replay a trace as `asked`, and yield each as it ends.

    Raises:
        SystemExit: the replay failed; it has said why.
    """
    wanted = asked(trace)
    with (
        (traces / f"{trace}.csv.zst").open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as requests,
        subprocess.Popen(
            [program, *map(argument, wanted)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        # A program that fails reads no more.
        with suppress(BrokenPipeError), process.stdin as requested:
            shutil.copyfileobj(requests, requested)
        for fleet, line in zip(wanted, process.stdout, strict=False):
            found = json.loads(line)
            yield Fleet(
                trace=fleet.trace,
                percent=fleet.percent,
                entries=fleet.entries,
                machines=fleet.machines,
                route=fleet.route,
                stale=fleet.stale,
                is_cleared=fleet.is_cleared,
                gets=found["gets"],
                hits=found["hits"],
            )
    if process.returncode != 0:
        raise SystemExit(f"{trace}: the replay ended with {process.returncode}")


def argument(fleet: Fleet) -> str:
    """Return how the replay program is asked for a fleet."""
    cleared = int(fleet.is_cleared)
    return f"fleet:{fleet.entries}:{fleet.machines}:{fleet.route}:{fleet.stale}:{cleared}"
