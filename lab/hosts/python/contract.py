"""What an adapter is: a function `open`, whose result has the four other verbs.

Owns the contract between the Python host and the contestants written in Python. Must not know any
of them, nor how they are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Limits:
    """How much a store may hold. A contestant obeys what it counts and says what it cannot."""

    entries: int
    bytes: int


@dataclass(frozen=True)
class Store:
    """An open store. A verb is the library's own method where that already keeps this contract.

    get(key) -> the bytes stored last, or None.
    set(key, value) -> False when the store refused; anything else when it stored.
    delete(key) -> true when there was something to delete.
    close() -> nothing; gives back what the process holds, keeps what the store holds.
    """

    get: Callable[[str], object]
    set: Callable[[str, bytes], object]
    delete: Callable[[str], object]
    close: Callable[[], object]


class Adapter(Protocol):
    """The module `adapter.py` in a contestant's folder."""

    def open(self, folder: str, limits: Limits, settings: dict[str, str]) -> Store:
        """Open the store that lives in `folder`, creating it when it is not there."""
        ...
