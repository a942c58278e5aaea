"""Django's own RedisCache as Django makes it."""

from __future__ import annotations

# Django imports it with the first operation. It is missing before that or not at all.
import redis  # type: ignore[import-not-found, import-untyped, unused-ignore] # noqa: F401
from django.core.cache import CacheHandler  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Make the backend for the server that the settings name. The server has the limit."""
    configuration = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": f"redis://{settings['host']}:{settings['port']}",
    }
    cache = CacheHandler({"default": configuration})["default"]
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=cache.close)
