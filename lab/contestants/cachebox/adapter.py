"""cachebox.LRUCache, which counts entries if the suite limits them, else bytes."""

from __future__ import annotations

from sys import getsizeof

from cachebox import LRUCache  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Make a new cache."""
    cache: LRUCache[str, bytes] = (
        LRUCache(limits.entries) if limits.entries else LRUCache(limits.bytes, getsizeof=_size)
    )
    pop = cache.pop

    def delete(key: str) -> bool:
        return pop(key, None) is not None

    # insert returns the previous value, which is never False.
    return Store(
        get=cache.get, set=cache.insert, delete=delete, close=cache.clear, clear=cache.clear
    )


def _size(key: str, value: bytes) -> int:
    return getsizeof(key) + getsizeof(value)
