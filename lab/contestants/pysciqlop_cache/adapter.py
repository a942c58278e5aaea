"""pysciqlop_cache.Cache with the suite's limit; all other options are the defaults."""

from __future__ import annotations

from lab.hosts.python.contract import Limits, Store
from pysciqlop_cache import Cache  # type: ignore[import-not-found, import-untyped, unused-ignore]


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache directory `folder`."""
    cache = Cache(folder, max_size=limits.bytes)
    return Store(
        get=cache.get,
        set=cache.set,
        delete=cache.delete,
        close=cache.close,
        clear=cache.clear,
    )
