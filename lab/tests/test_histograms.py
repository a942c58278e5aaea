"""Histograms contain all durations, and passes are merged correctly."""

from __future__ import annotations

import random
from array import array
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from lab.protocol import ACTIONS, Ran, Tally, Verdict
from lab.runner.catalogue import Phase
from lab.runner.failures import HostError
from lab.runner.histograms import decode, encode, percentiles_ns, read_durations
from lab.runner.inputs import Pace, PlannedPass
from lab.runner.passes import merge
from lab.stream import DELETE, GET, SET


def test_percentiles_are_exact_to_three_digits() -> None:
    histogram = decode(encode(range(1, 100_001)))
    for percentile, exact in ((50, 50_000), (90, 90_000), (99, 99_000), (100, 100_000)):
        assert abs(histogram.get_value_at_percentile(percentile) - exact) <= exact / 1_000


def test_percentiles_of_a_skewed_distribution() -> None:
    dice = random.Random(1)
    durations = sorted(int(dice.lognormvariate(9, 2)) for _ in range(20_000))
    histogram = decode(encode(durations))
    assert histogram.get_total_count() == 20_000
    for percentile in (50, 90, 99, 99.9):
        exact = durations[int(20_000 * percentile / 100) - 1]
        assert histogram.get_value_at_percentile(percentile) == pytest.approx(exact, rel=0.003)


def test_several_percentiles_at_once_are_those_of_the_library() -> None:
    dice = random.Random(2)
    for count in (1, 2, 7, 5_000):
        encoded = encode(int(dice.lognormvariate(7, 3)) for _ in range(count))
        percents = (0.1, 50, 90, 99, 99.9, 100)
        own = [decode(encoded).get_value_at_percentile(percent) for percent in percents]
        assert percentiles_ns(encoded, percents) == own
        assert own[-1] == decode(encoded).get_max_value()


def test_durations_from_nothing_to_an_hour_are_kept_and_more_is_refused() -> None:
    assert decode(encode([0, 3_600_000_000_000])).get_total_count() == 2
    with pytest.raises(ValueError, match="exceeds the maximum of one hour"):
        encode([8_000_000_000_000])
    assert encode([]) == ""


def test_a_file_of_durations_is_read(tmp_path: Path) -> None:
    path = tmp_path / "0"
    path.write_bytes(bytes.fromhex("0100000000000000ffffffffffffff7f"))
    assert list(read_durations(path)) == [1, 0x7FFFFFFFFFFFFFFF]
    path.write_bytes(b"x" * 9)
    with pytest.raises(ValueError, match="0 is not a file of 64-bit durations: 9 bytes"):
        read_durations(path)


PHASE = msgspec.convert(
    {
        "name": "mix",
        "operations": 6,
        "shares": {"get": 0.6, "set": 0.4},
        "passes": ["throughput", "latency"],
        "steps": [1, 3, 5],
    },
    Phase,
)
# Two operations to warm up, four that count.
VERBS = bytes([SET, SET, GET, SET, GET, DELETE])
PLANNED = PlannedPass(PHASE, "latency", 0, operations=6, warmup=2, verbs=[VERBS, VERBS])


PACE = Pace(block=256, stretch=4, workers=2, cores=2)


def ran(end_ns: int, done: int = 6, start_ns: int = 20, **tallies: Tally) -> Ran:
    counts = {"get": Tally(2, 1, 1), "set": Tally(1), "delete": Tally(1, 1)}
    verdict = Verdict(wrong=3, stale=1, examples=["one"] * 3)
    actions = {action: {**counts, **tallies}[action] for action in ACTIONS}
    return Ran(done, start_ns, end_ns, end_ns - start_ns, 7, [40, 60], actions, verdict)


def durations(folder: Path, *of_workers: list[int]) -> list[Path]:
    paths = []
    for worker, durations_ns in enumerate(of_workers):
        path = folder / str(worker)
        path.write_bytes(array("Q", durations_ns).tobytes())
        paths.append(path)
    return paths


def test_passes_merge_from_the_first_start_to_the_last_end(tmp_path: Path) -> None:
    paths = durations(tmp_path, [10, 20, 30, 40], [1, 2, 3, 4])
    merged = merge(PLANNED, PACE, [ran(100), ran(300, start_ns=40)], paths)
    assert (merged.elapsed_ns, merged.together_ns, merged.cpu_ns) == (280, 60, 14)
    assert (merged.cores, merged.workers, merged.stretches) == (2, 2, 2)
    assert (merged.planned, merged.done) == (8, 8)
    assert (merged.block_operations, merged.block_ns) == (256, 50)
    get = merged.actions["get"]
    assert (get.tally.count, get.tally.miss, get.tally.absent) == (4, 2, 2)
    # The first and the third operation after the warm-up are gets.
    assert get.total_ns == 10 + 30 + 1 + 3
    assert merged.actions["set"].total_ns == 20 + 2
    assert merged.actions["delete"].total_ns == 40 + 4
    assert decode(get.histogram).get_total_count() == 4
    assert decode(get.histogram).get_max_value() == 30
    assert (merged.verdict.wrong, merged.verdict.stale) == (6, 2)
    assert len(merged.verdict.examples) == 5
    # There is no fifth operation.
    assert [(step.count, step.total_ns) for step in merged.steps] == [(1, 11), (3, 66)]


def test_a_pass_that_ended_early_has_the_durations_of_what_was_done(tmp_path: Path) -> None:
    short = ran(100, done=4, get=Tally(1), delete=Tally())
    merged = merge(PLANNED, PACE, [short, ran(100)], durations(tmp_path, [10, 20], [1, 2, 3, 4]))
    assert (merged.planned, merged.done) == (8, 6)
    assert merged.actions["get"].total_ns == 10 + 1 + 3
    # Not every worker reached the third operation.
    assert [step.count for step in merged.steps] == [1]


def test_a_pass_that_ended_in_the_warm_up_has_nothing() -> None:
    nothing = {"get": Tally(), "set": Tally(), "delete": Tally()}
    merged = merge(PLANNED, PACE, [ran(100, 1, 20, **nothing)] * 2)
    assert (merged.planned, merged.done) == (8, 0)


@pytest.mark.parametrize(
    ("done", "tally", "durations_ns", "says"),
    [
        (6, Tally(3), [1, 2, 3, 4], "reports 6 operations, 2 of them warm-up, but its counts add"),
        (7, Tally(3), [1, 2, 3, 4, 5], "more operations than its stream has: 7"),
        (6, Tally(2), [1, 2, 3], "wrote 3 durations for 4 operations"),
    ],
)
def test_a_host_that_contradicts_itself_is_told_so(
    tmp_path: Path, done: int, tally: Tally, durations_ns: list[int], says: str
) -> None:
    with pytest.raises(HostError, match=says):
        merge(PLANNED, PACE, [ran(100, done, get=tally)], durations(tmp_path, durations_ns))


def test_workers_one_after_the_other_are_never_together() -> None:
    merged = merge(PLANNED, PACE, [ran(100), ran(300, start_ns=200)])
    assert (merged.elapsed_ns, merged.together_ns) == (280, 0)


def test_of_one_worker_the_pauses_between_stretches_are_left_out() -> None:
    alone = replace(PACE, stretch=2, workers=1)
    one = msgspec.structs.replace(ran(1_000), elapsed_ns=300)
    merged = merge(PLANNED, alone, [one])
    assert (merged.elapsed_ns, merged.together_ns, merged.stretches) == (300, 300, 2)


def test_a_worker_that_pauses_while_others_are_measured_is_found_out() -> None:
    paused = msgspec.structs.replace(ran(300), elapsed_ns=100)
    with pytest.raises(HostError, match="worker 1 paused while others were measured"):
        merge(PLANNED, PACE, [ran(100), paused])


@pytest.mark.parametrize("elapsed_ns", [-1, 500])
def test_more_time_under_the_clock_than_there_was_is_found_out(elapsed_ns: int) -> None:
    odd = msgspec.structs.replace(ran(300), elapsed_ns=elapsed_ns)
    with pytest.raises(HostError, match="but 280 ns passed"):
        merge(PLANNED, PACE, [odd])


def test_more_cpu_time_than_the_cores_have_is_found_out() -> None:
    busy = msgspec.structs.replace(ran(1_000_000), cpu_ns=1_500_000)
    with pytest.raises(HostError, match="more than 2 cores can do"):
        merge(PLANNED, PACE, [busy, busy])
