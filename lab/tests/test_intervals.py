"""Intervals of a median: which samples bound them, and their coverage."""

from __future__ import annotations

import random

import pytest

from lab.runner.intervals import Interval, interval


def test_six_samples_are_the_fewest() -> None:
    assert interval([5, 1, 4, 2, 3]) is None
    assert interval([5, 1, 4, 2, 3, 6]) == Interval(1, 6, 1 - 2 / 2**6)


@pytest.mark.parametrize(
    ("count", "rank", "coverage"),
    # Table A3 of Conover gives these ranks and probabilities.
    [(7, 1, 0.984), (8, 1, 0.992), (9, 2, 0.961), (11, 2, 0.988), (12, 3, 0.961), (20, 6, 0.959)],
)
def test_the_interval_is_the_tightest_that_covers(count: int, rank: int, coverage: float) -> None:
    found = interval(range(count, 0, -1))
    assert found is not None
    assert (found.low, found.high) == (rank, count + 1 - rank)
    assert found.coverage == pytest.approx(coverage, abs=0.0006)


@pytest.mark.parametrize("count", [6, 11, 15])
def test_an_interval_holds_the_median_as_often_as_it_says(count: int) -> None:
    dice = random.Random(count)
    trials, hits, coverage = 4_000, 0, 0.0
    for _ in range(trials):
        found = interval([dice.lognormvariate(0, 1) for _ in range(count)])
        assert found is not None
        hits += found.low <= 1.0 <= found.high
        coverage = found.coverage
    assert hits / trials == pytest.approx(coverage, abs=0.012)
