"""What an adapter is: a function `open`, whose result has the four other verbs.

Owns the contract between the Python host and the contestants written in Python. Must not know any
of them, nor how they are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Value: TypeAlias = bytes | dict[str, str]


@dataclass(frozen=True)
class Limits:
    """How much a store may hold, 0 being no limit. A contestant obeys what it counts."""

    entries: int
    bytes: int


@dataclass(frozen=True)
class Store:
    """An open store. A verb is the library's own method where that already keeps this contract.

    get(key) -> the value stored last, or None.
    set(key, value) -> False when the store refused; anything else when it stored.
    delete(key) -> true when there was something to delete.
    close() -> nothing; gives back what the process holds, keeps what the store holds.
    clear() -> nothing; empties the store. None if the library has no operation for that.

    A value is bytes; for a contestant that takes complex values it can be a dict of str to str.

    Two more verbs are there if the library has them. No suite uses them; the benchmarks do.

    incr(key) -> the sum, after adding 1 to an int that `set` stored.
    get_many(keys) -> a dict of those keys that have a value.
    """

    get: Callable[[str], object]
    set: Callable[[str, Any], object]
    delete: Callable[[str], object]
    close: Callable[[], object]
    clear: Callable[[], object] | None = None
    incr: Callable[[str], object] | None = None
    get_many: Callable[[Sequence[str]], object] | None = None


class Adapter(Protocol):
    """The module `adapter.py` in a contestant's folder.

    Importing it raises ImportError when what it needs is not installed. What is no distribution of
    Python's, such as a library in C, has its version as a str in the module's VERSION.
    """

    def open(self, folder: str, limits: Limits, settings: dict[str, str]) -> Store:
        """Open the store that lives in `folder`, creating it when it is not there."""
        ...


def ttl_seconds(settings: dict[str, str]) -> float:
    """Return for how long the suite wants an entry to be kept, in seconds; 0 for no limit."""
    return float(settings.get("ttl_seconds", 0))
