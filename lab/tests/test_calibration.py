"""The search for the limit under which a store uses a given number of bytes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from lab.runner.calibration import TRIES_MAX, best, excess, next_limit, target
from lab.runner.results import ReplayCell, Try

MIB = 1 << 20
TARGET = 4_000_000


def measured(name: str, *tries: Try, bytes_max: int = TARGET) -> ReplayCell:
    return ReplayCell("small", name, 0.5, "measured", "file", bytes_max, tries=list(tries))


def searched(store: Callable[[int], int], bytes_max: int = TARGET, step: int = 1) -> list[Try]:
    """Return the tries of a store that uses `store(limit)` bytes."""
    tries: list[Try] = []
    while len(tries) < TRIES_MAX:
        limit = next_limit(bytes_max, step, tries)
        if limit is None:
            break
        tries.append(Try(limit, requests=10, bytes_peak=store(limit)))
    return tries


@pytest.mark.parametrize(
    "store",
    [
        lambda limit: limit,
        lambda limit: int(limit * 1.35),
        lambda limit: int(limit * 0.4),
        lambda limit: limit + 600_000,
        lambda limit: max(limit - 900_000, 50_000),
        lambda limit: int(limit * 1.1) + (limit // 500_000) * 70_000,
        lambda limit: int(limit**1.02),
    ],
    ids=["firm", "tables", "half", "overhead", "server", "growing tables", "curved"],
)
@pytest.mark.parametrize("bytes_max", [300_000 * 7, TARGET, 40_000_000])
def test_a_limit_is_found_that_comes_near(store: Callable[[int], int], bytes_max: int) -> None:
    tries = searched(store, bytes_max)
    share = tries[best(bytes_max, tries)].bytes_measured / bytes_max
    assert 0.97 <= share <= 1


@pytest.mark.parametrize("seed", range(30))
def test_noise_does_not_keep_it_from_the_target(seed: int) -> None:
    dice = random.Random(seed)
    tries = searched(lambda limit: int((limit * 1.3 + 200_000) * dice.uniform(0.992, 1.008)))
    share = tries[best(TARGET, tries)].bytes_measured / TARGET
    assert 0.95 <= share <= 1


def test_what_fits_at_once_is_tried_once() -> None:
    assert [one.limit for one in searched(lambda limit: int(limit * 0.99))] == [TARGET]


def test_the_first_limit_is_the_target_itself_in_whole_steps() -> None:
    assert next_limit(TARGET, 1, []) == TARGET
    assert next_limit(TARGET, MIB, []) == 3 * MIB
    assert next_limit(MIB // 2, MIB, []) == MIB


def test_between_two_steps_there_is_nothing_to_try() -> None:
    tries = searched(lambda limit: limit + 700_000, bytes_max=4_500_000, step=MIB)
    assert [one.limit for one in tries] == [4 * MIB, 3 * MIB]
    assert best(4_500_000, tries) == 1


def test_a_store_with_steps_of_its_own_ends_the_search() -> None:
    # It only uses multiples of 393,216 bytes.
    tries = searched(lambda limit: limit // 393_216 * 393_216, bytes_max=1_400_000)
    assert tries[best(1_400_000, tries)].bytes_measured == 3 * 393_216
    assert len(tries) < TRIES_MAX


def test_two_tries_on_the_same_step_above_the_target_do_not_end_the_search() -> None:
    steps = {385_000: 585_728, 500_000: 602_112}
    tries = searched(
        lambda limit: next((used for most, used in steps.items() if limit <= most), 892_928),
        bytes_max=600_000,
    )
    assert [one.bytes_measured for one in tries] == [892_928, 602_112, 602_112, 585_728]


def test_a_store_that_obeys_no_limit_ends_the_search() -> None:
    tries = searched(lambda _: 9_000_000)
    assert len(tries) == 2
    assert tries[best(TARGET, tries)].bytes_measured == 9_000_000


@pytest.mark.parametrize("seed", range(10))
def test_a_store_that_obeys_no_limit_ends_the_search_also_when_it_is_noisy(seed: int) -> None:
    dice = random.Random(seed)
    tries = searched(lambda _: int(60_000_000 * dice.uniform(0.95, 1.05)))
    assert len(tries) == 2


def test_a_limit_it_cannot_live_with_ends_the_search() -> None:
    over = Try(TARGET, requests=10, bytes_peak=6_000_000)
    assert next_limit(TARGET, 1, [over, Try(2_600_000, reason="it did not start")]) is None
    assert best(TARGET, [over, Try(2_600_000, reason="it did not start")]) == 0


def test_of_those_that_fit_the_fullest_counts_whatever_it_hits() -> None:
    tries = [
        Try(3, requests=10, hits=9, bytes_peak=TARGET + 1),
        Try(1, requests=10, hits=8, bytes_peak=TARGET - 500),
        Try(2, requests=10, hits=7, bytes_peak=TARGET - 5),
    ]
    assert best(TARGET, tries) == 2


def test_where_none_fits_the_smallest_counts() -> None:
    tries = [
        Try(2, requests=10, hits=9, bytes_peak=TARGET + 9),
        Try(1, requests=10, hits=2, bytes_peak=TARGET + 5),
    ]
    assert best(TARGET, tries) == 1


def test_the_target_is_the_smallest_measurement_of_all_references() -> None:
    first = measured("a", Try(1_000, bytes_peak=900, bytes_settled=500))
    second = measured("b", Try(1_000, bytes_peak=450, bytes_settled=800))
    assert target([first, second], nominal=1_000) == 450


def test_without_a_reference_the_target_is_nominal() -> None:
    assert target([], nominal=1_000) == 1_000


@pytest.mark.parametrize(
    ("peak", "settled", "equal"), [(500, 500, True), (501, 500, False), (400, 501, False)]
)
def test_equal_means_no_more_at_any_time(peak: int, settled: int, equal: bool) -> None:
    one = measured("ours", Try(400, bytes_peak=peak, bytes_settled=settled), bytes_max=500)
    assert (excess(one) == "") is equal


def test_an_excess_is_told_with_its_bytes_and_limits() -> None:
    one = measured("ours", Try(400, bytes_peak=900), Try(100, bytes_peak=800), bytes_max=500)
    one.kept = 1
    assert excess(one) == (
        "it used at least 800 bytes, more than the allowed 500; the smallest limit tried was 100"
    )
