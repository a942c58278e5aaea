"""The layout of 2011: its charts with the original's axes, the same as tables, and what was kept.

A part with batches uses the layout of `multi_get`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.report.layouts import multi_get
from lab.report.layouts.cells import NOTHING
from lab.report.layouts.rows import cell, kind, ours, placed, placements, title
from lab.report.model import Cell, Chart, Column, LineRow, Lines, Picker, Row, Table
from lab.report.units import brief
from lab.runner.catalogue import Part, PhasesSuite
from lab.runner.summary import PassSummary, Summary

# The steps that the table shows; the charts show all of them.
_COLUMNS = (1, 10, 50, 100, 250, 500)


def charts(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Chart, ...]:
    """Return the original's eight charts with its systems and ours, and a chart of all systems."""
    if part.batch_max > 1:
        return multi_get.charts(part, rows)
    timed = [
        (row, phase.name, phase.latency)
        for row in rows
        for phase in row.phases
        if phase.latency is not None and phase.latency.steps
    ]
    then = [
        replace(_curve(*one), name=one[0].contestant.title)
        for one in timed
        if _of_2011(suite, one[0]) or ours(one[0].contestant)
    ]
    eight = Lines(
        "As in 2011: time by number of iterations",
        "iterations",
        "count",
        "time of all iterations so far",
        "s",
        tuple(then),
        placements(rows),
        across_log=False,
        up_log=False,
        panels=tuple(
            _panel(variant.name, phase.name) for variant in part.variants for phase in part.phases
        ),
    )
    everybody = replace(
        eight,
        title="All systems: time by number of iterations",
        rows=tuple(_curve(*one) for one in timed),
        pickers=(_values(part), _phases(part), *placements(rows)),
        up_log=True,
        panels=(),
    )
    return (eight, everybody)


def _curve(row: Summary, phase: str, one: PassSummary) -> LineRow:
    return LineRow(
        title(row),
        kind(row),
        tuple((float(step.count), step.total_ns / 1e9) for step in one.steps),
        ended=_ended(one),
        keys={"values": row.variant, "phase": phase, **placed(row)},
        records=row.cells,
        ours=ours(row.contestant),
        panel=_panel(row.variant, phase),
    )


def _panel(variant: str, phase: str) -> str:
    return f"{variant}, {phase}"


def _of_2011(suite: PhasesSuite, row: Summary) -> bool:
    """Return whether a row is a system of the original, or replaces one."""
    folder, _, _ = row.contestant.name.partition(":")
    return folder in {name.partition(":")[0] for name in suite.labels}


def tables(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Table, ...]:
    """Return the times by iterations, what was kept of each size, and the published tables."""
    if part.batch_max > 1:
        return multi_get.tables(part, rows)
    return (_times(part, rows), _kept(part, rows), *_published(suite))


def _times(part: Part, rows: Sequence[Summary]) -> Table:
    found = [
        (row, phase.name, phase.latency)
        for variant in part.variants
        for row in rows
        if row.variant == variant.name
        for phase in row.phases
        if phase.latency is not None
    ]
    reached = {step.count for _, _, one in found for step in one.steps}
    shown = [count for count in _COLUMNS if count in reached]
    lines = [_line(row, phase, one, shown) for row, phase, one in found]
    columns = (
        Column("System", figures=False),
        *(Column(f"{count:,}", group="time after iterations") for count in shown),
        Column("Note", figures=False),
    )
    return Table(
        "Time by number of iterations",
        columns,
        tuple(lines),
        pickers=(_values(part), _phases(part)),
    )


def _values(part: Part) -> Picker:
    return Picker("values", tuple(variant.name for variant in part.variants))


def _phases(part: Part) -> Picker:
    return Picker("phase", tuple(phase.name for phase in part.phases))


def _line(row: Summary, phase: str, one: PassSummary, shown: Sequence[int]) -> Row:
    totals = {step.count: step.total_ns for step in one.steps}
    figures = [
        Cell(brief(totals[count]), totals[count]) if count in totals else NOTHING for count in shown
    ]
    return Row(
        (
            cell(row),
            *figures,
            Cell(_note(one), mark="weak"),
        ),
        keys={"values": row.variant, "phase": phase},
        records=row.cells,
        ours=ours(row.contestant),
    )


def _note(one: PassSummary) -> str:
    refused = one.action("set").miss
    get = one.action("get")
    return ", ".join(
        filter(
            None,
            (
                f"{refused:,} refused" if refused else "",
                f"{get.miss:,} missing" if get.miss else "",
                _ended(one),
            ),
        )
    )


def _ended(one: PassSummary) -> str:
    return f"ended after {one.done:,} of {one.planned:,}" if one.stopped else ""


def _kept(part: Part, rows: Sequence[Summary]) -> Table:
    columns = (
        Column("System", figures=False),
        Column("Sets", means="Sets that were tried."),
        Column("Refused", means="Sets that the store refused."),
        Column("Found", means="Gets that returned the value stored last."),
        Column("Missing", means="Gets that found nothing."),
        Column("Wrong", means="Gets that returned another value."),
        Column("Found", group="MB"),
        Column("Store", group="MB"),
        Column("Server", group="MB"),
    )
    lines = []
    for variant in part.variants:
        for row in rows:
            if row.variant == variant.name and row.measured and row.contestant.stores:
                lines += _kept_of(row, variant.sizes.largest)
    note = "1 GiB is 1,074 MB: with values of 2.12 MB it is full before the 484th value."
    return Table("Values kept", columns, tuple(lines), pickers=(_values(part),), notes=(note,))


def _kept_of(row: Summary, value_bytes: int) -> list[Row]:
    passes = [phase.latency for phase in row.phases if phase.latency is not None]
    if len(passes) < 2:
        return []
    written, get = passes[0].action("set"), passes[1].action("get")
    back = get.count - get.miss - get.wrong
    return [
        Row(
            (
                cell(row),
                Cell(f"{written.count:,}", written.count),
                Cell(f"{written.miss:,}", written.miss, "weak" if written.miss else ""),
                Cell(f"{back:,}", back),
                Cell(f"{get.miss:,}", get.miss, "weak" if get.miss else ""),
                Cell(f"{get.wrong:,}", get.wrong, "fault" if get.wrong else ""),
                _megabytes(back * value_bytes),
                _megabytes(row.resources.store_bytes),
                _megabytes(row.resources.server_bytes_full) if row.contestant.server else NOTHING,
            ),
            keys={"values": row.variant},
            records=row.cells,
            ours=ours(row.contestant),
        )
    ]


def _megabytes(count: int) -> Cell:
    return Cell(f"{count / 1e6:,.0f}", count)


def _published(suite: PhasesSuite) -> list[Table]:
    return [
        Table(
            f"2011: {one.title[0].lower()}{one.title[1:]}",
            tuple(Column(text, figures=False) for text in one.columns),
            tuple(Row(tuple(Cell(text, mark="aside") for text in row)) for row in one.rows),
        )
        for one in suite.original
    ]
