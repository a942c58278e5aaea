"""Measures one cell: a contestant under a variant of a part, in one placement and one round.

Owns the order of its steps, and how each failure is recorded. Must not know any other cell.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.disk import bytes_occupied
from lab.protocol import (
    Clear,
    Cleared,
    Close,
    Closed,
    Load,
    Loaded,
    Open,
    Opened,
    Prepare,
    Prepared,
    Probed,
    ProbeRead,
    ProbeWrite,
    Ran,
    Run,
    Verdict,
)
from lab.runner import built, resources
from lab.runner.catalogue import (
    CatalogueError,
    Contestant,
    Form,
    Part,
    StoreLimits,
    Variant,
    host,
    server_of,
)
from lab.runner.failures import (
    CellError,
    NotInstalledError,
    StoppedError,
    UnavailableError,
)
from lab.runner.guard import GuardError
from lab.runner.histograms import encode
from lab.runner.hosts import HostProcess, ask_all, hosts
from lab.runner.inputs import Inputs, Pace, PlannedPass, pace
from lab.runner.mounts import mounted
from lab.runner.passes import merge
from lab.runner.placeholders import fill_values, limit_words
from lab.runner.placement import client_cores, server_cores
from lab.runner.results import PhaseResult, PhasesCell
from lab.runner.servers import RunningServer
from lab.runner.session import Session
from rig.cores import core_count
from rig.marks import kill_marked

# The time for all workers of a pass to read the request that names its start.
BARRIER_NS = 50_000_000

# A longer preload would leave no time for the measured phases.
PRELOAD_SHARE_MAX = 0.25

# Keys of each worker's probe, and the bytes of their values (PROTOCOL.md).
_PROBE_KEYS = 64
_PROBE_BYTES = 160
# The probe deletes a quarter of its keys.
_PROBE_KEYS_KEPT = 48
# The probe may use half of the allowed entries and an eighth of the allowed bytes: a store may need
# several times the bytes of its values.
_PROBE_ENTRIES_SHARE = 2
_PROBE_BYTES_SHARE = 8


@dataclass(frozen=True)
class Job:
    """What to measure, and how. With `probe`, the store is probed first."""

    contestant: Contestant
    part: Part
    variant: Variant
    form: Form
    inputs: Inputs
    probe: bool


@dataclass
class _Stage:
    """Everything that runs for one store: its hosts, its server if any, and its folder."""

    processes: list[HostProcess]
    server: RunningServer | None
    folder: Path

    @property
    def pids(self) -> list[int]:
        """The process ids of the clients."""
        return [process.started.pid for process in self.processes]


async def measure(session: Session, job: Job, cell: PhasesCell) -> None:
    """Fill in `cell`, whatever happens. Raises only errors that end the whole run."""
    clock = asyncio.get_running_loop().time
    started = clock()
    try:
        await _Measurement(session, job, cell, started + job.form.cell_seconds_max).run()
    except NotInstalledError as error:
        absent = built.why_absent(job.contestant)
        cell.outcome = "unavailable" if absent else "missing"
        cell.reason = f"{error}: {absent}" if absent else str(error)
    except UnavailableError as error:
        cell.outcome, cell.reason = "unavailable", str(error)
    except StoppedError as error:
        cell.outcome, cell.reason = "stopped", str(error)
    except GuardError:
        raise
    except (CellError, CatalogueError) as error:
        cell.outcome, cell.reason = "failed", str(error)
    except OSError as error:
        cell.outcome, cell.reason = "failed", f"the runner failed: {error}"
    cell.seconds = round(clock() - started, 3)


def probe_fits(part: Part, limits: StoreLimits) -> bool:
    """Return whether the probe has so few entries that a store must not evict any."""
    entries = part.processes * _PROBE_KEYS
    fits_entries = limits.entries == 0 or entries * _PROBE_ENTRIES_SHARE <= limits.entries
    fits_bytes = limits.bytes == 0 or entries * _PROBE_BYTES * _PROBE_BYTES_SHARE <= limits.bytes
    return fits_entries and fits_bytes


@dataclass
class _Measurement:
    session: Session
    job: Job
    cell: PhasesCell
    deadline: float

    def __post_init__(self) -> None:
        limits = self.job.part.limits_of(self.job.variant)
        held = self.cell.held
        self.limits = StoreLimits(limits.entries, held.told) if held is not None else limits
        self.mark = self.session.mark()

    async def run(self) -> None:
        probes = self.job.probe and self.job.contestant.stores
        try:
            if probes and probe_fits(self.job.part, self.limits):
                await self._on_stage(self._probe)
            await self._on_stage(self._measure)
        finally:
            # An adapter or server may have started processes in other sessions.
            kill_marked(self.mark)

    async def _on_stage(self, act: Callable[[_Stage], Awaitable[None]]) -> None:
        async with self._stage() as stage:
            if stage.server is None:
                await act(stage)
            else:
                await stage.server.outlive(_coroutine(act, stage))

    @asynccontextmanager
    async def _stage(self) -> AsyncIterator[_Stage]:
        """Start a new server, if there is one, with a new folder and new hosts."""
        contestant = self.job.contestant
        async with AsyncExitStack() as stack:
            running = None
            if contestant.server:
                running = await stack.enter_async_context(
                    self.session.servers.running(
                        server_of(contestant),
                        contestant,
                        self.limits,
                        mark=self.mark,
                        cores=server_cores(self.cell.placement, self.session.cores),
                    )
                )
            yield await stack.enter_async_context(self._clients(running))

    @asynccontextmanager
    async def _clients(self, running: RunningServer | None) -> AsyncIterator[_Stage]:
        contestant = self.job.contestant
        words = self.session.desk.fresh("words")
        folder = self.session.data.fresh(contestant.name)
        try:
            async with (
                mounted(contestant, self.limits, folder, self.session.guard),
                hosts(
                    host(contestant.host),
                    contestant,
                    self.limits,
                    self.job.part.processes,
                    guard=self.session.guard,
                    mark=self.mark,
                    words=words,
                    cores=client_cores(self.cell.placement, self.session.cores),
                ) as processes,
                asyncio.timeout_at(self.deadline),
            ):
                yield _Stage(processes, running, folder)
            self.cell.stop_ns = max(process.stop_ns for process in processes)
        finally:
            self.session.data.discard(folder)
            self.session.desk.discard(words)

    async def _load(self, stage: _Stage, *, phases: bool) -> None:
        job = self.job
        known = dict(stage.server.settings) if stage.server else {}
        if job.part.ttl_seconds:
            known["ttl_seconds"] = f"{job.part.ttl_seconds:g}"
        install = job.contestant.install
        own = fill_values(job.contestant.settings, limit_words(self.limits))
        if stage.server is not None:
            self.cell.server_version = stage.server.version
        loads = [
            Load(
                adapter=adapter_of(job.contestant),
                distribution=install.distribution,
                settings={**known, **own},
                seed=self.session.seed,
                worker=worker,
                workers=job.part.processes,
                keys=str(job.inputs.keys),
                value=job.variant.value,
                phases=job.inputs.phases if phases else [],
            )
            for worker in range(job.part.processes)
        ]
        replies = await ask_all(stage.processes, loads, Loaded)
        self.cell.version = built.version_of(replies[0].version, install.build)
        self.cell.runtime = replies[0].runtime
        self.cell.timer = encode(ns for reply in replies for ns in reply.timer_ns)
        self.cell.start_ns = max(
            reply.started_ns - process.started.spawned_ns
            for reply, process in zip(replies, stage.processes, strict=True)
        )
        self.cell.create_ns = max(reply.create_ns for reply in replies)

    async def _open(self, stage: _Stage) -> None:
        request = Open(
            str(stage.folder), entries_max=self.limits.entries, bytes_max=self.limits.bytes
        )
        # One process creates the store before the others join it, as the originals do.
        first, *others = stage.processes
        opened = [await first.ask(request, Opened)]
        opened += await ask_all(others, [request] * len(others), Opened)
        self.cell.open_ns = max(reply.elapsed_ns for reply in opened)

    async def _close(self, stage: _Stage) -> None:
        closed = await ask_all(stage.processes, [Close()] * len(stage.processes), Closed)
        self.cell.close_ns = max(reply.elapsed_ns for reply in closed)

    async def _probe(self, stage: _Stage) -> None:
        await self._load(stage, phases=False)
        await self._open(stage)
        count = len(stage.processes)
        written = await ask_all(stage.processes, [ProbeWrite()] * count, Probed)
        self.cell.refused = sum(probed.refused for probed in written)
        reads = []
        for worker in range(count):
            # The store of a single process has no keys of other workers.
            alone = count == 1 or not self.job.contestant.is_shared
            reads.append(ProbeRead([worker] if alone else [worker, (worker + 1) % count]))
        for probed in await ask_all(stage.processes, reads, Probed):
            self.cell.probe_keys += probed.keys
            self.cell.probe.add(probed.verdict)
        # After a refused set, a missing key proves nothing.
        if self.job.part.empties and not self.cell.refused and await self._clear(stage):
            await self._probe_cleared(stage)
        await self._close(stage)

    async def _probe_cleared(self, stage: _Stage) -> None:
        """Count the probe's entries that remain in a store that was emptied."""
        reads = [ProbeRead([worker]) for worker in range(len(stage.processes))]
        for probed in await ask_all(stage.processes, reads, Probed):
            found = probed.verdict
            left = _PROBE_KEYS_KEPT - found.lost
            said = f"{left} entries remain after the store was emptied"
            examples = [said] if left else []
            self.cell.probe.add(Verdict(found.wrong, found.stale + left, examples=examples))

    async def _clear(self, stage: _Stage) -> bool:
        """Empty the store and return True; return False if the contestant cannot."""
        owners = self._owners(stage)
        cleared = await ask_all(owners, [Clear()] * len(owners), Cleared)
        if not all(one.cleared for one in cleared):
            return False
        self.cell.clear_ns = max(one.elapsed_ns for one in cleared)
        return True

    def _owners(self, stage: _Stage) -> list[HostProcess]:
        """Return the processes that must act for the whole store: one, or each for its own."""
        return stage.processes[:1] if self.job.contestant.is_shared else stage.processes

    async def _measure(self, stage: _Stage) -> None:
        used = self.cell.resources
        await self._load(stage, phases=True)
        await self._open(stage)
        used.client_bytes_opened = resources.client_bytes(stage.pids)
        if stage.server is not None:
            used.server_bytes_opened = resources.server_bytes(stage.server.pid)
        empty = 0 if self.job.contestant.weighed_by == "file" else self._weigh(stage)
        results: dict[str, PhaseResult] = {}
        for planned in self.job.inputs.passes:
            if planned.phase.preload:
                await self._preload(stage, planned)
            else:
                result = results.setdefault(planned.phase.name, PhaseResult(planned.phase.name))
                await self._pass(stage, planned, result)
        self.cell.phases = list(results.values())
        used.client_bytes_full = resources.client_bytes(stage.pids)
        used.store_bytes = bytes_occupied(stage.folder)
        if stage.server is not None:
            used.server_bytes_full = resources.server_bytes(stage.server.pid)
            used.store_bytes += stage.server.bytes_grown
        self._hold(self._weigh(stage) - empty)
        if self.job.part.empties:
            await self._clear(stage)
        await self._close(stage)

    def _weigh(self, stage: _Stage) -> int:
        """Return the bytes of files, or of a server's data and files; 0 for client memory."""
        weighed = self.job.contestant.weighed_by
        if weighed == "file":
            return bytes_occupied(stage.folder)
        if weighed == "client" or stage.server is None:
            return 0
        try:
            return resources.data_bytes(stage.server.pid) + stage.server.bytes_grown
        except OSError:
            # Only Linux provides it.
            return 0

    def _hold(self, grown: int) -> None:
        """Record the growth of the store, unless it was weighed before the rounds."""
        held = self.cell.held
        if held is None:
            return
        if held.weighed == "file" or (held.weighed == "server" and not held.tries):
            held.bytes = max(grown, 0)
        if not held.bytes and not held.reason:
            held.reason = f"no growth of its {held.weighed} was measured"

    async def _preload(self, stage: _Stage, planned: PlannedPass) -> None:
        loaders = self._owners(stage)
        seconds_max = self.job.form.cell_seconds_max * PRELOAD_SHARE_MAX
        # Nothing is timed, so answers are checked after each block even with several workers.
        pace = self._pace(planned, workers=1)
        for ran in await self._run(loaders, planned, pace, seconds_max, []):
            self.cell.probe.add(ran.verdict)
            self.cell.refused += ran.actions["set"].miss
            if ran.done < planned.operations:
                raise StoppedError(
                    f"{planned.phase.name} reached {ran.done:,} of {planned.operations:,} "
                    f"operations within {seconds_max:g} s"
                )

    async def _pass(self, stage: _Stage, planned: PlannedPass, result: PhaseResult) -> None:
        desk = self.session.desk.fresh("durations")
        timed = planned.measure == "latency"
        paths = [desk / f"{worker}" for worker in range(len(stage.processes))] if timed else []
        pace = self._pace(planned, len(stage.processes))
        seconds_max = self.job.form.phase_seconds_max
        before_ns = resources.cpu_ns(stage.server.pid) if stage.server else 0
        try:
            ran = await self._run(stage.processes, planned, pace, seconds_max, paths)
            if stage.server is not None:
                used_ns = resources.cpu_ns(stage.server.pid) - before_ns
                # The time of a thread that ended meanwhile is lost.
                self.cell.resources.server_cpu_ns += max(used_ns, 0)
            merged = merge(planned, pace, ran, paths)
        finally:
            self.session.desk.discard(desk)
        if timed:
            result.latency = merged
        else:
            result.throughput = merged

    async def _run(
        self,
        processes: Sequence[HostProcess],
        planned: PlannedPass,
        pace: Pace,
        seconds_max: float,
        durations: Sequence[Path],
    ) -> list[Ran]:
        """Let all processes prepare a pass, and start it at the same moment."""
        measured = "" if planned.phase.preload else f" ({planned.measure})"
        step = f"{planned.phase.name}{measured}"
        prepare = Prepare(
            phase=planned.index,
            measure=planned.measure,
            warmup=planned.warmup,
            block=pace.block,
            stretch=pace.stretch,
            batch=planned.phase.batch,
            seconds_max=seconds_max,
        )
        await ask_all(processes, [prepare] * len(processes), Prepared, f"preparation of {step}")
        start_ns = time.monotonic_ns() + BARRIER_NS if len(processes) > 1 else 0
        paths = [str(path) for path in durations] or [""] * len(processes)
        runs = [Run(start_ns, path) for path in paths]
        return await ask_all(processes, runs, Ran, f"run of {step}")

    def _pace(self, planned: PlannedPass, workers: int) -> Pace:
        job, cores = self.job, client_cores(self.cell.placement, self.session.cores)
        count = len(cores) if cores else core_count()
        return pace(planned, job.contestant, job.variant, workers, count)


async def _coroutine(act: Callable[[_Stage], Awaitable[None]], stage: _Stage) -> None:
    await act(stage)


def adapter_of(contestant: Contestant) -> str:
    """Return the path of the adapter that a host loads; empty when it is built into a program."""
    name = host(contestant.host).adapter
    return str(Path(contestant.folder, name)) if name else ""
