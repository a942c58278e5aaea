"""Threads of one process: shared handles, waiting without the GIL, closing under load."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable

import pytest

from reliability.holders import stopped_holder
from tuckbox import Cache
from tuckbox.errors import CacheClosed, LockTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.process import BaseProcess

RUNS_ON = ("shared", "memory")


def in_threads(count: int, work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture(autouse=True)
def frequent_switches() -> Any:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def test_incr_loses_no_count(cache: Cache) -> None:
    def work(_: int) -> None:
        for _ in range(2000):
            cache.incr("n", default=0)

    in_threads(4, work)
    assert cache["n"] == 8000


def test_cas_loses_no_change(cache: Cache) -> None:
    cache["list"] = []

    def work(number: int) -> None:
        for count in range(100):
            while True:
                entry = cache.get_entry("list")
                if cache.cas("list", [*entry.value, (number, count)], entry.version):
                    break

    in_threads(4, work)
    assert sorted(cache["list"]) == [(n, c) for n in range(4) for c in range(100)]


def test_add_has_one_winner(cache: Cache) -> None:
    won = []

    def work(number: int) -> None:
        for round_ in range(300):
            if cache.add(("round", round_), number):
                won.append(round_)

    in_threads(4, work)
    assert sorted(won) == list(range(300))


def test_values_are_never_mixed_up(cache: Cache) -> None:
    """Each value tells its key, and is whole: also long ones, which are copied without the GIL."""
    lengths = (1, 100, 5000, 150_000)

    def work(number: int) -> None:
        for turn in range(150):
            key = (number + turn) % 8
            length = lengths[turn % 4]
            cache[key] = [key, bytes([turn % 256]) * length]
            found = cache.get((number * 3 + turn) % 8)
            if found is not None:
                assert found[0] == (number * 3 + turn) % 8
                assert found[1] == found[1][:1] * len(found[1])
            blob = bytes([key]) * length
            cache[b"blob", key] = blob
            found = cache.get((b"blob", key))
            assert found is None or found == bytes([key]) * len(found)

    in_threads(4, work)


def test_closing_while_others_work(path: str) -> None:
    for _ in range(20):
        cache = Cache(path, size="4 MiB")
        started = threading.Barrier(4)

        def work(number: int, cache: Cache = cache, started: Any = started) -> None:
            started.wait()
            if number == 0:
                time.sleep(0.005)
                cache.close()
                return
            with pytest.raises(CacheClosed):
                while True:
                    cache[number] = b"x" * 200_000
                    cache.get(number)
                    list(cache)

        in_threads(4, work)
    with Cache(path) as cache:
        assert cache.check().is_sound


def test_one_walk_shared_by_threads(cache: Cache) -> None:
    cache.set_many({number: number for number in range(2000)})
    walk = iter(cache)
    seen: list[object] = []

    def work(_: int) -> None:
        while True:
            try:
                seen.append(next(walk))
            except StopIteration:
                return
            except RuntimeError as error:
                assert "another thread is using this iterator" in str(error)

    in_threads(4, work)
    assert sorted(seen) == list(range(2000))


def test_another_thread_changes_the_value_meanwhile(cache: Cache) -> None:
    """Encoding a time zone runs Python code, so that another thread may get its turn: what is
    stored is a state of the list, or nothing."""
    import datetime

    zone = datetime.timezone(datetime.timedelta(hours=1), "name")
    moment = datetime.datetime(2026, 1, 1, tzinfo=zone)
    values: dict[int, object] = dict.fromkeys(range(100), moment)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            values.pop(50, None)
            values[50] = moment
            values[1000] = moment
            del values[1000]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            try:
                cache["k"] = [values, values]
            except RuntimeError as error:
                assert "was changed by another thread" in str(error)
            else:
                assert all(value == moment for part in cache["k"] for value in part.values())
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def held(path: str) -> Iterator[tuple[str, BaseProcess]]:
    """A cache whose lock another process, which is stopped, holds."""
    with Cache(path, size="16 MiB") as cache:
        cache.set_many({number: number for number in range(10_000)})
    with stopped_holder(path) as holder:
        yield path, holder


def test_a_lock_that_is_held_for_too_long(held: tuple[str, BaseProcess]) -> None:
    with Cache(held[0], lock_timeout=0.1) as cache:
        for operation in (
            lambda: cache.set("probe", 1),
            lambda: cache.delete("probe"),
            lambda: cache.incr("probe", default=1),
            cache.clear,
        ):
            with pytest.raises(LockTimeout, match="nothing was changed: try again"):
                operation()
        # Reads take no lock.
        assert cache.get("other") is None
        assert cache.get("probe") in (None, 1)


def test_a_held_lock_stops_the_writes_of_one_shard(path: str) -> None:
    with Cache(path, size="64 MiB") as cache:
        assert cache.stats().shards == 4
        cache.set_many({number: number for number in range(3000)})
    refused = 0
    with stopped_holder(path), Cache(path, lock_timeout=0.002) as cache:
        for number in range(100):
            try:
                cache[number] = -number
            except LockTimeout:
                refused += 1
            else:
                assert cache[number] == -number
    assert 0 < refused < 100


def test_other_threads_run_while_one_waits(held: tuple[str, BaseProcess]) -> None:
    turns = 0
    with Cache(held[0], lock_timeout=1.0) as cache:
        waiting = threading.Event()

        def wait() -> None:
            waiting.set()
            with pytest.raises(LockTimeout):
                cache["probe"] = 1

        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait()
        while thread.is_alive():
            turns += 1
            time.sleep(0.001)
        thread.join()
    # With the GIL held for the whole second there would be one or two.
    assert turns > 20


def test_a_signal_ends_the_wait(held: tuple[str, BaseProcess]) -> None:
    class Enough(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Enough

    old = signal.signal(signal.SIGALRM, handler)
    try:
        with Cache(held[0], lock_timeout=50) as cache:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Enough):
                cache["probe"] = 1
            assert cache.get("other") is None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_a_handler_that_uses_the_cache_itself(held: tuple[str, BaseProcess]) -> None:
    """A handler runs in the middle of an operation of the same thread."""
    seen = []

    def handler(number: int, frame: object) -> None:
        seen.append(cache.get("other"))
        seen.append(list(cache.get_many(["other"])))

    old = signal.signal(signal.SIGALRM, handler)
    try:
        with Cache(held[0], lock_timeout=0.5) as cache:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(LockTimeout):
                cache["probe"] = [1]
            assert seen == [None, []]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_a_lock_is_taken_over_from_the_dead(held: tuple[str, BaseProcess]) -> None:
    path, holder = held
    with Cache(path, lock_timeout=20) as cache:
        done = threading.Event()

        def write() -> None:
            cache["probe"] = "written"
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        assert not done.wait(0.2)
        # The stopped process dies without a word.
        holder.kill()
        thread.join()
        assert cache["probe"] == "written"
        assert cache.check().is_sound
        assert cache.stats().takeovers > 0
