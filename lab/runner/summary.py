"""What the cells say together: medians of rounds, their spread, faults, and whether it was noisy.

Owns every figure that is computed from more than one cell. Must not format or print.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from lab.hosts.python.timing import decode
from lab.protocol import ACTIONS, Action, Verdict
from lab.runner.catalogue import Contestant
from lab.runner.machine import Disturbance
from lab.runner.results import ConcurrentCell, Outcome, Pass, ReplayCell

SPREAD_MAX = 0.10
OTHERS_MAX = 0.05
STOLEN_MAX = 0.01
ROUNDS_MIN = 3
NULL_TIMES_MIN = 3


@dataclass(frozen=True)
class ActionSummary:
    """One line of a table: medians over the rounds, but the largest of all for `max_ns`."""

    action: Action
    count: int
    miss: int
    median_ns: float
    p90_ns: float
    p99_ns: float
    max_ns: int
    total_ns: float
    wrong: int


@dataclass(frozen=True)
class ContestantSummary:
    """All rounds of one contestant.

    `total_ns` is the sum of all latencies of all processes, median of rounds; `spread` is the range
    of that sum over the rounds by its median. `operation_ns` is the median block of the throughput
    pass by its 256 operations; `timed` the share of that pass that was under the clock; `weak` the
    share of answers too short for a strong check.
    """

    contestant: Contestant
    version: str
    outcome: Outcome
    reason: str
    rounds: int
    actions: tuple[ActionSummary, ...]
    count: int
    total_ns: float
    spread: float
    wall_ns: float
    operation_ns: float
    timed: float
    hit_ratio: float
    verdict: Verdict
    weak: float
    refused: int
    timer: str

    @property
    def measured(self) -> bool:
        """Whether at least one round gave figures."""
        return self.rounds > 0


def summarise(contestant: Contestant, cells: Iterable[ConcurrentCell]) -> ContestantSummary:
    """Return the summary of a contestant's cells, of which there is at least one."""
    own = [cell for cell in cells if cell.contestant == contestant.name]
    last = own[-1]
    rounds = [(cell, cell.throughput, cell.latency) for cell in own]
    passes = [(c, t, one) for c, t, one in rounds if t is not None and one is not None]
    latencies = [latency for _, _, latency in passes]
    throughputs = [throughput for _, throughput, _ in passes]
    totals = [_total_ns(latency) for latency in latencies]
    verdict = Verdict()
    for cell in own:
        verdict.add(cell.probe)
    for one in (*throughputs, *latencies):
        verdict.add(one.verdict)
    actions = tuple(_action(action, throughputs, latencies) for action in ACTIONS if latencies)
    return ContestantSummary(
        contestant=contestant,
        version=last.version,
        outcome=last.outcome,
        reason=last.reason,
        rounds=len(passes),
        actions=actions,
        count=sum(line.count for line in actions),
        total_ns=_median(totals),
        spread=(max(totals) - min(totals)) / _median(totals) if len(totals) > 1 else 0.0,
        wall_ns=_median([latency.wall_ns for latency in latencies]),
        operation_ns=_median([cell.block_ns for cell, _, _ in passes]) / 256,
        timed=_median([_timed(throughput) for throughput in throughputs]),
        hit_ratio=1 - actions[0].miss / actions[0].count if actions and actions[0].count else 0.0,
        verdict=verdict,
        weak=verdict.weak / max(_answers(throughputs) + _answers(latencies), 1),
        refused=sum(cell.refused for cell in own),
        timer=last.timer,
    )


def _action(
    action: Action, throughputs: Sequence[Pass], latencies: Sequence[Pass]
) -> ActionSummary:
    tallies = [latency.actions[action] for latency in latencies]
    histograms = [decode(tally.histogram) for tally in tallies]
    wrong = sum(tally.wrong for tally in tallies)
    wrong += sum(throughput.actions[action].wrong for throughput in throughputs)

    def percentile_ns(percent: float) -> float:
        return _median([one.get_value_at_percentile(percent) for one in histograms])

    return ActionSummary(
        action=action,
        count=tallies[0].count,
        miss=round(_median([tally.miss for tally in tallies])),
        median_ns=percentile_ns(50),
        p90_ns=percentile_ns(90),
        p99_ns=percentile_ns(99),
        max_ns=max(one.get_max_value() for one in histograms),
        total_ns=_median([tally.total_ns for tally in tallies]),
        wrong=wrong,
    )


def _answers(passes: Iterable[Pass]) -> int:
    gets = [one.actions["get"] for one in passes]
    return sum(tally.count - tally.miss for tally in gets)


def _total_ns(latency: Pass) -> int:
    return sum(tally.total_ns for tally in latency.actions.values())


def _timed(throughput: Pass) -> float:
    return throughput.timed_ns / throughput.workers_ns


def _median(figures: Sequence[float]) -> float:
    return float(median(figures)) if figures else 0.0


def faults(summaries: Iterable[ContestantSummary], replays: Iterable[ReplayCell]) -> list[str]:
    """Return a sentence for everything that makes the run a failure."""
    found = []
    for one in summaries:
        name = one.contestant.name
        if one.outcome != "measured":
            found.append(f"{name}: {one.reason}")
        if one.contestant.stores:
            found += _faults_of(name, one.verdict, one.contestant.excused)
    for cell in replays:
        name = f"{cell.contestant} at {cell.capacity:.0%}"
        if cell.outcome == "failed":
            found.append(f"{name}: {cell.reason}")
        elif cell.outcome == "missing":
            found.append(f"{cell.contestant}: {cell.reason}")
        found += _faults_of(name, cell.verdict, ())
    # One that is missing is missing in every suite and at every capacity: once is enough.
    return list(dict.fromkeys(found))


def _faults_of(name: str, verdict: Verdict, excused: Sequence[str]) -> list[str]:
    counts = {
        "wrong values": verdict.wrong,
        "stale values": 0 if "stale" in excused else verdict.stale,
        "lost entries": 0 if "lost" in excused else verdict.lost,
    }
    named = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    if not named:
        return []
    example = f", for one: {verdict.examples[0]}" if verdict.examples else ""
    return [f"{name}: {named}{example}"]


def noise(summaries: Iterable[ContestantSummary], disturbance: Disturbance) -> list[str]:
    """Return the reasons why this run may not be called quiet; none for a quiet one."""
    # A single pre-emption outweighs everything that null does: its spread is shown, not judged.
    measured = [one for one in summaries if one.measured and one.contestant.stores]
    reasons = [
        f"{one.contestant.name} differs by {one.spread:.0%} between rounds"
        for one in measured
        if one.spread > SPREAD_MAX
    ]
    if any(one.rounds < ROUNDS_MIN for one in measured):
        reasons.append(f"fewer than {ROUNDS_MIN} rounds cannot show what noise there was")
    if disturbance.others > OTHERS_MAX:
        reasons.append(f"other programs used {disturbance.others:.0%} of the machine")
    if disturbance.stolen > STOLEN_MAX:
        reasons.append(f"the hypervisor took {disturbance.stolen:.0%} of the machine")
    return reasons
