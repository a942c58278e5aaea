"""Hit ratios at equal measured bytes: charts, a row for each contestant and capacity, every try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.report.layouts.curves import KINDS, miss_ratios
from lab.report.layouts.limits import MEASURED_AS
from lab.report.layouts.rows import OURS
from lab.report.model import Cell, Chart, Column, DotRow, Dots, Row, Table
from lab.report.units import ratio, size
from lab.runner.catalogue import ReplaySuite
from lab.runner.results import ReplayCell, Try, capacity_text

# Limits may have coarse steps. A store that uses less than this share of the target is marked.
_NEAR = 0.95


def table(suite: ReplaySuite, cells: Sequence[ReplayCell]) -> Table:
    """Return a row for each contestant, by capacity and then by hit ratio."""
    columns = (
        Column("Capacity", head=True),
        Column("Contestant", figures=False),
        Column("Measured as", figures=False),
        Column(
            "Target",
            means="The limit of a reference, or the bytes that the others may use.",
        ),
        Column("Peak", means="The most bytes measured during the replay."),
        Column("After close", means="Bytes of the files that remain."),
        Column("Hit ratio"),
        Column("Difference", means="Percentage points above the better reference."),
        Column("Tries", means="Limits tried to come close to the target."),
        Column("Refused", means="Sets for which the store had no room."),
        Column("Wrong", means="Hits that returned another value than the last stored, all tries."),
    )
    best = _best_references(suite, cells)
    lines = tuple(
        Row(
            (
                Cell(capacity_text(cell.capacity), cell.capacity),
                Cell(cell.contestant + (" (reference)" if _refers(suite, cell) else "")),
                *_figures(suite, cell, best.get(cell.capacity)),
            ),
            records=(cell,),
            ours=cell.contestant == OURS,
        )
        for cell in _sorted(cells)
    )
    return Table("Hit ratio by capacity", columns, lines, notes=tuple(_notes(suite, cells)))


def tries(cells: Sequence[ReplayCell]) -> Table:
    """Return a row for each tried limit."""
    columns = (
        Column("Capacity"),
        Column("Contestant", figures=False),
        Column("Try"),
        *(Column(one) for one in ("Limit given", "Peak", "After close", "Hit ratio")),
        Column("Result", figures=False),
    )
    lines = [
        Row(
            (
                Cell(capacity_text(cell.capacity), cell.capacity),
                Cell(cell.contestant),
                Cell(str(number + 1)),
                *_try(cell, number, one),
            ),
            records=(cell,),
            ours=cell.contestant == OURS,
        )
        for cell in _sorted(cells)
        for number, one in enumerate(cell.tries)
    ]
    return Table("All tried limits", columns, tuple(lines))


def charts(suite: ReplaySuite, cells: Sequence[ReplayCell]) -> tuple[Chart, ...]:
    """Return the hit ratio of each contestant at equal bytes, and curves of misses by bytes."""
    return (*_dots(suite, cells), *miss_ratios(cells))


def _dots(suite: ReplaySuite, cells: Sequence[ReplayCell]) -> tuple[Dots, ...]:
    equal = [cell for cell in _sorted(cells) if cell.outcome == "measured" and cell.equal]
    capacities = list(dict.fromkeys(cell.capacity for cell in equal))
    found: dict[str, dict[float, ReplayCell]] = {}
    for cell in equal:
        found.setdefault(cell.contestant, {})[cell.capacity] = cell
    rows = []
    for name, own in found.items():
        some = next(iter(own.values()))
        rows.append(
            DotRow(
                name + (" (reference)" if _refers(suite, some) else ""),
                KINDS[some.weighed],
                tuple(own[one].hit_ratio if one in own else None for one in capacities),
                records=tuple(own.values()),
                ours=name == OURS,
            )
        )
    if not rows:
        return ()
    marks = tuple(map(capacity_text, capacities))
    return (
        Dots(
            "Hit ratio at equal measured bytes",
            "capacities of " + ", ".join(marks) + " of the bytes of all distinct values",
            "hit ratio",
            "share",
            "more",
            marks,
            tuple(rows),
        ),
    )


def _sorted(cells: Sequence[ReplayCell]) -> list[ReplayCell]:
    """Return the cells by capacity, then by hit ratio."""

    def place(cell: ReplayCell) -> tuple[float, float, str]:
        hit_ratio = cell.hit_ratio if cell.outcome == "measured" else -1.0
        return cell.capacity, -hit_ratio, cell.contestant

    return sorted(cells, key=place)


def _best_references(suite: ReplaySuite, cells: Sequence[ReplayCell]) -> dict[float, float]:
    best: dict[float, float] = {}
    for cell in cells:
        if _refers(suite, cell) and cell.outcome == "measured":
            best[cell.capacity] = max(best.get(cell.capacity, 0.0), cell.hit_ratio)
    return best


def _figures(suite: ReplaySuite, cell: ReplayCell, best: float | None) -> Iterator[Cell]:
    yield Cell(MEASURED_AS[cell.weighed])
    yield Cell(size(cell.bytes_max), cell.bytes_max)
    if cell.outcome != "measured":
        yield Cell(cell.outcome, mark="fault" if cell.outcome == "failed" else "aside")
        yield from [Cell("")] * 6
        return
    one = cell.best
    little = cell.equal and one.bytes_measured < _NEAR * cell.bytes_max
    yield Cell(size(one.bytes_peak), one.bytes_peak, "weak" if little else "")
    yield Cell(size(one.bytes_settled) if one.bytes_settled else "", one.bytes_settled)
    yield Cell(ratio(cell.hit_ratio), cell.hit_ratio)
    if best is None and suite.replay.references:
        yield Cell("no reference", mark="weak")
    elif not cell.equal:
        yield Cell("not equal", mark="weak")
    elif best is None or _refers(suite, cell):
        yield Cell("")
    else:
        points = (cell.hit_ratio - best) * 100
        yield Cell(f"{points:+.2f}", points)
    yield Cell(str(len(cell.tries)))
    yield Cell(f"{one.refused:,}", one.refused)
    yield Cell(f"{cell.verdict.wrong:,}", cell.verdict.wrong, "fault" if cell.verdict.wrong else "")


def _try(cell: ReplayCell, number: int, one: Try) -> Iterator[Cell]:
    yield Cell(size(one.limit), one.limit)
    if one.reason:
        yield from [Cell("")] * 3
        yield Cell(one.reason, mark="weak")
        return
    yield Cell(size(one.bytes_peak), one.bytes_peak)
    yield Cell(size(one.bytes_settled) if one.bytes_settled else "", one.bytes_settled)
    yield Cell(ratio(one.hits / one.requests), one.hits / one.requests)
    yield Cell("used" if number == cell.kept else "", mark="" if cell.equal else "weak")


def _notes(suite: ReplaySuite, cells: Sequence[ReplayCell]) -> Iterator[str]:
    if suite.replay.references:
        references = " and ".join(suite.replay.references)
        yield (
            f"{references} are the references: they run with the capacity as their limit. The "
            f"smallest measured size of their files is the target of all others. "
            f"Difference: percentage points above the better reference."
        )
    yield (
        "Files: all blocks of all files of the store. Client and server memory: how much that "
        "process grows between the empty store and its peak."
    )
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in _sorted(cells):
        reason = cell.reason
        if cell.outcome == "measured" and cell.equal:
            share = cell.best.bytes_measured / cell.bytes_max
            if share < _NEAR:
                reason = f"used {share:.0%} of the target; no other limit came closer"
        if reason:
            reasons.setdefault((cell.contestant, reason), []).append(capacity_text(cell.capacity))
    for (contestant, reason), capacities in reasons.items():
        yield f"{contestant} at {', '.join(capacities)}: {reason}."


def _refers(suite: ReplaySuite, cell: ReplayCell) -> bool:
    return cell.contestant in suite.replay.references
