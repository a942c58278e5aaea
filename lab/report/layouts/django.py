"""The tables of DiskCache's documentation: for each backend a row for each action, and scaling.

Owns this layout.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.layouts import filling, originals
from lab.report.layouts.cells import NOTHING
from lab.report.layouts.corrected import percentiles
from lab.report.layouts.rows import name, ours, title
from lab.report.model import Cell, Chart, Column, Row, Table
from lab.report.units import duration
from lab.runner.catalogue import Original, Part, PhasesSuite
from lab.runner.summary import ActionSummary, PassSummary, Summary

_LISTING = "glob.glob1"
_FIGURES = ("Count", "Miss", "Median", "P90", "P99", "Max", "Total")
_THEN = "published"


def charts(_suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Chart, ...]:
    """Return the percentiles by backend, or the cost of a set by entries."""
    return (percentiles(rows),) if part.name == "main" else filling.charts(rows)


def tables(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Table, ...]:
    """Return the timings of each backend, or the scaling table."""
    if part.name != "main":
        return (*filling.tables(rows), *_listing(suite))
    lines = []
    # The original's limit is that of the first variant.
    compared = [row for row in rows if row.variant == part.variants[0].name]
    for row in originals.in_order(suite, compared):
        one = next((phase.latency for phase in row.phases if phase.latency is not None), None)
        if one is not None:
            lines += _timings(suite, row, one)
    columns = (
        Column("Timings for", figures=False, head=True),
        Column("Action", figures=False),
        *(Column(one) for one in _FIGURES),
        Column("Wrong"),
        *(Column(one, group=_THEN, published=True) for one in _FIGURES),
    )
    notes = (
        "Total is the sum of the latencies of all processes, as in the original, not elapsed "
        "time. Miss of a set: refused; of a delete: nothing there.",
    )
    return (Table("Timing data", columns, tuple(lines), notes=notes),)


def _timings(suite: PhasesSuite, row: Summary, one: PassSummary) -> list[Row]:
    label = originals.label(suite, row)
    published = originals.table(suite, label)
    shown = _shown(row, label)
    lines = [
        Row(
            (
                Cell(shown),
                Cell(action.action),
                *_figures(action),
                Cell(f"{action.wrong:,}", action.wrong, "fault" if action.wrong else ""),
                *_then(published, action.action),
            ),
            records=row.cells,
            ours=ours(row.contestant),
        )
        for action in one.actions
        if action.count
    ]
    count = sum(action.count for action in one.actions)
    wrong = sum(action.wrong for action in one.actions)
    total = sum(action.total_ns or 0.0 for action in one.actions)
    today = (Cell(f"{count:,}", count), *[NOTHING] * 5, Cell(duration(total), total))
    faults = Cell(f"{wrong:,}", wrong, "fault" if wrong else "")
    lines.append(
        Row(
            (Cell(shown), Cell("Total"), *today, faults, *_then(published, "Total")),
            records=row.cells,
            ours=ours(row.contestant),
            total=True,
        )
    )
    return lines


def _shown(row: Summary, label: str) -> str:
    return f"{label}, {name(row)}" if label else title(row)


def _figures(action: ActionSummary) -> list[Cell]:
    times = (action.median_ns, action.p90_ns, action.p99_ns, action.max_ns, action.total_ns)
    return [
        Cell(f"{action.count:,}", action.count),
        Cell(f"{action.miss:,}", action.miss),
        *(NOTHING if one is None else Cell(duration(one), one) for one in times),
    ]


def _then(published: Original | None, action: str) -> list[Cell]:
    for row in published.rows if published else ():
        if row[0] == action:
            return [originals.published(text) for text in row[1:]]
    return [NOTHING] * len(_FIGURES)


def _listing(suite: PhasesSuite) -> list[Table]:
    published = originals.table(suite, _LISTING)
    if published is None:
        return []
    lines = tuple(Row(tuple(originals.published(one) for one in row)) for row in published.rows)
    columns = tuple(Column(text) for text in published.columns)
    return [Table(f"Published: {_LISTING} alone, a part of each set of filebased", columns, lines)]
