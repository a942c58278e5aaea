"""The results of all runs of a row together.

Owns the verdicts. Must not know how a run is recorded or shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from benches.row import Figure, Goal

#: The verdict on a figure over all runs, and on a row.
Verdict = Literal["met", "limit shown", "undecided", "not met", "no goal"]

_WORST_FIRST: tuple[Verdict, ...] = ("not met", "undecided", "limit shown", "met", "no goal")


@dataclass(frozen=True)
class Result:
    """A figure in all runs that have it, the oldest first. The goal of the latest run applies."""

    figures: tuple[Figure, ...]

    @property
    def latest(self) -> Figure:
        """The figure of the latest run."""
        return self.figures[-1]

    @property
    def goal(self) -> Goal | None:
        """The goal, None for a figure without one."""
        return self.latest.goal

    @property
    def pooled(self) -> Figure:
        """The rounds of all runs together, for charts and the overview. Not for verdicts."""
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
        """The verdict over all runs.

        A goal is met, or not met, if every single run says so. A limit is shown if the goal is not
        met and the stripped program, which does less than Tuckbox, misses it too.
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
    """Return the figures of some runs, oldest first, grouped by name."""
    found: dict[object, list[Figure]] = {}
    for figures in runs:
        for figure in figures:
            found.setdefault(figure.key, []).append(figure)
    return [Result(tuple(figures)) for figures in found.values()]


def verdict_of(results: Iterable[Result]) -> Verdict:
    """Return the verdict on a row: the worst one of its results."""
    found = {result.verdict for result in results}
    return next((one for one in _WORST_FIRST if one in found), "no goal")


def _joined(samples: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(sample for of in samples for sample in of)
