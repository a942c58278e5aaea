"""Tuckbox as any user would open it: one file, with a limit in bytes and one in entries."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lab.hosts.python.contract import Limits, Store, ttl_seconds
from tuckbox import Cache


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache file in `folder`."""
    path = Path(folder, "cache.tuck")
    cache = Cache(str(path), size=limits.bytes or None, max_entries=limits.entries or None)
    ttl = ttl_seconds(settings)
    return Store(
        get=cache.get,
        set=partial(cache.set, ttl=ttl) if ttl else cache.set,
        delete=cache.delete,
        close=cache.close,
        incr=cache.incr,
        get_many=cache.get_many,
        clear=cache.clear,
    )
