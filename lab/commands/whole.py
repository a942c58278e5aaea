"""A whole run: from the machine sheet to the report.

Owns the order of its steps. Must not measure or format anything itself.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rich.console import Console

from lab.report import export, terminal
from lab.report.html import write as write_page
from lab.report.progress import CellProgress
from lab.runner import phases, plan, replay, traces
from lab.runner.catalogue import LAB, PhasesSuite, ReplaySuite, Suite
from lab.runner.guard import Guard
from lab.runner.history import expected_seconds
from lab.runner.judgement import faults, faulty, measured_nothing, noise
from lab.runner.plan import CellName, Choice, name_of
from lab.runner.records import Ending, Header, Records, Settings, begun, now, resumed, unfinished
from lab.runner.results import AnyCell, PhasesCell, ReplayCell
from lab.runner.servers import Servers
from lab.runner.session import Session, Watcher
from lab.runner.summary import Summary, summarise
from lab.runner.workspace import workspace
from rig.cores import cores
from rig.machine import Disturbances, machine

EXIT_FAULT = 1


class Whole:
    """One run of some suites. `planned` has its cells in order."""

    def __init__(
        self,
        console: Console,
        suites: Sequence[Suite],
        choice: Choice,
        *,
        seed: int,
        data: Path | None,
        folder: Path,
        kept_in: Path,
        resume: bool,
        missing_is_fault: bool,
        peers_count: bool,
    ) -> None:
        self._console = console
        self._suites = suites
        self._choice = choice
        self._seed = seed
        self._data = data
        self._folder = folder
        self._kept_in = kept_in
        self._resume = resume
        self._missing_is_fault = missing_is_fault
        self._peers_count = peers_count
        self._cores = cores()
        self._recorded: dict[CellName, AnyCell] = {}
        # The file that the cells are written to, once it is open.
        self.records: str | None = None
        self.recorded_count = 0
        # Read before anything runs: a damaged trace must not end a run after hours.
        self._requests = {
            one.name: traces.requests(one.trace)
            for one in suites
            if isinstance(one, ReplaySuite) and choice.rows(one)
        }
        self.planned = [name for one in suites for name in plan.cells(one, choice, self._cores)]

    async def run(self) -> int:
        """Measure, record and show; return the exit status. Raises OSError and CancelledError."""
        _cancel_on_signals()
        disturbances = Disturbances()
        with ExitStack() as of_records:
            with Guard() as guard, workspace(guard) as desk, workspace(guard, self._data) as data:
                header = self._header(data.medium)
                kept = self._open_records(of_records, header)
                session = Session(
                    seed=self._seed,
                    guard=guard,
                    data=data,
                    desk=desk,
                    servers=Servers(guard, data, desk),
                    cores=self._cores,
                    record=lambda cell: self._keep(kept, cell),
                    repeat=self._repeat(),
                    # Nothing is timed in the smoke form.
                    at_once=header.machine.cores if self._choice.form == "smoke" else 1,
                )
                terminal.show_machine(self._console, header.machine, data.medium, self._seed)
                ran = await self._measure(session)
            return self._finish(kept, ran, disturbances)

    def _header(self, medium: str) -> Header:
        choice = self._choice
        settings = Settings(
            command=sys.argv[1:],
            form=choice.form,
            seed=self._seed,
            suites=list(choice.parts),
            contestants=[one.name for one in choice.contestants],
            data=medium,
            variants=list(choice.variants),
            placements=list(choice.placements),
            rounds=choice.rounds,
        )
        return Header(now(), machine(), settings, list(self._suites), list(choice.contestants))

    def _open_records(self, stack: ExitStack, header: Header) -> Records:
        before = unfinished(self._kept_in, header) if self._resume else None
        if before is None:
            if self._resume:
                self._console.print("No unfinished run has these settings: starting a new run.")
            kept = stack.enter_context(begun(header, self._kept_in))
            self.records = _shown(kept.path)
            return kept
        self.records = _shown(before.path)
        self.recorded_count = len(before.cells)
        self._recorded = {name_of(cell): cell for cell in before.cells}
        self._console.print(
            f"Continuing {_shown(before.path)}: {len(self._recorded):,} of "
            f"{len(self.planned):,} cells are recorded.",
            highlight=False,
        )
        return stack.enter_context(resumed(before))

    def _keep(self, kept: Records, cell: AnyCell) -> None:
        kept.add(cell)
        self.recorded_count += 1

    def _repeat(self) -> tuple[str, ...]:
        """Return the beginning of the command that repeats a cell."""
        command = ["python", "-m", "lab", "run"]
        if self._folder != LAB / "contestants":
            command += ["--contestants", str(self._folder)]
        if self._data is not None:
            command += ["--data", str(self._data)]
        return tuple(command)

    async def _measure(self, session: Session) -> list[_Ran]:
        expected = expected_seconds(self._kept_in, self._choice.form)
        left = [name for name in self.planned if name not in self._recorded]
        with CellProgress(self._console, left, expected) as progress:
            terminal.show_plan(self._console, left, progress.seconds_left())
            return [await self._run_suite(session, suite, progress) for suite in self._suites]

    async def _run_suite(self, session: Session, suite: Suite, watcher: Watcher) -> _Ran:
        ran = _Ran(suite)
        recorded = self._recorded.items()
        if isinstance(suite, PhasesSuite):
            cells = {name: cell for name, cell in recorded if isinstance(cell, PhasesCell)}
            ran.cells = await phases.run(session, suite, self._choice, cells, watcher)
        elif suite.name in self._requests:
            replays = {name: cell for name, cell in recorded if isinstance(cell, ReplayCell)}
            ran.replays = await replay.run(
                session, suite, self._choice, self._requests[suite.name], replays, watcher
            )
        return ran

    def _finish(self, kept: Records, ran: Sequence[_Ran], disturbances: Disturbances) -> int:
        """Show the tables, close the records, write the report; return the exit status.

        A peer's fault is a result. It fails the run only if the peers count.
        """
        summaries: list[Summary] = []
        for one in ran:
            if isinstance(one.suite, PhasesSuite):
                of_suite = summarise(one.suite, self._choice.contestants, one.cells)
                terminal.show_phases(self._console, one.suite, of_suite)
                summaries += of_suite
            elif one.replays:
                terminal.show_replay(self._console, one.suite, one.replays)
        for one in ran:
            if isinstance(one.suite, PhasesSuite) and one.suite.answer is not None:
                terminal.show_answer(self._console, one.suite, summaries)
        replays = [cell for one in ran for cell in one.replays]
        found = faults(summaries, replays, missing_is_fault=self._missing_is_fault)
        names = faulty(summaries, replays, missing_is_fault=self._missing_is_fault)
        if nothing := measured_nothing(summaries, replays):
            found.append("nothing was measured")
        peers = {one.name for one in self._choice.contestants if one.is_peer}
        excused = [] if self._peers_count else [name for name in names if name in peers]
        disturbance = disturbances.until_now()
        noisy = noise(summaries, disturbance)
        kept.add(Ending(now(), disturbance, noisy, found))
        terminal.show_ending(self._console, noisy, disturbance, found, _shown(kept.path))
        page = kept.path.with_suffix(".html")
        write_page(kept.path, page)
        export.write(kept.path, page.with_suffix(".csv"))
        self._console.print(
            f"Report: {_shown(page)}, figures: {_shown(page.with_suffix('.csv'))}",
            highlight=False,
            soft_wrap=True,
        )
        terminal.show_excused(self._console, excused)
        return EXIT_FAULT if nothing or len(names) > len(excused) else 0


@dataclass
class _Ran:
    """The results of one suite."""

    suite: Suite
    cells: list[PhasesCell] = field(default_factory=list)
    replays: list[ReplayCell] = field(default_factory=list)


def _cancel_on_signals() -> None:
    """Make the first interrupt or termination signal unwind the run, so that it cleans up.

    Later signals are ignored until the process ends: cleaning up takes seconds at most.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def cancel(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        loop.call_soon_threadsafe(task.cancel)

    # Not the loop's own handlers: it removes them when it closes, before the last output.
    for number in numbers:
        signal.signal(number, cancel)


def _shown(path: Path) -> str:
    path, here = path.resolve(), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
