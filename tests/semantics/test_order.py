"""The order of insertion, in caches that keep it."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import signal
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable

import pytest

from tuckbox import Cache, connect, memory
from tuckbox.drivers.memory import Memory
from tuckbox.errors import InvalidArgument, SizeMismatchWarning, Unsupported
from tuckbox.remote import cache as remote

if TYPE_CHECKING:
    from pathlib import Path

    from tuckbox._engine import ManualClock

RUNS_ON = ("shared", "memory")


@pytest.fixture
def cache(opened: Callable[..., Cache], path: str) -> Cache:
    """An ordered cache."""
    return opened(path, size="4 MiB", ordered=True)


def change(cache: Any, model: OrderedDict[Any, Any], draw: random.Random) -> None:
    """Do something to a cache and to the model of it."""
    key: Any = draw.choice([draw.randrange(30), f"key {draw.randrange(10)}", ("of", "two")])
    # Often of the length of the present one.
    value: Any = draw.choice(["short", "x" * draw.randrange(300), 7, None, b"y" * 70_000])
    do = draw.randrange(11)
    if do < 5:
        ttl = draw.choice([None, 1_000])
        cache.set(key, value, ttl, tags=draw.choice([(), ("tag",)]), pinned=draw.random() < 0.2)
        model[key] = value
    elif do == 5:
        several = {draw.randrange(40): step for step in range(5)}
        cache.set_many(several)
        model.update(several)
    elif do == 6:
        assert cache.delete(key) is (key in model)
        model.pop(key, None)
    elif do == 7:
        assert cache.add(key, value) is (key not in model)
        model.setdefault(key, value)
    elif do == 8:
        assert cache.touch(key, 2_000) is (key in model)
    elif do == 9 and model:
        last = draw.random() < 0.5
        assert cache.peekitem(last) == next(
            reversed(model.items()) if last else iter(model.items())
        )
    elif do == 10 and model:
        last = draw.random() < 0.5
        assert cache.popitem(last) == model.popitem(last)


@pytest.mark.parametrize("seed", range(4))
def test_a_cache_has_the_order_of_an_ordered_dict(cache: Cache, seed: int) -> None:
    draw, model = random.Random(seed), OrderedDict[Any, Any]()
    for step in range(1_500):
        change(cache, model, draw)
        if step % 100 == 0:
            assert list(cache.items()) == list(model.items())
            assert list(reversed(cache.items())) == list(reversed(model.items()))
    assert list(cache) == list(cache.keys()) == list(model)
    assert list(reversed(cache)) == list(reversed(cache.keys())) == list(reversed(model))
    assert list(cache.values()) == list(model.values())
    assert list(reversed(cache.values())) == list(reversed(model.values()))


def test_popitem_empties_a_cache_from_either_end(cache: Cache) -> None:
    for last in (True, False):
        numbers = list(range(1_500))
        random.Random(last).shuffle(numbers)
        cache.set_many(dict.fromkeys(numbers))
        # Newer than what popitem has listed.
        popped = [cache.popitem(last)[0] for _ in range(10)]
        cache["late"] = 1
        popped += [cache.popitem(last)[0] for _ in range(len(cache))]
        expected = [*numbers[:-11:-1], "late", *numbers[-11::-1]] if last else [*numbers, "late"]
        assert popped == expected
        with pytest.raises(KeyError, match="no entries"):
            cache.popitem(last)
        with pytest.raises(KeyError, match="no entries"):
            cache.peekitem(last)


def test_an_entry_that_was_popped_or_expired_meanwhile_is_new(
    timed_ordered: Cache, clock: ManualClock
) -> None:
    cache = timed_ordered
    cache.set("a", 1, 10)
    cache.set("b", 1)
    cache.set("c", 1)
    clock.advance(20)
    assert cache.peekitem(last=False) == ("b", 1)
    cache["a"] = 2
    assert cache.pop("b") == 1
    cache["b"] = 2
    assert list(cache) == ["c", "a", "b"]


def test_namespaces_have_the_order_of_their_own_entries(cache: Cache) -> None:
    one, other = cache.namespace("one"), cache.namespace("other")
    for number in range(600):
        (one, other, cache)[number % 3][number] = number
    assert list(one) == list(range(0, 600, 3))
    assert list(reversed(other)) == list(range(598, 0, -3))
    assert (cache.peekitem(), cache.peekitem(last=False)) == ((599, 599), (2, 2))
    assert [one.popitem()[0] for _ in range(200)] == list(range(597, -1, -3))
    assert len(list(cache)) == 200
    one.clear()
    with pytest.raises(KeyError):
        one.peekitem()


def test_iteration_skips_what_is_deleted_meanwhile(cache: Cache) -> None:
    cache.set_many(dict.fromkeys(range(10)))
    keys = iter(cache)
    assert [next(keys), next(keys)] == [0, 1]
    cache.delete_many([2, 5])
    cache[2] = cache["new"] = 1
    assert [key for key in keys if key in range(3, 10)] == [3, 4, 6, 7, 8, 9]
    assert list(cache)[-2:] == [2, "new"]


def test_event_loops_have_it(cache: Cache) -> None:
    async def run() -> None:
        await cache.aset("a", 1)
        await cache.aset("b", 2)
        assert await cache.apeekitem(last=False) == ("a", 1)
        assert await cache.apopitem(last=False) == ("a", 1)
        assert await cache.apopitem() == ("b", 2)

    asyncio.run(run())


def test_the_setting_is_kept(opened: Callable[..., Cache], path: str) -> None:
    cache = opened(path, ordered=True)
    cache.set_many(dict.fromkeys("cab"))
    assert cache.ordered
    assert list(pickle.loads(pickle.dumps(cache))) == ["c", "a", "b"]
    with pytest.warns(SizeMismatchWarning, match="keeps ordered True, not False"):
        again = opened(path, ordered=False)
    assert list(again) == ["c", "a", "b"]
    assert opened(path).ordered
    with pytest.raises(InvalidArgument, match="ordered must be True, False or None"):
        type(cache)(ordered=1)  # type: ignore[arg-type]


def test_dumps_keep_it(opened: Callable[..., Cache], path: str, tmp_path: Path) -> None:
    cache, other = opened(path, ordered=True), opened(path + "-other", ordered=True)
    cache.set_many(dict.fromkeys("qwertzuiop"))
    cache["e"] = 2
    cache.dump(tmp_path / "dump")
    other["last"] = 1
    other.load(tmp_path / "dump")
    assert "".join(other) == "lastqwertzuiop"
    assert other["e"] == 2


def test_only_ordered_caches_have_it(opened: Callable[..., Cache], path: str) -> None:
    cache = opened(path)
    cache["a"] = 1
    assert not cache.ordered
    with pytest.raises(Unsupported, match="ordered=True"):
        cache.peekitem()
    with pytest.raises(InvalidArgument, match="ordered=True"):
        cache.popitem(last=False)
    assert cache.popitem() == ("a", 1)


def test_other_places_refuse_it() -> None:
    with pytest.raises(Unsupported, match="keeps no order"):
        remote.Cache(Memory(), ordered=True)
    cache = remote.Cache(Memory())
    assert not cache.ordered
    with pytest.raises(TypeError, match="not reversible"):
        reversed(cache)


def test_a_url_can_ask_for_it(path: str) -> None:
    with connect(f"shared://{path}?ordered=true") as cache:
        assert cache.ordered
    with connect("memory:?ordered=true") as cache:
        assert isinstance(cache, memory.Cache)
        assert cache.ordered


def test_tiers_have_the_order_of_the_far_tier(path: str) -> None:
    with connect("memory:near", f"shared://{path}?ordered=true") as cache:
        cache.set_many(dict.fromkeys("cab"))
        assert cache.ordered
        assert list(cache) == ["c", "a", "b"]
        assert list(reversed(cache)) == ["b", "a", "c"]
        assert cache.peekitem(last=False) == ("c", None)
        assert cache.popitem(last=False) == ("c", None)
        assert "c" not in cache


def insert(path: str, turn: int) -> None:
    """Insert numbers in turn, so few that none is evicted, and wait for the end."""
    own = Cache(path)
    for number in range(3_000):
        own[turn, number] = "x" * (number % 700)
        if number % 7 == 0:
            del own[turn, number]
            own[turn, number] = 1
    signal.pause()


def test_writers_that_are_killed_leave_the_order(path: str) -> None:
    """Each process inserts its own numbers in turn, and is killed while it does."""
    cache = Cache(path, size="32 MiB", ordered=True)
    for turn in range(12):
        child = os.fork()
        if child == 0:
            try:
                insert(path, turn)
            finally:
                os._exit(1)
        # Until it has inserted some.
        while (turn, 40 + turn) not in cache:
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        cache["between", turn] = turn
    keys = list(cache)
    numbers = {}
    for first, number in keys:  # type: ignore[misc]
        if first != "between":
            assert number >= numbers.get(first, -1), (first, number)
            numbers[first] = number
    order = [key if key[0] == "between" else key[0] for key in keys]  # type: ignore[index]
    for turn in range(12):
        at = order.index(("between", turn))
        assert set(order[:at]) >= {turn}
        assert turn not in order[at:]
    report = cache.check()
    assert report.damaged_entries == 0
    assert cache.stats().evictions == 0
    assert list(cache) == keys
