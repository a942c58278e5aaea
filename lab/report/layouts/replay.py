"""Hit ratios at equal measured bytes: a row for each contestant and capacity, and their chart.

Owns this layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from lab.report.layouts.rows import OURS
from lab.report.model import Cell, Chart, Column, DotRow, Dots, Row, Table
from lab.report.units import ratio, size
from lab.runner.catalogue import ReplaySuite
from lab.runner.results import ReplayCell


def table(suite: ReplaySuite, cells: Sequence[ReplayCell]) -> Table:
    """Return a row for each contestant, by capacity."""
    columns = (
        Column("Capacity"),
        Column("Contestant", figures=False),
        *(Column(one) for one in ("Limit", "Settled", "Peak", "Hit ratio", "Difference", "Wrong")),
    )
    lines = []
    for capacity, group in groupby(cells, key=lambda cell: cell.capacity):
        same = list(group)
        best = max(
            (one.hit_ratio for one in same if one.requests and _refers(suite, one)), default=None
        )
        for cell in same:
            lines.append(
                Row(
                    (
                        Cell(f"{capacity:.0%}", capacity),
                        Cell(cell.contestant),
                        *_figures(suite, cell, best),
                    ),
                    records=(cell,),
                    ours=cell.contestant == OURS,
                )
            )
    references = " and ".join(suite.replay.references)
    note = (
        f"Settled: bytes occupied once closed. Peak: the most seen during the run, journals "
        f"included. Difference: points of hit ratio over the best of {references}."
    )
    return Table("Hit ratios", columns, tuple(lines), notes=(note,))


def charts(cells: Sequence[ReplayCell]) -> tuple[Chart, ...]:
    """Return the hit ratio of each contestant, a dot for each capacity."""
    measured = [cell for cell in cells if cell.outcome == "measured"]
    capacities = list(dict.fromkeys(cell.capacity for cell in measured))
    found: dict[str, dict[float, ReplayCell]] = {}
    for cell in measured:
        found.setdefault(cell.contestant, {})[cell.capacity] = cell
    rows = tuple(
        DotRow(
            name,
            "shared",
            tuple(own[one].hit_ratio if one in own else None for one in capacities),
            records=tuple(own.values()),
            ours=name == OURS,
        )
        for name, own in found.items()
    )
    if not rows:
        return ()
    marks = tuple(f"{one:.0%}" for one in capacities)
    return (
        Dots(
            "Hit ratio by capacity",
            "by capacity, a share of all bytes",
            "hit ratio",
            "share",
            "more",
            marks,
            rows,
        ),
    )


def _figures(suite: ReplaySuite, cell: ReplayCell, best: float | None) -> list[Cell]:
    if cell.outcome != "measured":
        reason = Cell(cell.outcome, mark="fault")
        return [Cell(size(cell.bytes_max), cell.bytes_max), reason, *[Cell("")] * 4]
    difference = Cell("")
    if best is None:
        difference = Cell("no reference", mark="weak")
    elif not cell.equal:
        difference = Cell("not equal", mark="weak")
    elif not _refers(suite, cell):
        points = (cell.hit_ratio - best) * 100
        difference = Cell(f"{points:+.2f}", points)
    return [
        Cell(size(cell.bytes_max), cell.bytes_max),
        Cell(size(cell.bytes_settled), cell.bytes_settled),
        Cell(size(cell.bytes_peak), cell.bytes_peak),
        Cell(ratio(cell.hit_ratio), cell.hit_ratio),
        difference,
        Cell(f"{cell.verdict.wrong:,}", cell.verdict.wrong, "fault" if cell.verdict.wrong else ""),
    ]


def _refers(suite: ReplaySuite, cell: ReplayCell) -> bool:
    return cell.contestant in suite.replay.references
