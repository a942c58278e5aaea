"""Django's memcached backends, created by Django; the settings choose one."""

from __future__ import annotations

from django.core.cache import CacheHandler  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Create the backend for the server in the settings. The server has the limit."""
    if "socket" in settings:
        location = f"unix:{settings['socket']}"
    else:
        location = f"{settings['host']}:{settings['port']}"
    configuration = {
        "BACKEND": f"django.core.cache.backends.memcached.{settings['backend']}",
        "LOCATION": location,
    }
    cache = CacheHandler({"default": configuration})["default"]
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=cache.close)
