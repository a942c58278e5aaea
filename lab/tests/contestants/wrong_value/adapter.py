"""Every fiftieth hit has its last bit, or its last field, changed."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from lab.hosts.python.contract import Limits, Store
from lab.tests.contestants.honest import adapter as honest


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open an honest store and spoil its answers."""
    store = honest.open(folder, limits, settings)
    numbers = count(1)

    def get(key: str) -> object:
        value = store.get(key)
        if value is None or next(numbers) % 50:
            return value
        if isinstance(value, bytes):
            return value[:-1] + bytes([value[-1] ^ 1])
        assert isinstance(value, dict)
        *_, last = value
        return {**value, last: value[last][::-1]}

    return replace(store, get=get)
