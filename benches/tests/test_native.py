from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tuckbox import Cache

from benches import native
from benches.native import NativeError


def test_all_caches_are_timed_in_each_round(tmp_path: Path) -> None:
    # The second time, what the first one left must not be in the way.
    for entries in ("2000", "20000"):
        result = native.run(
            "speed", tmp_path, "--entries", entries, "--rounds", "2", "--round-ms", "1"
        )
        assert {"get", "set", "get, absent"} <= result.keys()
        for of_cache in result.values():
            caches = {"tuckbox", "moka", "quick_cache", "stripped", "HashMap"}
            assert of_cache.keys() == caches
            assert all(len(samples) == 2 and min(samples) > 0 for samples in of_cache.values())


def test_caches_are_full_of_as_many_entries(tmp_path: Path) -> None:
    result = native.run("full", tmp_path, "--size-bytes", str(1 << 20), "--rounds", "2")
    # Of a mebibyte of entries of 196 bytes and more.
    assert 3_000 < result["entries"] < (1 << 20) / 196
    assert result["samples"].keys() == {"tuckbox", "moka", "quick_cache", "stripped"}
    assert all(len(taken) == 2 and min(taken) > 0 for taken in result["samples"].values())


def test_a_cache_that_already_holds_other_entries_is_refused(tmp_path: Path) -> None:
    with Cache(tmp_path / "full.tuck", size="32 MB"):
        pass
    with pytest.raises(NativeError, match="tuckbox has"):
        native.run("full", tmp_path, "--size-bytes", str(1 << 20), "--rounds", "1")


def test_a_lock_that_nobody_takes_is_never_seen_held(tmp_path: Path) -> None:
    with Cache(tmp_path / "idle.tuck"):
        watcher = native.begin(
            "watch-lock", tmp_path / "idle.tuck", core=min(os.sched_getaffinity(0))
        )
        result = native.end(watcher)
    assert result["holds"] == 0
    assert result["looks"] > 0


def test_a_lock_that_somebody_takes_is_seen_held(tmp_path: Path) -> None:
    with Cache(tmp_path / "busy.tuck", size="1 MB") as cache:
        watcher = native.begin("watch-lock", tmp_path / "busy.tuck")
        deadline = time.monotonic() + 60
        held = 0
        # A program that has just begun, on a busy machine, may not look for a while.
        while not held and time.monotonic() < deadline:
            for number in range(50_000):
                cache.set(number % 100, bytes(10_000))
            held = native.end(watcher)["holds"]
            watcher = native.begin("watch-lock", tmp_path / "busy.tuck")
        native.end(watcher)
    assert held


def test_what_the_program_says_is_told(tmp_path: Path) -> None:
    with pytest.raises(NativeError, match=r"none\.tuck"):
        native.run("watch-lock", tmp_path / "none.tuck")


def test_versions_are_those_that_it_is_built_with() -> None:
    assert native.version("moka").startswith("0.12.")
