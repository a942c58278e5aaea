"""What the processes of the tests do. They are in a module of their own so that a spawned process
can import them."""

from __future__ import annotations

import hashlib
import os
import random
import time
from typing import TYPE_CHECKING, Any

from tuckbox import Cache

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event


def value_of(key: int, sequence: int, length: int) -> list[Any]:
    """A value that tells its key, and whether it is whole."""
    body = hashlib.shake_128(b"%d %d" % (key, sequence)).digest(length)
    return [key, sequence, body]


def is_whole(key: int, value: object) -> bool:
    """Whether this is a value that somebody stored under this key."""
    if not isinstance(value, list) or len(value) != 3 or value[0] != key:
        return False
    return bool(value == value_of(key, value[1], len(value[2])))


def count(cache: Cache, turns: int) -> None:
    """Count to `turns` on a counter that all share, and leave a mark."""
    for _ in range(turns):
        cache.incr("count", default=0)
    cache["worker", os.getpid()] = turns


def default_all(cache: Cache, turns: int) -> list[int]:
    """Offer this process's number as the default of many keys, and return what they got."""
    return [cache.setdefault(key, os.getpid()) for key in range(turns)]


def pop_all(cache: Cache) -> list[tuple[Any, Any]]:
    """Take entries until there are none."""
    popped = []
    while True:
        try:
            popped.append(cache.popitem())
        except KeyError:
            return popped


def echo(cache: Cache, question: object) -> object:
    """Store an answer to what is found, and return what the cache is."""
    cache["answer"] = [cache.get("question"), question]
    return cache.path, cache.size, cache.lock_timeout


def work_for_ever(path: str, seed: int, mistakes: Any, heartbeat: Any, stop: Event) -> None:
    """Open the cache and work on it."""
    work_with(Cache(path, lock_timeout=30), seed, mistakes, heartbeat, stop)


def work_with(cache: Cache, seed: int, mistakes: Any, heartbeat: Any, stop: Event) -> None:
    """Read and write at random, prove every value read, and note when an operation begins."""
    generator = random.Random(seed)
    sequence = seed << 32
    while not stop.is_set():
        for _ in range(50):
            key = generator.randrange(300)
            heartbeat.value = time.monotonic()
            choice = generator.random()
            if choice < 0.45:
                found = cache.get(key)
                if found is not None and not is_whole(key, found):
                    mistakes.value += 1
            elif choice < 0.80:
                sequence += 1
                length = int(2 ** generator.uniform(0, 15 if choice < 0.79 else 18))
                cache.set(key, value_of(key, sequence, length), ttl=generator.choice((None, 60)))
            elif choice < 0.85:
                cache.delete(key)
            elif choice < 0.90:
                cache.touch(key, 60)
            elif choice < 0.94:
                cache.add(key, value_of(key, seed, 100))
            elif choice < 0.98:
                cache.incr(("counter", key), default=0)
            else:
                found = cache.pop(key, None)
                if found is not None and not is_whole(key, found):
                    mistakes.value += 1
            heartbeat.value = 0


def overwrite(cache: Cache, number: int, turns: int) -> None:
    """Overwrite ten keys of one's own with long values of changing length."""
    generator = random.Random(number)
    for turn in range(turns):
        cache["own", number, turn % 10] = bytes([number]) * generator.randrange(300_000)


def answer_with_an_object(cache: Cache) -> None:
    """Read and store objects that are no plain values."""
    assert cache["key"] == range(3)
    cache["reply"] = range(5)


def clear(part: Any) -> None:
    """Empty a namespace."""
    part.clear()


def found(part: Cache, keys: list[Any]) -> dict[Any, Any]:
    """Return what there is of some keys."""
    return part.get_many(keys)


def evict(cache: Cache, tag: str, soft: bool) -> None:
    """Evict a tag."""
    cache.evict(tag=tag, soft=soft)


def store_and_clear(cache: Cache, name: str, tag: str, turns: int) -> int:
    """Store, then empty a namespace and evict a tag that others use as well. How often a value was
    found that was stored before."""
    part = cache.namespace(name)
    mistakes = 0
    key = os.getpid()
    for turn in range(turns):
        part[key] = turn
        cache.set(key, turn, tags=[tag])
        part.clear()
        cache.evict(tag=tag)
        mistakes += (key in part) + (key in cache)
    return mistakes
