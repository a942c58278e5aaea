"""Intervals of a median, from the order of a few samples.

Owns that computation. Must not know what was sampled.

The interval from the k-th smallest to the k-th largest of n independent samples misses the median
of their distribution when fewer than k samples fall on one of its sides. That has the chance
2 * P(X < k), X being binomial with n trials of chance 1/2, whatever the distribution is
(W. J. Conover, Practical Nonparametric Statistics, section 3.2). No interval of five samples
misses it less often than 1 in 20, so that six are the fewest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

SAMPLES_MIN = 6
COVERAGE_MIN = 0.95


@dataclass(frozen=True)
class Interval:
    """Holds the median with the chance `coverage`, between 0 and 1."""

    low: float
    high: float
    coverage: float


def interval(samples: Sequence[float]) -> Interval | None:
    """Return the tightest interval of two ordered samples that covers the median in 95 % of cases.

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
