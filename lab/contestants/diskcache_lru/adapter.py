"""diskcache.Cache with the eviction policy of the settings; all other options are the defaults."""

from __future__ import annotations

import sys
from functools import partial

import diskcache  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store, ttl_seconds


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache directory `folder`."""
    options = {name: text for name, text in settings.items() if name != "ttl_seconds"}
    cache = diskcache.Cache(folder, size_limit=limits.bytes or sys.maxsize, **options)
    ttl = ttl_seconds(settings)
    set_ = partial(cache.set, expire=ttl) if ttl else cache.set
    return Store(get=cache.get, set=set_, delete=cache.delete, close=cache.close)
