"""diskcache.Cache, with the eviction policy of the settings and every other option left alone."""

from __future__ import annotations

import sys

import diskcache  # type: ignore[import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache directory `folder`."""
    cache = diskcache.Cache(folder, size_limit=limits.bytes or sys.maxsize, **settings)
    return Store(
        get=cache.get, set=cache.set, delete=cache.delete, close=cache.close, incr=cache.incr
    )
