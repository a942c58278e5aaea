"""Intervals of a median, from the order of a few samples.

Owns that computation. Must not know what was sampled.

The interval from the k-th smallest to the k-th largest of n independent samples misses the median
of their distribution if fewer than k samples fall on one of its sides. The probability is
2 * P(X < k) for a binomial X with n trials of probability 1/2, for any distribution (W. J. Conover,
Practical Nonparametric Statistics, section 3.2). With five samples it is always above 1 in 20, so
six are the minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

SAMPLES_MIN = 6
COVERAGE_MIN = 0.95


@dataclass(frozen=True)
class Interval:
    """Contains the median with probability `coverage`, between 0 and 1."""

    low: float
    high: float
    coverage: float


def interval(samples: Sequence[float]) -> Interval | None:
    """Return the tightest interval between two ordered samples with at least 95 % coverage.

    None for fewer than six samples.
    """
    count = len(samples)
    if count < SAMPLES_MIN:
        return None
    ordered = sorted(samples)
    rank = max(k for k in range(1, count // 2 + 1) if _coverage(count, k) >= COVERAGE_MIN)
    return Interval(ordered[rank - 1], ordered[count - rank], _coverage(count, rank))


def _coverage(count: int, rank: int) -> float:
    outside = sum(comb(count, below) for below in range(rank))
    return float(1 - 2 * outside / 2**count)
