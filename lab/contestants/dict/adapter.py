"""A dictionary, of the objects themselves or of copies of their bytes."""

from __future__ import annotations

from typing import Any

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Make a new dictionary."""
    stored: dict[str, Any] = {}
    pop = stored.pop

    def delete(key: str) -> bool:
        return pop(key, None) is not None

    if settings.get("copies") != "yes":
        return Store(
            get=stored.get,
            set=stored.__setitem__,
            delete=delete,
            close=stored.clear,
            clear=stored.clear,
        )

    # bytes(value) would be the same object. With a memoryview a get would cost less, and a set more
    # by as much.
    def get(key: str) -> bytes | None:
        value = stored.get(key)
        return None if value is None else bytes(value)

    def set_(key: str, value: bytes) -> None:
        stored[key] = bytearray(value)

    return Store(get=get, set=set_, delete=delete, close=stored.clear, clear=stored.clear)
