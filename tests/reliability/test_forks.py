"""T-F1: a process with busy threads forks in every way there is. Its children share the cache, and
leave nothing behind when they go, however they go."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any, Callable

import pytest

from processes import workers
from processes.children import children
from reliability.children import (
    CANARIES,
    OPERATIONS,
    closing,
    ending_at_once,
    ending_in_a_thread,
    executing,
    forking_again,
    killed,
    returning,
    work,
)
from reliability.holders import stopped_holder
from tuckbox import Cache
from tuckbox.errors import LockTimeout, TooManyProcesses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-F1"), pytest.mark.timeout(120)]

HANG_S = 30


# How, how often in ten, and whether each of its operations was done.
WAYS: list[tuple[Callable[[Cache, int], None], int]] = [
    (returning, 2),
    (ending_at_once, 2),
    (ending_in_a_thread, 1),
    (forking_again, 1),
    (closing, 1),
    (killed, 3),
]


def forked(work_of_child: Callable[[Cache, int], None], cache: Cache, seed: int) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work_of_child(cache, seed)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


class BusyThreads:
    """Threads that write all the time, long values among them."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.stop = threading.Event()
        self.failures: list[BaseException] = []
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(3)]

    def run(self, number: int) -> None:
        try:
            turn = 0
            while not self.stop.is_set():
                turn += 1
                self.cache["busy", number, turn % 5] = [turn, b"x" * (turn * 997 % 40_000)]
        except BaseException as failure:
            self.failures.append(failure)

    def __enter__(self) -> None:
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures


def storm(cache: Cache, count: int, seed: int) -> int:
    """Fork so often among busy threads; how many operations were counted.

    Raises:
        AssertionError: A child failed, or an entry is lost, or a slot is.
    """
    generator = random.Random(seed)
    cache.set_many({("canary", n): workers.value_of(n, 0, 40) for n in range(CANARIES)})
    ways = [way for way, share in WAYS for _ in range(share)]
    done = 0
    with BusyThreads(cache), warnings.catch_warnings():
        # Python 3.12 and later rightly warn of what this test does on purpose.
        warnings.simplefilter("ignore", DeprecationWarning)
        for number in range(count):
            way = executing if number % 20 == 19 else generator.choice(ways)
            child = forked(way, cache, number)
            if way is killed:
                time.sleep(generator.uniform(0, 0.02))
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            assert code == (-signal.SIGKILL if way is killed else 0), f"{way.__name__}: {code}"
            done += OPERATIONS * (way is not killed)
    canaries = cache.get_many(("canary", n) for n in range(CANARIES))
    assert len(canaries) == CANARIES, "entries were lost"
    assert cache["count"] >= done, "counts were lost"
    return done


def free_slots(path: str) -> int:
    """How many more may join: 128 may in all with a file of this size."""
    caches = []
    try:
        for _ in range(200):
            caches.append(Cache(path))
    except OSError:
        pass
    for cache in caches:
        cache.close()
    return len(caches)


def test_a_storm_of_forks(opened: Any, path: str, trials: Trials, size: Any, seed: int) -> None:
    cache = opened(path, size="8 MiB", lock_timeout=HANG_S)
    slots = free_slots(path)
    count = size(100, 3000)
    operations = storm(cache, count, seed)
    assert free_slots(path) == slots > 8, "slots were lost"
    cache.check()
    assert cache.check().is_sound
    assert cache.stats().evictions == 0
    trials.add(count, "forks")
    trials.figure("operations", operations)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start(opened: Any, path: str, method: str, trials: Trials) -> None:
    cache = opened(path, size="8 MiB", lock_timeout=HANG_S)
    cache.set_many({("canary", n): workers.value_of(n, 0, 40) for n in range(CANARIES)})
    context = multiprocessing.get_context(method)
    with BusyThreads(cache):
        for number in range(4):
            process = context.Process(target=work, args=(cache, number))
            process.start()
            process.join(HANG_S)
            assert process.exitcode == 0
    assert cache["count"] == 4 * OPERATIONS
    trials.add(4, "starts")


class Missing(Cache):
    def get_many(self, keys: Any) -> Any:
        return {}


class Counting(Cache):
    """Counts by reading and writing."""

    def incr(self, key: Any, delta: int = 1, default: Any = None, ttl: Any = None) -> int:
        if os.getpid() != self.made_by:
            return 0
        return super().incr(key, delta, default, ttl)

    made_by = os.getpid()


class Inherited(Cache):
    """Guards every operation by a lock of threads, of which a child has whatever state it had."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lock = threading.Lock()

    def __setitem__(self, key: Any, value: Any) -> None:
        with self.lock:
            super().__setitem__(key, value)

    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        assert self.lock.acquire(timeout=2), "hangs"
        try:
            super().set(key, value, ttl)
        finally:
            self.lock.release()


@pytest.mark.parametrize("liar", [Missing, Counting, Inherited])
def test_a_cache_that_forgets_forks_is_caught(liar: type[Cache], path: str, seed: int) -> None:
    with liar(path, size="8 MiB", lock_timeout=HANG_S) as cache:
        cache.incr("count", default=0)
        with pytest.raises(AssertionError):
            storm(cache, 20, seed)


# A child that lives on must not keep its dead parent's locks.

PARENT = """
import os, subprocess, sys, time
from tuckbox import Cache
cache = Cache(sys.argv[1], lock_timeout=60)
if sys.argv[2] == "every descriptor":
    for name in os.listdir("/proc/self/fd"):
        try:
            os.set_inheritable(int(name), True)
        except OSError:
            pass
if sys.argv[2] == "forked":
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
else:
    child = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=2).pid
print(child, flush=True)
while True:
    cache.check()
"""


def survive(path: str, way: str) -> None:
    """A parent dies with a lock, and its child lives on."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, path, way], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    probe = Cache(path, lock_timeout=0.02)
    try:
        for _ in range(400):
            time.sleep(0.005)
            os.kill(parent.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, parent.pid, os.WSTOPPED | os.WNOWAIT)
            try:
                probe.set("probe", 1)
            except LockTimeout:
                break
            os.kill(parent.pid, signal.SIGCONT)
        else:
            raise AssertionError("the parent was never stopped with the lock")
        parent.kill()
        parent.wait()
        os.kill(child, 0)
        try:
            probe.set("probe", 2)
        except LockTimeout as error:
            raise AssertionError("the lock of the dead is held by its child") from error
        os.kill(child, 0)
    finally:
        probe.close()
        parent.kill()
        parent.wait()
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()


@pytest.fixture
def filled(path: str) -> Iterator[str]:
    with Cache(path, size="24 MiB", lock_timeout=HANG_S) as cache:
        cache.set_many({n: n for n in range(20_000)})
        yield path
        cache.check()
        assert cache.check().is_sound
        assert cache.get_many(range(20_000)) == {n: n for n in range(20_000)}


@pytest.mark.parametrize("way", ["forked", "executed"])
def test_a_child_does_not_hold_its_dead_parents_lock(filled: str, way: str, trials: Trials) -> None:
    for _ in range(3):
        survive(filled, way)
    trials.add(3, "orphans")


# A signal's handler forks in the middle of an operation, and both processes go on with it.


@contextlib.contextmanager
def forking_at_a_signal(in_child: Callable[[], object], delay_s: float) -> Iterator[list[int]]:
    """Fork once, when a timer ends; what the fork returned."""
    forks: list[int] = []

    def handle(*_: object) -> None:
        if not forks:
            forks.append(os.fork())
            if forks == [0]:
                # A child that hangs ends.
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(HANG_S)
                in_child()

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, delay_s)
    try:
        yield forks
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def end_child(cache: Cache, error: BaseException | None) -> None:
    """End a child: with status 0 if it met no error and can close the cache."""
    signal.alarm(HANG_S)
    if error is not None:
        traceback.print_exception(error)
    cache.close()
    os._exit(0 if error is None else 1)


@pytest.mark.parametrize("uses_cache", [False, True])
def test_a_fork_in_a_handler_while_a_write_waits(
    filled: str, trials: Trials, *, uses_cache: bool
) -> None:
    with Cache(filled, lock_timeout=HANG_S) as cache, stopped_holder(filled) as holder:
        releases = threading.Timer(0.5, holder.kill)
        releases.start()
        with forking_at_a_signal(lambda: uses_cache and cache.get(1), 0.1) as forks:
            error = None
            try:
                cache.incr("forked", default=0)
            except Exception as failure:
                error = failure
            if forks == [0]:
                end_child(cache, error)
        releases.join()
        assert error is None
        assert os.waitstatus_to_exitcode(os.waitpid(forks[0], 0)[1]) == 0
        assert cache["forked"] == 2
    trials.add(1, "forks in handlers")


def test_a_fork_in_a_handler_while_a_large_value_is_built(
    opened: Any, path: str, trials: Trials
) -> None:
    cache = opened(path, size="256 MiB", lock_timeout=HANG_S)
    value = bytes(range(256)) * (40 << 12)
    for turn in range(20):
        with forking_at_a_signal(lambda: None, 0.001) as forks:
            error = None
            try:
                cache.set("large", value)
                if forks == [0]:
                    cache.set("child", value)
            except Exception as failure:
                error = failure
            if forks == [0]:
                end_child(cache, error)
        assert error is None
        if forks:
            assert os.waitstatus_to_exitcode(os.waitpid(forks[0], 0)[1]) == 0
            assert cache.check().is_sound, f"turn {turn}"
            assert cache["large"] == cache["child"] == value
            trials.add(1, "forks in handlers")
    assert cache.check().is_sound


def test_a_child_without_a_slot_can_read(opened: Any, path: str, trials: Trials) -> None:
    cache = opened(path, size="256 KiB")
    cache["key"] = "value"
    with children(cache, cache.stats().processes_max - 1):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for _ in range(3):
                    assert cache["key"] == "value"
                    assert cache.get_many(["key"]) == {"key": "value"}
                    assert "key" in list(cache)
                with pytest.raises(TooManyProcesses):
                    cache["key"] = "other"
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    trials.add(1, "children without a slot")
