"""Opening it is an error."""

from __future__ import annotations

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Raise OSError."""
    raise OSError("no cache today")
