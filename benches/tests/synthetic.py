"""Synthetic figures and records."""

from __future__ import annotations

from benches.record import Record, Run
from benches.row import Figure, Goal
from rig.machine import Disturbance, Machine
from rig.sources import Sources

AT_MOST_TWO = Goal("at most", 2)

#: Ratios to `THEIRS` that are all below 2, that are all above, and that are on both sides.
THEIRS = (20.0,) * 6
BELOW = (28.0, 29.0, 30.0, 31.0, 32.0, 33.0)
ABOVE = (70.0, 75.0, 80.0, 85.0, 90.0, 95.0)
AROUND = (35.0, 37.0, 39.0, 41.0, 43.0, 45.0)


def figure(
    ours: tuple[float, ...] = BELOW,
    theirs: tuple[float, ...] = THEIRS,
    goal: Goal | None = AT_MOST_TWO,
    at: int | None = None,
    limit: tuple[float, ...] = (),
    what: str = "same keys",
) -> Figure:
    """Return a figure compared with a dict."""
    return Figure(
        what,
        "ns",
        ours,
        "dict",
        theirs,
        "ours / theirs",
        goal,
        at=at,
        limit=limit,
        limited_by="only hash" if limit else "",
    )


def run(
    *figures: Figure,
    is_quick: bool = False,
    others: float = 0.0,
    not_measured: list[str] | None = None,
    commit: str = "0123456789ab",
    cpu: str = "A processor",
) -> Run:
    """Return a run of a row."""
    return Run(
        figures=list(figures),
        not_measured=not_measured or [],
        is_quick=is_quick,
        date="2026-01-02T03:04:05+00:00",
        seconds=1.5,
        sources=Sources(commit, None),
        machine=Machine(
            cpu=cpu,
            cores=2,
            memory_bytes=2**34,
            kernel="Linux 6",
            system="A system",
            python="CPython 3.11",
            libraries={},
            client_core=0,
            server_core=1,
            load_before=0.1,
        ),
        files={"memory": "tmpfs", "disk": "ext4"},
        disturbance=Disturbance(others=others, stolen=0.0),
    )


def record(*runs: Run, row_id: str = "S1") -> Record:
    """Return a record of some runs of one row."""
    return Record({row_id: list(runs)})
