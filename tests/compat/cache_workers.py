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
