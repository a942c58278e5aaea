"""Runs a replay suite: hit ratios at equal measured bytes.

Owns the calibration: the references run first, under a nominal limit; everyone else gets no more
bytes than the smallest of them was measured to occupy. Must not print.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab import stream
from lab.disk import bytes_occupied
from lab.protocol import (
    Close,
    Closed,
    Load,
    Loaded,
    Open,
    Opened,
    PhaseOf,
    Replay,
    Replayed,
    StreamOf,
)
from lab.runner import built
from lab.runner.catalogue import CatalogueError, Contestant, ReplaySuite, StoreLimits, host
from lab.runner.cell import adapter_of
from lab.runner.failures import CellError, NotInstalledError
from lab.runner.guard import GuardError, kill_marked
from lab.runner.hosts import hosts
from lab.runner.placeholders import fill_values, limit_words
from lab.runner.plan import CellName, Choice, replay_name
from lab.runner.results import ReplayCell
from lab.runner.session import Session, Watcher
from lab.runner.together import together
from lab.runner.traces import Requests


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
    path, keys = desk / "requests.ops", desk / "keys.txt"
    # Nothing is timed here, so cells may share the machine; a capacity's references come first.
    turns = asyncio.Semaphore(os.cpu_count() or 1)
    contestants = choice.rows(suite)
    references = [one for one in contestants if one.name in suite.replay.references]
    others = [one for one in contestants if one.name not in suite.replay.references]
    value_bytes = suite.replay.value_bytes
    stream.write(path, (stream.Operation(stream.GET, key, value_bytes) for key in requests.keys))
    keys.write_text("".join(f"{number}\n" for number in range(max(requests.keys) + 1)), "ascii")
    clock = asyncio.get_running_loop().time

    async def run_cell(contestant: Contestant, cell: ReplayCell) -> None:
        name = replay_name(suite.name, contestant.name, cell.capacity)
        async with turns:
            watcher.starts(contestant.name, name.where)
            started = clock()
            await _Replay(session, suite, contestant, path, keys, cell).run()
            watcher.ended(contestant.name, name.where, clock() - started, cell.reason)

    async def run_capacity(capacity: float) -> list[ReplayCell]:
        nominal = round(capacity * requests.distinct * value_bytes)
        cells: list[ReplayCell] = []
        measured: list[ReplayCell] = []
        for group in (references, others):
            bytes_max = limit(measured, nominal)
            of_group = []
            new = []
            for one in group:
                before = recorded.get(replay_name(suite.name, one.name, capacity))
                if before is None:
                    before = ReplayCell(
                        suite.name,
                        one.name,
                        capacity,
                        "measured",
                        bytes_max,
                        equal=False,
                        repeat=[*session.repeat, *_repeat(suite, choice, one, session.seed)],
                    )
                    new.append((one, before))
                of_group.append(before)
            await together(run_cell(*pair) for pair in new)
            if group is references:
                measured = [cell for cell in of_group if cell.outcome == "measured"]
            for _, cell in new:
                cell.equal = is_equal(cell, measured)
                session.record(cell)
            cells += of_group
        return cells

    try:
        of_capacities = await together(map(run_capacity, suite.replay.capacities))
    finally:
        session.desk.discard(desk)
    return [cell for cells in of_capacities for cell in cells]


def bytes_least(cell: ReplayCell) -> int:
    """Return the smaller measurement of a reference, the one less kind to its rivals."""
    return min(cell.bytes_peak, cell.bytes_settled)


def limit(references: Sequence[ReplayCell], nominal: int) -> int:
    """Return the limit in bytes of a contestant that is compared with the measured `references`.

    Without any there is nothing to be equal to, and the nominal limit stands.
    """
    return min((bytes_least(cell) for cell in references), default=nominal)


def is_equal(cell: ReplayCell, references: Sequence[ReplayCell]) -> bool:
    """Return whether `cell` occupied, at its peak, no more than the smallest reference.

    A reference is equal to the others by its limit, and is never refused.
    """
    if cell.outcome != "measured" or not references:
        return False
    if any(cell is reference for reference in references):
        return True
    return max(cell.bytes_peak, cell.bytes_settled) <= min(map(bytes_least, references))


def _repeat(suite: ReplaySuite, choice: Choice, contestant: Contestant, seed: int) -> Sequence[str]:
    # The references come too: without them there is no limit to be equal to.
    names = dict.fromkeys([*suite.replay.references, contestant.name])
    chosen = [word for name in names for word in ("--contestant", name)]
    return [suite.name, f"--{choice.form}", *chosen, "--seed", str(seed)]


class _Replay:
    """One cell while it runs: fills in `cell`, whatever happens."""

    def __init__(
        self,
        session: Session,
        suite: ReplaySuite,
        contestant: Contestant,
        path: Path,
        keys: Path,
        cell: ReplayCell,
    ) -> None:
        self._session = session
        self._suite = suite
        self._contestant = contestant
        self._path = path
        self._keys = keys
        self._cell = cell
        self._mark = session.mark()

    async def run(self) -> None:
        """Fill in the cell. Raises only what ends the whole run."""
        cell = self._cell
        try:
            await self._replay()
        except NotInstalledError as error:
            absent = built.why_absent(self._contestant)
            cell.outcome = "unavailable" if absent else "missing"
            cell.reason = f"{error}: {absent}" if absent else str(error)
        except GuardError:
            raise
        except (CellError, CatalogueError) as error:
            cell.outcome, cell.reason = "failed", str(error)
        except OSError as error:
            cell.outcome, cell.reason = "failed", f"the runner could not go on: {error}"
        finally:
            kill_marked(self._mark)

    async def _replay(self) -> None:
        session, cell = self._session, self._cell
        words, folder = session.desk.fresh("words"), session.data.fresh(self._contestant.name)
        limits = StoreLimits(bytes=cell.bytes_max)
        try:
            async with (
                hosts(
                    host(self._contestant.host),
                    self._contestant,
                    limits,
                    1,
                    guard=session.guard,
                    mark=self._mark,
                    words=words,
                    cores=None,
                ) as (process,),
                asyncio.timeout(self._suite.replay.cell_seconds_max),
            ):
                loaded = await process.ask(self._load(limits), Loaded)
                cell.version = built.version_of(loaded.version, self._contestant.install.build)
                opened = Open(str(folder), entries_max=0, bytes_max=cell.bytes_max)
                await process.ask(opened, Opened)
                replayed = await process.ask(Replay(0, str(folder)), Replayed)
                await process.ask(Close(), Closed)
            cell.requests, cell.hits, cell.refused = (
                replayed.requests,
                replayed.hits,
                replayed.refused,
            )
            cell.verdict, cell.bytes_peak = replayed.verdict, replayed.bytes_peak
            cell.bytes_settled = bytes_occupied(folder)
        finally:
            session.data.discard(folder)
            session.desk.discard(words)

    def _load(self, limits: StoreLimits) -> Load:
        return Load(
            adapter=adapter_of(self._contestant),
            distribution=self._contestant.install.distribution,
            settings=fill_values(self._contestant.settings, limit_words(limits)),
            seed=self._session.seed,
            worker=0,
            workers=1,
            keys=str(self._keys),
            value="binary",
            phases=[PhaseOf("replay", [StreamOf(str(self._path), 1)])],
        )
