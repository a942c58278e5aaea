"""The faults of a run, which of them make it a failure, and the reasons to call it noisy.

Owns these judgements. Must not format or print, nor compute a figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.protocol import Verdict
from lab.runner.intervals import SAMPLES_MIN
from lab.runner.results import ReplayCell, capacity_text
from lab.runner.summary import SPREAD_MAX, Summary
from rig.machine import Disturbance

OTHERS_MAX = 0.05
STOLEN_MAX = 0.01


def faults(
    summaries: Iterable[Summary],
    replays: Iterable[ReplayCell],
    *,
    missing_is_fault: bool = True,
) -> list[str]:
    """Return a sentence for each fault; empty for a clean run.

    An unavailable contestant or a time limit is not a fault, nor is a missing contestant unless
    `missing_is_fault`. Contestants missing for the same reason share one sentence.
    """
    found = []
    missing: dict[str, list[str]] = {}
    for row in summaries:
        name = f"{row.contestant.name} in {row.suite}/{row.part}"
        if row.outcome == "missing":
            missing.setdefault(_without_place(row), []).append(row.contestant.name)
        elif row.outcome == "failed" and row.cells:
            where = f"{row.variant}, {row.placement}, round {row.cells[-1].round}"
            found.append(f"{name} ({where}): {row.reason}")
        if row.contestant.stores:
            found += _faults_of(f"{name} ({row.variant})", row.verdict, row.contestant.excused)
    for cell in replays:
        name = f"{cell.contestant} in {cell.suite} at {capacity_text(cell.capacity)}"
        if cell.outcome == "missing":
            missing.setdefault(cell.reason, []).append(cell.contestant)
        elif cell.outcome == "failed":
            found.append(f"{name}: {cell.reason}")
        found += _faults_of(name, cell.verdict, ())
    if missing_is_fault:
        for reason, names in missing.items():
            found.append(f"{', '.join(dict.fromkeys(names))}: {reason}")
    return list(dict.fromkeys(found))


def faulty(
    summaries: Sequence[Summary],
    replays: Sequence[ReplayCell],
    *,
    missing_is_fault: bool = True,
) -> list[str]:
    """Return the names of the contestants with a fault, in the order of their rows."""
    names = [row.contestant.name for row in summaries] + [cell.contestant for cell in replays]
    return [
        name
        for name in dict.fromkeys(names)
        if faults(
            (row for row in summaries if row.contestant.name == name),
            (cell for cell in replays if cell.contestant == name),
            missing_is_fault=missing_is_fault,
        )
    ]


def measured_nothing(summaries: Iterable[Summary], replays: Iterable[ReplayCell]) -> bool:
    """Return whether no row of the run has a figure."""
    return not (
        any(row.measured for row in summaries)
        or any(cell.outcome == "measured" for cell in replays)
    )


def _without_place(row: Summary) -> str:
    """Return why a row is missing, without the place where it was found missing."""
    return row.cells[-1].reason if row.cells else row.reason.rpartition(" (")[0]


def _faults_of(name: str, verdict: Verdict, excused: Sequence[str]) -> list[str]:
    counts = {
        "wrong values": verdict.wrong,
        "stale values": 0 if "stale" in excused else verdict.stale,
        "lost entries": 0 if "lost" in excused else verdict.lost,
    }
    named = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    if not named:
        return []
    example = f", for example: {verdict.examples[0]}" if verdict.examples else ""
    return [f"{name}: {named}{example}"]


def noise(summaries: Sequence[Summary], disturbance: Disturbance) -> list[str]:
    """Return the reasons to call this run noisy; empty for a quiet run.

    `Summary.noisy` says which rows are noisy.
    """
    judged = [row for row in summaries if row.measured and row.contestant.stores]
    reasons = []
    noisy = [row for row in judged if row.noisy]
    if noisy:
        worst = max(noisy, key=lambda row: row.spread)
        reasons.append(
            f"{len(noisy)} of {len(judged)} rows differ by more than {SPREAD_MAX:.0%} between "
            f"rounds, most of all {worst.contestant.name} in {worst.suite}/{worst.part} "
            f"({worst.variant}, {worst.placement}) by {worst.spread:.0%}"
        )
    if any(row.rounds < SAMPLES_MIN for row in judged):
        reasons.append(f"fewer than {SAMPLES_MIN} rounds cannot show the noise")
    if disturbance.others > OTHERS_MAX:
        reasons.append(f"other programs used {disturbance.others:.0%} of the machine")
    if disturbance.stolen > STOLEN_MAX:
        reasons.append(f"the hypervisor took {disturbance.stolen:.0%} of the machine")
    return reasons
