"""Which entries a full cache keeps. Measured hit ratios are in `docs/explanation/hit-ratio.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import pytest

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory")

CAPACITY = 2000


@pytest.fixture
def full(opened: Callable[..., Cache], path: str) -> Cache:
    """A cache without room for more entries."""
    cache = opened(path, size="4 MiB", max_entries=CAPACITY)
    for number in range(CAPACITY):
        cache["filler", number] = number
    return cache


def hits_of(cache: Cache, name: str, numbers: range) -> int:
    """Read entries as a program does, which stores what is missing. Return how many were there."""
    hits = 0
    for number in numbers:
        if cache.get((name, number)) is None:
            cache[name, number] = number
        else:
            hits += 1
    return hits


def test_a_scan_does_not_evict_what_is_read_often(full: Cache) -> None:
    """LRU would evict all of it."""
    for _ in range(5):
        hits_of(full, "hot", range(CAPACITY // 4))
    hits_of(full, "scan", range(CAPACITY * 5))
    assert hits_of(full, "hot", range(CAPACITY // 4)) > 0.9 * CAPACITY // 4


@pytest.mark.shared_file
def test_what_is_read_more_often_than_others_is_kept(full: Cache) -> None:
    """LRU would have no hits: more than it can keep is read between two reads of an entry.
    The filter of S3-FIFO, in memory, is too small for that."""
    often = CAPACITY * 6 // 10
    hits = 0
    for turn in range(60):
        hits = 0
        for number in range(often):
            hits += hits_of(full, "often", range(number, number + 1))
            seldom = (turn * often + number) % (often * 4)
            hits_of(full, "seldom", range(seldom, seldom + 1))
    assert hits > 0.5 * often


def test_what_was_read_often_long_ago_makes_room(full: Cache) -> None:
    """Counting reads alone would keep the old entries."""
    part = CAPACITY * 6 // 10
    for name, turns in (("old", 20), ("new", 16)):
        for _ in range(turns):
            hits_of(full, name, range(part))
    assert hits_of(full, "new", range(part)) > 0.9 * part
