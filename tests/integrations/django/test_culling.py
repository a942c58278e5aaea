"""Two limits of entries: Django's, which culls, and Tuckbox's, which makes one go for one."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from typing import TYPE_CHECKING

import pytest

from integrations.django import workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuckbox.integrations.django import TuckboxCache

    Opened = Callable[..., TuckboxCache]


def fill(backend: TuckboxCache, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        backend.set(f"{number}", number)


@pytest.mark.parametrize(
    ("frequency", "count"),
    [(None, 68), (2, 51), (3, 68), (7, 87), (100, 100), (1000, 100), (1, 1), (0, 1)],
)
def test_one_entry_in_so_many_goes_when_there_are_too_many(
    opened: Opened, frequency: int | None, count: int
) -> None:
    options = {"MAX_ENTRIES": 100}
    if frequency is not None:
        options["CULL_FREQUENCY"] = frequency
    backend = opened(OPTIONS=options)
    fill(backend, 100)
    assert len(backend._cache) == 100
    backend.set("last", 1)
    assert len(backend._cache) == count
    assert backend.get("last") == 1


@pytest.mark.parametrize("way", ["add", "set_many", "set_many objects", "get_or_set", "aset"])
def test_every_way_to_store_obeys(opened: Opened, way: str) -> None:
    backend = opened(OPTIONS={"MAX_ENTRIES": 10})
    keys = list(map(str, range(25)))
    if way == "add":
        assert all(backend.add(key, key) for key in keys)
    elif way == "set_many":
        backend.set_many(dict.fromkeys(keys, 1))
    elif way == "set_many objects":
        backend.set_many(dict.fromkeys(keys, ...))
    elif way == "get_or_set":
        assert all(backend.get_or_set(key, key) == key for key in keys)
    else:

        async def store() -> None:
            for key in keys:
                await backend.aset(key, key)

        asyncio.run(store())
    # 10 are stored; from then on each fourth removes 3 and is stored itself.
    assert len(backend._cache) == 10
    assert backend.has_key(keys[-1])


def test_storing_again_makes_nothing_go(opened: Opened) -> None:
    backend = opened(OPTIONS={"MAX_ENTRIES": 10})
    fill(backend, 10)
    fill(backend, 10)
    assert not backend.add("3", 3)
    assert backend.incr("3") == 4
    assert len(backend._cache) == 10


def test_the_expired_go_first(opened: Opened) -> None:
    backend = opened(OPTIONS={"MAX_ENTRIES": 30})
    fill(backend, 20)
    for number in range(10):
        backend.set(f"expired:{number}", number, 0.01)
    time.sleep(0.05)
    backend.set("one", "more")
    assert len(backend.get_many(map(str, range(20)))) == 20
    assert len(backend._cache) == 21


def test_each_entry_may_be_the_one_that_goes(opened: Opened) -> None:
    backend = opened(OPTIONS={"MAX_ENTRIES": 30})
    gone = [0] * 30
    for _ in range(60):
        backend.clear()
        fill(backend, 31)
        for number in range(30):
            gone[number] += not backend.has_key(str(number))
    assert sum(gone) == 60 * 10
    # Each is expected to go 20 times, with a standard deviation of 3.7.
    assert min(gone) > 1
    assert max(gone) < 40


def test_the_limit_is_that_of_the_alias_and_can_change(opened: Opened) -> None:
    free, bound = opened(), opened(OPTIONS={"MAX_ENTRIES": 10})
    fill(free, 25)
    assert len(free._cache) == 25
    bound.set("one", "more")
    assert len(free._cache) == 25 - 8 + 1


def test_many_processes_obey_together(location: str, opened: Opened) -> None:
    backend = opened()
    context = multiprocessing.get_context("spawn")
    lengths = context.Array("i", 4)
    processes = [
        context.Process(target=workers.fill, args=(location, worker, 600, 50, lengths))
        for worker in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    # Each may see room for one at the same moment.
    assert 30 < max(lengths) <= 50 + 3
    assert len(backend._cache) <= 50 + 3


def test_tuckbox_limit_makes_one_go_for_one(opened: Opened) -> None:
    backend = opened(OPTIONS={"max_entries": 100})
    fill(backend, 250)
    assert len(backend._cache) == 100
    assert backend.get("249") == 249


def test_culling_is_djangos_and_not_the_files(opened: Opened) -> None:
    assert opened(OPTIONS={"MAX_ENTRIES": 10})._cache.max_entries is None
