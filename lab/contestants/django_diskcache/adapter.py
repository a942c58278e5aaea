"""diskcache.DjangoCache, created by Django: eight shards, a 10 ms time limit, retried writes."""

from __future__ import annotations

import sys

from django.core.cache import CacheHandler  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache directory `folder`."""
    configuration = {
        "BACKEND": "diskcache.DjangoCache",
        "LOCATION": folder,
        "OPTIONS": {"size_limit": limits.bytes or sys.maxsize},
    }
    cache = CacheHandler({"default": configuration})["default"]
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=cache.close)
