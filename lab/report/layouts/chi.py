"""The layout of 2010: for each ratio and size a matrix of rates, slowest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.report.layouts import originals
from lab.report.layouts.rows import PLACED, kind, name, ours, title
from lab.report.model import Cell, Chart, Column, DotRow, Dots, Picker, Row, Table
from lab.report.units import rate
from lab.runner.catalogue import Part, Phase, PhasesSuite, Placement
from lab.runner.summary import PassSummary, Summary

_YEAR = "2010"
_WHERE: tuple[Placement, ...] = ("same core", "split cores")


def charts(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Chart, ...]:
    """Return the rates by value size."""
    sizes = [variant.name for variant in part.variants]
    found: dict[str, dict[str, Summary]] = {}
    for row in rows:
        if row.measured:
            found.setdefault(name(row), {})[row.variant] = row
    lines = []
    for group in found.values():
        first = next(iter(group.values()))
        label = originals.label(suite, first)
        for phase in _measured(part):
            mains = [_main(group.get(size), phase.name) for size in sizes]
            lines.append(
                DotRow(
                    f"{title(first)} ({label})" if label else title(first),
                    kind(first),
                    tuple(one.rate.median if one else None for one in mains),
                    tuple(one.rate.bounds if one else None for one in mains),
                    keys={"set:get": phase.name},
                    records=tuple(cell for row in group.values() for cell in row.cells),
                    ours=ours(first.contestant),
                )
            )
    chart = Dots(
        "Operations per second",
        "by value size: 16, 160 and 1,600 bytes",
        "operations per second",
        "rate",
        "more",
        tuple(sizes),
        tuple(lines),
        (Picker("set:get", tuple(phase.name for phase in _measured(part))),),
    )
    return (chart,)


def tables(suite: PhasesSuite, part: Part, rows: Sequence[Summary]) -> tuple[Table, ...]:
    """Return the measured matrix of each ratio and size, each followed by the published ones."""
    found: list[Table] = []
    for phase in _measured(part):
        for variant in part.variants:
            own = [row for row in rows if row.variant == variant.name and row.measured]
            published = _published(suite, phase.name, variant.name)
            keys = {"set:get": phase.name, "values": variant.name}
            for matrix in _today(suite, own, phase.name, variant.name):
                found.append(replace(matrix, keys=keys))
            found += [replace(matrix, keys=keys) for matrix in published]
    return tuple(found)


def pickers(part: Part) -> tuple[Picker, ...]:
    """Return the choice among the matrices."""
    ratios = tuple(phase.name for phase in _measured(part))
    sizes = tuple(variant.name for variant in part.variants)
    return (
        Picker("set:get", ratios, ratios[len(ratios) // 2]),
        Picker("values", sizes, sizes[len(sizes) // 2]),
    )


def _today(suite: PhasesSuite, rows: Sequence[Summary], ratio: str, size: str) -> list[Table]:
    matrices = []
    for where in _WHERE:
        # Contestants without a server appear in the matrix of every placement.
        here = [
            (_label(suite, row), row, main.rate.median)
            for row in rows
            if row.placement in ("one core", "free", where)
            and (originals.label(suite, row) or ours(row.contestant))
            and (main := _main(row, ratio)) is not None
        ]
        if not any(row.placement == where for _, row, _ in here):
            continue
        heading = f"ratio {ratio} and {size} values, servers on {_cores(where)}"
        matrices.append(_matrix(heading, here))
    if not matrices and rows:
        plain = [
            (_label(suite, row), row, main.rate.median)
            for row in rows
            if (originals.label(suite, row) or ours(row.contestant))
            and (main := _main(row, ratio)) is not None
        ]
        matrices = [_matrix(f"ratio {ratio} and {size} values", plain)] if plain else []
    return matrices


def _label(suite: PhasesSuite, row: Summary) -> str:
    return originals.label(suite, row) or row.contestant.title


def _cores(where: Placement) -> str:
    return "the client's core" if where == "same core" else PLACED[where]


def _matrix(heading: str, named: Sequence[tuple[str, Summary, float]]) -> Table:
    ordered = sorted(named, key=lambda one: one[2])
    columns = (
        Column("", figures=False),
        Column("Rate"),
        *(Column(label) for label, _, _ in ordered),
    )
    lines = [
        Row(
            (
                Cell(label),
                Cell(f"{rate(own)}/s", own),
                *(_percentage(own, other) for _, _, other in ordered),
            ),
            records=row.cells,
            ours=ours(row.contestant),
        )
        for label, row, own in ordered
    ]
    return Table(heading, columns, tuple(lines))


def _percentage(own: float, other: float) -> Cell:
    if own == other:
        return Cell("--", 0.0)
    share = own / max(other, 1e-9) - 1
    # Above 1,000 % a factor is easier to read.
    return Cell(f"{share:.0%}" if share < 10 else f"{share + 1:,.0f}x", share)


def _published(suite: PhasesSuite, ratio: str, size: str) -> list[Table]:
    found = []
    for one in suite.original:
        if one.title.removesuffix(", again") == f"ratio {ratio} and {size} values":
            columns = tuple(
                Column(text, figures=index > 0) for index, text in enumerate(one.columns)
            )
            lines = tuple(Row(tuple(originals.published(text) for text in row)) for row in one.rows)
            again = ", published a second time" if one.title.endswith("again") else ""
            found.append(Table(f"{_YEAR}: ratio {ratio} and {size} values{again}", columns, lines))
    return found


def _measured(part: Part) -> list[Phase]:
    return [phase for phase in part.phases if not phase.preload]


def _main(row: Summary | None, phase: str) -> PassSummary | None:
    one = row.phase(phase) if row is not None else None
    return one.main if one is not None else None
