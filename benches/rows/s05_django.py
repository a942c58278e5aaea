"""S5: Tuckbox's Django backend, compared with Django's LocMemCache and DiskCache's backend.

Owns which figures of the lab are compared. The lab's suite `django/main` is the benchmark in
DiskCache's documentation, with every answer verified. Contestants take turns, each in eight new
processes. The mean time is over all operations in all processes, because a contestant that reaches
the lab's time limit makes fewer. Percentiles are over gets, sets and deletes together.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped, unused-ignore]

from benches.row import Conditions, Figure, Goal, Row
from lab.protocol import Verdict
from lab.runner import records
from lab.runner.histograms import decode
from lab.runner.results import Pass, PhasesCell
from rig.sources import ROOT
from rig.stamps import WrongAnswerError

_OURS = "django_tuckbox"
_LOCMEM = "django_locmem"
_DISKCACHE = "django_diskcache"
_NAMES = {
    _OURS: "TuckboxCache",
    _LOCMEM: "LocMemCache, Django",
    _DISKCACHE: "DjangoCache, DiskCache",
}
PART = "django/main"
# Every contestant has room for all entries: a miss is cheaper than a hit.
VARIANT = "all fit"
_PHASE = "mix"
# A round takes half a minute, in the lab's quick form a quarter of a minute.
_ROUNDS_MAX, _ROUNDS_MAX_QUICK = 6, 3
_PERCENT = 99.0


class LabError(Exception):
    """The lab could not measure; the message has its output."""


def measure(conditions: Conditions) -> list[Figure]:
    """Have the lab measure the three backends."""
    kept_in = conditions.disk / "records"
    rounds = min(conditions.rounds, _ROUNDS_MAX_QUICK if conditions.is_quick else _ROUNDS_MAX)
    command = [sys.executable, "-m", "lab", "run", PART, "--variant", VARIANT]
    command += [f"--{'quick' if conditions.is_quick else 'full'}"]
    command += ["--rounds", str(rounds), "--records", str(kept_in)]
    command += ["--data", str(conditions.tmpfs)]
    for name in _NAMES:
        command += ["--contestant", name]
    conditions.progress(f"the lab's suite {PART}, {VARIANT}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = records.files(kept_in)
    if not found:
        raise LabError(f"the lab wrote no record: {_last_words(done)}")
    run = records.read(found[0])
    cells = [cell for cell in run.cells if isinstance(cell, PhasesCell)]
    return figures_of(cells, rounds, _last_words(done))


def figures_of(cells: list[PhasesCell], rounds: int, said: str) -> list[Figure]:
    """Return the figures of the lab's cells. `said` is the lab's output.

    Raises WrongAnswerError and LabError.
    """
    of: dict[str, list[Pass]] = {name: [] for name in _NAMES}
    peers = {}
    for cell in sorted(cells, key=lambda cell: cell.round):
        if cell.outcome != "measured":
            raise LabError(f"{cell.contestant}: {cell.outcome}: {cell.reason}")
        one = next(phase.latency for phase in cell.phases if phase.name == _PHASE)
        if one is None:
            raise LabError(f"{cell.contestant} has no times of single operations")
        _refuse_wrong(cell, [cell.probe, *_verdicts(cell)])
        of[cell.contestant].append(one)
        peers[cell.contestant] = f"{_NAMES[cell.contestant]} {cell.version}"
    for name, passes in of.items():
        if len(passes) != rounds:
            raise LabError(f"{name} has {len(passes)} of {rounds} rounds: {said}")
    total = {name: tuple(map(_operation_us, passes)) for name, passes in of.items()}
    slow = {name: tuple(map(_percentile_us, passes)) for name, passes in of.items()}
    what = "mean time per operation"
    at_most_equal = Goal("at most", 1.0)
    return [
        Figure(
            what, "us", total[_OURS], peers[_LOCMEM], total[_LOCMEM], "ours / theirs", at_most_equal
        ),
        Figure(
            what,
            "us",
            total[_OURS],
            peers[_DISKCACHE],
            total[_DISKCACHE],
            "theirs / ours",
            Goal("at least", 7.0),
        ),
        Figure(
            "p99", "us", slow[_OURS], peers[_LOCMEM], slow[_LOCMEM], "ours / theirs", at_most_equal
        ),
        Figure(
            "p99", "us", slow[_OURS], peers[_DISKCACHE], slow[_DISKCACHE], "theirs / ours", None
        ),
    ]


def _verdicts(cell: PhasesCell) -> Iterable[Verdict]:
    for phase in cell.phases:
        for one in (phase.throughput, phase.latency):
            if one is not None:
                yield one.verdict


def _refuse_wrong(cell: PhasesCell, verdicts: list[Verdict]) -> None:
    """Raise WrongAnswerError for wrong answers. Only Tuckbox may not lose entries either."""
    every = Verdict()
    for one in verdicts:
        every.add(one)
    lost = every.lost + every.stale if cell.contestant == _OURS else 0
    if every.wrong or lost:
        raise WrongAnswerError(
            f"{cell.contestant}, round {cell.round}: {every.wrong} wrong, {every.stale} stale, "
            f"{every.lost} lost: {'; '.join(every.examples)}"
        )


def _operation_us(one: Pass) -> float:
    count = sum(stat.tally.count for stat in one.actions.values())
    return sum(stat.total_ns for stat in one.actions.values()) / count / 1e3


def _percentile_us(one: Pass) -> float:
    histograms: list[HdrHistogram] = [
        decode(stat.histogram) for stat in one.actions.values() if stat.histogram
    ]
    first, *others = histograms
    for other in others:
        first.add(other)
    return float(first.get_value_at_percentile(_PERCENT)) / 1e3


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout + done.stderr).strip()[-2000:]


ROW = Row(
    id="S5",
    title="Django, 8 processes",
    text="the lab's Django suite: 1,100 keys that all fit, 90 % gets, 9 % sets, 1 % deletes",
    measure=measure,
)
