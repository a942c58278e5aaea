"""Its library does not exist."""

from __future__ import annotations

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Never called, because its distribution is checked first."""
    raise NotImplementedError
