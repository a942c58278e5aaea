"""`push`, `pull` and `peek`: queues whose items are entries."""

from __future__ import annotations

import collections
import random

import pytest

FIRST = 500_000_000_000_000


def test_both_sides(cache):
    assert [cache.push(value) for value in "ab"] == [FIRST, FIRST + 1]
    assert cache.push("c", side="front") == FIRST - 1
    assert cache.peek() == (FIRST - 1, "c")
    assert cache.peek(side="back") == (FIRST + 1, "b")
    assert cache.pull(side="back") == (FIRST + 1, "b")
    assert [cache.pull(), cache.pull(), cache.pull()] == [
        (FIRST - 1, "c"),
        (FIRST, "a"),
        (None,) * 2,
    ]
    assert cache.push("d") == FIRST


def test_queues_are_apart(cache):
    assert cache.push(1, prefix="a") == "a-500000000000000"
    assert cache.push(2, prefix="a-b") == "a-b-500000000000000"
    assert cache.push(3) == FIRST
    assert cache["a-500000000000000"] == 1
    assert cache.pull("a") == ("a-500000000000000", 1)
    assert cache.pull("a", default=7) == 7
    assert cache.peek("a-b") == ("a-b-500000000000000", 2)
    assert cache.pull() == (FIRST, 3)
    assert len(cache) == 1


def test_an_item_may_be_stored_and_deleted_as_an_entry(cache):
    cache["a"] = "not an item"
    cache[5] = "first"
    assert cache.peek() == (5, "first")
    assert cache.push("pushed") == 6
    cache[FIRST] = "last"
    assert cache.push("pushed") == FIRST + 1
    del cache[FIRST + 1]
    assert cache.push("again") == FIRST + 1
    assert [cache.pull()[0] for _ in range(4)] == [5, 6, FIRST, FIRST + 1]
    cache["q-000000000000007"] = "by name"
    assert cache.push("pushed", "q") == "q-000000000000008"
    assert cache.pull("q") == ("q-000000000000007", "by name")


def test_numbers_out_of_the_range_are_no_items(cache):
    infinity = float("inf")
    for key in (0, -1, 999_999_999_999_999, 2**62, 1e300, infinity, -infinity):
        cache[key] = key
    assert cache.peek() == (None, None)
    assert cache.push(1) == FIRST


def test_what_has_expired_is_removed_on_the_way(cache, clock):
    cache.reset("cull_limit", 0)
    for number, expire in enumerate([10, 10, None, 10]):
        cache.push(number, expire=expire)
    clock.now += 20
    assert cache.peek() == (FIRST + 2, 2)
    assert len(cache) == 2
    assert cache.pull(side="back") == (FIRST + 2, 2)
    assert len(cache) == 0


def test_expiry_and_tag_are_returned(cache, clock):
    cache.push("a", expire=10, tag="red")
    until = cache.peek(expire_time=True)[1]
    assert until == pytest.approx(clock.now + 10, abs=1)
    assert cache.peek(tag=True) == ((FIRST, "a"), "red")
    assert cache.pull(expire_time=True, tag=True) == ((FIRST, "a"), until, "red")
    assert cache.pull(default=7, expire_time=True, tag=True) == (7, None, None)


def test_large_items(cache):
    cache.push("x" * 40_000, "q")
    cache.push("y" * 40_000, "q")
    assert cache.peek("q")[1] == "x" * 40_000
    assert [cache.pull("q")[1][0], cache.pull("q")[1][0]] == ["x", "y"]


def test_a_long_gap_is_skipped(cache):
    for number in range(3000):
        cache.push(number)
    for number in range(1, 2999):
        del cache[FIRST + number]
    assert cache.pull() == (FIRST, 0)
    assert cache.peek() == cache.pull() == (FIRST + 2999, 2999)


def test_random_operations_do_what_they_do_on_a_deque(dc, tmp_path):
    rng = random.Random("queues")
    models: dict = {None: collections.deque(), "a": collections.deque()}
    caches = [dc.Cache(str(tmp_path)) for _ in range(2)]
    for number in range(600):
        cache, prefix = rng.choice(caches), rng.choice([None, "a"])
        model, side = models[prefix], rng.choice(["front", "back"])
        if rng.random() < 0.5:
            cache.push(number, prefix, side)
            model.appendleft(number) if side == "front" else model.append(number)
        elif rng.random() < 0.5:
            end = model[0 if side == "front" else -1] if model else None
            assert cache.peek(prefix, side=side)[1] == end
        else:
            end = (model.popleft() if side == "front" else model.pop()) if model else None
            assert cache.pull(prefix, side=side)[1] == end
        assert len(cache) == sum(map(len, models.values()))
    for cache in caches:
        cache.close()
