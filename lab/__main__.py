"""The command line: `python -m lab demo`.

Owns the options and the order of a whole run. Must not measure or format anything itself.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from lab.report import terminal
from lab.report.progress import CellProgress
from lab.runner import catalogue, concurrent, replay, streams
from lab.runner.catalogue import ConcurrentSuite, Contestant, ReplaySuite
from lab.runner.machine import Disturbances, machine
from lab.runner.records import Ending, Header, Records, Settings, now, records
from lab.runner.results import ReplayCell
from lab.runner.session import Session
from lab.runner.summary import ContestantSummary, faults, noise, summarise
from lab.runner.workspace import Workspace, workspace

EXIT_FAULT = 1
EXIT_INTERRUPTED = 130
WIDTH_ELSEWHERE = 100


@click.group()
def main() -> None:
    """Compare caches on this machine, with every answer checked."""


@main.command()
@click.option("--quick/--full", default=True, help="A minute, or the original's operation counts.")
@click.option(
    "--contestant", "names", multiple=True, metavar="NAME", help="Only this one; repeatable."
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**63 - 1))
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Keep the stores in this folder while they are measured.",
)
@click.option(
    "--contestants",
    "folder",
    default=catalogue.LAB / "contestants",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Look for contestants in this folder.",
)
@click.option(
    "--records",
    "kept_in",
    default=catalogue.LAB / "records",
    type=click.Path(file_okay=False, path_type=Path),
    help="Add the records of this run to this folder.",
)
def demo(
    quick: bool,
    names: tuple[str, ...],
    seed: int,
    data: Path | None,
    folder: Path,
    kept_in: Path,
) -> None:
    """Run DiskCache's Django benchmark, then compare hit ratios on a trace."""
    try:
        chosen = _choose(catalogue.contestants(folder), names)
        django = catalogue.suite("django", ConcurrentSuite)
        web07 = catalogue.suite("web07", ReplaySuite)
    except catalogue.CatalogueError as error:
        raise click.ClickException(str(error)) from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_ELSEWHERE)
    try:
        with workspace(data) as space:
            header = _header(quick, chosen, seed, space)
            with records(header, kept_in) as kept:
                run = _Demo(console, chosen, django, web07, quick, Session(seed, space, kept.add))
                sys.exit(asyncio.run(run.run(header, kept)))
    except OSError as error:
        raise click.ClickException(f"the run was broken off, its data removed: {error}") from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Interrupted: everything started was stopped, all data was removed.")
        sys.exit(EXIT_INTERRUPTED)


def _choose(known: dict[str, Contestant], names: tuple[str, ...]) -> list[Contestant]:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.BadParameter(
            f"no contestant is called {', '.join(unknown)}; known are {', '.join(known)}",
            param_hint="--contestant",
        )
    chosen = [one for name, one in known.items() if not names or name in names]
    # What stores nothing is no rival: it stands below the others.
    return sorted(chosen, key=lambda one: not one.stores)


def _header(quick: bool, chosen: list[Contestant], seed: int, space: Workspace) -> Header:
    settings = Settings(
        command=sys.argv[1:],
        form="quick" if quick else "full",
        seed=seed,
        contestants=[one.name for one in chosen],
        data=space.medium,
    )
    return Header(now(), machine(), settings)


@dataclass(frozen=True)
class _Demo:
    """The demo: both suites, one after the other."""

    console: Console
    chosen: list[Contestant]
    django: ConcurrentSuite
    web07: ReplaySuite
    quick: bool
    session: Session

    async def run(self, header: Header, kept: Records) -> int:
        """Run, show, record; return the exit status."""
        _cancel_on_signals()
        disturbances = Disturbances()
        settings = header.settings
        terminal.show_machine(self.console, header.machine, settings.data, settings.seed)
        summaries = await self._concurrent()
        cells = await self._replay()
        disturbance = disturbances.until_now()
        noisy, found = noise(summaries, disturbance), faults(summaries, cells)
        kept.add(Ending(now(), disturbance, noisy, found))
        terminal.show_ending(self.console, noisy, disturbance, found, _shown(kept.path))
        return EXIT_FAULT if found else 0

    async def _concurrent(self) -> list[ContestantSummary]:
        suite = self.django
        form = suite.quick if self.quick else suite.full
        taking_part = [one for one in self.chosen if suite.name in one.suites]
        if not taking_part:
            return []
        planned = [one.name for one in taking_part] * form.rounds
        with CellProgress(self.console, suite.name, planned) as progress:
            cells = await concurrent.run(self.session, suite, form, taking_part, progress)
        summaries = [summarise(one, cells) for one in taking_part]
        terminal.show_concurrent(self.console, suite, form, summaries)
        return summaries

    async def _replay(self) -> list[ReplayCell]:
        suite = self.web07
        taking_part = [one for one in self.chosen if suite.name in one.suites]
        if not taking_part:
            return []
        requests = streams.requests(suite)
        planned = [one.name for one in taking_part] * len(suite.replay.capacities)
        with CellProgress(self.console, suite.name, planned) as progress:
            cells = await replay.run(self.session, suite, requests, taking_part, progress)
        terminal.show_replay(self.console, suite, requests, cells)
        return cells


def _cancel_on_signals() -> None:
    """Make an interrupt and a request to terminate unwind the run, so that it cleans up."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


if __name__ == "__main__":
    main(prog_name="lab")
