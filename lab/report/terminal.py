"""What a run prints when a suite has ended: the original's tables, then what they left out.

Owns the order. Must not run anything, nor compute a figure.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from lab.report import tables
from lab.report.layouts import replay, sheets
from lab.report.layouts.remarks import counted
from lab.report.layouts.rows import distinct
from lab.report.model import Sheet
from lab.report.units import brief, ratio
from lab.runner.catalogue import Form, PhasesSuite, ReplaySuite
from lab.runner.histograms import decode
from lab.runner.machine import Disturbance, Machine
from lab.runner.results import ReplayCell
from lab.runner.summary import Summary
from lab.runner.traces import Requests


def show_machine(console: Console, machine: Machine, data: str, seed: int) -> None:
    """Print what the figures to come depend on."""
    console.print(
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 1e9:.0f} GB, "
        f"{machine.system}, {machine.kernel}, {machine.python}\n"
        f"Data in {data}, removed afterwards. Seed {seed}.",
        highlight=False,
    )


def show_phases(
    console: Console, suite: PhasesSuite, form: Form, summaries: Sequence[Summary]
) -> None:
    """Print everything there is to say of a suite, part by part."""
    console.rule(f"{suite.name}: {suite.title}")
    rounds = "one round" if form.rounds == 1 else f"{form.rounds} interleaved rounds"
    share = "" if form.operations == 1 else f", {form.operations:.3g} of the original's operations"
    console.print(
        f"After {suite.origin}. {rounds}{share}; {counted(summaries)}. Figures are medians of the "
        f"rounds. 1c: client and server on one core, 2c: on two.\n",
        highlight=False,
    )
    for sheet in sheets(suite, summaries):
        _show_sheet(console, sheet)
    console.print(Text("What the original measured", style="bold"))
    console.print(Padding(Text(" ".join(suite.audit.split())), (0, 0, 1, 2)))
    for line in _clocks(summaries):
        console.print(line, highlight=False)


def _show_sheet(console: Console, sheet: Sheet) -> None:
    console.print(Text(f"{sheet.title}\n", style="bold underline"))
    for table in (*sheet.tables, sheet.corrected, sheet.resources, sheet.absent):
        if table is not None and table.rows and not table.minor:
            tables.show(console, table)
    for note in sheet.notes:
        console.print(Text(note))
    console.print()


def _clocks(summaries: Sequence[Summary]) -> list[str]:
    clocks = []
    for row in summaries:
        if row.measured and row.timer:
            timer = decode(row.timer)
            p50, p99 = (timer.get_value_at_percentile(percent) for percent in (50, 99))
            clocks.append((row.contestant.host, f"{brief(p50)} (P99 {brief(p99)})"))
    said = [f"{host} {cost}" for host, cost in dict(clocks).items()]
    if not said:
        return []
    return [f"The clock itself takes, and each latency contains it: {', '.join(distinct(said))}.\n"]


def show_replay(
    console: Console, suite: ReplaySuite, requests: Requests, cells: Sequence[ReplayCell]
) -> None:
    """Print the table of hit ratios."""
    console.rule(f"{suite.name}: {suite.title}")
    kind = "Not a recorded trace but" if requests.generated else "Trace:"
    references = " and ".join(suite.replay.references)
    console.print(
        f"{kind} {requests.source}. One process looks up and stores on a miss; values of "
        f"{suite.replay.value_bytes:,} bytes. A cache that never forgets hits "
        f"{ratio(requests.hit_ratio_max)}. Capacity: share of the bytes of all distinct values. "
        f"{references} have that as their limit; the limit of the others is the smallest number "
        f"of bytes measured for those.\n",
        highlight=False,
    )
    tables.show(console, replay.table(suite, cells))


def show_ending(
    console: Console,
    noise: Sequence[str],
    disturbance: Disturbance,
    faults: Sequence[str],
    path: str,
) -> None:
    """Print whether the run was quiet, what was wrong with it, and where its records are."""
    if noise:
        console.print(Text("A noisy run: ", style="bold yellow"), "; ".join(noise), ".", sep="")
    else:
        console.print(
            f"A quiet run: other programs used {disturbance.others:.1%} of the machine.",
            highlight=False,
        )
    for fault in faults:
        console.print(Text("Fault: ", style="bold red"), Text(fault), sep="")
    console.print(f"Records: {path}", highlight=False, soft_wrap=True)
