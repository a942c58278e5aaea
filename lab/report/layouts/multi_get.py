"""The time of one value by the number of values in a request: what multi-get saves.

Owns this table and chart. Must not know how a contestant sends the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.layouts.cells import NOTHING, latency
from lab.report.layouts.rows import cell, kind, ours, placed, placements, title
from lab.report.model import Cell, Chart, Column, DotRow, Dots, Picker, Row, Table
from lab.report.units import times
from lab.runner.catalogue import Part
from lab.runner.summary import PhaseSummary, Summary

_ONE_BY_ONE = "one by one"


def charts(part: Part, rows: Sequence[Summary]) -> tuple[Chart, ...]:
    """Return the time of a value, with a mark for each number of values in a request."""
    lines = tuple(
        DotRow(
            title(row),
            kind(row),
            tuple(_value_ns(row.phase(name)) for name in _phases(part)),
            keys={"values": row.variant, **placed(row)},
            records=row.cells,
            ours=ours(row.contestant),
        )
        for row in rows
        if row.measured
    )
    return (
        Dots(
            "Time of one value",
            "by number of values in a request",
            "time of one value",
            "ns",
            "less",
            _phases(part),
            lines,
            (_values(part), *placements(rows)),
        ),
    )


def tables(part: Part, rows: Sequence[Summary]) -> tuple[Table, ...]:
    """Return the times of values and of requests, and how each contestant sends them."""
    columns = (
        Column("System", figures=False),
        *(Column(name, group="time of one value") for name in _phases(part)),
        Column("Speedup", means="Time of one value alone, divided by that in the largest request."),
        *(Column(name, group="median of one request") for name in _phases(part)),
        Column("Request for several values", figures=False),
    )
    lines = tuple(
        _row(part, row)
        for variant in part.variants
        for row in rows
        if row.variant == variant.name and row.measured
    )
    note = "One by one: the contestant has no request for several values that we know of."
    return (Table("Time of one value", columns, lines, (_values(part),), notes=(note,)),)


def _row(part: Part, row: Summary) -> Row:
    found = [row.phase(name) for name in _phases(part)]
    values_ns = [_value_ns(one) for one in found]
    first, last, how = values_ns[0], values_ns[-1], row.contestant.multi_get
    saves = first / last if how and first and last else None
    return Row(
        (
            cell(row),
            *(latency(value_ns) for value_ns in values_ns),
            NOTHING if saves is None else Cell(times(saves), saves),
            *(latency(_request_ns(one)) for one in found),
            Cell(how or _ONE_BY_ONE, mark="" if how else "weak"),
        ),
        keys={"values": row.variant},
        records=row.cells,
        ours=ours(row.contestant),
    )


def _value_ns(phase: PhaseSummary | None) -> float | None:
    return None if phase is None else phase.main.operation_ns.median


def _request_ns(phase: PhaseSummary | None) -> float | None:
    if phase is None or phase.latency is None:
        return None
    return phase.latency.action("get").median_ns


def _phases(part: Part) -> tuple[str, ...]:
    """Return the measured phases, smallest batch first."""
    measured = sorted((one for one in part.phases if not one.preload), key=lambda one: one.batch)
    return tuple(phase.name for phase in measured)


def _values(part: Part) -> Picker:
    return Picker("values", tuple(variant.name for variant in part.variants))
