"""The short tables that a run prints on the terminal; the page has the complete ones.

Owns their rows and columns. Must not know how they are printed.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.answer import LANGUAGE_NAMES, Answer
from lab.report.layouts.cells import NOTHING, interval, latency
from lab.report.layouts.rows import OURS, cell, ours
from lab.report.model import Cell, Column, Row, Table
from lab.report.units import hit_rate, rate, ratio, spread
from lab.runner.catalogue import Part, PhasesSuite, ReplaySuite, Variant
from lab.runner.results import ReplayCell, capacity_text
from lab.runner.summary import SPREAD_MAX, PhaseSummary, Summary

ROWS_MAX = 12
# The actions that get latency columns in the table of a mixed phase.
_ACTIONS = ("get", "set")


def table(suite: PhasesSuite, rows: Sequence[Summary]) -> Table | None:
    """Return the fastest rows of the suite's first part, and ours; None without figures.

    Of several variants it shows the middle one.
    """
    part = suite.parts[0]
    variant = part.variants[(len(part.variants) - 1) // 2]
    measured = [
        row for row in rows if (row.part, row.variant) == (part.name, variant.name) and row.measured
    ]
    if not measured:
        return None
    phases = [phase.name for phase in measured[0].phases]
    measured.sort(key=lambda row: (not row.contestant.stores, -_rates(row, phases[:1])[0]))
    shown = [row for place, row in enumerate(measured) if place < ROWS_MAX or ours(row.contestant)]
    mixed = len(phases) == 1
    columns = (
        Column("Contestant", figures=False),
        *(Column("Ops/s" if mixed else f"{phase}/s") for phase in phases),
        Column("Spread"),
        *(Column(f"{action} {name}") for action in _ACTIONS * mixed for name in ("median", "P99")),
        Column("Hits"),
        Column("Faults"),
    )
    lines = tuple(_row(row, phases, mixed=mixed) for row in shown)
    return Table(_title(suite, part, variant), columns, lines, notes=_notes(measured, shown))


def leaders(found: Answer) -> Table:
    """Return the best cache of each language, with its interval and those that tie with it."""
    columns = (
        Column("Language", figures=False),
        Column("Best", figures=False),
        Column("Ops/s"),
        Column("Interval"),
        Column("Rounds"),
    )
    lines = tuple(
        Row(
            (
                Cell(LANGUAGE_NAMES[language]),
                Cell(" = ".join(one.name for one in tied)),
                Cell(rate(first.rate.median), first.rate.median),
                Cell(interval(first.rate)),
                Cell(str(first.rate.rounds)),
            ),
            ours=any(ours(one.row.contestant) for one in tied),
        )
        for language, tied in found.leaders.items()
        if (first := tied[0])
    )
    notes = ("= marks a tie: the intervals overlap. The figures are those of the first name.",)
    return Table(
        "The fastest cache for each language",
        columns,
        lines,
        notes=notes if any(len(tied) > 1 for tied in found.leaders.values()) else (),
    )


def replayed(suite: ReplaySuite, cells: Sequence[ReplayCell]) -> Table:
    """Return the hit ratio of each contestant at each capacity, at equal measured bytes."""
    capacities = sorted({one.capacity for one in cells})
    found: dict[str, dict[float, ReplayCell]] = {}
    for one in cells:
        found.setdefault(one.contestant, {})[one.capacity] = one
    columns = (
        Column("Contestant", figures=False),
        *(Column(capacity_text(capacity)) for capacity in capacities),
        Column("Wrong"),
    )
    lines = [
        Row(
            (
                Cell(name + (" (reference)" if name in suite.replay.references else "")),
                *(_hit_ratio(own.get(capacity)) for capacity in capacities),
                _wrong(sum(one.verdict.wrong for one in own.values())),
            ),
            records=tuple(own.values()),
            ours=name == OURS,
        )
        for name, own in found.items()
    ]
    lines.sort(key=lambda line: -(line.cells[-2].order or 0.0))
    note = (
        "Hit ratio by capacity, a share of the bytes of all distinct values. All contestants use "
        "the same measured bytes; those in brackets used more under every limit that was tried."
    )
    return Table(f"{suite.name}: {suite.title}", columns, tuple(lines), notes=(note,))


def _hit_ratio(cell: ReplayCell | None) -> Cell:
    if cell is None:
        return NOTHING
    if cell.outcome != "measured":
        return Cell(cell.outcome, mark="fault" if cell.outcome == "failed" else "aside")
    text = ratio(cell.hit_ratio)
    return Cell(text if cell.equal else f"({text})", cell.hit_ratio, "" if cell.equal else "weak")


def _wrong(count: int) -> Cell:
    return Cell(f"{count:,}", count, "fault" if count else "")


def _title(suite: PhasesSuite, part: Part, variant: Variant) -> str:
    several = f", {variant.name}" if len(part.variants) > 1 else ""
    return f"{suite.name}: {part.title}{several}"


def _notes(measured: Sequence[Summary], shown: Sequence[Summary]) -> tuple[str, ...]:
    more = len(measured) - len(shown)
    if not more:
        return ()
    return (f"The page has {more} slower rows, and the other parts and variants.",)


def _row(row: Summary, phases: Sequence[str], *, mixed: bool) -> Row:
    verdict = row.verdict
    faults = verdict.wrong + verdict.stale + verdict.lost
    return Row(
        (
            cell(row),
            *(Cell(rate(one), one) for one in _rates(row, phases)),
            NOTHING if not row.spread else _spread(row),
            *(one for action in _ACTIONS * mixed for one in _latencies(row.phases[0], action)),
            _hits(row),
            Cell(f"{faults:,}", faults, "fault" if faults else "") if _counts(row) else NOTHING,
        ),
        records=row.cells,
        ours=ours(row.contestant),
    )


def _rates(row: Summary, phases: Sequence[str]) -> list[float]:
    found = [row.phase(name) for name in phases]
    return [one.main.rate.median if one is not None else 0.0 for one in found]


def _spread(row: Summary) -> Cell:
    return Cell(spread(row.spread), row.spread, "weak" if row.spread > SPREAD_MAX else "")


def _latencies(phase: PhaseSummary, action: str) -> list[Cell]:
    one = next((one for one in (phase.latency or phase.main).actions if one.action == action), None)
    return [NOTHING] * 2 if one is None else [latency(one.median_ns), latency(one.p99_ns)]


def _hits(row: Summary) -> Cell:
    ratios = [phase.main.hit_ratio for phase in row.phases if phase.main.hit_ratio is not None]
    if not ratios or not _counts(row):
        return NOTHING
    return Cell(hit_rate(min(ratios)), min(ratios))


def _counts(row: Summary) -> bool:
    return row.contestant.stores
