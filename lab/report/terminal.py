"""The tables on the terminal, 80 columns wide.

Owns their layout, the original's: a table for each contestant, a row for each action. Must not run
anything, nor compute more than the sum of a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.hosts.python.timing import decode
from lab.report.units import duration, ratio, size
from lab.runner.catalogue import ConcurrentSuite, Form, ReplaySuite
from lab.runner.machine import Disturbance, Machine
from lab.runner.results import ReplayCell
from lab.runner.streams import Requests
from lab.runner.summary import NULL_TIMES_MIN, ContestantSummary

_LIVES = {
    "process": "data lives in each process alone: a miss may be a key another process stored",
    "fork": "data is shared by a process and those forked from it",
    "machine": "data is shared by all processes of the machine",
}


def show_machine(console: Console, machine: Machine, data: str, seed: int) -> None:
    """Print what the figures to come depend on."""
    console.print(
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 1e9:.0f} GB, "
        f"{machine.system}, {machine.kernel}, {machine.python}\n"
        f"Data in {data}, removed afterwards. Seed {seed}.",
        highlight=False,
    )


def show_concurrent(
    console: Console, suite: ConcurrentSuite, form: Form, summaries: Sequence[ContestantSummary]
) -> None:
    """Print a table for each contestant, then one that sets them side by side."""
    workload = suite.workload
    counted = workload.processes * (form.operations - form.warmup)
    console.rule(f"{suite.name}: {suite.title}")
    console.print(
        f"After {suite.origin}. {workload.processes} processes, each started anew (exec, no fork), "
        f"{workload.keys:,} keys, {workload.limits.entries:,} entries where a contestant counts "
        f"entries. {counted:,} operations in each of {form.rounds} interleaved rounds. Figures are "
        f"medians of the rounds; Max is the largest of all. Total is the sum of the latencies of "
        f"all processes, as in the original, not elapsed time. Miss of a set: refused; of a "
        f"delete: nothing there. Wrong counts over all rounds.\n",
        highlight=False,
    )
    for summary in summaries:
        console.print(timings(summary), "", highlight=False)
    console.print(side_by_side(summaries), "", highlight=False)
    for line in notes(summaries):
        console.print(line, highlight=False)
    console.print()


def timings(summary: ContestantSummary) -> Table:
    """Return the original's table for one contestant."""
    name = " ".join(filter(None, (summary.contestant.name, summary.version)))
    caption = Text(_LIVES[summary.contestant.lives])
    if not summary.contestant.stores:
        caption = Text("stores nothing: this is what the host's loop and its clock cost")
    if summary.outcome != "measured":
        caption = Text(f"{summary.outcome}: {summary.reason}", style="bold red")
    table = _table(f"Timings for {name}", caption)
    table.show_footer = summary.measured
    table.add_column("Action", footer="Total", min_width=6)
    table.add_column("Count", footer=f"{summary.count:,}", justify="right", min_width=7)
    table.add_column("Miss", justify="right", min_width=7)
    for heading in ("Median", "P90", "P99", "Max"):
        table.add_column(heading, justify="right", min_width=9)
    table.add_column("Total", footer=duration(summary.total_ns), justify="right", min_width=9)
    wrong = sum(line.wrong for line in summary.actions)
    table.add_column("Wrong", footer=_count(wrong), justify="right")
    for line in summary.actions:
        table.add_row(
            line.action,
            f"{line.count:,}",
            f"{line.miss:,}",
            duration(line.median_ns),
            duration(line.p90_ns),
            duration(line.p99_ns),
            duration(line.max_ns),
            duration(line.total_ns),
            _count(line.wrong),
        )
    return table


def side_by_side(summaries: Sequence[ContestantSummary]) -> Table:
    """Return the table of all contestants."""
    table = _table("Side by side")
    table.add_column("Contestant")
    for heading in ("Total", "Spread", "In blocks", "Hits"):
        table.add_column(heading, justify="right")
    for heading in ("Wrong", "Stale", "Lost", "Refused"):
        table.add_column(heading, justify="right")
    null_ns = next((one.operation_ns for one in summaries if not one.contestant.stores), 0.0)
    for one in summaries:
        if not one.measured:
            table.add_row(one.contestant.name, Text(one.outcome, style="bold red"))
            continue
        figures = [duration(one.total_ns), f"{one.spread:.0%}", duration(one.operation_ns)]
        if not one.contestant.stores:
            table.add_row(one.contestant.name, *figures)
            continue
        near_null = one.operation_ns < NULL_TIMES_MIN * null_ns
        table.add_row(
            one.contestant.name + (" *" if near_null else ""),
            *figures,
            ratio(one.hit_ratio),
            _count(one.verdict.wrong),
            _count(one.verdict.stale),
            _count(one.verdict.lost),
            f"{one.refused:,}",
        )
    return table


def notes(summaries: Sequence[ContestantSummary]) -> list[str]:
    """Return what the reader of the side-by-side table must know."""
    lines = [
        "Spread: range of Total over the rounds, by its median. In blocks: median time of a block "
        "of 256 operations, by 256. Hits: of gets. Lost: entries gone from a store that was not "
        "full.",
    ]
    timed = [one.timed for one in summaries if one.measured and one.contestant.stores]
    if timed:
        shares = " to ".join(dict.fromkeys((f"{min(timed):.0%}", f"{max(timed):.0%}")))
        lines.append(
            f"Answers are checked between blocks, so that a worker is under the clock for {shares} "
            f"of that pass; the faster, the less."
        )
    timers = [decode(one.timer) for one in summaries if one.timer]
    if timers:
        p50, p99 = (timers[0].get_value_at_percentile(percent) for percent in (50, 99))
        lines.append(
            f"The clock itself takes {duration(p50)} (P99 {duration(p99)}); each latency contains "
            f"it. Neither it nor null is subtracted."
        )
    null = [one for one in summaries if not one.contestant.stores and one.measured]
    if null:
        lines.append(
            f"* less than {NULL_TIMES_MIN} times null in blocks: much of it is the host's own loop."
        )
    weak = max((one.weak for one in summaries), default=0.0)
    if weak:
        lines.append(f"Weak check: up to {weak:.1%} of the answers had fewer than 8 bytes.")
    excused = [one for one in summaries if one.contestant.excused]
    for one in excused:
        kinds = " and ".join(one.contestant.excused)
        lines.append(f"Known of {one.contestant.name} and no fault of the run: {kinds} (README).")
    return lines


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
    console.print(hit_ratios(suite, cells), "", highlight=False)
    console.print(
        f"Settled: bytes occupied once closed. Peak: the most seen during the run, journals "
        f"included. Difference: points of hit ratio over the best of {references}.\n",
        highlight=False,
    )


def hit_ratios(suite: ReplaySuite, cells: Sequence[ReplayCell]) -> Table:
    """Return the table of a replay: a section for each capacity."""
    table = _table("Hit ratios")
    table.add_column("Capacity", justify="right")
    table.add_column("Contestant")
    for heading in ("Limit", "Settled", "Peak", "Hit ratio", "Difference", "Wrong"):
        table.add_column(heading, justify="right")
    for capacity, group in groupby(cells, key=lambda cell: cell.capacity):
        same = list(group)
        best = max(
            (one.hit_ratio for one in same if one.requests and _refers(suite, one)), default=None
        )
        for index, cell in enumerate(same):
            label = f"{capacity:.0%}" if index == 0 else ""
            table.add_row(label, cell.contestant, *_replay_figures(suite, cell, best))
        table.add_section()
    return table


def _replay_figures(suite: ReplaySuite, cell: ReplayCell, best: float | None) -> list[str | Text]:
    if cell.outcome != "measured":
        return [size(cell.bytes_max), Text(cell.outcome, style="bold red")]
    difference: str | Text = ""
    if best is None:
        difference = Text("no reference", style="yellow")
    elif not cell.equal:
        difference = Text("not equal", style="yellow")
    elif not _refers(suite, cell):
        difference = f"{(cell.hit_ratio - best) * 100:+.2f}"
    return [
        size(cell.bytes_max),
        size(cell.bytes_settled),
        size(cell.bytes_peak),
        ratio(cell.hit_ratio),
        difference,
        _count(cell.verdict.wrong),
    ]


def _refers(suite: ReplaySuite, cell: ReplayCell) -> bool:
    return cell.contestant in suite.replay.references


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


def _table(title: str, caption: Text | None = None) -> Table:
    return Table(
        title=Text(title, style="bold"),
        caption=caption,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )


def _count(faults: int) -> Text:
    return Text(f"{faults:,}", style="bold red" if faults else "")
