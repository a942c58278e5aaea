"""A full cache evicts no lock and no item of a queue, and refuses new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tuckbox.errors import CacheFull

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory", "namespace")


def test_nothing_of_them_is_evicted(cache: Cache) -> None:
    lock, place, jobs = cache.lock("a"), cache.semaphore("b", 1), cache.queue("c")
    assert lock.acquire(0)
    assert place.acquire(0)
    fence = lock.fence
    for number in range(20):
        jobs.push(number)
    jobs.push("first", side="front")
    limit = cache.rate_limit("d", 1, 3600)
    assert limit.try_acquire()
    for number in range(20_000):
        cache.set(number, "x" * 1000)
    assert cache.stats().evictions > 0
    assert lock.owned()
    assert place.owned()
    assert not limit.try_acquire()
    assert list(jobs) == ["first", *range(20)]
    lock.release()
    with cache.lock("a") as lock:
        assert lock.fence > fence


def test_a_full_cache_refuses(cache: Cache) -> None:
    jobs = cache.queue("a")
    with pytest.raises(CacheFull):
        for number in range(100_000):
            jobs.push([number, "x" * 1000])
    count = len(jobs)
    with pytest.raises(CacheFull):
        jobs.push("x" * 1000)
    assert len(jobs) == count
    assert [jobs.pull()[0] for _ in range(count)] == [*range(count)]
    jobs.push("x" * 1000)
