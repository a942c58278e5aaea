"""The requests of a replay, and what stands in for an absent trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import zstandard

from lab.runner import catalogue, traces
from lab.runner.catalogue import ReplaySuite
from lab.runner.catalogue.suites import Zipf
from lab.tests.small import replay_suite


def test_zipf_repeats_and_falls_with_the_rank() -> None:
    plan = Zipf(requests=50_000, keys=1_000, exponent=1.0, seed=7)
    keys = traces.zipf(plan)
    assert keys == traces.zipf(plan)
    counts = Counter(keys)
    assert counts[1] / counts[10] == pytest.approx(10, rel=0.25)


def test_an_absent_trace_is_replaced_and_named() -> None:
    requests = traces.requests(replay_suite(["honest"]))
    assert requests.generated
    assert "generated Zipf stream" in requests.source
    assert "no/such/trace.csv.zst is not there" in requests.source


def test_a_trace_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.zst"
    path.write_bytes(zstandard.compress(b"key,size\n1,10\n2,20\n1,10\n"))
    assert traces.read_trace(path) == [1, 2, 1]


def test_a_trace_without_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.zst"
    path.write_bytes(zstandard.compress(b"time,key\n1,10\n"))
    with pytest.raises(ValueError, match="first column is 'time'"):
        traces.read_trace(path)


def test_the_recorded_trace_is_the_published_one() -> None:
    suite = catalogue.suite("web07")
    assert isinstance(suite, ReplaySuite)
    requests = traces.requests(suite)
    if requests.generated:
        pytest.skip(requests.source)
    assert (len(requests.keys), requests.distinct) == (76_118, 20_484)
    assert requests.hit_ratio_max == pytest.approx(0.7309, abs=0.00005)
