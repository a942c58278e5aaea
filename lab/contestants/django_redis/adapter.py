"""Django's own RedisCache, created by Django."""

from __future__ import annotations

# Django imports it with the first operation; importing it here shows early if it is missing.
import redis  # type: ignore[import-not-found, import-untyped, unused-ignore] # noqa: F401
from django.core.cache import CacheHandler  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Create the backend for the server in the settings. The server has the limit."""
    configuration = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": f"redis://{settings['host']}:{settings['port']}",
    }
    cache = CacheHandler({"default": configuration})["default"]
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=cache.close)
