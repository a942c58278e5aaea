"""Measures one cell of a replay: a contestant whose store may use a given number of bytes.

Owns what is weighed and when, and how each failure of a try is recorded. Must not know any other
cell.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

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
    ValueKind,
)
from lab.runner import built, calibration
from lab.runner.catalogue import CatalogueError, Contestant, StoreLimits, host, server_of
from lab.runner.cell import adapter_of
from lab.runner.failures import CellError, NotInstalledError, UnavailableError
from lab.runner.guard import GuardError
from lab.runner.hosts import HostProcess, hosts
from lab.runner.mounts import mounted
from lab.runner.placeholders import fill_values, limit_step, limit_words
from lab.runner.resources import data_bytes
from lab.runner.results import ReplayCell, Try
from lab.runner.servers import RunningServer
from lab.runner.session import Session
from rig.marks import kill_marked

# The host waits while the store is weighed, so that measurements do not depend on speed.
REQUESTS_BETWEEN_WEIGHINGS = 1_000


@dataclass(frozen=True)
class Given:
    """The inputs of all cells of a suite: files of keys and requests, and the time for one try.

    A store with `hits_max` hits keeps everything.
    """

    keys: Path
    stream: Path
    requests: int
    hits_max: int
    seconds_max: float
    value: ValueKind = "binary"
    entries_max: int = 0
    ttl_seconds: float = 0.0


async def fill_in(
    cell: ReplayCell, session: Session, contestant: Contestant, given: Given, tries_max: int
) -> None:
    """Fill in `cell`, whatever happens. Raises only errors that end the whole run."""
    try:
        await _Cell(cell, session, contestant, given).run(tries_max)
    except NotInstalledError as error:
        absent = built.why_absent(contestant)
        cell.outcome = "unavailable" if absent else "missing"
        cell.reason = f"{error}: {absent}" if absent else str(error)
    except UnavailableError as error:
        cell.outcome, cell.reason = "unavailable", str(error)
    except GuardError:
        raise
    except (CellError, CatalogueError) as error:
        cell.outcome, cell.reason = "failed", str(error)
    except OSError as error:
        cell.outcome, cell.reason = "failed", f"the runner failed: {error}"


class _Cell:
    """One cell while it runs."""

    def __init__(
        self, cell: ReplayCell, session: Session, contestant: Contestant, given: Given
    ) -> None:
        self._cell = cell
        self._session = session
        self._contestant = contestant
        self._given = given
        self._mark = session.mark()

    async def run(self, tries_max: int) -> None:
        """Try limits until the bytes are as close to the target as possible."""
        cell, step = self._cell, self._limit_step()
        try:
            while len(cell.tries) < tries_max:
                limit = calibration.next_limit(cell.bytes_max, step, cell.tries)
                if limit is None or self._keeps_all():
                    break
                cell.tries.append(await self._try(limit))
            cell.kept = calibration.best(cell.bytes_max, cell.tries)
        finally:
            # An adapter or server may have started processes in other sessions.
            kill_marked(self._mark)

    def _keeps_all(self) -> bool:
        """Return whether the last try kept everything within the bytes, so no other is better."""
        cell = self._cell
        last = cell.tries[-1] if cell.tries else None
        return (
            last is not None
            and last.hits == self._given.hits_max
            and last.bytes_measured <= cell.bytes_max
        )

    def _limit_step(self) -> int:
        row = self._contestant
        told = [*row.arguments, *row.settings.values()]
        if row.server:
            told += server_of(row).limited or []
        return limit_step(told)

    async def _try(self, limit: int) -> Try:
        try:
            limits = StoreLimits(self._given.entries_max, limit)
            async with self._server(limits) as server:
                replay = self._replay(server, limits)
                return await (replay if server is None else server.outlive(replay))
        except CellError as error:
            if not self._cell.tries:
                raise
            # It fails with such a limit; the earlier tries count.
            return Try(limit, reason=str(error))

    @asynccontextmanager
    async def _server(self, limits: StoreLimits) -> AsyncIterator[RunningServer | None]:
        row = self._contestant
        if not row.server:
            yield None
            return
        async with self._session.servers.running(
            server_of(row), row, limits, mark=self._mark, cores=None
        ) as server:
            yield server

    async def _replay(self, server: RunningServer | None, limits: StoreLimits) -> Try:
        session, row = self._session, self._contestant
        words, folder = session.desk.fresh("words"), session.data.fresh(row.name)
        free = shutil.disk_usage(folder).free
        try:
            if row.weighed_by == "file" and free < self._cell.bytes_max:
                # The disk would be full before the store, and evictions would look deliberate.
                raise CellError(
                    f"{session.data.medium} has {free:,} bytes free, but its store may use "
                    f"{self._cell.bytes_max:,}: choose another folder with --data"
                )
            async with mounted(row, limits, folder, session.guard):
                async with (
                    hosts(
                        host(row.host),
                        row,
                        limits,
                        1,
                        guard=session.guard,
                        mark=self._mark,
                        words=words,
                        cores=None,
                    ) as (process,),
                    asyncio.timeout(self._given.seconds_max),
                ):
                    await self._open(process, server, folder, limits)
                    scales = self._scales(process, server, folder)
                    done = await self._requests(process, scales, limits.bytes)
                    await process.ask(Close(), Closed)
                if row.weighed_by == "file":
                    done.bytes_settled = bytes_occupied(folder)
            return done
        finally:
            session.data.discard(folder)
            session.desk.discard(words)

    async def _open(
        self,
        process: HostProcess,
        server: RunningServer | None,
        folder: Path,
        limits: StoreLimits,
    ) -> None:
        row, cell = self._contestant, self._cell
        known = dict(server.settings) if server else {}
        if self._given.ttl_seconds:
            known["ttl_seconds"] = f"{self._given.ttl_seconds:g}"
        own = fill_values(row.settings, limit_words(limits))
        load = Load(
            adapter=adapter_of(row),
            distribution=row.install.distribution,
            settings={**known, **own},
            seed=self._session.seed,
            worker=0,
            workers=1,
            keys=str(self._given.keys),
            value=self._given.value,
            phases=[PhaseOf("replay", [StreamOf(str(self._given.stream), 1)])],
        )
        loaded = await process.ask(load, Loaded)
        cell.version = built.version_of(loaded.version, row.install.build)
        cell.runtime = loaded.runtime
        cell.server_version = server.version if server else ""
        await process.ask(Open(str(folder), limits.entries, limits.bytes), Opened)

    def _scales(
        self, process: HostProcess, server: RunningServer | None, folder: Path
    ) -> Callable[[], int]:
        """Return a function that weighs the store."""
        weighed = self._contestant.weighed_by
        if weighed == "client":
            return lambda: data_bytes(process.started.pid)
        if weighed == "server":
            assert server is not None
            return lambda: data_bytes(server.pid) + server.bytes_grown
        return lambda: bytes_occupied(folder)

    async def _requests(self, process: HostProcess, weigh: Callable[[], int], limit: int) -> Try:
        """Replay everything, slice by slice, and weigh the store after each."""
        done = Try(limit)
        # The empty slice makes the host allocate everything that it will remember.
        await process.ask(Replay(0, 0, 0), Replayed)
        # Memory used before is not the store's; a folder was empty before it was opened.
        before = 0 if self._contestant.weighed_by == "file" else weigh()
        for start in range(0, self._given.requests, REQUESTS_BETWEEN_WEIGHINGS):
            stop = min(start + REQUESTS_BETWEEN_WEIGHINGS, self._given.requests)
            replayed = await process.ask(Replay(0, start, stop), Replayed)
            done.requests += stop - start
            done.hits += replayed.hits
            done.refused += replayed.refused
            done.bytes_peak = max(done.bytes_peak, weigh() - before)
            self._cell.verdict.add(replayed.verdict)
        return done
