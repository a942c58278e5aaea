"""Every fiftieth get of a numbered key returns the value of the next key."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from lab.hosts.python.contract import Limits, Store
from lab.tests.contestants.honest import adapter as honest


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open an honest store and mix up its keys."""
    store = honest.open(folder, limits, settings)
    numbers = count(1)

    def get(key: str) -> object:
        if key.isdigit() and next(numbers) % 50 == 0:
            return store.get(str(int(key) + 1))
        return store.get(key)

    return replace(store, get=get)
