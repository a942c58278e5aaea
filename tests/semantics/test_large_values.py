"""Values that are longer than a segment come back whole, each as an object of its own."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory")


def _lengths(cache: Cache) -> list[int]:
    # A store in memory has no segments.
    segment = cache.stats().segment_bytes or 65_536
    return [segment - 1, segment, segment + 1, 2 * segment, 2 * segment + 7]


def test_every_way_of_reading_answers_the_same(cache: Cache) -> None:
    source = random.Random(5)
    for number, length in enumerate(_lengths(cache)):
        stored = source.randbytes(length)
        for value in (stored, bytearray(stored), stored.hex(), [stored, number]):
            cache["key"] = value
            assert cache.get("key") == value
            assert cache["key"] == value
            assert cache.get_many(["key", "absent"]) == {"key": value}
            entry = cache.get_entry("key")
            assert entry is not None
            assert entry.value == value
            assert list(cache.values()) == [value]
            assert cache.pop("key") == value


@pytest.mark.shared_file
@pytest.mark.keeps_nothing
def test_each_answer_is_an_object_of_its_own(cache: Cache) -> None:
    for length in _lengths(cache):
        cache["one"], cache["two"] = b"1" * length, b"2" * length
        answers = [cache["one"], cache["two"], cache["one"]]
        assert answers == [b"1" * length, b"2" * length, b"1" * length]
        assert answers[0] is not answers[2]
        # The list, and the argument of the call: nobody else keeps it.
        assert [sys.getrefcount(answers[place]) for place in range(3)] == [2, 2, 2]


@pytest.mark.parametrize("small", [b"", b"small", "small", 7, None])
def test_a_small_value_after_a_large_one(cache: Cache, small: object) -> None:
    length = _lengths(cache)[-1]
    cache["large"], cache["small"] = bytes(length), small
    for _ in range(3):
        assert cache["large"] == bytes(length)
        assert cache["small"] == small
        assert cache.get("absent", "default") == "default"
        assert list(cache.get_many(["large", "small"]).values()) == [bytes(length), small]
