"""The cost of one set while a store fills: a line for each contestant, a column for each step.

Owns this table and chart, which two suites share. A figure at n entries is the mean of the sets
since the previous step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.report.layouts.cells import NOTHING
from lab.report.layouts.rows import cell, kind, ours, placed, placements, title
from lab.report.model import Cell, Chart, Column, LineRow, Lines, Row, Table
from lab.report.units import brief
from lab.runner.results import Step
from lab.runner.summary import Summary


def charts(rows: Sequence[Summary], notes: tuple[str, ...] = ()) -> tuple[Chart, ...]:
    """Return the cost of a set by the number of entries."""
    lines = [
        LineRow(
            title(row),
            kind(row),
            tuple((float(count), cost) for count, cost in costs(row)),
            ended=_ended(row),
            keys=placed(row),
            records=row.cells,
            ours=ours(row.contestant),
        )
        for row in rows
        if row.measured
    ]
    return (
        Lines(
            "Cost of one set as the store fills",
            "entries in the store",
            "count",
            "time of one set",
            "ns",
            tuple(line for line in lines if line.points),
            placements(rows),
            notes=notes,
        ),
    )


def tables(rows: Sequence[Summary]) -> tuple[Table, ...]:
    """Return a row for each contestant, with the cost of a set at powers of ten and at the end."""
    found = {id(row): dict(costs(row)) for row in rows if row.measured}
    counts = sorted({count for one in found.values() for count in one})
    shown = [count for count in counts if _power_of_ten(count) or count == counts[-1]]
    lines = [
        Row(
            (
                cell(row),
                *(_cost(found[id(row)].get(count)) for count in shown),
                Cell(_ended(row), mark="weak"),
            ),
            records=row.cells,
            ours=ours(row.contestant),
        )
        for row in rows
        if row.measured
    ]
    columns = (
        Column("One set at", figures=False),
        *(Column(f"{count:,}", group="entries") for count in shown),
        Column("Ended", figures=False),
    )
    note = (
        "Each figure is the mean of the sets since the previous step: the figure at 1,000 entries "
        "covers the sets from 500 to 1,000, the figure at 1 only the first set of the process."
    )
    return (Table("Cost of one set as the store fills", columns, tuple(lines), notes=(note,)),)


def costs(row: Summary) -> Iterator[tuple[int, float]]:
    """Return the entries at each step and the mean time of a set since the previous step."""
    for phase in row.phases:
        before = Step(0, 0)
        for step in phase.latency.steps if phase.latency is not None else ():
            yield step.count, (step.total_ns - before.total_ns) / (step.count - before.count)
            before = step


def _ended(row: Summary) -> str:
    latency = next((phase.latency for phase in row.phases if phase.latency is not None), None)
    if latency is None or not latency.stopped:
        return ""
    # The least of all rounds: the table has only the steps that every round reached.
    least = min(
        phase.latency.done for one in row.cells for phase in one.phases if phase.latency is not None
    )
    return f"at {least:,} of {latency.planned:,}: time limit"


def _power_of_ten(count: int) -> bool:
    return str(count).rstrip("0") == "1"


def _cost(nanoseconds: float | None) -> Cell:
    return NOTHING if nanoseconds is None else Cell(brief(nanoseconds), nanoseconds)
