"""Remarks about the tables: rows without figures, noisy rows, rows close to null.

Owns these sentences and this table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from lab.report.layouts.rows import distinct, name, ours, title
from lab.report.model import Cell, Column, Mark, Row, Table
from lab.report.units import brief
from lab.runner.results import Outcome, ReplayCell
from lab.runner.summary import NULL_TIMES_MIN, SPREAD_MAX, Summary, against_null, null_of

_SAID: dict[Outcome, str] = {
    "measured": "",
    "stopped": "reached its time limit",
    "failed": "failed",
    "missing": "not installed",
    "unavailable": "cannot be installed",
}


def counted(rows: Sequence[Summary], replays: Sequence[ReplayCell] = ()) -> str:
    """Return how many contestants have figures, and which have none. Null does not count."""
    found = {row.contestant.name: False for row in rows if row.contestant.stores}
    found |= {cell.contestant: False for cell in replays}
    found |= {row.contestant.name: True for row in rows if row.measured and row.contestant.stores}
    found |= {cell.contestant: True for cell in replays if cell.outcome == "measured"}
    without = sorted(name for name, measured in found.items() if not measured)
    count = len(found) - len(without)
    said = f"{count} contestant{'' if count == 1 else 's'} with figures"
    return f"{said}, {len(without)} without ({', '.join(without)})" if without else said


def absent(rows: Sequence[Summary]) -> Table | None:
    """Return the rows without figures and the reasons; None when all have figures."""
    without = [row for row in rows if not row.measured]
    without.sort(key=name)
    lines = []
    for _, same in groupby(without, key=lambda row: row.contestant.name):
        group = list(same)
        # A row without its own cell repeats the reason of another row.
        reasons = distinct([row.reason for row in group if row.cells])
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
    """Return which rows are noisy or close to null, and the cost of null itself."""
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
        said.append(f"Noisy, the rounds differ by more than {SPREAD_MAX:.0%}: {listed}.")
    stopped = distinct([title(row) for row in rows if row.stopped])
    if stopped:
        said.append(
            f"Reached the time limit of a pass, so the figures cover fewer operations: "
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
            f"Less than {NULL_TIMES_MIN:.0f} times the cost of the host's own loop in some phase, "
            f"so much of the figure is the lab's overhead: {', '.join(distinct(near))}."
        )
    nulls = {
        row.contestant.host: min(phase.main.operation_ns.median for phase in row.phases)
        for row in rows
        if row.measured and not row.contestant.stores and row.phases
    }
    if nulls:
        costs = ", ".join(f"{host} {brief(cost)}" for host, cost in sorted(nulls.items()))
        said.append(f"Cost of the host's own loop per operation, never subtracted: {costs}.")
    return tuple(said)
