"""functools.lru_cache around a function that returns the value being stored, if any."""

from __future__ import annotations

import platform
import sys
from functools import lru_cache

from lab.hosts.python.contract import Limits, Store

VERSION = platform.python_version()


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Make a new memoizer."""
    offered: object = None

    @lru_cache(maxsize=limits.entries or sys.maxsize)
    def recall(key: str) -> object:
        # A miss must raise, because a returned value would be kept.
        if offered is None:
            raise KeyError(key)
        return offered

    def get(key: str) -> object:
        try:
            return recall(key)
        except KeyError:
            return None

    def set_(key: str, value: object) -> bool:
        nonlocal offered
        offered = value
        stored = recall(key) is value
        offered = None
        return stored

    def delete(key: str) -> bool:
        return False

    clear = recall.cache_clear
    return Store(get=get, set=set_, delete=delete, close=clear, clear=clear)
