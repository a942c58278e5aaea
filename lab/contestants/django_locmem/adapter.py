"""Django's LocMemCache, created by Django and limited to the suite's number of entries."""

from __future__ import annotations

import sys

from django.core.cache import CacheHandler  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open this process's dictionary with the name `folder`; a new name is a new dictionary."""
    configuration = {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": folder,
        "OPTIONS": {"MAX_ENTRIES": limits.entries or sys.maxsize},
    }
    cache = CacheHandler({"default": configuration})["default"]
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=cache.close)
