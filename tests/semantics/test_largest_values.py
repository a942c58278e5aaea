"""Values that take up nearly the whole cache: `stats().largest_value_bytes`."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from tuckbox import Cache
from tuckbox.errors import ValueTooLarge

SIZES = ["64 KiB", "100 KiB", "256 KiB", "1 MiB", "5 MB", "16 MiB", "64 MiB", "100 MB"]
# What is in the cache before: the length of each value, as many as fit and half as many again.
BEFORE = [None, 10, 100, 1_000, 20_000]


def value_of(seed: int, length: int) -> bytes:
    return (seed.to_bytes(8, "little") * (length // 8 + 1))[:length]


def fill(cache: Cache, length: int) -> None:
    """Store half as much again as fits."""
    per_entry = length + 40
    for number in range(min(cache.size * 3 // 2 // per_entry, 400_000)):
        cache[number] = value_of(number, length)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("before", BEFORE)
def test_a_value_of_the_largest_length_is_stored(
    opened: Any, path: str, size: str, before: int | None
) -> None:
    cache = opened(path, size=size)
    if before:
        fill(cache, before)
    longest = cache.stats().largest_value_bytes
    for turn in range(3):
        value = value_of(turn, longest)
        cache["large", turn % 2] = value
        assert cache["large", turn % 2] == value
        assert cache.check().is_sound
    with pytest.raises(ValueTooLarge, match=f"the limit of this cache is {longest} bytes"):
        cache["large", 0] = bytes(longest + 1)
    assert cache["large", 0] == value_of(2, longest)


@pytest.mark.parametrize("size", ["1 MiB", "5 MB", "64 MiB", "1 GiB"])
def test_it_is_seven_eighths_of_the_size(opened: Any, path: str, size: str) -> None:
    cache = opened(path, size=size)
    assert 0.83 < cache.stats().largest_value_bytes / cache.size <= 0.875


@pytest.mark.parametrize("size", ["64 KiB", "128 KiB", "512 KiB"])
def test_it_is_at_least_a_quarter_of_a_small_cache(opened: Any, path: str, size: str) -> None:
    cache = opened(path, size=size)
    assert 0.2 < cache.stats().largest_value_bytes / cache.size <= 0.875


def test_containers_of_the_largest_length_are_stored(opened: Any, path: str) -> None:
    cache = opened(path, size="8 MiB")
    value = ["x" * (cache.stats().largest_value_bytes - 100), 1]
    cache["k"] = value
    assert cache["k"] == value


def test_small_entries_are_stored_after_it_and_it_makes_room(opened: Any, path: str) -> None:
    cache = opened(path, size="32 MiB")
    cache["large"] = bytes(cache.stats().largest_value_bytes)
    for number in range(200):
        cache["few", number] = value_of(number, 1_000)
    # What fits next to it evicts nothing.
    assert len(cache) == 201
    assert cache.stats().evictions == 0
    for number in range(40_000):
        cache["many", number] = value_of(number, 1_000)
        assert cache["many", number] == value_of(number, 1_000)
    assert "large" not in cache
    assert cache.stats().entry_bytes > 0.7 * cache.size


def test_half_of_the_cache_can_be_overwritten_again_and_again(opened: Any, path: str) -> None:
    cache = opened(path, size="16 MiB")
    for turn in range(20):
        value = value_of(turn, cache.size // 2)
        cache["large"] = value
        cache["small", turn] = turn
        assert cache["large"] == value


@pytest.mark.parametrize("part", [0.3, 0.6, 1.0])
def test_several_at_once_wait_for_each_other(opened: Any, path: str, part: float) -> None:
    """Each of them may have a part of the room, and none all that it needs."""
    cache = opened(path, size="32 MiB", lock_timeout=60.0)
    length = int(cache.stats().largest_value_bytes * part)
    failures: list[BaseException] = []

    def store(writer: int) -> None:
        try:
            with Cache(path, lock_timeout=60.0) as mine:
                for turn in range(10):
                    mine["large", writer] = value_of(writer << 8 | turn, length)
        except BaseException as failure:
            failures.append(failure)

    child = os.fork()
    if child == 0:
        store(0)
        os._exit(1 if failures else 0)
    threads = [threading.Thread(target=store, args=(writer,)) for writer in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not failures
    found = [writer for writer in range(3) if ("large", writer) in cache]
    assert found
    assert all(cache["large", writer] == value_of(writer << 8 | 9, length) for writer in found)
    stats = cache.stats()
    assert (stats.segments_building, stats.takeovers) == (0, 0)
