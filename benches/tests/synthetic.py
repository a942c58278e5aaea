"""Figures and records that nobody measured."""

from __future__ import annotations

from benches.record import Record, RowRecord
from benches.row import Figure, Goal
from lab.runner.machine import Disturbance, Machine
from reliability.machine import Sources

AT_MOST_TWO = Goal("at most", 2)


def figure(
    ours: tuple[float, ...] = (30.0, 40.0, 50.0),
    theirs: tuple[float, ...] = (20.0, 20.0, 40.0),
    goal: Goal | None = AT_MOST_TWO,
    at: int | None = None,
    limit: tuple[float, ...] = (),
    what: str = "same keys",
) -> Figure:
    """Return a figure beside a dict."""
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
        limited_by="a loop that only hashes" if limit else "",
    )


def row(
    *figures: Figure,
    row_id: str = "S1",
    is_quick: bool = False,
    others: float = 0.0,
    not_measured: list[str] | None = None,
) -> RowRecord:
    """Return a record of one row."""
    return RowRecord(
        id=row_id,
        title="A get that hits",
        goal_text="at most 2 x dict.get",
        figures=list(figures),
        not_measured=not_measured or [],
        rounds=3,
        is_quick=is_quick,
        date="2026-01-02T03:04:05+00:00",
        seconds=1.5,
        sources=Sources("0123456789ab", None),
        machine=Machine(
            cpu="A processor",
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


def record(*rows: RowRecord) -> Record:
    """Return a record of rows."""
    return Record({one.id: one for one in rows})
