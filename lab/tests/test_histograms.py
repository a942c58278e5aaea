"""Histograms merge without losing anything."""

from __future__ import annotations

import random

from lab.hosts.python.timing import decode, empty, encode, timer_cost
from lab.protocol import ACTIONS, Ran, Tally, Verdict
from lab.runner.concurrent import merge, merge_histograms


def test_merged_is_as_if_recorded_together() -> None:
    dice = random.Random(1)
    parts = [[int(dice.lognormvariate(9, 2)) for _ in range(700)] for _ in range(8)]
    together = encode(duration for part in parts for duration in part)
    merged = decode(merge_histograms([encode(part) for part in parts]))
    expected = decode(together)
    assert merged.get_total_count() == expected.get_total_count() == 5_600
    for percentile in (0, 50, 90, 99, 99.9, 100):
        ours = merged.get_value_at_percentile(percentile)
        assert ours == expected.get_value_at_percentile(percentile)


def test_percentiles_are_exact_to_three_digits() -> None:
    histogram = decode(encode(range(1, 100_001)))
    for percentile, exact in ((50, 50_000), (90, 90_000), (99, 99_000), (100, 100_000)):
        assert abs(histogram.get_value_at_percentile(percentile) - exact) <= exact / 1_000


def test_durations_from_nothing_to_an_hour_are_kept() -> None:
    histogram = decode(encode([0, 3_600_000_000_000]))
    assert histogram.get_total_count() == 2
    assert empty().get_total_count() == 0


def test_nothing_merges_to_nothing() -> None:
    assert merge_histograms([]) == ""


def test_the_clock_never_runs_back() -> None:
    assert all(cost_ns >= 0 for cost_ns in timer_cost(500))


def test_passes_merge_by_adding_counts_and_keeping_the_longest_wall() -> None:
    def ran(wall_ns: int) -> Ran:
        actions = {
            action: Tally(count=3, miss=2, wrong=1, total_ns=6, histogram=encode([1, 2, 3]))
            for action in ACTIONS
        }
        return Ran(wall_ns, 10, [], actions, Verdict(wrong=3, stale=1, examples=["one"] * 3))

    merged = merge([ran(100), ran(300)])
    assert (merged.wall_ns, merged.workers_ns, merged.timed_ns) == (300, 400, 20)
    get = merged.actions["get"]
    assert (get.count, get.miss, get.wrong, get.total_ns) == (6, 4, 2, 12)
    assert decode(get.histogram).get_total_count() == 6
    assert (merged.verdict.wrong, merged.verdict.stale) == (6, 2)
    assert len(merged.verdict.examples) == 5
