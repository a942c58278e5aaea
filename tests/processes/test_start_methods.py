"""One cache in many processes, however they were started."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from processes import workers
from tuckbox import Cache
from tuckbox.errors import CacheLost

if TYPE_CHECKING:
    from collections.abc import Callable

METHODS = ["fork", "spawn", "forkserver"]


@pytest.fixture(params=["file", "private"])
def place(request: pytest.FixtureRequest, path: str) -> str | None:
    return path if request.param == "file" else None


@pytest.mark.parametrize("method", METHODS)
def test_a_handle_goes_with_its_process(opened: Any, place: str | None, method: str) -> None:
    cache = opened(place, size="8 MiB", lock_timeout=20.0)
    cache["question"] = ("mine", 1)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(workers.echo, cache, 42).result() == (place, 8 << 20, 20.0)
    assert cache["answer"] == [("mine", 1), 42]


@pytest.mark.parametrize("method", METHODS)
def test_counts_of_all_processes_add_up(opened: Any, place: str | None, method: str) -> None:
    cache = opened(place, size="8 MiB", lock_timeout=20.0)
    context = multiprocessing.get_context(method)
    processes = [
        context.Process(target=workers.count, args=(cache, 1000), daemon=True) for _ in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert cache["count"] == 4000
    assert all(cache["worker", process.pid] == 1000 for process in processes)


def in_child(work: Callable[[], object]) -> None:
    """Run `work` in a forked child that ends at once, and demand that it succeeded."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_forked_children_share_in_both_directions(opened: Any, place: str | None) -> None:
    cache = opened(place)
    cache["parent"] = 1

    def child() -> None:
        assert cache["parent"] == 1
        cache["child"] = 2
        in_child(lambda: cache.set("grandchild", 3))

    in_child(child)
    assert (cache["child"], cache["grandchild"]) == (2, 3)


def test_a_child_that_closes_leaves_the_parent_open(opened: Any, place: str | None) -> None:
    cache = opened(place)
    in_child(cache.close)
    cache["k"] = 1
    assert cache["k"] == 1


def test_many_forks_use_up_nothing(opened: Any, path: str) -> None:
    cache = opened(path, size="256 KiB")  # It has 32 slots for processes.
    for number in range(50):
        in_child(lambda number=number: cache.set("k", number))
        assert cache["k"] == number
    fds = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        Cache(path).close()
    assert len(os.listdir("/proc/self/fd")) == fds


def test_forks_of_a_process_with_busy_threads(opened: Any, path: str) -> None:
    """The child has the forking thread alone, whatever locks the others held at that moment."""
    cache = opened(path, size="64 MiB", lock_timeout=20.0)
    stop = threading.Event()

    def write(number: int) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            cache[number, turn % 10] = [turn, b"x" * (turn * 997 % 300_000)]

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        with warnings.catch_warnings():
            # Python 3.12 and later rightly warn of what this test does on purpose.
            warnings.simplefilter("ignore", DeprecationWarning)
            for number in range(40):
                in_child(lambda number=number: cache.set(("child", number), "x" * number))
                assert cache["child", number] == "x" * number
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_handle_is_small_and_knows_its_limits(opened: Any, path: str) -> None:
    cache = opened(path, size="2 MiB", max_entries=50, lock_timeout=0.25)
    cache["k"] = "x" * 100_000
    data = pickle.dumps(cache)
    assert len(data) < 1000
    again = pickle.loads(data)
    assert (again.path, again.size, again.max_entries, again.lock_timeout) == (
        path,
        2 << 20,
        50,
        0.25,
    )
    assert again["k"] == cache["k"]
    again.close()
    cache.close()
    # Unpickling after the file was removed creates a file like it.
    os.remove(path)
    anew = pickle.loads(data)
    assert (anew.size, anew.max_entries, len(anew)) == (2 << 20, 50, 0)
    anew.close()


class Named(Cache):
    name = "class"


def test_subclasses_keep_their_attributes(path: str) -> None:
    with Named(path) as cache:
        cache.name = "instance"
        with pickle.loads(pickle.dumps(cache)) as again:
            assert type(again) is Named
            assert again.name == "instance"


def test_a_private_cache_ends_with_its_process() -> None:
    code = """
import pickle, sys
from tuckbox import Cache
cache = Cache()
cache["k"] = 1
sys.stdout.buffer.write(pickle.dumps(cache))
"""
    data = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    with pytest.raises(
        CacheLost, match=r"private cache .* its process has ended.*use a cache with a"
    ):
        pickle.loads(data)


def test_a_private_cache_leaves_no_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Cache() as cache:
        cache["k"] = 1
        assert cache.path is None
        # It has a name nowhere.
        assert os.stat(cache._shown).st_nlink == 0
    assert os.listdir(tmp_path) == []


def test_private_caches_are_separate() -> None:
    with Cache() as one, Cache() as other:
        one["k"] = 1
        assert "k" not in other


def test_entries_outlive_the_process(path: str) -> None:
    code = """
import os, sys
from tuckbox import Cache
cache = Cache(sys.argv[1])
for number in range(2000):
    cache[number] = [number, "x" * (number % 500)]
cache.set("brief", 1, ttl=3600)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
os._exit(0) if sys.argv[2] == "exit" else None
"""
    for end in ("killed", "exit", "return"):
        result = subprocess.run([sys.executable, "-c", code, path, end], check=False)
        assert result.returncode == (-signal.SIGKILL if end == "killed" else 0)
        with Cache(path) as cache:
            assert len(cache) == 2001
            assert all(cache[n] == [n, "x" * (n % 500)] for n in range(2000))
            assert cache.get_entry("brief").expiry is not None
            assert cache.check().is_sound
            cache.clear()


def test_processes_that_open_at_once_make_one_file(path: str) -> None:
    context = multiprocessing.get_context("fork")
    for _ in range(10):
        barrier = context.Barrier(6)

        def start(barrier: Any = barrier) -> None:
            barrier.wait()
            with Cache(path, size="1 MiB") as cache:
                cache.incr("opened", default=0)

        processes = [context.Process(target=start) for _ in range(6)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0
        with Cache(path) as cache:
            assert cache["opened"] == 6
        assert os.listdir(os.path.dirname(path)) == ["cache.tuck"]
        os.remove(path)


def test_versions_are_not_used_again_by_another_process(opened: Any, path: str) -> None:
    cache = opened(path)
    versions = set()
    for _ in range(20):
        in_child(lambda: cache.set("k", 1))
        versions.add(cache.get_entry("k").version)
        cache.set("k", 1)
        versions.add(cache.get_entry("k").version)
    assert len(versions) == 40
