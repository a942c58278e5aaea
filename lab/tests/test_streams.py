"""The operation stream: its statistics, its file, and what stands in for an absent trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import zstandard

from lab import stream
from lab.runner import catalogue, streams
from lab.runner.catalogue import ConcurrentSuite, ReplaySuite, Zipf
from lab.tests.small import replay_suite

DJANGO = catalogue.suite("django", ConcurrentSuite).workload
COUNT = 60_000


@pytest.fixture(scope="module")
def operations() -> list[stream.Operation]:
    return list(streams.draw(DJANGO, seed=1, worker=0, count=COUNT))


def test_shares_are_those_of_the_suite(operations: list[stream.Operation]) -> None:
    counts = Counter(operation.verb for operation in operations)
    for verb, share in ((stream.GET, 0.90), (stream.SET, 0.09), (stream.DELETE, 0.01)):
        # Five standard deviations of a binomial distribution.
        tolerance = 5 * (COUNT * share * (1 - share)) ** 0.5
        assert abs(counts[verb] - COUNT * share) < tolerance


def test_keys_are_uniform(operations: list[stream.Operation]) -> None:
    counts = Counter(operation.key for operation in operations)
    assert set(counts) == set(range(1_100))
    expected = COUNT / 1_100
    chi_squared = sum((count - expected) ** 2 / expected for count in counts.values())
    # Mean 1,099 and standard deviation 47 for a uniform choice.
    assert 1_099 - 5 * 47 < chi_squared < 1_099 + 5 * 47


def test_only_sets_have_a_length_and_it_is_that_of_the_original(
    operations: list[stream.Operation],
) -> None:
    lengths = [one.length for one in operations if one.verb == stream.SET]
    assert all(one.length == 0 for one in operations if one.verb != stream.SET)
    assert min(lengths) >= 1
    assert max(lengths) <= 5 * 99
    # Digits of a number below 100,000: 4.889 on average; repeats: 50.
    assert sum(lengths) / len(lengths) == pytest.approx(4.889 * 50, rel=0.05)


def test_the_full_form_counts_the_operations_of_the_original() -> None:
    full = catalogue.suite("django", ConcurrentSuite).full
    assert DJANGO.processes * (full.operations - full.warmup) == 791_992


def test_a_seed_repeats_and_workers_differ() -> None:
    first, again, other_worker, other_seed = (
        list(streams.draw(DJANGO, seed, worker, 500))
        for seed, worker in ((1, 0), (1, 0), (1, 1), (2, 0))
    )
    assert first == again
    assert first != other_worker
    assert first != other_seed


def test_the_preload_sets_every_key_once() -> None:
    preload = list(streams.draw_preload(DJANGO, seed=1))
    assert [operation.key for operation in preload] == list(range(1_100))
    assert {operation.verb for operation in preload} == {stream.SET}


def test_a_file_gives_back_what_was_written(
    tmp_path: Path, operations: list[stream.Operation]
) -> None:
    stream.write(tmp_path / "w.ops", operations)
    assert list(stream.read(tmp_path / "w.ops")) == operations


@pytest.mark.parametrize("content", [b"", b"something else", b"LABOPS01" + b"x" * 5])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w.ops"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"w\.ops is not an operation stream"):
        list(stream.read(path))


def test_zipf_repeats_and_falls_with_the_rank() -> None:
    plan = Zipf(requests=50_000, keys=1_000, exponent=1.0, seed=7)
    keys = streams.zipf(plan)
    assert keys == streams.zipf(plan)
    counts = Counter(keys)
    assert counts[1] / counts[10] == pytest.approx(10, rel=0.25)


def test_an_absent_trace_is_replaced_and_named() -> None:
    requests = streams.requests(replay_suite(["honest"]))
    assert requests.generated
    assert "generated Zipf stream" in requests.source
    assert "no/such/trace.csv.zst is not there" in requests.source


def test_a_trace_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.zst"
    path.write_bytes(zstandard.compress(b"key,size\n1,10\n2,20\n1,10\n"))
    assert streams.read_trace(path) == [1, 2, 1]


def test_a_trace_without_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.zst"
    path.write_bytes(zstandard.compress(b"time,key\n1,10\n"))
    with pytest.raises(ValueError, match="first column is 'time'"):
        streams.read_trace(path)


def test_the_recorded_trace_is_the_published_one() -> None:
    suite = catalogue.suite("web07", ReplaySuite)
    requests = streams.requests(suite)
    if requests.generated:
        pytest.skip(requests.source)
    assert (len(requests.keys), requests.distinct) == (76_118, 20_484)
    assert requests.hit_ratio_max == pytest.approx(0.7309, abs=0.00005)
