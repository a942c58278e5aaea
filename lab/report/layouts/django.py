"""The layout of DiskCache's documentation: a row for each backend and action, and scaling."""

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
    if part.name == "listing":
        return ()
    return (percentiles(rows),) if part.name == "main" else filling.charts(rows)


def tables(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Table, ...]:
    """Return the timings of each backend, the scaling table, or the time to list a folder."""
    if part.name == "scaling":
        return filling.tables(rows)
    if part.name == "listing":
        return (_listing(suite, part, rows),)
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
        "Total is the sum of the latencies of all processes, as in the original; it is not elapsed "
        "time. Miss: a get that found nothing, a refused set, or a delete of a missing key.",
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
        *(_time(one) for one in times),
    ]


def _then(published: Original | None, action: str) -> list[Cell]:
    for row in published.rows if published else ():
        if row[0] == action:
            return [originals.published(text) for text in row[1:]]
    return [NOTHING] * len(_FIGURES)


def _listing(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> Table:
    published = originals.table(suite, _LISTING)
    then = {row[0]: row[1] for row in published.rows} if published else {}
    counts = {variant.name: part.keys_of(variant) for variant in part.variants}
    lines = []
    for row in rows:
        latency = next((phase.latency for phase in row.phases if phase.latency is not None), None)
        if latency is not None:
            get = latency.action("get")
            count = counts[row.variant]
            lines.append(
                Row(
                    (
                        Cell(f"{count:,}", count),
                        *(_time(one) for one in (get.median_ns, get.max_ns)),
                        Cell(f"{get.count:,}", get.count),
                        originals.published(then.get(str(count), "")),
                    ),
                    records=row.cells,
                )
            )
    columns = (
        Column("Files"),
        Column("Median"),
        Column("Max"),
        Column("Calls", means="Calls in one round. Each call's number of names is checked."),
        Column("Time", group=_THEN),
    )
    note = "Django's filebased backend listed its folder like this in every set."
    return Table(f"Timings for {_LISTING}", columns, tuple(lines), notes=(note,))


def _time(nanoseconds: float | None) -> Cell:
    return NOTHING if nanoseconds is None else Cell(duration(nanoseconds), nanoseconds)
