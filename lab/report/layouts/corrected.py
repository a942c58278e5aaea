"""What every original left out: percentiles, intervals, checks.

Owns this table and the chart of percentiles, which are the same for all suites. Must not know what
any original looked like.
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
    """Return a row for each contestant that kept within the limits, variant and operation."""
    within = [row for row in rows if row.measured and not limits.why_beyond(part, row)]
    is_whole = len(within) == sum(row.measured for row in rows)
    title = "Corrected: every answer checked" + ("" if is_whole else ", within the limits")
    lines = _sorted(
        [_row(part, row, operation, rows) for row in within for operation in operations(row)]
    )
    notes = (*limits.notes(part, [row for row in rows if row.measured]), *_notes(rows))
    return _table(title, _columns(), lines, notes)


def beyond(part: Part, rows: Sequence[Summary]) -> Table | None:
    """Return the same of those that did not keep within the limits, and why; None without any."""
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
        "These rows have more room than those within the limits, so their hits and their rates are "
        "not to be compared with theirs."
    )
    return _table(
        "Corrected: beyond the limits, or without any", columns, _sorted(lines, 1), (note,)
    )


def _columns() -> tuple[Column, ...]:
    return (
        Column("Contestant", figures=False),
        Column("Rate", _RATES, means="Of the throughput pass, median of the rounds."),
        Column("Interval", _RATES, means="Interval of the median, with its coverage."),
        Column("Spread", _RATES, means="Range over the rounds, by their median."),
        Column("Rounds", _RATES),
        Column("Elapsed", _PASS, means="From its first start to its last end."),
        Column("CPU/op", _PASS, means="CPU time of the clients for one operation."),
        Column(
            "Median",
            _LATENCIES,
            means="Of one operation, or of one request for several values; the clock's own cost "
            "is in it.",
        ),
        Column("P90", _LATENCIES),
        Column("P99", _LATENCIES),
        Column("P99.9", _LATENCIES),
        Column("Bytes held", _STORE, means="What it occupied, as measured."),
        Column("Measured as", _STORE, figures=False),
        Column("Told", _STORE, means="The limit that it was told, where it is not the suite's."),
        Column(
            "Hits",
            _CHECKS,
            means="Gets that found what should have been there. Misses are cheaper than hits, so a "
            "rate with misses is to be read with care.",
        ),
        *(Column(one.heading, _CHECKS, means=one.means) for one in FAULTS),
        Column("x null", means="How many times the host's own loop, by throughput."),
    )


def _sorted(lines: list[Row], shift: int = 0) -> list[Row]:
    """Return the fastest first: by rate, and what has none by its latency. Null is last.

    `shift` is how many columns more there are before the figures.
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
_RATES, _PASS, _CHECKS = "operations in a second", "throughput pass", "checks"
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
    """Return the interval of the rate; nothing where there were too few rounds for one."""
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
    # Of an even number the smaller middle one.
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
