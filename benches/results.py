"""What all runs of a row say together.

Owns the verdicts. Must not know how a run is recorded or shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from benches.row import Figure, Goal

#: What is said of a figure over all runs, and of a row.
Verdict = Literal["met", "limit shown", "undecided", "not met", "no goal"]

_WORST_FIRST: tuple[Verdict, ...] = ("not met", "undecided", "limit shown", "met", "no goal")


@dataclass(frozen=True)
class Result:
    """One figure in every run that has it, the oldest first. The latest run's goal applies."""

    figures: tuple[Figure, ...]

    @property
    def latest(self) -> Figure:
        """The figure of the last run."""
        return self.figures[-1]

    @property
    def goal(self) -> Goal | None:
        """The goal, None for a figure without one."""
        return self.latest.goal

    @property
    def pooled(self) -> Figure:
        """The rounds of all runs together: for charts and the overview, not for verdicts."""
        limited = all(figure.limit for figure in self.figures)
        return dataclasses.replace(
            self.latest,
            ours=_joined(figure.ours for figure in self.figures),
            theirs=_joined(figure.theirs for figure in self.figures),
            limit=_joined(figure.limit for figure in self.figures) if limited else (),
            limited_by=self.latest.limited_by if limited else "",
        )

    @property
    def verdict(self) -> Verdict:
        """What all runs say.

        A goal is met, or not met, if every run says so by itself. A limit is shown where the goal
        is not met and the stripped program, which does less than Tuckbox, misses it too.
        """
        goal = self.goal
        if goal is None:
            return "no goal"
        found = {goal.judge(figure.values) for figure in self.figures}
        if len(found) > 1:
            return "undecided"
        (said,) = found
        if said != "not met" or not all(figure.limit for figure in self.figures):
            return said
        limits = {goal.judge(figure.limit_values) for figure in self.figures}
        return "limit shown" if limits == {"not met"} else "not met"


def results_of(runs: Iterable[Sequence[Figure]]) -> list[Result]:
    """Return the figures of some runs, the oldest run first, each with those of its name."""
    found: dict[object, list[Figure]] = {}
    for figures in runs:
        for figure in figures:
            found.setdefault(figure.key, []).append(figure)
    return [Result(tuple(figures)) for figures in found.values()]


def verdict_of(results: Iterable[Result]) -> Verdict:
    """Return the worst verdict of a row's results: the row's own."""
    found = {result.verdict for result in results}
    return next((one for one in _WORST_FIRST if one in found), "no goal")


def _joined(samples: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(sample for of in samples for sample in of)
