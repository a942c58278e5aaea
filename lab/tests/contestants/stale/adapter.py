"""Every tenth overwrite is acknowledged but not done, so the old value is kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from lab.hosts.python.contract import Limits, Store, Value
from lab.tests.contestants.honest import adapter as honest


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open an honest store and keep some old values."""
    store = honest.open(folder, limits, settings)
    numbers = count(1)

    def set_(key: str, value: Value) -> object:
        if store.get(key) is not None and next(numbers) % 10 == 0:
            return True
        return store.set(key, value)

    return replace(store, set=set_)
