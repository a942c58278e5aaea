"""Runs a concurrent suite: rounds A B C A B C, each cell on a fresh store with fresh processes.

Owns the order of steps in a cell. Must not print; it tells a Watcher what runs now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped, unused-ignore]

from lab import stream
from lab.disk import bytes_occupied
from lab.hosts.python.timing import decode
from lab.protocol import (
    ACTIONS,
    Close,
    Done,
    Load,
    Loaded,
    Measure,
    Open,
    Preload,
    Probed,
    ProbeRead,
    ProbeWrite,
    Ran,
    Run,
    Tally,
    Verdict,
)
from lab.runner import streams
from lab.runner.catalogue import ConcurrentSuite, Contestant, Form, host
from lab.runner.hosts import HostError, HostProcess, NotInstalledError, ask_all, hosts
from lab.runner.results import ConcurrentCell, Pass
from lab.runner.session import Session, Watcher


async def run(
    session: Session,
    suite: ConcurrentSuite,
    form: Form,
    contestants: Sequence[Contestant],
    watcher: Watcher,
) -> list[ConcurrentCell]:
    """Run every contestant once in each round and return the cells in the order they ran.

    A contestant that failed or is missing is not run again.
    """
    recorded = _write_streams(session, suite, form)
    clock = asyncio.get_running_loop().time
    cells: list[ConcurrentCell] = []
    gone: set[str] = set()
    for number in range(1, form.rounds + 1):
        for contestant in contestants:
            detail = f"round {number} of {form.rounds}"
            if contestant.name in gone:
                watcher.ended(contestant.name, detail, 0.0, "")
                continue
            watcher.starts(contestant.name, detail)
            started = clock()
            cell = ConcurrentCell(contestant.name, number, "measured")
            await _Run(session, suite, form, contestant, recorded, cell).run()
            if cell.outcome != "measured":
                gone.add(contestant.name)
            cells.append(cell)
            session.record(cell)
            watcher.ended(contestant.name, detail, clock() - started, cell.reason)
    return cells


@dataclass(frozen=True)
class _Streams:
    preload: str
    workers: list[str]


def _write_streams(session: Session, suite: ConcurrentSuite, form: Form) -> _Streams:
    folder = session.space.fresh("streams")
    preload = folder / "preload.ops"
    stream.write(preload, streams.draw_preload(suite.workload, session.seed))
    workers = []
    for worker in range(suite.workload.processes):
        path = folder / f"worker-{worker}.ops"
        drawn = streams.draw(suite.workload, session.seed, worker, form.operations)
        stream.write(path, drawn)
        workers.append(str(path))
    return _Streams(str(preload), workers)


@dataclass
class _Run:
    """One cell while it runs: fills in `cell`, whatever happens."""

    session: Session
    suite: ConcurrentSuite
    form: Form
    contestant: Contestant
    streams: _Streams
    cell: ConcurrentCell

    async def run(self) -> None:
        folder = self.session.space.fresh(self.contestant.name)
        workers = self.suite.workload.processes
        try:
            async with (
                hosts(host(self.contestant.host), workers, folder) as processes,
                asyncio.timeout(self.form.cell_seconds_max),
            ):
                await self._load(processes)
                if self.contestant.stores:
                    await self._probe(processes, _subfolder(folder, "probe"))
                await self._measure(processes, _subfolder(folder, "store"))
        except NotInstalledError as error:
            self.cell.outcome, self.cell.reason = "missing", str(error)
        except HostError as error:
            self.cell.outcome, self.cell.reason = "failed", str(error)
        finally:
            self.session.space.discard(folder)

    async def _load(self, processes: list[HostProcess]) -> None:
        workload = self.suite.workload
        loads = [
            Load(
                adapter=str(self.contestant.adapter),
                distribution=self.contestant.install.distribution,
                settings=self.contestant.settings,
                seed=self.session.seed,
                worker=worker,
                keys=workload.keys,
                key_format=workload.key_format,
                preload=self.streams.preload,
                streams=self.streams.workers,
            )
            for worker in range(len(processes))
        ]
        first, *_ = await ask_all(processes, loads, Loaded)
        self.cell.version, self.cell.runtime, self.cell.timer = (
            first.version,
            first.runtime,
            first.timer,
        )

    async def _open(self, processes: list[HostProcess], folder: Path) -> None:
        limits = self.suite.workload.limits
        request = Open(str(folder), entries_max=limits.entries, bytes_max=limits.bytes)
        # One process creates the store before the others join it, as the original does.
        await processes[0].ask(request, Done)
        await ask_all(processes[1:], [request] * (len(processes) - 1), Done)

    async def _probe(self, processes: list[HostProcess], folder: Path) -> None:
        await self._open(processes, folder)
        count = len(processes)
        written = await ask_all(processes, [ProbeWrite()] * count, Probed)
        self.cell.refused = sum(probed.refused for probed in written)
        reads = []
        for worker in range(count):
            # A store that a process has for itself owes nobody else's keys.
            others = [] if self.contestant.lives == "process" else [(worker + 1) % count]
            reads.append(ProbeRead([worker, *others]))
        for probed in await ask_all(processes, reads, Probed):
            self.cell.probe_keys += probed.keys
            self.cell.probe.add(probed.verdict)
        await ask_all(processes, [Close()] * count, Done)

    async def _measure(self, processes: list[HostProcess], folder: Path) -> None:
        await self._open(processes, folder)
        loaders = processes if self.contestant.lives == "process" else processes[:1]
        await ask_all(loaders, [Preload()] * len(loaders), Done)
        ran = await self._pass(processes, "throughput")
        self.cell.throughput = merge(ran)
        self.cell.block_ns = round(median(block for one in ran for block in one.blocks_ns))
        self.cell.latency = merge(await self._pass(processes, "latency"))
        self.cell.bytes_occupied = bytes_occupied(folder)
        await ask_all(processes, [Close()] * len(processes), Done)

    async def _pass(self, processes: list[HostProcess], measure: Measure) -> list[Ran]:
        return await ask_all(processes, [Run(measure, self.form.warmup)] * len(processes), Ran)


def _subfolder(folder: Path, name: str) -> Path:
    subfolder = folder / name
    subfolder.mkdir()
    return subfolder


def merge(ran: Sequence[Ran]) -> Pass:
    """Return the passes of all workers as one: counts and sums added, histograms merged."""
    merged = Pass(
        wall_ns=max(one.wall_ns for one in ran),
        workers_ns=sum(one.wall_ns for one in ran),
        timed_ns=sum(one.timed_ns for one in ran),
        actions={},
        verdict=Verdict(),
    )
    for one in ran:
        merged.verdict.add(one.verdict)
    for action in ACTIONS:
        parts = [one.actions[action] for one in ran]
        merged.actions[action] = Tally(
            count=sum(part.count for part in parts),
            miss=sum(part.miss for part in parts),
            wrong=sum(part.wrong for part in parts),
            total_ns=sum(part.total_ns for part in parts),
            histogram=merge_histograms([part.histogram for part in parts if part.histogram]),
        )
    return merged


def merge_histograms(encoded: Sequence[str]) -> str:
    """Return the sum of encoded histograms, encoded; nothing for none."""
    if not encoded:
        return ""
    merged: HdrHistogram = decode(encoded[0])
    for one in encoded[1:]:
        merged.add(decode(one))
    return str(merged.encode().decode("ascii"))
