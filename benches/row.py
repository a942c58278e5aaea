"""A row: its goals, how it is measured, and the figures of one run.

Owns these types. Must not time, start or print anything, nor judge several runs together
(`results.py`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.runner.intervals import Interval, interval

Relation = Literal["ours / theirs", "theirs / ours", "ours"]

#: The decision of one run about a goal.
Decision = Literal["met", "not met", "undecided"]


@dataclass(frozen=True)
class Goal:
    """A bound of `Figure.value`, in its unit. The bound itself meets the goal."""

    sense: Literal["at most", "at least"]
    bound: float

    def is_met_by(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value <= self.bound if self.sense == "at most" else value >= self.bound

    def judge(self, values: Sequence[float]) -> Decision:
        """Return the decision for the values of one run, one value a round.

        The interval of their median decides: all of it must be on one side of the bound. A single
        round decides nothing.
        """
        around = spread(values)
        low, high = self.is_met_by(around.low), self.is_met_by(around.high)
        if len(values) < 2 or low != high:
            return "undecided"
        return "met" if low else "not met"


def spread(values: Sequence[float]) -> Interval:
    """Return the interval of the median; the range for fewer than six rounds."""
    found = interval(values)
    return found or Interval(min(values), max(values), 1 - 2.0 ** (1 - len(values)))


@dataclass(frozen=True)
class Figure:
    """Samples of Tuckbox and of one peer, taken in the same rounds of one run.

    Attributes:
        what: The name of the measured operation or quantity, such as "same keys".
        unit: The unit of the samples: "ns", "us", "ms", "bytes", "MB/s" ...
        ours: One sample a round.
        peer: The peer, with its version where it has one; "" for an absolute figure.
        theirs: The peer's samples of the same rounds; () for an absolute figure.
        relation: How `value` is computed.
        goal: The bound of `value`; None for a figure without a goal.
        at: The place on a curve, such as the number of entries. The figures of a curve have the
            same `what`. None for a figure that is not on a curve.
        along: What `at` counts. Sizes begin with "bytes": "bytes of a value".
        limit: Samples of the same rounds of a stripped program, which does only a part of the
            work; () without one.
        limited_by: What that program does; "" without one.

    Raises:
        ValueError: The samples do not belong together.
    """

    what: str
    unit: str
    ours: tuple[float, ...]
    peer: str = ""
    theirs: tuple[float, ...] = ()
    relation: Relation = "ours"
    goal: Goal | None = None
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
            raise ValueError(f"{self.what!r}: a ratio must have a peer with samples, others none")
        if self.theirs and len(self.theirs) != len(self.ours):
            raise ValueError(f"{self.what!r}: ours and theirs must be of the same rounds")
        if bool(self.limit) != bool(self.limited_by) or len(self.limit) not in {0, len(self.ours)}:
            raise ValueError(f"{self.what!r}: a limit needs a name, and samples of the same rounds")

    @property
    def key(self) -> tuple[str, int | None, str]:
        """The identity of the figure in a run."""
        return self.what, self.at, self.peer

    @property
    def value(self) -> float:
        """The median of the rounds' own values."""
        return statistics.median(self.values)

    @property
    def values(self) -> tuple[float, ...]:
        """The value of each round: a ratio, or the sample of an absolute figure."""
        return self._values(self.ours)

    @property
    def limit_values(self) -> tuple[float, ...]:
        """`values` with the stripped program in place of Tuckbox; () without one."""
        return self._values(self.limit) if self.limit else ()

    def _values(self, samples: tuple[float, ...]) -> tuple[float, ...]:
        theirs = self.theirs or (0.0,) * len(samples)
        return tuple(self._related(*pair) for pair in zip(samples, theirs, strict=True))

    def _related(self, ours: float, theirs: float) -> float:
        if self.relation == "ours":
            return ours
        return ours / theirs if self.relation == "ours / theirs" else theirs / ours


@dataclass(frozen=True)
class Conditions:
    """The conditions of a measurement.

    - `rounds`: how many rounds to take. A row whose rounds are long takes at most six.
    - `is_quick`: use less data, for rows that take long.
    - `tmpfs`, `disk`: empty private folders, which are removed afterwards.
    - `progress`: takes a few words about what is being measured.
    - `not_measured`: takes a phrase for the page about what this machine cannot measure, and why.
    """

    rounds: int
    is_quick: bool
    tmpfs: Path
    disk: Path
    progress: Callable[[str], None]
    not_measured: Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One row.

    `id` is the goal's, or a few words for a row without goals. `text` is what else a reader must
    know of the measurement, "" for nothing. `measure` raises WrongAnswerError, and
    `lab.peers.PeerMissingError`.
    """

    id: str
    title: str
    text: str
    measure: Callable[[Conditions], list[Figure]]
