"""The keys of items of queues, and what the queues are called. Must not know what is stored."""

from __future__ import annotations

from typing import Any, Final, Optional

__all__ = ["DIGITS", "END", "FIRST", "key_of_item", "may_be_item", "name_of_queue"]

FIRST: Final = 500_000_000_000_000
"""The number of the first item of an empty queue."""
END: Final = 1_000_000_000_000_000
"""Numbers of items are lower."""
DIGITS: Final = 15


def may_be_item(key: Any) -> bool:
    """Return whether a key looks like one of a queue."""
    if type(key) is str:
        return key[-DIGITS - 1 : -DIGITS] == "-" and key[-DIGITS:].isdecimal()
    return type(key) is int or type(key) is float


def name_of_queue(prefix: Optional[str]) -> str:
    """Return what `Entries` calls a queue."""
    return "" if prefix is None else f"-{prefix}"


def key_of_item(prefix: Optional[str], number: int) -> Any:
    """Return the key of the item with a number."""
    return number if prefix is None else f"{prefix}-{number:0{DIGITS}d}"
