"""Cells that several tables have: latencies, hit ratios, what the checks found.

Owns how such a figure stands in a table. Must not know which table.
"""

from __future__ import annotations

from lab.protocol import Verdict
from lab.report.model import Cell, Column, Mark
from lab.report.units import brief, hit_rate, rate
from lab.runner.summary import Figure, PassSummary, Summary

NOTHING = Cell("")

FAULTS = (
    Column("Wrong", means="Answers that are not the value stored."),
    Column(
        "Stale",
        means="Answers with a value that had certainly been replaced or deleted.",
    ),
    Column("Lost", means="Entries gone from a store that was not full."),
    Column("Refused", means="Sets that the store declined."),
)


def latency(nanoseconds: float | None) -> Cell:
    """Return a latency; nothing where the action did not occur."""
    return NOTHING if nanoseconds is None else Cell(brief(nanoseconds), nanoseconds)


def interval(figure: Figure) -> str:
    """Return the bounds of a rate and what they are; empty for one round."""
    if figure.bounds is None:
        return ""
    low, high = figure.bounds
    covers = f"{figure.interval.coverage:.1%}" if figure.interval else f"{figure.rounds} rounds"
    return f"{rate(low)} to {rate(high)}, {covers}"


def hits(one: PassSummary, row: Summary, workers: int = 1) -> Cell:
    """Return the hit ratio among the keys that should have been there.

    Several workers miss also what another has just deleted: their misses are no sign of eviction.
    """
    if one.hit_ratio is None or not row.contestant.stores:
        return NOTHING
    return hit_cell(one.hit_ratio) if workers == 1 else Cell(hit_rate(one.hit_ratio), one.hit_ratio)


def hit_cell(share: float) -> Cell:
    """Return a hit ratio. Misses are cheaper than hits: a rate with misses is marked."""
    return Cell(hit_rate(share), share, "weak" if share < 1 else "")


def checks(verdict: Verdict, refused: int, row: Summary) -> list[Cell]:
    """Return wrong, stale, lost and refused. Null stores nothing and has none of them."""
    if not row.contestant.stores:
        return [NOTHING] * len(FAULTS)
    excused = row.contestant.excused
    return [
        _count(verdict.wrong, "fault"),
        _count(verdict.stale, "weak" if "stale" in excused else "fault"),
        _count(verdict.lost, "weak" if "lost" in excused else "fault"),
        _count(refused, "weak"),
    ]


def _count(count: int, mark: Mark) -> Cell:
    return Cell(f"{count:,}", count, mark if count else "")


def refused_of(one: PassSummary) -> int:
    """Return how many sets of a pass were refused."""
    return one.action("set").miss
