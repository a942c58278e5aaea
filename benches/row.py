"""A row: one goal, how it is measured, and what came out.

Owns these types and every judgement on figures. Must not time, start or print anything.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Relation = Literal["ours / theirs", "theirs / ours", "ours"]

#: What is said of a figure, and of a row. `told` is that of a figure without a goal.
Verdict = Literal["met", "limit shown", "not met", "told"]

_WORST_FIRST: tuple[Verdict, ...] = ("not met", "limit shown", "met", "told")


class WrongAnswerError(Exception):
    """Tuckbox or a peer gave another answer than it should: nothing of the row is to be believed.

    The message says who, to what, and what the answer was.
    """


@dataclass(frozen=True)
class Goal:
    """A bound of `Figure.value`, in its unit; both senses include the bound."""

    sense: Literal["at most", "at least"]
    bound: float

    def is_met_by(self, value: float) -> bool:
        """Return whether a value keeps the bound."""
        return value <= self.bound if self.sense == "at most" else value >= self.bound


@dataclass(frozen=True)
class Figure:
    """Samples of ours and of one peer, taken in the same rounds.

    Attributes:
        what: What was done, as in "same keys".
        unit: The unit of the samples: "ns", "us", "ms", "bytes", "MB/s" ...
        ours: One sample a round.
        peer: Who it is compared with, with its version where it has one; "" for an absolute figure.
        theirs: The peer's samples of the same rounds; () for an absolute figure.
        relation: What `value` is.
        goal: The bound of `value`; None where it is told for information.
        at: The number of entries, for a figure that is a point of a curve; figures of the same
            curve have the same `what`.
        along: What `at` counts, where that is something else than entries.
        limit: Samples, of the same rounds and in place of `ours`, of a stripped program that does
            only a named part of the work; () where there is none.
        limited_by: What that program does; "" where there is none.

    Raises:
        ValueError: The samples do not belong together.
    """

    what: str
    unit: str
    ours: tuple[float, ...]
    peer: str
    theirs: tuple[float, ...]
    relation: Relation
    goal: Goal | None
    at: int | None = None
    limit: tuple[float, ...] = ()
    limited_by: str = ""
    along: str = "entries"

    def __post_init__(self) -> None:
        """Refuse samples that do not belong together."""
        if not self.ours:
            raise ValueError(f"{self.what!r} has no samples")
        is_absolute = self.relation == "ours"
        if is_absolute != (not self.theirs) or is_absolute != (not self.peer):
            raise ValueError(f"{self.what!r}: a ratio has a peer with samples, nothing else has")
        if self.theirs and len(self.theirs) != len(self.ours):
            raise ValueError(f"{self.what!r}: ours and theirs are not of the same rounds")
        if bool(self.limit) != bool(self.limited_by) or len(self.limit) not in {0, len(self.ours)}:
            raise ValueError(f"{self.what!r}: the limit is named and is of the same rounds")

    @property
    def value(self) -> float:
        """The ratio of the medians, or the median of an absolute figure."""
        return self._related(statistics.median(self.ours), _median(self.theirs))

    @property
    def limit_value(self) -> float | None:
        """What `value` would be if the stripped program were ours; None where there is none."""
        if not self.limit:
            return None
        return self._related(statistics.median(self.limit), _median(self.theirs))

    @property
    def values(self) -> tuple[float, ...]:
        """The value of each round by itself."""
        theirs = self.theirs or (0.0,) * len(self.ours)
        return tuple(self._related(*pair) for pair in zip(self.ours, theirs, strict=True))

    @property
    def least(self) -> float:
        """The least of the rounds' own values."""
        return min(self.values)

    @property
    def most(self) -> float:
        """The greatest of the rounds' own values."""
        return max(self.values)

    @property
    def is_met(self) -> bool | None:
        """Whether the value keeps the goal; None without a goal."""
        return None if self.goal is None else self.goal.is_met_by(self.value)

    @property
    def verdict(self) -> Verdict:
        """What is to be said of it.

        A limit is shown when the stripped program, which does less than we do, misses the goal too.
        """
        if self.goal is None:
            return "told"
        if self.goal.is_met_by(self.value):
            return "met"
        limit = self.limit_value
        return "limit shown" if limit is not None and not self.goal.is_met_by(limit) else "not met"

    def _related(self, ours: float, theirs: float) -> float:
        if self.relation == "ours":
            return ours
        return ours / theirs if self.relation == "ours / theirs" else theirs / ours


@dataclass(frozen=True)
class Conditions:
    """What a measurement is given.

    `rounds` is the number of samples of a figure. `is_quick` asks for less data where that takes
    long. `tmpfs` and `disk` are empty folders of the row's own, in memory and on a disk, which are
    removed after it. `progress` is told in a few words what is measured now. `not_measured` is told
    what this machine does not let one measure, and why: a phrase that the page lists.
    """

    rounds: int
    is_quick: bool
    tmpfs: Path
    disk: Path
    progress: Callable[[str], None]
    not_measured: Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One goal. `id` is its name among the goals, or a few words for what is told beside them.

    `measure` raises WrongAnswerError, and `benches.peers.PeerMissingError`.
    """

    id: str
    title: str
    goal_text: str
    measure: Callable[[Conditions], list[Figure]]


def verdict_of(figures: list[Figure]) -> Verdict:
    """Return the worst verdict of a row's figures: the row's own."""
    found = {figure.verdict for figure in figures}
    return next((one for one in _WORST_FIRST if one in found), "told")


def _median(samples: tuple[float, ...]) -> float:
    return statistics.median(samples) if samples else 0.0
