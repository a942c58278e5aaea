"""cachetools.LRUCache or TTLCache, which counts entries if the suite limits them, else bytes."""

from __future__ import annotations

import math
from sys import getsizeof
from typing import Any

import cachetools  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store, ttl_seconds

# Longer than any cell, so that entries expire only if the workload has a ttl.
_TTL_SECONDS = 86_400


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Make a new cache."""
    size_of = getsizeof if limits.bytes and not limits.entries else None
    size_max = limits.entries or limits.bytes or math.inf
    cache: Any = (
        cachetools.TTLCache(size_max, ttl_seconds(settings) or _TTL_SECONDS, getsizeof=size_of)
        if settings["policy"] == "ttl"
        else cachetools.LRUCache(size_max, getsizeof=size_of)
    )
    store, pop = cache.__setitem__, cache.pop

    def set_(key: str, value: object) -> bool:
        try:
            store(key, value)
        except ValueError:
            # The value is larger than the cache.
            return False
        return True

    def delete(key: str) -> bool:
        return pop(key, None) is not None

    return Store(get=cache.get, set=set_, delete=delete, close=cache.clear, clear=cache.clear)
