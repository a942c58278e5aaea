"""Cells that several tables share: latencies, hit ratios, results of the checks.

Owns their format. Must not know which table shows them.
"""

from __future__ import annotations

from lab.protocol import Verdict
from lab.report.model import Cell, Column, Mark
from lab.report.units import brief, hit_rate, rate
from lab.runner.summary import Figure, PassSummary, Summary

NOTHING = Cell("")

FAULTS = (
    Column("Wrong", means="Answers that differ from the stored value."),
    Column(
        "Stale",
        means="Answers with a value that had certainly been replaced or deleted before.",
    ),
    Column("Lost", means="Entries missing from a store that was not full."),
    Column("Refused", means="Sets that the store refused."),
)


def latency(nanoseconds: float | None) -> Cell:
    """Return a latency; nothing where the action did not occur."""
    return NOTHING if nanoseconds is None else Cell(brief(nanoseconds), nanoseconds)


def interval(figure: Figure) -> str:
    """Return the bounds of a rate and their coverage or rounds; empty for one round."""
    if figure.bounds is None:
        return ""
    low, high = figure.bounds
    covers = f"{figure.interval.coverage:.1%}" if figure.interval else f"{figure.rounds} rounds"
    return f"{rate(low)} to {rate(high)}, {covers}"


def hits(one: PassSummary, row: Summary, workers: int = 1) -> Cell:
    """Return the hit ratio among the keys that should have been there.

    With several workers a low ratio is not marked: another worker may just have deleted the key.
    """
    if one.hit_ratio is None or not row.contestant.stores:
        return NOTHING
    return hit_cell(one.hit_ratio) if workers == 1 else Cell(hit_rate(one.hit_ratio), one.hit_ratio)


def hit_cell(share: float) -> Cell:
    """Return a hit ratio. It is marked below 1, since misses are cheaper than hits."""
    return Cell(hit_rate(share), share, "weak" if share < 1 else "")


def checks(verdict: Verdict, refused: int, row: Summary) -> list[Cell]:
    """Return wrong, stale, lost and refused; empty for null, which stores nothing."""
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
    """Return the number of refused sets of a pass."""
    return one.action("set").miss
