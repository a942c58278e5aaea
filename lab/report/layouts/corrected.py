"""What every original left out: percentiles, intervals, checks.

Owns this table and the chart of percentiles, which are the same for all suites. Must not know what
any original looked like.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.layouts.cells import FAULTS, NOTHING, checks, hits, latency, refused_of
from lab.report.layouts.rows import Operation, cell, distinct, kind, operations, ours, title
from lab.report.model import Cell, Column, DotRow, Dots, Mark, Picker, Row, Table
from lab.report.units import digits, rate, spread
from lab.runner.summary import (
    NULL_TIMES_MIN,
    SPREAD_MAX,
    PassSummary,
    Summary,
    against_null,
    null_of,
)


def corrected(rows: Sequence[Summary]) -> Table:
    """Return a row for each contestant, variant and operation."""
    columns = (
        Column("Contestant", figures=False),
        Column("Rate", means="Operations in a second of the throughput pass, median of rounds."),
        Column("Interval", wide=True, means="95 % interval of the median rate."),
        Column("Spread", means="Range of the rate over the rounds, by its median."),
        Column("Median", means="Median latency of one operation; the clock's own cost is in it."),
        Column("P90"),
        Column("P99"),
        Column("P99.9", wide=True),
        Column("Hits", means="Gets that found what should have been there."),
        *(Column(one.heading, wide=True, means=one.means) for one in FAULTS),
        Column("x null", wide=True, means="How many times the host's own loop, by throughput."),
    )
    lines = [
        _row(row, operation, rows) for row in rows if row.measured for operation in operations(row)
    ]
    variants = distinct([line.keys["variant"] for line in lines])
    named = distinct([line.keys["operation"] for line in lines])
    order = {key: index for index, key in enumerate((*variants, *named))}
    # The fastest first; null is no rival and stands last.
    lines.sort(
        key=lambda line: (
            order[line.keys["variant"]],
            order[line.keys["operation"]],
            line.cells[0].mark == "aside",
            -(line.cells[1].order or 0.0),
        )
    )
    return Table(
        "Corrected: equal limits, every answer checked",
        columns,
        tuple(lines),
        pickers=_pickers(variants, named),
        notes=_notes(rows),
    )


def _row(row: Summary, operation: Operation, rows: Sequence[Summary]) -> Row:
    phase = row.phase(operation.phase)
    assert phase is not None
    main, action = phase.main, operation.action
    times = against_null(row, null_of(rows, row), operation.phase)
    noisy: Mark = "weak" if row.contestant.stores and main.rate.spread > SPREAD_MAX else ""
    return Row(
        (
            cell(row),
            Cell(rate(main.rate.median), main.rate.median),
            _interval(main),
            Cell(spread(main.rate.spread), main.rate.spread, noisy),
            *(latency(one) for one in (action.median_ns, action.p90_ns, action.p99_ns)),
            latency(action.p999_ns),
            hits(main, row),
            *checks(row.verdict, refused_of(phase.main), row),
            _times(times),
        ),
        keys={"variant": row.variant, "operation": operation.name},
        records=row.cells,
        ours=ours(row.contestant),
        minor=not operation.leading,
    )


def _interval(one: PassSummary) -> Cell:
    """Return the interval of the rate; nothing where there was one round only."""
    if one.rate.rounds < 2:
        return Cell("one round", mark="aside")
    low, high = one.rate.low, one.rate.high
    return Cell(f"{rate(low)} to {rate(high)}", (high - low) / max(one.rate.median, 1e-9))


def _times(times: float | None) -> Cell:
    if times is None:
        return NOTHING
    return Cell(digits(times), times, "weak" if times < NULL_TIMES_MIN else "")


def _pickers(variants: Sequence[str], named: Sequence[str]) -> tuple[Picker, ...]:
    # One variant is enough where there is little room: of an even number the smaller middle one.
    first = variants[(len(variants) - 1) // 2] if variants else ""
    both = (Picker("variant", tuple(variants), first), Picker("operation", tuple(named)))
    return tuple(picker for picker in both if len(picker.options) > 1)


def _notes(rows: Sequence[Summary]) -> tuple[str, ...]:
    notes = []
    weak = max((row.weak for row in rows), default=0.0)
    if weak:
        notes.append(f"Weak check: up to {weak:.1%} of the answers had fewer than 8 bytes.")
    excused = distinct(
        [
            f"{row.contestant.title}: {' and '.join(row.contestant.excused)}"
            for row in rows
            if row.contestant.excused
        ]
    )
    if excused:
        known = "; ".join(excused)
        notes.append(f"Known, explained in its README and no fault of the run: {known}.")
    return tuple(notes)


def percentiles(rows: Sequence[Summary]) -> Dots:
    """Return the chart of the latencies of each operation."""
    lines = [
        DotRow(
            title(row),
            kind(row),
            (operation.action.median_ns, operation.action.p90_ns, operation.action.p99_ns),
            keys={"variant": row.variant, "operation": operation.name},
            records=row.cells,
            ours=ours(row.contestant),
        )
        for row in rows
        if row.measured
        for operation in operations(row)
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
