"""Locks: one holder at a time, which its lease outlives by nothing."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable

import pytest

from coordination.conftest import child, kill
from coordination.stepping import Stepped, orders
from tuckbox import connect, memory
from tuckbox.drivers.memory import Memory
from tuckbox.drivers.null import Null
from tuckbox.errors import (
    AcquireTimeout,
    CacheReadOnly,
    InvalidArgument,
    InvalidTTL,
    LockLost,
    LockNotOwned,
    Unsupported,
)
from tuckbox.remote import cache as remote

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")

LONG_S = 60


class TestHolding:
    def test_one_holds_it_and_others_do_not(self, cache: Cache) -> None:
        lock, other = cache.lock("a"), cache.lock("a")
        assert not lock.locked()
        assert lock.acquire(0)
        assert (lock.owned(), other.owned(), other.locked()) == (True, False, True)
        assert not other.acquire(0)
        lock.release()
        assert other.acquire(0)

    def test_names_and_namespaces_are_apart(self, cache: Cache) -> None:
        spaces = [cache, cache.namespace("x"), cache.namespace("y")]
        for space in spaces:
            assert space.lock("a").acquire(0)
            assert space.lock("b").acquire(0)
            assert not space.lock("a").acquire(0)

    def test_it_is_not_among_the_keys(self, cache: Cache) -> None:
        with cache.lock("a"):
            assert (list(cache), cache.get("a")) == ([], None)
            assert ("a" in cache, list(cache.scan(prefix="a"))) == (False, [])

    def test_with_waits_and_then_raises(self, cache: Cache) -> None:
        with cache.lock("a"), pytest.raises(AcquireTimeout, match="lock 'a' was not free for 0"):
            cache.lock("a", timeout=0.02).__enter__()

    def test_only_the_owner_releases(self, cache: Cache) -> None:
        lock, other = cache.lock("a"), cache.lock("a")
        lock.acquire()
        for act in (other.release, other.refresh, lambda: other.fence):
            with pytest.raises(LockNotOwned, match="acquire it first"):
                act()
        raised: list[BaseException] = []

        def release() -> None:
            try:
                lock.release()
            except LockNotOwned as error:
                raised.append(error)

        thread = threading.Thread(target=release)
        thread.start()
        thread.join()
        assert raised
        assert lock.owned()

    def test_an_error_of_the_block_is_not_replaced(self, cache: Cache) -> None:
        with pytest.raises(KeyError), cache.lock("a"):
            cache.clear()
            raise KeyError

    def test_threads_take_turns(self, cache: Cache) -> None:
        count = [0]

        def add() -> None:
            for _ in range(50):
                with cache.lock("a"):
                    seen = count[0]
                    time.sleep(0)
                    count[0] = seen + 1

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert count == [200]

    def test_fences_grow_also_over_a_clear(self, cache: Cache) -> None:
        fences = []
        for number in range(6):
            with cache.lock("a") as lock:
                fences.append(lock.fence)
            if number % 2:
                cache.clear()
        assert fences == sorted(set(fences))

    @pytest.mark.parametrize("ttl", [None, 0, float("inf"), -1])
    def test_a_lease_has_an_end(self, cache: Cache, ttl: Any) -> None:
        with pytest.raises(InvalidArgument, match="ttl must be longer than 0 and have an end"):
            cache.lock("a", ttl=ttl)

    def test_wrong_arguments(self, cache: Cache) -> None:
        with pytest.raises(InvalidTTL):
            cache.lock("a", ttl="soon")
        for name in ("", b"a", None):
            with pytest.raises(InvalidArgument, match="name of a lock must be a str"):
                cache.lock(name)  # type: ignore[arg-type]
        for timeout in (-1, "1", True, float("nan")):
            with pytest.raises(InvalidArgument, match="timeout must be a number"):
                cache.lock("a", timeout=timeout)  # type: ignore[arg-type]


class TestLeases:
    def test_a_lease_ends(self, timed: Cache, clock: _engine.ManualClock) -> None:
        lock, other = timed.lock("a", ttl=timedelta(seconds=10)), timed.lock("a")
        lock.acquire()
        clock.advance(9.9)
        assert lock.owned()
        assert not other.acquire(0)
        clock.advance(0.2)
        assert not lock.owned()
        assert other.acquire(0)
        with pytest.raises(LockLost, match="its lease ended"):
            lock.release()
        assert other.owned()

    def test_a_lost_lock_is_not_refreshed(self, timed: Cache, clock: _engine.ManualClock) -> None:
        lock, other = timed.lock("a", ttl=10), timed.lock("a")
        lock.acquire()
        clock.advance(11)
        other.acquire()
        for act in (lock.refresh, lock.release):
            with pytest.raises(LockLost):
                act()
        with pytest.raises(LockNotOwned, match="acquire it first"):
            lock.release()

    def test_refresh_begins_the_lease_again(self, timed: Cache, clock: _engine.ManualClock) -> None:
        lock = timed.lock("a", ttl=10)
        lock.acquire()
        for ttl_s, given in ((10, None), (3, 3), (60, "1m")):
            lock.refresh(given)
            clock.advance(ttl_s - 0.5)
            assert lock.owned()
        clock.advance(1)
        assert not lock.owned()

    def test_a_cleared_lock_is_lost(self, cache: Cache) -> None:
        lock = cache.lock("a")
        lock.acquire()
        cache.clear()
        assert cache.lock("a").acquire(0)
        with pytest.raises(LockLost, match="cache was cleared"):
            lock.release()

    def test_a_lost_lock_can_be_acquired_again(self, cache: Cache) -> None:
        lock = cache.lock("a")
        lock.acquire()
        cache.clear()
        assert lock.acquire(0)
        lock.release()


class TestReentrant:
    def test_it_is_free_after_as_many_releases(self, cache: Cache) -> None:
        lock = cache.rlock("a")
        for _ in range(3):
            assert lock.acquire(0)
        for _ in range(3):
            assert not cache.lock("a").acquire(0)
            lock.release()
        assert cache.lock("a").acquire(0)
        with pytest.raises(LockNotOwned):
            lock.release()

    def test_another_thread_waits(self, cache: Cache) -> None:
        lock = cache.rlock("a")
        answers: list[bool] = []
        with lock:
            thread = threading.Thread(target=lambda: answers.append(lock.acquire(0)))
            thread.start()
            thread.join()
        assert answers == [False]

    def test_a_lost_one_is_not_entered_again(self, cache: Cache) -> None:
        lock = cache.rlock("a")
        lock.acquire()
        cache.clear()
        with pytest.raises(LockLost):
            lock.acquire()
        with pytest.raises(LockLost):
            lock.release()
        assert lock.acquire(0)

    def test_blocks_in_each_other_of_a_lost_one_raise_once(self, cache: Cache) -> None:
        lock = cache.rlock("a")
        with pytest.raises(LockLost), lock, lock:
            cache.clear()
        assert lock.acquire(0)


class TestEventLoops:
    def test_tasks_take_turns(self, cache: Cache, run: Callable[..., Any]) -> None:
        import anyio

        inside: list[int] = []

        async def enter(lock: Any, number: int) -> None:
            async with lock:
                inside.append(number)
                await anyio.sleep(0.001)
                assert inside[-1] == number
                await lock.arefresh()
                assert await lock.aacquire(0) is False

        async def main() -> None:
            lock = cache.lock("a")
            async with anyio.create_task_group() as group:
                for number in range(5):
                    group.start_soon(enter, lock, number)

        run(main)
        assert sorted(inside) == [*range(5)]

    def test_a_task_does_not_hold_what_another_one_acquired(
        self, cache: Cache, run: Callable[..., Any]
    ) -> None:
        async def main() -> None:
            lock = cache.lock("a")
            lock.acquire()
            await lock.arelease()
            await lock.aacquire()

        run(main)

    def test_with_raises_when_the_time_is_over(self, cache: Cache, run: Callable[..., Any]) -> None:
        async def main() -> None:
            with cache.lock("a"), pytest.raises(AcquireTimeout):
                await cache.lock("a", timeout=0.01).__aenter__()

        run(main)


class TestProcesses:
    def test_the_lock_of_a_killed_process_is_free_after_its_lease(
        self, between: Callable[[], Any]
    ) -> None:
        ttl_s = 3
        cache = between()
        began_s = time.monotonic()
        with child(lambda: between().lock("a", ttl=ttl_s).acquire(0)) as pid:
            assert cache.lock("a").locked()
            kill(pid)
            assert cache.lock("a", timeout=LONG_S).acquire()
        # The clock that counts leases is coarse.
        assert time.monotonic() - began_s > ttl_s - 0.05
        cache.close()

    def test_a_child_does_not_own_the_lock_of_its_parent(self, between: Callable[[], Any]) -> None:
        cache = between()
        lock = cache.lock("a")
        lock.acquire()

        def work() -> None:
            assert not lock.owned()
            assert not lock.acquire(0)
            with pytest.raises(LockNotOwned):
                lock.release()

        with child(work):
            assert lock.owned()
        lock.release()
        cache.close()

    def test_locks_of_a_live_process_are_waited_for(self, between: Callable[[], Any]) -> None:
        def work() -> None:
            lock = between().lock("a", ttl=LONG_S)
            lock.acquire()
            threading.Timer(0.2, lambda: None).start()
            time.sleep(0.1)
            lock.release()

        cache = between()
        with child(work):
            assert cache.lock("a", timeout=LONG_S).acquire()
        cache.close()


@pytest.mark.shared_file
def test_a_handle_that_only_reads_acquires_nothing(cache: Cache, path: str) -> None:
    reader = type(cache)(path, read_only=True)
    with pytest.raises(CacheReadOnly):
        reader.lock("a").acquire(0)


def test_a_place_that_evicts_refuses() -> None:
    class Evicting(Memory):
        capabilities = Memory.capabilities._replace(may_evict=True)

    for driver in (Evicting(), Null()):
        cache = remote.Cache(driver)  # type: ignore[arg-type]
        with pytest.raises(Unsupported, match="may evict entries at any moment"):
            cache.namespace("part").lock("a")


def test_memcached_refuses() -> None:
    cache = connect("memcached://127.0.0.1:1")
    with pytest.raises(Unsupported, match="may evict"):
        cache.lock("a")


def test_tiers_lock_in_the_far_one() -> None:
    far = remote.Cache(Memory())
    from tuckbox.tiers.memory_first import MemoryFirst

    with MemoryFirst(far, None, tracking=False) as cache:
        cache.lock("a").acquire()
        assert far.lock("a").locked()
        cache.namespace("x").lock("b").acquire()
        assert far.namespace("x").lock("b").locked()
        assert isinstance(cache, memory.Cache)


class TestOrdersOfSteps:
    """Every order of the steps of two that acquire, with a lease that ends at any of them."""

    def test_one_of_two_holds_it(self, cache: Cache) -> None:
        for number, order in enumerate(orders(5, 5)):
            locks = [cache.lock(str(number)) for _ in range(2)]
            both = [Stepped(lock._acquire(0)) for lock in locks]
            for who in order:
                both[who].step()
            assert sorted(one.finish() for one in both) == [False, True]
            assert [lock.owned() for lock in locks] == [one.result for one in both]

    def test_a_later_holder_has_a_larger_fence(
        self, timed: Cache, clock: _engine.ManualClock
    ) -> None:
        for ended_after in range(6):
            for number, order in enumerate(orders(5, 5)):
                locks = [timed.lock(f"{number} {ended_after}", ttl=10) for _ in range(2)]
                both = [Stepped(lock._acquire(0)) for lock in locks]
                for turn, who in enumerate(order):
                    if turn == ended_after:
                        clock.advance(11)
                    both[who].step()
                results = [one.finish() for one in both]
                fences = [lock.fence for lock, got in zip(locks, results) if got]
                owner = [lock.fence for lock in locks if lock.owned()]
                assert len(owner) <= 1
                assert len(set(fences)) == len(fences)
                assert owner in ([], [max(fences, default=0)])

    def test_a_release_never_ends_the_lease_of_another(
        self, timed: Cache, clock: _engine.ManualClock
    ) -> None:
        for number, order in enumerate(orders(3, 5)):
            late, next_one = timed.lock(str(number), ttl=10), timed.lock(str(number), ttl=100)
            late.acquire()
            clock.advance(10.5)
            release, acquire = Stepped(quiet(late._release())), Stepped(next_one._acquire(0))
            for who in order:
                (release, acquire)[who].step()
            assert acquire.finish()
            release.finish()
            assert next_one.owned()


def quiet(steps: Any) -> Any:
    with suppress(LockLost):
        yield from steps
