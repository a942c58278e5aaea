"""The mapping protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tuckbox import Cache, _engine


def test_brackets(cache: Cache) -> None:
    cache["k"] = 1
    assert cache["k"] == 1
    del cache["k"]
    with pytest.raises(KeyError) as caught:
        cache["k"]
    assert caught.value.args == ("k",)
    with pytest.raises(KeyError):
        del cache["k"]


def test_contains_and_len(cache: Cache) -> None:
    assert "k" not in cache
    assert len(cache) == 0
    cache["k"] = None
    assert "k" in cache
    assert len(cache) == 1


def test_iteration_gives_every_key_once_as_it_was(cache: Cache) -> None:
    keys = {"text", "", "ü", b"bytes", b"", 0, -1, 2**70, (), ("a", (1, b"c")), "\ud800"}
    for number, key in enumerate(sorted(keys, key=repr)):
        cache[key] = number
    found = list(cache)
    assert len(found) == len(keys)
    assert set(found) == keys
    assert {type(key) for key in found} == {str, bytes, int, tuple}
    assert all(cache[key] is not None for key in found)


def test_keys_values_and_items_agree(cache: Cache) -> None:
    expected = {f"key {number}": [number] for number in range(5000)}
    cache.set_many(expected)
    assert sorted(cache.keys()) == sorted(expected)
    assert sorted(cache.values()) == sorted(expected.values())
    assert dict(cache.items()) == expected
    assert dict(cache) == expected


def test_iteration_passes_over_expired_entries(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("gone", 1, ttl=1)
    timed.set("here", 2, ttl=10)
    clock.advance(5)
    assert list(timed.items()) == [("here", 2)]


def test_the_cache_may_change_while_it_is_walked(cache: Cache) -> None:
    cache.set_many({number: number for number in range(1000)})
    seen = []
    for key in cache:
        seen.append(key)
        del cache[key]
        cache[f"new {key}"] = key
    assert set(range(1000)) <= set(seen)
    assert len(seen) == len(set(seen))


def test_two_walks_do_not_disturb_each_other(cache: Cache) -> None:
    cache.set_many({number: number for number in range(20)})
    assert len([1 for _ in cache for _ in cache]) == 400


def test_a_walk_keeps_the_cache_open_in_memory(cache: Cache) -> None:
    cache["k"] = 1
    walk = iter(cache)
    assert iter(walk) is walk
    assert next(walk) == "k"
    with pytest.raises(StopIteration):
        next(walk)
    with pytest.raises(StopIteration):
        next(walk)


def test_clear_removes_everything_and_counts(cache: Cache) -> None:
    cache.set_many({number: "x" * number for number in range(300)})
    assert cache.clear() == 300
    assert len(cache) == 0
    assert list(cache) == []
    assert cache.clear() == 0
    cache["k"] = 1
    assert cache["k"] == 1
