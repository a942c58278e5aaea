"""Verbs that do nothing: they measure the host's loop, its clock and a function call."""

from __future__ import annotations

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open nothing."""
    return Store(get=_get, set=_set, delete=_delete, close=_close, clear=_clear)


def _get(key: str) -> None:
    """Miss."""


def _set(key: str, value: bytes) -> None:
    """Drop the value."""


def _delete(key: str) -> bool:
    return False


def _clear() -> None:
    """Empty nothing."""


def _close() -> None:
    """Close nothing."""
