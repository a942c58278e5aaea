"""Django's FileBasedCache, created by Django and limited to the suite's number of entries."""

from __future__ import annotations

import sys

from django.core.cache import CacheHandler  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache directory `folder`."""
    configuration = {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": folder,
        "OPTIONS": {"MAX_ENTRIES": limits.entries or sys.maxsize},
        **({"TIMEOUT": None} if settings.get("timeout") == "none" else {}),
    }
    cache = CacheHandler({"default": configuration})["default"]
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=cache.close)
