"""diskcache_rs.Cache with the suite's limits; all other options are the defaults."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import diskcache_rs  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache directory `folder`, one process at a time."""
    with Path(f"{folder}.opening").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cache = diskcache_rs.Cache(
            folder,
            size_limit=limits.bytes or sys.maxsize,
            count_limit=limits.entries or sys.maxsize,
        )
    return Store(
        get=cache.get,
        set=cache.set,
        delete=cache.delete,
        close=cache.close,
        clear=cache.clear,
    )
