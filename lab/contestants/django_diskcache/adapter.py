"""diskcache.DjangoCache as Django makes it: eight shards, a 10 ms time limit, writes that retry."""

from __future__ import annotations

from diskcache import DjangoCache  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache directory `folder`."""
    cache = DjangoCache(folder, {"OPTIONS": {"size_limit": limits.bytes}})
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=cache.close)
