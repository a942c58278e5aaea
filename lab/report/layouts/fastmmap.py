"""The layout of 2004: a block for each package, a row for each value size.

The module `filling` has the cost of filling a size-aware cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.report.layouts import filling, originals
from lab.report.layouts.cells import NOTHING, hit_cell
from lab.report.layouts.rows import kind, name, ours, title
from lab.report.model import Cell, Chart, Column, DotRow, Dots, Picker, Row, Table
from lab.runner.catalogue import Original, Part, PhasesSuite
from lab.runner.summary import PassSummary, Summary

_PACKAGES = "Packages"
_AWARE = "A size-aware cache"
_FIGURES = ("Set/S", "Get/S", "Mix/S", "GHitR", "MHitR")
# The original appends the serialiser to the name of a package with complex values.
_SERIALISED = " Storable"


def charts(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Chart, ...]:
    """Return the rates by value size, or the cost of filling."""
    if part.name == "filling":
        return filling.charts(rows, _aware_marks(suite))
    values = dict.fromkeys(variant.value for variant in part.variants)
    return tuple(_rates(part, value, rows) for value in values)


def _rates(part: Part, value: str, rows: Sequence[Summary]) -> Dots:
    sizes = [variant.name for variant in part.variants if variant.value == value]
    lines = []
    for group in _groups(row for row in rows if row.variant in sizes):
        for phase in part.phases:
            mains = [_main(group.get(size), phase.name) for size in sizes]
            first = next(iter(group.values()))
            lines.append(
                DotRow(
                    title(first),
                    kind(first),
                    tuple(one.rate.median if one else None for one in mains),
                    tuple(one.rate.bounds if one else None for one in mains),
                    keys={"phase": phase.name},
                    records=tuple(cell for row in group.values() for cell in row.cells),
                    ours=ours(first.contestant),
                )
            )
    unit = "bytes on average" if value == "binary" else "fields"
    return Dots(
        f"{value.capitalize()} values: operations per second",
        f"by value size, {unit}",
        "operations per second",
        "rate",
        "more",
        tuple(size.split()[-1] for size in sizes),
        tuple(lines),
        (Picker("phase", tuple(phase.name for phase in part.phases)),),
    )


def tables(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Table, ...]:
    """Return the original's table with measured and published figures."""
    if part.name == "filling":
        return filling.tables(rows)
    of_2005 = part.name == "size-aware"
    name_of_table = _AWARE if of_2005 else _PACKAGES
    published = originals.table(suite, name_of_table)
    lines = [
        _line(suite, part, row, published)
        for group in _groups(originals.in_order(suite, rows))
        for row in group.values()
    ]
    lines.sort(key=lambda line: line.cells[1].text != "bin")
    columns = _columns("2005" if of_2005 else "2004")
    return (Table(name_of_table, columns, tuple(lines)),)


def _columns(year: str) -> tuple[Column, ...]:
    return (
        Column("Package", figures=False, head=True),
        Column("Data type", figures=False, head=True),
        Column("Params", figures=False, head=True),
        Column("Cmplx", means="Average bytes of a binary value, or fields of a complex value."),
        *(Column(one) for one in _FIGURES),
        *(Column(one, group=year, published=True) for one in _FIGURES),
    )


def _line(suite: PhasesSuite, part: Part, row: Summary, published: Original | None) -> Row:
    data_type, _, size = row.variant.partition(" ")
    label = originals.label(suite, row)
    package, _, params = label.partition("; ")
    # The original does not say which of two forms it had.
    several = sum(text == label for text in suite.labels.values()) > 1
    mains = [_main(row, phase.name) for phase in part.phases]
    get, mix = mains[1], mains[2]
    then = _published(published, package, data_type, params, size)
    today = (
        *(_rate(one) for one in mains),
        _hits(get, row),
        _hits(mix, row),
    )
    return Row(
        (
            Cell(package or title(row)),
            Cell(data_type),
            Cell(row.contestant.title if several and label else params),
            Cell(size, float(size)),
            *today,
            *then,
        ),
        keys={"values": data_type},
        records=row.cells,
        ours=ours(row.contestant),
    )


def _rate(one: PassSummary | None) -> Cell:
    return NOTHING if one is None else Cell(f"{one.rate.median:.0f}", one.rate.median)


def _hits(one: PassSummary | None, row: Summary) -> Cell:
    if one is None or one.hit_ratio is None or not row.contestant.stores:
        return NOTHING
    return hit_cell(one.hit_ratio)


def _published(
    published: Original | None, package: str, data_type: str, params: str, size: str
) -> list[Cell]:
    for row in published.rows if published else ():
        same = [package, data_type, params, size] == [row[0].removesuffix(_SERIALISED), *row[1:4]]
        if same and package:
            return [originals.published(text) for text in row[4:]]
    return [NOTHING] * len(_FIGURES)


def _aware_marks(suite: PhasesSuite) -> tuple[str, ...]:
    published = originals.table(suite, _AWARE)
    return tuple(
        f"2005: {row[0]} did {row[4]} sets per second ({1e3 / float(row[4]):.0f} ms each), with a "
        f"limit of 1 MB and an unknown number of entries."
        for row in (published.rows if published else ())
    )


def _groups(rows: Iterable[Summary]) -> list[dict[str, Summary]]:
    """Return the measured rows of each contestant and placement, by variant."""
    found: dict[str, dict[str, Summary]] = {}
    for row in rows:
        if row.measured:
            found.setdefault(name(row), {})[row.variant] = row
    return list(found.values())


def _main(row: Summary | None, phase: str) -> PassSummary | None:
    one = row.phase(phase) if row is not None else None
    return one.main if one is not None else None
