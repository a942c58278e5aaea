"""Claims to have emptied the store, but keeps some entries."""

from __future__ import annotations

from dataclasses import replace

from lab.hosts.python.contract import Limits, Store, Value
from lab.tests.contestants.honest import adapter as honest


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open an honest store and record its keys."""
    store = honest.open(folder, limits, settings)
    keys: dict[str, None] = {}

    def set_(key: str, value: Value) -> object:
        keys[key] = None
        return store.set(key, value)

    def clear() -> None:
        for key in list(keys)[5:]:
            store.delete(key)

    return replace(store, set=set_, clear=clear)
