"""Django's FileBasedCache as Django makes it, limited to the suite's number of entries."""

from __future__ import annotations

from django.core.cache.backends.filebased import (  # type: ignore[import-untyped, unused-ignore]
    FileBasedCache,
)

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache directory `folder`."""
    cache = FileBasedCache(folder, {"OPTIONS": {"MAX_ENTRIES": limits.entries}})
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=cache.close)
