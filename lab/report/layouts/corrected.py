"""What every original left out: percentiles, intervals, checks, memory, processor time.

Owns these tables and the chart of percentiles, which are the same for all suites. Must not know
what any original looked like.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from lab.protocol import Verdict
from lab.report.layouts.rows import Operation, cell, distinct, kind, name, operations, ours, title
from lab.report.model import Cell, Column, DotRow, Dots, Mark, Picker, Row, Table
from lab.report.units import brief, digits, hit_rate, megabytes, rate, spread
from lab.runner.results import Outcome, Resources
from lab.runner.summary import (
    NULL_TIMES_MIN,
    SPREAD_MAX,
    PassSummary,
    Summary,
    against_null,
    null_of,
)

NOTHING = Cell("")

_FAULTS = (
    Column("Wrong", short="Wrng", means="Answers that are not the value stored."),
    Column(
        "Stale",
        short="Stal",
        means="Answers with a value that had certainly been replaced or deleted.",
    ),
    Column("Lost", means="Entries gone from a store that was not full."),
    Column("Refused", short="Rfsd", means="Sets that the store declined."),
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
        *(Column(one.heading, wide=True, means=one.means) for one in _FAULTS),
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
            interval(main),
            Cell(spread(main.rate.spread), main.rate.spread, noisy),
            *(latency(one) for one in (action.median_ns, action.p90_ns, action.p99_ns)),
            latency(action.p999_ns),
            hits(main, row),
            *checks(row.verdict, _refused(phase.main), row),
            _times(times),
        ),
        keys={"variant": row.variant, "operation": operation.name},
        records=row.cells,
        ours=ours(row.contestant),
        minor=not operation.leading,
    )


def interval(one: PassSummary) -> Cell:
    """Return the interval of the rate; nothing where there was one round only."""
    if one.rate.rounds < 2:
        return Cell("one round", mark="aside")
    low, high = one.rate.low, one.rate.high
    return Cell(f"{rate(low)} to {rate(high)}", (high - low) / max(one.rate.median, 1e-9))


def latency(nanoseconds: float | None) -> Cell:
    """Return a latency; nothing where the action did not occur."""
    return NOTHING if nanoseconds is None else Cell(brief(nanoseconds), nanoseconds)


def hits(one: PassSummary, row: Summary) -> Cell:
    """Return the hit ratio among the keys that should have been there."""
    if one.hit_ratio is None or not row.contestant.stores:
        return NOTHING
    return Cell(hit_rate(one.hit_ratio), one.hit_ratio)


def checks(verdict: Verdict, refused: int, row: Summary) -> list[Cell]:
    """Return wrong, stale, lost and refused. Null stores nothing and has none of them."""
    if not row.contestant.stores:
        return [NOTHING] * len(_FAULTS)
    excused = row.contestant.excused
    return [
        _count(verdict.wrong, "fault"),
        _count(verdict.stale, "weak" if "stale" in excused else "fault"),
        _count(verdict.lost, "weak" if "lost" in excused else "fault"),
        _count(refused, "weak"),
    ]


def _count(count: int, mark: Mark) -> Cell:
    return Cell(f"{count:,}", count, mark if count else "")


def _refused(one: PassSummary) -> int:
    return one.action("set").miss


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


def resources(rows: Sequence[Summary]) -> Table:
    """Return a row for each contestant: its checks added up, the most memory of all variants."""
    columns = (
        Column("Contestant", figures=False),
        *_FAULTS,
        Column("Client", group="MB", means="Proportional set size of all workers, after the run."),
        Column("Server", group="MB", means="Resident set of the server, after the run."),
        Column("Store", group="MB", means="Blocks of all files of the store."),
        Column("Client", group="CPU/op", means="Processor time of the clients for one operation."),
        Column("Server", group="CPU/op", means="Processor time of the server for one operation."),
        Column("Data lives in", figures=False, wide=True, means="Who shares what is stored."),
        Column("Rounds", wide=True),
        Column("Version", figures=False, wide=True),
        Column("Server version", figures=False, wide=True),
    )
    measured = [row for row in rows if row.measured]
    measured.sort(key=lambda row: (not row.contestant.stores, name(row)))
    return Table(
        "Checks, memory and processor time",
        columns,
        tuple(_resources(list(same)) for _, same in groupby(measured, key=name)),
        notes=(
            "Over all variants: checks added up, the largest memory, processor time of the mean "
            "operation.",
        ),
    )


def _resources(same: Sequence[Summary]) -> Row:
    first = same[0]
    verdict = Verdict()
    for row in same:
        verdict.add(row.verdict)
    passes = [phase.main for row in same for phase in row.phases]
    refused = sum(row.refused for row in same) + sum(_refused(one) for one in passes)

    def most(take: str) -> int:
        return max(int(getattr(row.resources, take)) for row in same)

    server_bytes = most("server_bytes_full")
    return Row(
        (
            cell(first),
            *checks(verdict, refused, first),
            _bytes(most("client_bytes_full")),
            _bytes(server_bytes) if first.contestant.server else NOTHING,
            _bytes(most("store_bytes")) if first.contestant.stores else NOTHING,
            latency(sum(one.cpu_ns for one in passes) / max(len(passes), 1)),
            _server_cpu(same) if first.contestant.server else NOTHING,
            Cell(f"one {first.contestant.lives}"),
            Cell(str(min(row.rounds for row in same)), min(row.rounds for row in same)),
            Cell(" ".join(filter(None, (first.version, f"({first.runtime})")))),
            Cell(first.server_version),
        ),
        records=tuple(record for row in same for record in row.cells),
        ours=ours(first.contestant),
    )


def _bytes(count: int) -> Cell:
    return Cell(megabytes(count), count)


def _server_cpu(same: Iterable[Summary]) -> Cell:
    spent, done = 0, 0
    for row in same:
        used: Resources = row.resources
        spent += used.server_cpu_ns
        passes = [one for phase in row.phases for one in (phase.throughput, phase.latency) if one]
        done += sum(one.done for one in passes)
    return latency(spent / done) if done else NOTHING


_SAID: dict[Outcome, str] = {
    "measured": "",
    "stopped": "met its time limit",
    "failed": "failed",
    "missing": "not here",
    "unavailable": "cannot be had",
}


def absent(rows: Sequence[Summary]) -> Table | None:
    """Return the rows without figures and why, or None when all have some."""
    without = [row for row in rows if not row.measured]
    without.sort(key=name)
    lines = []
    for _, same in groupby(without, key=lambda row: row.contestant.name):
        group = list(same)
        reasons = distinct([row.reason for row in group])
        first = group[0]
        mark: Mark = "aside" if first.outcome in ("unavailable", "stopped") else "fault"
        lines.append(
            Row(
                (
                    Cell(first.contestant.title, short=first.contestant.name),
                    Cell(_SAID[first.outcome], mark=mark),
                    Cell("; ".join(reasons)),
                ),
                records=tuple(record for row in group for record in row.cells),
                ours=ours(first.contestant),
            )
        )
    if not lines:
        return None
    columns = (
        Column("Contestant", figures=False),
        Column("Outcome", figures=False),
        Column("Reason", figures=False),
    )
    return Table("Without figures", columns, tuple(lines))


def remarks(rows: Sequence[Summary]) -> tuple[str, ...]:
    """Return which rows are noisy, which are close to null, and what null itself takes."""
    said = []
    noisy: dict[str, list[float]] = {}
    for row in rows:
        if row.noisy:
            noisy.setdefault(title(row), []).append(row.spread)
    if noisy:
        worst = sorted(noisy.items(), key=lambda one: -max(one[1]))
        listed = ", ".join(
            f"{named} ({max(found):.0%}{f', {len(found)} variants' if len(found) > 1 else ''})"
            for named, found in worst
        )
        said.append(f"Noisy, more than {SPREAD_MAX:.0%} between rounds: {listed}.")
    stopped = distinct([title(row) for row in rows if row.stopped])
    if stopped:
        said.append(
            f"Met the time limit of a pass, so that figures are of fewer operations: "
            f"{', '.join(stopped)}."
        )
    near = [
        title(row)
        for row in rows
        for phase in row.phases
        if (times := against_null(row, null_of(rows, row), phase.name)) is not None
        and times < NULL_TIMES_MIN
    ]
    if near:
        said.append(
            f"Less than {NULL_TIMES_MIN:.0f} times their host's own loop in some phase, so that "
            f"much of the figure is the lab's: {', '.join(distinct(near))}."
        )
    nulls = {
        row.contestant.host: min(phase.main.operation_ns.median for phase in row.phases)
        for row in rows
        if row.measured and not row.contestant.stores and row.phases
    }
    if nulls:
        costs = ", ".join(f"{host} {brief(cost)}" for host, cost in sorted(nulls.items()))
        said.append(f"What a host's own loop takes for one operation, never subtracted: {costs}.")
    return tuple(said)
