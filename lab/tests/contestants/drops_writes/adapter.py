"""A key whose characters add up to a multiple of ten is silently not stored."""

from __future__ import annotations

from dataclasses import replace

from lab.hosts.python.contract import Limits, Store, Value
from lab.tests.contestants.honest import adapter as honest


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open an honest store that drops some keys."""
    store = honest.open(folder, limits, settings)

    def set_(key: str, value: Value) -> object:
        return True if sum(map(ord, key)) % 10 == 0 else store.set(key, value)

    return replace(store, set=set_)
