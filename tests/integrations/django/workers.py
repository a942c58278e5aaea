"""What the processes of these tests do. A spawned process imports this first."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from integrations.django import project

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier, Event

    from tuckbox.integrations.django import TuckboxCache


def backend_at(location: str, **options: Any) -> TuckboxCache:
    """Open a backend as a process of the project does."""
    project.configure()
    from tuckbox.integrations.django import TuckboxCache

    return TuckboxCache(location, {"OPTIONS": options})


def count(location: str, turns: int, together: Barrier) -> None:
    """Count on counters that all share, all at once, and leave an object behind."""
    backend = backend_at(location)
    together.wait()
    for _ in range(turns):
        backend.incr("ints")
        backend.incr("floats", 0.5)
    backend.set(f"of:{os.getpid()}", OrderedDict(turns=turns), None)


def fill(location: str, worker: int, turns: int, max_entries: int, lengths: Any) -> None:
    """Add entries, and note the greatest number of them."""
    backend = backend_at(location, MAX_ENTRIES=max_entries)
    for turn in range(turns):
        backend.set(f"{worker}:{turn}", turn)
        lengths[worker] = max(lengths[worker], len(backend._cache))


def store(location: str) -> None:
    """Store, and end without a word of parting."""
    backend = backend_at(location)
    backend.set_many({"plain": [1, "two"], "object": OrderedDict(three=3), "count": 42}, None)
    os._exit(0)


def write_for_ever(location: str, begun: Event) -> None:
    """Hold the lock of the only shard most of the time."""
    backend = backend_at(location, size="1 MiB")
    backend.get("open")
    begun.set()
    entries = {str(number): bytes(3000) for number in range(100)}
    while True:
        backend._cache.set_many(entries)
