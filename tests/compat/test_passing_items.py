"""Items of a queue that are added and removed without the lock, by the handle that is alone."""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import multiprocessing
import os
import random
import threading

import pytest

from compat.cache_workers import pull_all, push_all
from drivers.faults import interrupted_at
from tuckbox.compat.diskcache import passing_items

SPAWN = multiprocessing.get_context("spawn")
ours = importlib.import_module("tuckbox.compat.diskcache")
theirs = importlib.import_module("diskcache")
FIRST = 500_000_000_000_000


def warm(cache, prefix=None):
    """Make the handle the one that knows the ends of a queue."""
    for _ in range(3):
        cache.push("warm", prefix)
        cache.pull(prefix, side="back")


def test_no_lock_is_needed(tmp_path):
    with ours.Cache(str(tmp_path), timeout=0.01) as cache:
        for prefix in (None, "q"):
            cache.push(0, prefix)
            warm(cache, prefix)
        # The lock is taken, but not as a handle takes it: the gate is open.
        with (tmp_path / "cache.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for prefix in (None, "q"):
                keys = [cache.push(number, prefix) for number in (1, 2)]
                keys.insert(0, cache.push({"a": [3]}, prefix, side="front", tag="red"))
                assert cache.peek(prefix, tag=True) == ((keys[0], {"a": [3]}), "red")
                assert cache.pull(prefix) == (keys[0], {"a": [3]})
                assert cache.pull(prefix, side="back") == (keys[2], 2)
                assert [cache.pull(prefix)[1] for _ in range(3)] == [0, 1, None]
                assert cache.peek(prefix) == (None, None)
            deque = ours.Deque.fromcache(cache)
            with pytest.raises(IndexError):
                deque.pop()
            # A file, and what lies outside of the range that others know, needs it.
            with pytest.raises(ours.Timeout):
                cache.push("x" * 100_000)
            with pytest.raises(ours.Timeout):
                for number in range(100):
                    cache.push(number)
        assert cache.check() == []


def drawn(draw, cache, other):
    """An operation and what it returns, whichever package does it."""
    handle = cache if draw.random() < 0.98 else other
    prefix = draw.choice([None, None, "q"])
    side = draw.choice(["back", "front"])
    value = draw.choice([draw.randrange(100), "x" * draw.randrange(60), [1, 2]])
    kind = draw.choices(
        ["push", "pull", "peek", "delete", "set", "transact", "expired"],
        [45, 40, 10, 3, 2, 1, 1],
    )[0]
    place = FIRST + draw.randrange(-40, 40)
    key = place if prefix is None else f"{prefix}-{place:015d}"
    if kind == "push":
        return handle.push(value, prefix, side=side)
    if kind == "expired":
        return handle.push(value, prefix, side=side, expire=-1)
    if kind in {"pull", "peek"}:
        return getattr(handle, kind)(prefix, side=side)
    if kind == "delete":
        return handle.delete(key)
    if kind == "set":
        return handle.set(key, value)
    with handle.transact():
        return handle.pull(prefix), handle.push(value, prefix)


@pytest.mark.parametrize("seed", range(6))
def test_both_packages_return_the_same(tmp_path, seed):
    results = []
    for package in (ours, theirs):
        draw = random.Random(seed)
        folder = str(tmp_path / package.__name__)
        with package.Cache(folder, cull_limit=0) as cache, package.Cache(folder) as other:
            results.append([drawn(draw, cache, other) for _ in range(2500)])
            results[-1] += [cache.pull(prefix) for prefix in (None, "q") for _ in range(2500)]
            assert cache.check() == []
    assert results[0] == results[1]


def test_another_handle_is_noticed(tmp_path):
    with ours.Cache(str(tmp_path)) as one, ours.Cache(str(tmp_path)) as two:
        for _ in range(5):
            for mine, other in ((one, two), (two, one)):
                warm(mine)
                assert [mine.push(number) for number in range(5)] == list(range(FIRST, FIRST + 5))
                assert other.pull() == (FIRST, 0)
                assert other.pull(side="back") == (FIRST + 4, 4)
                assert other.push("other") == FIRST + 4
                assert mine.push("mine") == FIRST + 5
                found = [mine.pull()[1] for _ in range(6)]
                assert found == [1, 2, 3, "other", "mine", None]


# What is called before a change, and after the ends of the queue were looked at.
@pytest.mark.parametrize("step", ["bytes_of", "_is_plain", "_place"])
@pytest.mark.parametrize("who", ["a signal handler", "a thread"])
def test_nobody_in_between_loses_or_overwrites_an_item(tmp_path, monkeypatch, step, who):
    plain, workers = getattr(passing_items, step), []

    def work():
        cache.push("theirs", retry=True)

    def interrupted(*arguments):
        if not workers:
            workers.append(threading.Thread(target=work))
            if who == "a thread":
                workers[0].start()
                workers[0].join(0.2)
            else:
                work()
        return plain(*arguments)

    with ours.Cache(str(tmp_path)) as cache:
        for change in (lambda: cache.push("mine"), cache.pull, cache.peek):
            for value in "abc":
                cache.push(value)
            warm(cache)
            monkeypatch.setattr(passing_items, step, interrupted)
            workers.clear()
            change()
            monkeypatch.setattr(passing_items, step, plain)
            if workers and who == "a thread":
                workers[0].join()
            cache.push("after")
            expected = {*"bc", "after"} | ({"theirs"} if workers else set())
            found = [cache.pull()[1] for _ in range(8)]
            assert expected <= set(found) - {None}
            assert [value for value in found if value in {*"bc"}] == ["b", "c"]
            assert cache.pull() == (None, None)
            assert cache.check() == []


def test_threads_of_one_handle(tmp_path):
    pulled: list[list[int]] = [[] for _ in range(4)]

    def work(number):
        for count in range(300):
            cache.push(number * 1000 + count, retry=True)
            value = cache.pull(retry=True)[1]
            if value is not None:
                pulled[number].append(value)

    with ours.Cache(str(tmp_path)) as cache:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while (value := cache.pull()[1]) is not None:
            pulled[0].append(value)
        expected = [number * 1000 + count for number in range(4) for count in range(300)]
        assert sorted(value for values in pulled for value in values) == expected
        assert cache.check() == []


def test_processes_with_one_queue(tmp_path):
    with SPAWN.Pool(4) as pool:
        pushers = [pool.apply_async(push_all, (str(tmp_path), number, 400)) for number in range(2)]
        pullers = [pool.apply_async(pull_all, (str(tmp_path), 400)) for _ in range(2)]
        for pusher in pushers:
            pusher.get(120)
        pulled = [puller.get(120) for puller in pullers]
    for values in pulled:
        for number in range(2):
            of_one = [count for who, count in values if who == number]
            assert of_one == sorted(of_one), "first in, first out"
    together = sorted(value for values in pulled for value in values)
    assert together == [(number, count) for number in range(2) for count in range(400)]


def test_a_forked_child_knows_no_ends(tmp_path):
    with ours.Cache(str(tmp_path)) as cache:
        warm(cache)
        for value in "ab":
            cache.push(value)
        go, wait = os.pipe()[::-1]
        child = os.fork()
        if child == 0:
            try:
                os.read(wait, 1)
                cache.push("child")
                assert cache.pull()[1] == "a"
                cache.push("child again")
            except BaseException:
                os._exit(1)
            os._exit(0)
        for value in "cd":
            cache.push(value)
        os.write(go, b"x")
        assert os.waitpid(child, 0)[1] == 0
        cache.push("parent")
        found = [cache.pull()[1] for _ in range(7)]
        assert found == ["b", "c", "d", "child", "child again", "parent", None]
        assert cache.check() == []


def test_an_interruption_at_any_line_leaves_the_queue_usable(tmp_path):
    files = passing_items.__file__
    with ours.Cache(str(tmp_path), timeout=5) as cache:
        for name in ("push", "pull"):
            line = 0
            while True:
                warm(cache)
                for value in ("a", "b"):
                    cache.push(value)
                change = cache.pull if name == "pull" else lambda: cache.push("new")
                if not interrupted_at(line, change, files):
                    break
                thread = threading.Thread(target=cache.push, args=("thread",))
                thread.start()
                thread.join(30)
                found = [cache.pull()[1] for _ in range(5)]
                # The change was made or not.
                assert [value for value in found if value in {"b", "thread"}] == ["b", "thread"]
                assert ("a" in found) or name == "pull"
                assert cache.pull() == (None, None)
                line += 1
            assert line > 20
            cache.clear()
        assert cache.check() == []


def test_a_pull_with_the_lock_knows_the_next_item(tmp_path):
    with ours.Cache(str(tmp_path), timeout=0.01) as cache:
        warm(cache)
        for number in range(20):
            cache.push(number)
        with cache.transact():
            assert cache.pull()[1] == 0
            assert cache.pull(side="back")[1] == 19
        warm(cache)
        with (tmp_path / "cache.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert [cache.pull()[1] for _ in range(5)] == [1, 2, 3, 4, 5]
            assert [cache.pull(side="back")[1] for _ in range(5)] == [18, 17, 16, 15, 14]


class Failing(ours.Disk):
    def fetch(self, mode, filename, value, read):
        if value == "bad":
            raise OSError("it cannot be read")
        return super().fetch(mode, filename, value, read)


def test_a_disk_of_the_program_may_fail(tmp_path):
    with ours.Cache(str(tmp_path), disk=Failing) as cache:
        warm(cache)
        for value in ("bad", "good"):
            cache.push(value)
        assert cache.pull()[1] == "good"
        assert cache.pull() == (None, None)


def test_a_fork_that_calls_no_hook_is_noticed(tmp_path):
    """As a host that is no Python program may fork."""
    with ours.Cache(str(tmp_path)) as cache:
        warm(cache)
        assert cache.pull() == (None, None)
        child = ctypes.PyDLL(None).fork()
        if child == 0:
            try:
                for number in range(5):
                    cache.push(number)
                assert cache.incr("count") == 1
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert [cache.pull()[1] for _ in range(6)] == [0, 1, 2, 3, 4, None]
        with cache.transact():
            assert cache.incr("count") == 2
        assert cache.check() == []
