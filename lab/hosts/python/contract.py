"""The contract of adapters: a function `open`, whose result has the four other verbs.

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
    """The limits of a store; 0 means no limit. A contestant applies those that it supports."""

    entries: int
    bytes: int


@dataclass(frozen=True)
class Store:
    """An open store. A verb may be the library's own method if that keeps this contract.

    get(key) -> the value stored last, or None.
    set(key, value) -> False if the store refused; anything else if it stored.
    delete(key) -> true if it deleted something.
    close() -> nothing; frees the process's resources, keeps the store's data.
    clear() -> nothing; empties the store. None if the library has no operation for that.

    A value is bytes; contestants that take complex values also get a dict of str to str.

    Two more verbs are optional. The benchmarks use them, the suites do not.

    incr(key) -> the sum, after adding 1 to an int that `set` stored.
    get_many(keys) -> a dict of the keys that have a value.
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

    Importing it raises ImportError if a dependency is not installed. For something other than a
    Python distribution, such as a library in C, the module has the version as a str in VERSION.
    """

    def open(self, folder: str, limits: Limits, settings: dict[str, str]) -> Store:
        """Open the store in `folder`, and create it if it does not exist."""
        ...


def ttl_seconds(settings: dict[str, str]) -> float:
    """Return the time to live of entries in seconds; 0 for none."""
    return float(settings.get("ttl_seconds", 0))
