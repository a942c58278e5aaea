"""What other processes do to a cache."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
from typing import Any


def count(module: str, kind: str, directory: str, times: int) -> None:
    with getattr(importlib.import_module(module), kind)(directory) as cache:
        for number in range(times):
            cache.incr("count", retry=True)
            with cache.transact(retry=True):
                cache["by hand"] = cache.get("by hand", 0) + 1
            if number % 10 == 0:
                cache.set("large", f"{number:05d}" * 10_000, retry=True)


def add_all(module: str, directory: str, keys: int) -> int:
    with importlib.import_module(module).Cache(directory) as cache:
        return sum(cache.add(key, "x" * 40_000 if key % 10 == 0 else key) for key in range(keys))


def change_all(module: str, directory: str, seed: int, times: int) -> tuple[int, int]:
    """Change entries that others change, too; return what was added to each of two numbers."""
    rng = random.Random(seed)
    added = [0, 0]
    with importlib.import_module(module).Cache(directory) as cache:
        for number in range(times):
            key = f"key {rng.randrange(20)}"
            operations = [
                lambda key=key, number=number: cache.set(key, "x" * number, retry=True),
                lambda key=key, number=number: cache.set(key, [number], tag="red", retry=True),
                lambda key=key, number=number: cache.set(key, number, expire=1000, retry=True),
                lambda key=key: cache.add(key, b"new", retry=True),
                lambda key=key: cache.delete(key, retry=True),
                lambda key=key: cache.pop(key, retry=True),
            ]
            rng.choice(operations)()
            cache.incr("passing", retry=True)
            added[0] += 1
            if number % 5 == 0:
                with cache.transact(retry=True):
                    before = cache["passing"], cache["by hand"]
                    for name, value in zip(("passing", "by hand"), before):
                        cache[name] = value + 1
                    assert (cache["passing"], cache["by hand"]) == (before[0] + 1, before[1] + 1)
                added = [added[0] + 1, added[1] + 1]
    return added[0], added[1]


def set_in_turn(module: str, directory: str, turns: Any, number: int, times: int) -> None:
    """Set a new key whenever it is this process's turn."""
    with importlib.import_module(module).Cache(directory) as cache:
        for time in range(times):
            turns[number].acquire()
            cache.set(f"{time} of {number}", "x" * 100)
            turns[(number + 1) % len(turns)].release()


def set_for_ever(directory: str, seed: int) -> None:
    """Set, delete and cull without a transaction, until killed."""
    ours = importlib.import_module("tuckbox.compat.diskcache")
    rng = random.Random(seed)
    cache = ours.Cache(directory, size_limit=20_000)
    while True:
        key = f"key {rng.randrange(300)}"
        cache.set(key, key * rng.randrange(1, 20))
        cache.incr("count")
        if rng.random() < 0.1:
            cache.delete(key)


def die_with_the_lock(directory: str) -> None:
    ours = importlib.import_module("tuckbox.compat.diskcache")
    cache = ours.Cache(directory)
    with cache._transact():
        os.kill(os.getpid(), signal.SIGKILL)


def move(module: str, directory: str, taken: str, items: int) -> None:
    """Pull items until all are taken, and note each."""
    with importlib.import_module(module).Cache(directory) as cache:
        while cache.get("taken", 0) < items:
            key, value = cache.pull("jobs")
            if key is not None:
                cache.incr("taken")
                cache.push(value, taken)


def hold(module: str, directory: str, ready: Any, release: Any) -> None:
    with importlib.import_module(module).Cache(directory) as cache, cache.transact():
        ready.set()
        release.wait(30)


def change_for_ever(directory: str, seed: int) -> None:
    """Change pairs of entries in transactions, until killed."""
    ours = importlib.import_module("tuckbox.compat.diskcache")
    rng = random.Random(seed)
    cache = ours.Cache(directory)
    while True:
        with cache.transact():
            key = rng.randrange(5)
            number = cache.get("sum", 0) + 1
            for side in "ab":
                value: Any = number
                if rng.random() < 0.5:
                    value = f"{number}" * 40_000
                cache.set((side, key), value, tag=number)
            if rng.random() < 0.3:
                other = rng.randrange(5)
                cache.pop(("a", other))
                cache.pop(("b", other))
            cache.push(number, "q")
            cache.push(number, "q")
            cache["sum"] = number


def work_hard(directory: str, kind: str, seed: int) -> None:
    """Do everything that a program may do, with few keys."""
    ours = importlib.import_module("tuckbox.compat.diskcache")
    rng = random.Random(seed)
    with getattr(ours, kind)(directory, 60, size_limit=2_000_000) as cache:
        for _ in range(400):
            key = rng.randrange(30)
            value = rng.choice([key, f"{key}" * 100, f"{key}" * 20_000, {"key": key}])
            operations = [
                lambda key=key: cache.get(key),
                lambda key=key, value=value: cache.set(key, value, rng.choice([None, 0.001, 10])),
                lambda key=key, value=value: cache.add(key, value),
                lambda key=key: cache.pop(key),
                lambda key=key: cache.touch(key, 10),
                lambda key=key, value=value: _fail_in_a_transaction(cache, key, value),
                cache.expire,
                cache.cull,
                lambda: list(cache),
            ]
            if kind == "Cache":
                operations += [
                    cache.peekitem,
                    lambda value=value: (cache.push(value), cache.pull()),
                ]
            with contextlib.suppress(KeyError):
                rng.choice(operations)()


def _fail_in_a_transaction(cache: Any, key: int, value: Any) -> None:
    with contextlib.suppress(ValueError), cache.transact():
        cache.set(key, value)
        cache.delete(key + 1)
        raise ValueError


def die_in_a_transaction(directory: str) -> None:
    ours = importlib.import_module("tuckbox.compat.diskcache")
    cache = ours.Cache(directory)
    with cache.transact():
        cache["new"] = "x" * 40_000
        cache["new"] = "y" * 40_000
        cache["small"] = "changed"
        del cache["large"]
        cache.push("pushed")
        cache.set("tagged", 1, expire=10, tag="red")
        os.kill(os.getpid(), signal.SIGKILL)


def push_all(directory: str, number: int, times: int) -> None:
    """Push this process's number with a count, so many times."""
    with importlib.import_module("tuckbox.compat.diskcache").Cache(directory) as cache:
        for count in range(times):
            cache.push((number, count), retry=True)


def pull_all(directory: str, times: int) -> list[tuple[int, int]]:
    """Pull so many items; return them."""
    found = []
    with importlib.import_module("tuckbox.compat.diskcache").Cache(directory) as cache:
        while len(found) < times:
            _, value = cache.pull(retry=True)
            if value is not None:
                found.append(value)
    return found
