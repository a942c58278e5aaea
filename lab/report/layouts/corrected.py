"""What the originals left out: percentiles, intervals, checks.

Owns this table and the chart of percentiles, which all suites share. Must not know any original's
layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.report.layouts import limits
from lab.report.layouts.cells import FAULTS, NOTHING, checks, hits, latency, refused_of
from lab.report.layouts.rows import Operation, cell, distinct, kind, operations, ours, title
from lab.report.model import Cell, Column, DotRow, Dots, Mark, Picker, Row, Table
from lab.report.units import digits, rate, spread
from lab.runner.catalogue import Part
from lab.runner.summary import (
    NULL_TIMES_MIN,
    SPREAD_MAX,
    ActionSummary,
    PassSummary,
    Summary,
    against_null,
    null_of,
)


def corrected(part: Part, rows: Sequence[Summary]) -> Table:
    """Return a row for each contestant within the limits, variant and operation."""
    within = [row for row in rows if row.measured and not limits.why_beyond(part, row)]
    is_whole = len(within) == sum(row.measured for row in rows)
    title = "Full results" + ("" if is_whole else ", within the limits")
    lines = _sorted(
        [_row(part, row, operation, rows) for row in within for operation in operations(row)]
    )
    notes = (*limits.notes(part, [row for row in rows if row.measured]), *_notes(rows))
    return _table(title, _columns(), lines, notes)


def beyond(part: Part, rows: Sequence[Summary]) -> Table | None:
    """Return the same table for rows that exceeded the limits, with reasons; None without any."""
    lines = []
    for row in rows:
        why = limits.why_beyond(part, row) if row.measured else ""
        for operation in operations(row) if why else ():
            line = _row(part, row, operation, rows)
            lines.append(replace(line, cells=(line.cells[0], Cell(why), *line.cells[1:])))
    if not lines:
        return None
    contestant, *others = _columns()
    columns = (contestant, Column("Why", figures=False), *others)
    note = (
        "Do not compare these hits and rates with those of the rows within the limits: these "
        "contestants used more space."
    )
    return _table(
        "Full results, over the limits or without limits", columns, _sorted(lines, 1), (note,)
    )


def _columns() -> tuple[Column, ...]:
    return (
        Column("Contestant", figures=False),
        Column("Rate", _RATES, means="Throughput pass, median of the rounds."),
        Column("Interval", _RATES, means="Interval of the median, with its coverage."),
        Column("Spread", _RATES, means="Range of the rounds divided by their median."),
        Column("Rounds", _RATES),
        Column("Elapsed", _PASS, means="Time that the rate is computed from."),
        Column("CPU/op", _PASS, means="CPU time of the clients per operation."),
        Column(
            "Median",
            _LATENCIES,
            means="Of one operation, or of one request for several values. Includes the cost of "
            "reading the clock.",
        ),
        Column("P90", _LATENCIES),
        Column("P99", _LATENCIES),
        Column("P99.9", _LATENCIES),
        Column("Bytes used", _STORE, means="Measured size of the store."),
        Column("Measured as", _STORE, figures=False),
        Column(
            "Limit given", _STORE, means="The limit it was given, if that is not the suite's limit."
        ),
        Column(
            "Hits",
            _CHECKS,
            means="Share of the stored keys that gets found. Misses are cheaper than hits, so read "
            "a rate with misses with care.",
        ),
        *(Column(one.heading, _CHECKS, means=one.means) for one in FAULTS),
        Column("x null", means="Time of one operation, in multiples of the host's own loop."),
    )


def _sorted(lines: list[Row], shift: int = 0) -> list[Row]:
    """Return the rows sorted by rate, or by latency where there is no rate. Null is last.

    `shift` is the number of additional columns before the figures.
    """
    variants = distinct([line.keys["variant"] for line in lines])
    named = distinct([line.keys["operation"] for line in lines])
    order = {key: index for index, key in enumerate((*variants, *named))}
    return sorted(
        lines,
        key=lambda line: (
            order[line.keys["variant"]],
            order[line.keys["operation"]],
            line.cells[0].mark == "aside",
            -(line.cells[_RATE + shift].order or 0.0),
            line.cells[_MEDIAN + shift].order or 0.0,
        ),
    )


def _table(
    title: str, columns: tuple[Column, ...], lines: Sequence[Row], notes: tuple[str, ...]
) -> Table:
    variants = distinct([line.keys["variant"] for line in lines])
    named = distinct([line.keys["operation"] for line in lines])
    return Table(title, columns, tuple(lines), pickers=_pickers(variants, named), notes=notes)


_RATE, _MEDIAN = 1, 7
_RATES, _PASS, _CHECKS = "operations per second", "throughput pass", "checks"
_LATENCIES, _STORE = "latency", "store"


def _row(part: Part, row: Summary, operation: Operation, rows: Sequence[Summary]) -> Row:
    main = operation.phase.main
    times = against_null(row, null_of(rows, row), operation.phase.name)
    return Row(
        (
            cell(row),
            *(_rated(row, main) if operation.rated else [NOTHING] * 6),
            *_latencies(operation.action),
            limits.bytes_held(row),
            limits.measured_as(part, row),
            limits.told(row),
            hits(main, row, part.processes)
            if operation.action is None or _asks(operation)
            else NOTHING,
            *checks(row.verdict, refused_of(main), row),
            _times(times) if operation.rated else NOTHING,
        ),
        keys={"variant": row.variant, "operation": operation.name},
        records=row.cells,
        ours=ours(row.contestant),
    )


def _rated(row: Summary, main: PassSummary) -> list[Cell]:
    range_ = main.rate.spread
    noisy: Mark = "weak" if row.contestant.stores and (range_ or 0.0) > SPREAD_MAX else ""
    return [
        Cell(rate(main.rate.median), main.rate.median),
        _interval(main),
        NOTHING if range_ is None else Cell(spread(range_), range_, noisy),
        Cell(str(main.rate.rounds), main.rate.rounds),
        latency(main.elapsed_ns.median),
        latency(main.cpu_ns),
    ]


def _latencies(action: ActionSummary | None) -> list[Cell]:
    if action is None:
        return [NOTHING] * 4
    return [
        latency(one) for one in (action.median_ns, action.p90_ns, action.p99_ns, action.p999_ns)
    ]


def _asks(operation: Operation) -> bool:
    return operation.action is not None and operation.action.action == "get"


def _interval(one: PassSummary) -> Cell:
    """Return the interval of the rate; empty with too few rounds."""
    found = one.rate.interval
    if found is None:
        return NOTHING
    width = (found.high - found.low) / max(one.rate.median, 1e-9)
    return Cell(f"{rate(found.low)} to {rate(found.high)} ({found.coverage:.1%})", width)


def _times(times: float | None) -> Cell:
    if times is None:
        return NOTHING
    return Cell(digits(times), times, "weak" if times < NULL_TIMES_MIN else "")


def _pickers(variants: Sequence[str], named: Sequence[str]) -> tuple[Picker, ...]:
    # The middle variant; of an even number, the smaller of both middle ones.
    first = variants[(len(variants) - 1) // 2] if variants else ""
    both = (Picker("variant", tuple(variants), first), Picker("operation", tuple(named)))
    return tuple(picker for picker in both if len(picker.options) > 1)


def _notes(rows: Sequence[Summary]) -> tuple[str, ...]:
    notes = []
    weak = max((row.weak for row in rows), default=0.0)
    if weak:
        notes.append(
            f"Weak check: up to {weak:.1%} of the answers had fewer than 8 bytes and could be "
            f"right by chance."
        )
    excused = distinct(
        [
            f"{row.contestant.title}: {' and '.join(row.contestant.excused)}"
            for row in rows
            if row.contestant.excused
        ]
    )
    if excused:
        known = "; ".join(excused)
        notes.append(f"Known defects, explained in the READMEs and not counted as faults: {known}.")
    return tuple(notes)


def percentiles(rows: Sequence[Summary]) -> Dots:
    """Return the latency chart of each operation."""
    lines = [
        DotRow(
            title(row),
            kind(row),
            (action.median_ns, action.p90_ns, action.p99_ns),
            keys={"variant": row.variant, "operation": operation.name},
            records=row.cells,
            ours=ours(row.contestant),
        )
        for row in rows
        if row.measured
        for operation in operations(row)
        if (action := operation.action) is not None
    ]
    return Dots(
        "Latency of one operation",
        "median, 90th and 99th percentile",
        "latency",
        "ns",
        "less",
        ("median", "p90", "p99"),
        tuple(lines),
        _pickers(
            distinct([line.keys["variant"] for line in lines]),
            distinct([line.keys["operation"] for line in lines]),
        ),
    )
