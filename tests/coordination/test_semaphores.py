"""Semaphores: at most n holders, and the place of a killed one comes back."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Callable

import pytest

from coordination.conftest import child, kill
from tuckbox.errors import AcquireTimeout, InvalidArgument, LockLost, LockNotOwned

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")


def test_as_many_hold_it_as_there_are_places(cache: Cache) -> None:
    held = [cache.semaphore("a", 3) for _ in range(3)]
    for number, one in enumerate(held):
        assert not one.locked()
        assert one.acquire(0), number
    other = cache.semaphore("a", 3, timeout=0.01)
    assert other.locked()
    with pytest.raises(AcquireTimeout, match="semaphore 'a'"):
        other.__enter__()
    held[1].release()
    assert other.acquire(0)


def test_a_place_comes_back_when_its_lease_ends(timed: Cache, clock: _engine.ManualClock) -> None:
    first, second, third = (timed.semaphore("a", 2, ttl=ttl) for ttl in (10, 20, 10))
    assert first.acquire(0)
    assert second.acquire(0)
    clock.advance(11)
    assert third.acquire(0)
    assert (first.owned(), second.owned(), third.owned()) == (False, True, True)
    with pytest.raises(LockLost):
        first.release()


def test_a_thread_that_acquires_all_places_releases_all(cache: Cache) -> None:
    places, other = cache.semaphore("a", 3), cache.semaphore("a", 3)
    assert [places.acquire(0) for _ in range(4)] == [True, True, True, False]
    for _ in range(3):
        assert places.owned()
        places.release()
    with pytest.raises(LockNotOwned):
        places.release()
    with places, places, places:
        assert not other.acquire(0)
    assert [other.acquire(0) for _ in range(3)] == [True, True, True]


def test_a_thread_that_lost_one_of_its_places_releases_the_other(
    timed: Cache, clock: _engine.ManualClock
) -> None:
    places = timed.semaphore("a", 2, ttl=10)
    assert places.acquire(0)
    clock.advance(6)
    assert places.acquire(0)
    clock.advance(6)
    assert places.acquire(0)
    assert not places.acquire(0)
    places.release()
    places.release()
    with pytest.raises(LockNotOwned):
        places.release()
    assert not places.locked()


def test_threads_are_never_more_than_the_places(cache: Cache) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with cache.semaphore("a", 2):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 100
    assert max(most) <= 2


def test_the_place_of_a_killed_process_comes_back(between: Callable[[], Any]) -> None:
    cache = between()
    cache.semaphore("a", 2).acquire()
    with child(lambda: between().semaphore("a", 2, ttl=3).acquire(0)) as pid:
        assert cache.semaphore("a", 2).locked()
        kill(pid)
        assert cache.semaphore("a", 2, timeout=60).acquire()
    cache.close()


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2"])
def test_wrong_numbers_of_places(cache: Cache, n: Any) -> None:
    with pytest.raises(InvalidArgument, match="n must be an int from 1 on"):
        cache.semaphore("a", n)
