"""The layout of 2009: for each system the time index, the time of each phase and its share."""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.layouts import originals
from lab.report.layouts.cells import NOTHING
from lab.report.layouts.rows import cell, kind, name, ours, title
from lab.report.model import Cell, Chart, Column, DotRow, Dots, Mark, Row, Table
from lab.report.units import digits
from lab.runner.catalogue import Original, Part, PhasesSuite
from lab.runner.summary import PassSummary, Summary

_YEAR = "2009"
_QUICK = "Total time used to write and retrieve"
_BESIDE_NOTE = (
    "Start: from starting the process to its first line. vanish: emptying the store after the "
    "gets; the original instead emptied it first, of what an earlier run had left. Stop: ending "
    "the process. The measured total contains none of the three."
)


def charts(_suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Chart, ...]:
    """Return the seconds of each phase."""
    phases = tuple(phase.name for phase in part.phases)
    lines = []
    for row in rows:
        mains = [_main(row, phase) for phase in phases]
        # A phase that reached its time limit has no time; the table shows what was done.
        whole = [one.elapsed_ns if one is not None and not one.stopped else None for one in mains]
        if row.measured:
            lines.append(
                DotRow(
                    title(row),
                    kind(row),
                    tuple(one.median if one else None for one in whole),
                    tuple(one.bounds if one else None for one in whole),
                    records=row.cells,
                    ours=ours(row.contestant),
                )
            )
    keys = part.keys
    chart = Dots(
        f"{keys:,} records",
        "time to put all, and to get all",
        "time",
        "ns",
        "less",
        phases,
        tuple(lines),
    )
    return (chart,)


def tables(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Table, ...]:
    """Return the totals of all systems, and the original's table by phase."""
    measured = [row for row in rows if row.measured]
    return (_total(suite, part, measured), _systems(suite, part, measured))


def _total(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> Table:
    published = originals.table(suite, _QUICK)
    then = {row[0]: row[1] for row in published.rows} if published else {}
    columns = (
        Column("Candidate", figures=False),
        *(Column(phase.name, group="seconds") for phase in part.phases),
        Column("total", group="seconds"),
        Column(f"total in {_YEAR}"),
        Column("Ended", figures=False),
    )
    lines = []
    for row in rows:
        mains = [_main(row, phase.name) for phase in part.phases]
        total = sum(nanoseconds for _, nanoseconds in _times(part, row))
        stopped = any(one is not None and one.stopped for one in mains)
        lines.append(
            Row(
                (
                    cell(row),
                    *(_seconds(one) for one in mains),
                    Cell(f"> {total / 1e9:.3f}" if stopped else f"{total / 1e9:.3f}", total),
                    originals.published(then.get(originals.label(suite, row), "")),
                    Cell(_ended(part, row), mark="weak"),
                ),
                records=row.cells,
                ours=ours(row.contestant),
            )
        )
    # The fastest first, null last.
    lines.sort(key=lambda line: (line.cells[0].mark == "aside", line.cells[-3].order or 0.0))
    return Table("Total time used to write and retrieve", columns, tuple(lines))


def _seconds(one: PassSummary | None) -> Cell:
    if one is None:
        return NOTHING
    seconds = one.elapsed_ns.median / 1e9
    mark: Mark = "weak" if one.stopped else ""
    return Cell(f"{'> ' if one.stopped else ''}{seconds:.3f}", seconds, mark)


def _ended(part: Part, row: Summary) -> str:
    mains = ((phase.name, _main(row, phase.name)) for phase in part.phases)
    return "; ".join(
        f"{phase} after {one.done:,} of {one.planned:,}: {digits(one.rate.median)} per second"
        for phase, one in mains
        if one is not None and one.stopped
    )


def _systems(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> Table:
    columns = (
        Column("System", figures=False, head=True),
        Column("", figures=False),
        Column("time index"),
        Column("ex time"),
        Column("%"),
        *(Column(one, group=_YEAR, published=True) for one in ("time index", "ex time", "%")),
    )
    lines = []
    for row in originals.in_order(suite, rows):
        label = originals.label(suite, row)
        shown = f"{label} ({name(row)})" if label else title(row)
        # Only the original's systems and ours; the other table has all of them.
        if label or ours(row.contestant):
            lines += _system(part, row, shown, originals.table(suite, label))
    return Table("Time by phase", columns, tuple(lines), notes=(_BESIDE_NOTE,))


def _system(part: Part, row: Summary, shown: str, published: Original | None) -> list[Row]:
    then = {line[0]: line[1:] for line in published.rows} if published else {}
    times = _times(part, row)
    total = sum(nanoseconds for _, nanoseconds in times)
    index = 0.0
    measured: dict[str, tuple[Cell, ...]] = {
        "Start": _beside(row.start_ns),
        "vanish": _beside(row.clear_ns),
        "Stop": _beside(row.stop_ns),
        "total": (NOTHING, Cell(f"{total / 1e9:.6f}", total), Cell("100.00%", total)),
    }
    for phase, nanoseconds in times:
        index += nanoseconds
        measured[phase] = (
            Cell(f"{index / 1e9:.6f}", index),
            Cell(f"{nanoseconds / 1e9:.6f}", nanoseconds),
            Cell(f"{nanoseconds / max(total, 1):.2%}", nanoseconds),
        )
    names = [name for name, _ in times]
    order = ["Start", *names[:2], "vanish", *names[2:], "Stop", "total"]
    return [_line(shown, name, measured[name], then, row) for name in order]


def _beside(nanoseconds: float | None) -> tuple[Cell, ...]:
    """Return the cells of a time that is not part of the total."""
    if nanoseconds is None:
        return NOTHING, NOTHING, NOTHING
    return NOTHING, Cell(f"{nanoseconds / 1e9:.6f}", nanoseconds), NOTHING


def _line(
    shown: str, phase: str, today: tuple[Cell, ...], then: dict[str, list[str]], row: Summary
) -> Row:
    published = [originals.published(text) for text in then.get(phase, [""] * 3)]
    return Row(
        (Cell(shown), Cell(phase), *today, *published),
        records=row.cells,
        ours=ours(row.contestant),
        total=phase == "total",
    )


def _times(part: Part, row: Summary) -> list[tuple[str, float]]:
    mains = [(phase.name, _main(row, phase.name)) for phase in part.phases]
    return [
        ("create", row.create_ns),
        ("connect", row.open_ns),
        *((phase, one.elapsed_ns.median) for phase, one in mains if one is not None),
        ("close", row.close_ns),
    ]


def _main(row: Summary, phase: str) -> PassSummary | None:
    one = row.phase(phase)
    return one.main if one is not None else None
