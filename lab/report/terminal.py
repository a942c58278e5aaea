"""What a run prints: the machine, a short table for each suite, the answer, and the faults.

Owns the order. Must not run anything, nor compute a figure. Everything else is on the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from lab.report import brief, tables
from lab.report.answer import answers, default_question
from lab.report.layouts.remarks import absent
from lab.report.reading import source_of
from lab.report.units import ratio
from lab.runner.catalogue import PhasesSuite, ReplaySuite
from lab.runner.plan import CellName
from lab.runner.results import ReplayCell
from lab.runner.summary import Summary
from rig.machine import Disturbance, Machine


def show_machine(console: Console, machine: Machine, data: str, seed: int) -> None:
    """Print what the figures depend on: machine, medium and seed."""
    console.print(
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 1e9:.0f} GB, "
        f"{machine.system}, {machine.kernel}, {machine.python}\n"
        f"Stores in {data}, removed afterwards. Seed {seed}.",
        highlight=False,
    )


def show_plan(console: Console, planned: Sequence[CellName], seconds: float | None) -> None:
    """Print how many cells each suite has, and the expected time if an earlier run is known."""
    counts = Counter(name.suite for name in planned)
    listed = ", ".join(f"{suite} {count:,}" for suite, count in counts.items())
    minutes = "" if seconds is None else f", about {max(round(seconds / 60), 1)} minutes"
    console.print(f"{len(planned):,} cells to measure{minutes}: {listed}.\n", highlight=False)


def show_answer(console: Console, suite: PhasesSuite, summaries: Sequence[Summary]) -> None:
    """Print the best cache of each language for the question that the page asks first."""
    found = answers(suite, summaries)[default_question(suite)]
    if found.first is None:
        return
    console.rule("Which cache?")
    console.print(
        f"Shared by all processes on one machine, values of {found.question.size}: "
        f"{found.first.name}. {found.reason}\n",
        highlight=False,
    )
    tables.show(console, brief.leaders(found))


def show_phases(console: Console, suite: PhasesSuite, summaries: Sequence[Summary]) -> None:
    """Print the short table of a suite, and the contestants without figures."""
    short = brief.table(suite, summaries)
    if short is not None:
        tables.show(console, short)
        cells = [cell for row in summaries for cell in row.cells]
        console.print(f"Operations of {suite.name}: {source_of(cells)}.\n", highlight=False)
    without = absent(summaries)
    if without is not None:
        tables.show(console, without)


def show_replay(console: Console, suite: ReplaySuite, cells: Sequence[ReplayCell]) -> None:
    """Print the table of hit ratios."""
    tables.show(console, brief.replayed(suite, cells))
    console.print(
        f"Requests of {suite.name}: {source_of(cells)}. A cache that never evicts would reach "
        f"{ratio(suite.trace.hit_ratio_max)}.\n",
        highlight=False,
    )


def show_ending(
    console: Console,
    noise: Sequence[str],
    disturbance: Disturbance,
    faults: Sequence[str],
    path: str,
) -> None:
    """Print whether the run was quiet, its faults, and where its records are."""
    if noise:
        console.print(Text("Noisy run: ", style="bold yellow"), "; ".join(noise), ".", sep="")
    else:
        console.print(
            f"Quiet run: other programs used {disturbance.others:.1%} of the machine.",
            highlight=False,
        )
    for fault in faults:
        console.print(Text("Fault: ", style="bold red"), Text(fault), sep="")
    console.print(f"Records: {path}", highlight=False, soft_wrap=True)


def show_excused(console: Console, names: Sequence[str]) -> None:
    """Print whose faults above leave the exit status as it is."""
    if names:
        console.print(
            f"Faults of other caches do not change the exit status: {', '.join(names)}.",
            highlight=False,
            soft_wrap=True,
        )
