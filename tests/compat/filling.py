"""Entries of all kinds, for tests of the importer and the exporter."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import random

PLAIN = {
    "int": 1,
    1: "text",
    1.5: b"bytes",
    b"bytes": 2.5,
    ("name", 1, None): {"a": [1, 2.0, "b", (None, True)]},
    None: {1, 2},
    2**70: 2**70,
    "large bytes": b"x" * 50_000,
    "large text": "é\r\n" * 20_000,
    "large list": list(range(20_000)),
    "empty": "",
}


def same(mine, others) -> bool:
    return type(mine) is type(others) and mine == others


def fill(cache, count: int, rng: random.Random) -> dict:
    """Store values of all kinds, with tags and expiries, and return what the cache then has."""
    expected = {}
    for number in range(count):
        key = rng.choice([number, f"key {number}", ("call", number), b"%d" % number])
        size = rng.choice([1, 100, 40_000])
        value = rng.choice([number, "é" * size, b"b" * size, [number] * (size // 9), None])
        expire = rng.choice([None, 1000, 5000])
        tag = rng.choice([None, "tag", 5])
        cache.set(key, value, expire=expire, tag=tag)
        expected[key] = value
    return expected


def assert_equal(mine, others) -> None:
    """Compare the caches with each other: keys, values, order, expiry, tags."""
    assert list(mine) == list(others)
    for key in others:
        value, expiry, tag = mine.get(key, expire_time=True, tag=True)
        real_value, real_expiry, real_tag = others.get(key, expire_time=True, tag=True)
        assert same(value, real_value), key
        assert same(tag, real_tag), key
        assert expiry == pytest.approx(real_expiry, abs=1), key


def bytes_for_each(copied, small: int = 2_000, large: int = 10_000) -> float:
    """How many bytes the peak of Python's memory grows by for each entry.

    Args:
        copied: Takes the number of entries, and returns what copies a cache with so many.
        small, large: The numbers that are compared.
    """
    peaks = []
    # The first one imports modules and fills caches of Python's own.
    for count in (small, small, large):
        copy = copied(count)
        gc.collect()
        tracemalloc.start()
        try:
            copy()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return (peaks[2] - peaks[1]) / (large - small)
