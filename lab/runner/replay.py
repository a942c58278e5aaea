"""Runs a replay suite: hit ratios at equal measured bytes.

Owns the calibration: the references run first, under a nominal limit; everyone else gets no more
bytes than the smallest of them was measured to occupy. Must not print.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from lab import stream
from lab.disk import bytes_occupied
from lab.protocol import Close, Done, Load, Loaded, Open, Replay, Replayed
from lab.runner.catalogue import Contestant, ReplaySuite, host
from lab.runner.hosts import HostError, NotInstalledError, hosts
from lab.runner.results import ReplayCell
from lab.runner.session import Session, Watcher
from lab.runner.streams import Requests


async def run(
    session: Session,
    suite: ReplaySuite,
    requests: Requests,
    contestants: Sequence[Contestant],
    watcher: Watcher,
) -> list[ReplayCell]:
    """Replay `requests` on every contestant at every capacity; return the cells in that order."""
    path = session.space.fresh("requests") / "requests.ops"
    # Nothing is timed here, so cells may share the machine; a capacity's references come first.
    cores = asyncio.Semaphore(os.cpu_count() or 1)
    references = [one for one in contestants if one.name in suite.replay.references]
    others = [one for one in contestants if one.name not in suite.replay.references]
    value_bytes = suite.replay.value_bytes
    stream.write(path, (stream.Operation(stream.GET, key, value_bytes) for key in requests.keys))
    clock = asyncio.get_running_loop().time

    async def run_cell(contestant: Contestant, cell: ReplayCell) -> None:
        async with cores:
            detail = f"capacity {cell.capacity:.0%}"
            watcher.starts(contestant.name, detail)
            started = clock()
            await _fill(cell, session, suite, contestant, str(path))
            watcher.ended(contestant.name, detail, clock() - started, cell.reason)

    async def run_capacity(capacity: float) -> list[ReplayCell]:
        nominal = round(capacity * requests.distinct * value_bytes)
        cells: list[ReplayCell] = []
        measured: list[ReplayCell] = []
        for group in (references, others):
            bytes_max = limit(measured, nominal)
            started = [
                ReplayCell(one.name, capacity, "measured", bytes_max, equal=False) for one in group
            ]
            await asyncio.gather(*(run_cell(*pair) for pair in zip(group, started, strict=True)))
            cells += started
            if group is references:
                measured = [cell for cell in started if cell.outcome == "measured"]
        for cell in cells:
            cell.equal = is_equal(cell, measured)
            session.record(cell)
        return cells

    of_capacities = await asyncio.gather(*(run_capacity(one) for one in suite.replay.capacities))
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


async def _fill(
    cell: ReplayCell,
    session: Session,
    suite: ReplaySuite,
    contestant: Contestant,
    path: str,
) -> None:
    space = session.space
    errors, folder = space.fresh("errors"), space.fresh(contestant.name)
    load = Load(
        adapter=str(contestant.adapter),
        distribution=contestant.install.distribution,
        settings=contestant.settings,
        seed=session.seed,
        worker=0,
        keys=0,
        key_format="{number}",
        preload="",
        streams=[path],
    )
    try:
        async with (
            hosts(host(contestant.host), 1, errors) as (process,),
            asyncio.timeout(suite.replay.cell_seconds_max),
        ):
            cell.version = (await process.ask(load, Loaded)).version
            await process.ask(Open(str(folder), entries_max=0, bytes_max=cell.bytes_max), Done)
            replayed = await process.ask(Replay(str(folder)), Replayed)
            await process.ask(Close(), Done)
        cell.requests, cell.hits, cell.refused = (
            replayed.requests,
            replayed.hits,
            replayed.refused,
        )
        cell.verdict, cell.bytes_peak = replayed.verdict, replayed.bytes_peak
        cell.bytes_settled = bytes_occupied(folder)
    except NotInstalledError as error:
        cell.outcome, cell.reason = "missing", str(error)
    except HostError as error:
        cell.outcome, cell.reason = "failed", str(error)
    finally:
        space.discard(errors)
        space.discard(folder)
