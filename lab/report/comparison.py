"""Compares two runs: which rows of the second are faster or slower than in the first.

Owns that verdict. Must not print.

The interval of a ratio divides the farthest bounds of both intervals. It covers the true ratio at
least as often as both intervals cover their medians together. A row is undecided if the interval
of its ratio contains 1, or if a run has too few rounds for an interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from lab.report.reading import suites_of
from lab.runner.records import Run
from lab.runner.summary import Figure, Summary

Verdict = Literal["faster", "slower", "undecided"]
_Name = tuple[str, str, str, str, str, str]


@dataclass(frozen=True)
class Compared:
    """One phase of one row in both runs: the rate of the second divided by that of the first.

    `low` and `high` are the interval of the ratio, None where a run has fewer than six rounds;
    `coverage` is the least probability that it contains the true ratio.
    """

    suite: str
    part: str
    variant: str
    contestant: str
    placement: str
    phase: str
    first: Figure
    second: Figure
    ratio: float
    low: float | None
    high: float | None
    coverage: float | None

    @property
    def verdict(self) -> Verdict:
        """Whether the second run is faster, slower, or neither for certain."""
        if self.low is None or self.high is None or self.low <= 1 <= self.high:
            return "undecided"
        return "faster" if self.low > 1 else "slower"


def compare(first: Run, second: Run) -> list[Compared]:
    """Return the phases that both runs measured, the largest change first."""
    before = dict(_rates(first))
    found = [_compared(name, before[name], rate) for name, rate in _rates(second) if name in before]
    return sorted(found, key=lambda one: -max(one.ratio, 1 / max(one.ratio, 1e-9)))


def differences(first: Run, second: Run) -> list[str]:
    """Return a sentence for each difference that makes the comparison doubtful."""
    found = []
    own, other = first.header, second.header
    if own.settings.form != other.settings.form:
        found.append(f"The forms differ: {own.settings.form} and {other.settings.form}.")
    if own.settings.seed != other.settings.seed:
        found.append("The seeds differ, so the operations differ too.")
    if (own.machine.cpu, own.machine.cores) != (other.machine.cpu, other.machine.cores):
        found.append(f"The processors differ: {own.machine.cpu} and {other.machine.cpu}.")
    if own.settings.data != other.settings.data:
        found.append(f"The stores were in {own.settings.data} and in {other.settings.data}.")
    suites = {one.name: one for one in own.suites}
    changed = [one.name for one in other.suites if suites.get(one.name, one) != one]
    if changed:
        found.append(f"The definitions of these suites differ: {', '.join(changed)}.")
    return found


def _rates(run: Run) -> Iterator[tuple[_Name, Figure]]:
    for suite in suites_of(run):
        yield from _of_suite(suite.summaries)


def _of_suite(summaries: Iterable[Summary]) -> Iterator[tuple[_Name, Figure]]:
    for row in summaries:
        for phase in row.phases:
            name = (row.suite, row.part, row.variant, row.contestant.name, row.placement)
            yield (*name, phase.name), phase.main.rate


def _compared(name: _Name, first: Figure, second: Figure) -> Compared:
    ratio = second.median / max(first.median, 1e-9)
    low = high = coverage = None
    own, other = first.interval, second.interval
    if own is not None and other is not None:
        low, high = other.low / max(own.high, 1e-9), other.high / max(own.low, 1e-9)
        coverage = own.coverage + other.coverage - 1
    return Compared(*name, first, second, ratio, low, high, coverage)
