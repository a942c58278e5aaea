"""Runs a replay suite: hit ratios at equal measured bytes.

Owns the target: the references run first, under a nominal limit, and their smallest measured size
is the target of all others. Must not print.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Literal

from lab import stream
from lab.runner import calibration
from lab.runner.catalogue import Contestant, ReplaySuite
from lab.runner.pages import small_pages
from lab.runner.plan import CellName, Choice, replay_name
from lab.runner.replay_cell import Given, fill_in
from lab.runner.results import ReplayCell, Source
from lab.runner.session import Session, Watcher
from lab.runner.together import together
from lab.runner.traces import Requests

# "reference": runs under the nominal limit and sets the target. "compared": must not exceed the
# target. "alone": no reference could be measured, so the nominal limit is the target.
_Role = Literal["reference", "compared", "alone"]


async def run(
    session: Session,
    suite: ReplaySuite,
    choice: Choice,
    requests: Requests,
    recorded: Mapping[CellName, ReplayCell],
    watcher: Watcher,
) -> list[ReplayCell]:
    """Replay `requests` on every contestant at every capacity; return the cells in that order."""
    desk = session.desk.fresh("requests")
    seconds_max = suite.replay.cell_seconds_max
    count = len(requests.keys)
    given = Given(
        desk / "keys.txt", desk / "requests.ops", count, count - requests.distinct, seconds_max
    )
    try:
        with given.keys.open("w", encoding="ascii") as file:
            file.writelines(f"{text}\n" for text in requests.texts)
        size = suite.replay.value_bytes
        operations = (
            stream.Operation(stream.GET, key, size or own)
            for key, own in zip(requests.keys, requests.sizes, strict=True)
        )
        stream.write(given.stream, operations)
        one = _Suite(session, suite, choice, given, recorded, watcher)
        with small_pages():
            capacities = suite.replay.capacities_of(choice.form)
            of_capacities = await together(map(one.run, capacities))
    finally:
        session.desk.discard(desk)
    return [cell for cells in of_capacities for cell in cells]


class _Suite:
    """A suite while it runs."""

    def __init__(
        self,
        session: Session,
        suite: ReplaySuite,
        choice: Choice,
        given: Given,
        recorded: Mapping[CellName, ReplayCell],
        watcher: Watcher,
    ) -> None:
        self._session = session
        self._suite = suite
        self._choice = choice
        self._given = given
        self._recorded = recorded
        self._watcher = watcher
        # Nothing is timed here, so cells may share the machine.
        self._turns = asyncio.Semaphore(os.cpu_count() or 1)

    async def run(self, capacity: float) -> list[ReplayCell]:
        """Run the cells of a capacity that are not recorded, references first; return all."""
        plan = self._suite.replay
        rows = self._choice.rows(self._suite)
        trace = self._suite.trace
        nominal = round(capacity * (trace.bytes_distinct or trace.distinct * plan.value_bytes))
        references = await together(
            self._cell(row, capacity, nominal, "reference")
            for row in rows
            if row.name in plan.references
        )
        measured = [cell for cell in references if cell.outcome == "measured"]
        bytes_max = calibration.target(measured, nominal)
        others = await together(
            self._cell(
                row, capacity, bytes_max, "compared" if measured or not plan.references else "alone"
            )
            for row in rows
            if row.name not in plan.references
        )
        return [*references, *others]

    async def _cell(
        self, row: Contestant, capacity: float, bytes_max: int, role: _Role
    ) -> ReplayCell:
        name = replay_name(self._suite.name, row.name, capacity)
        before = self._recorded.get(name)
        if before is not None:
            return before
        cell = ReplayCell(
            self._suite.name,
            row.name,
            capacity,
            "measured",
            row.weighed_by,
            bytes_max,
            source=source(self._suite),
            repeat=[*self._session.repeat, *self._repeat(row)],
        )
        async with self._turns:
            clock = asyncio.get_running_loop().time
            started = clock()
            self._watcher.starts(row.name, name.where)
            tries_max = calibration.TRIES_MAX if role == "compared" else 1
            await fill_in(cell, self._session, row, self._given, tries_max)
            cell.seconds = round(clock() - started, 3)
            self._watcher.ended(row.name, name.where, cell.seconds, cell.reason)
        if cell.outcome == "measured" and role != "alone":
            # A reference sets the target, so it always counts as equal.
            cell.reason = calibration.excess(cell) if role == "compared" else ""
            cell.equal = not cell.reason
        self._session.record(cell)
        return cell

    def _repeat(self, row: Contestant) -> Sequence[str]:
        # Include the references, because they set the target.
        names = dict.fromkeys([*self._suite.replay.references, row.name])
        chosen = [word for name in names for word in ("--contestant", name)]
        seed = str(self._session.seed)
        return [self._suite.name, f"--{self._choice.form}", *chosen, "--seed", seed]


def source(suite: ReplaySuite) -> Source:
    """Return where the requests of a suite come from."""
    trace = suite.trace
    return Source(
        recorded=True,
        text=(
            f"recorded in {trace.file}, {trace.requests:,} {trace.what} ({trace.distinct:,} "
            f"distinct keys), from {trace.origin}, {trace.licence}, SHA-256 {trace.sha256}"
        ),
    )
