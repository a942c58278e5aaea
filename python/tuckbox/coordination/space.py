"""`Space`: the part of a cache that holds the entries of locks, semaphores, rate limits and queues.

Owns the name of that part, and how its entries are stored. Each method returns a step for
`tuckbox.coordination.steps`: a function without arguments. Must not know what the entries mean.
"""

from __future__ import annotations

import time
import zlib
from contextlib import suppress
from functools import partial
from typing import Any, Callable, Optional

from tuckbox.contract import Store, Ttl
from tuckbox.errors import InvalidArgument, InvalidTTL
from tuckbox.keys import Key
from tuckbox.results import Entry

__all__ = ["NAME", "Space", "checked_name", "checked_ttl_s", "is_of_one_cache"]

NAME = "tuckbox coordination"
"""The namespace, in the cache or in the namespace whose operation was called."""

_OF_ONE_CACHE = frozenset({"lock", "place", "number"})
"""The first parts of the keys of leases, which somebody holds, and of counters that must not go
back."""

MISSING: Any = object()
_COUNTERS = 16


class Space:
    """The entries of one cache or namespace.

    Args:
        store: The namespace called `NAME` in it.
        pins: Whether to pin the entries, so that they are never evicted.

    Example:
        >>> space = Space(cache.namespace(NAME))
        >>> space.add("lock", 7)(), space.value("lock")()
        (True, 7)
    """

    __slots__ = ("_terms", "store")

    def __init__(self, store: Store, *, pins: bool = True) -> None:
        self.store = store
        self._terms: dict[str, Any] = {"pinned": True} if pins else {}

    def entry(self, key: Key) -> Callable[[], Optional[Entry]]:
        """Return the entry, or None."""
        return partial(self.store.get_entry, key)

    def value(self, key: Key) -> Callable[[], Any]:
        """Return the value, or `MISSING`."""
        return partial(self.store.get, key, MISSING)

    def values(self, keys: list[Key]) -> Callable[[], dict[Any, Any]]:
        """Return the values that there are, by key."""
        return partial(self.store.get_many, keys)

    def add(self, key: Key, value: object, ttl_s: Optional[float] = None) -> Callable[[], bool]:
        """Store a value if there is none. Return whether it was stored."""
        return partial(self.store.add, key, value, ttl_s, **self._terms)

    def swap(
        self, key: Key, entry: Optional[Entry], value: object, ttl_s: Optional[float] = None
    ) -> Callable[[], bool]:
        """Replace the value of an entry, or of none, if it is unchanged. Return whether it was."""
        if entry is None:
            return self.add(key, value, ttl_s)
        return partial(self.store.cas, key, value, entry.version, ttl_s, **self._terms)

    def delete(self, key: Key, entry: Optional[Entry] = None) -> Callable[[], bool]:
        """Delete an entry, if it is still that one. Return whether there was one."""
        return partial(self.store.delete, key, None if entry is None else entry.version)

    def next_number(self, name: str) -> Callable[[], int]:
        """Return a number larger than all before it for this name."""
        # Few counters for all names, because they are never deleted.
        key = ("number", zlib.crc32(name.encode()) % _COUNTERS)
        return partial(self._next_number, key)

    def _next_number(self, key: Key) -> int:
        with suppress(KeyError):
            return self.store.incr(key, 1, None)
        # The time, so that numbers grow also where the counter was cleared or lost.
        self.add(key, now_us())()
        return self._next_number(key)


def is_of_one_cache(names: tuple[str, ...], own: bytes) -> bool:
    """Return whether an entry means nothing in another cache, or after others have come.

    Args:
        names: The namespaces that it is in, outermost first.
        own: Its encoded key in the last of them.

    Example:
        >>> from tuckbox.memory import keys
        >>> is_of_one_cache((NAME,), keys.encode(("lock", "report")))
        True
        >>> is_of_one_cache(("blog",), keys.encode(("lock", "report")))
        False
    """
    # Here, as in `checked_ttl_s`.
    from tuckbox.memory import keys  # noqa: PLC0415

    if names[-1:] != (NAME,):
        return False
    key = keys.decode(own)
    return isinstance(key, tuple) and key[:1] != () and key[0] in _OF_ONE_CACHE


def now_us() -> int:
    """Return the time in microseconds since 1970.

    Example:
        >>> now_us() > 1_600_000_000_000_000
        True
    """
    return time.time_ns() // 1000


def checked_name(name: object, what: str) -> str:
    """Return the name of a lock and so on.

    Args:
        name: What was given.
        what: Whose name it is, for the message.

    Raises:
        InvalidArgument: It is not a str, or empty.

    Example:
        >>> checked_name("report", "lock")
        'report'
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"the name of a {what} must be a str that is not empty, not {name!r}")
    return name


def checked_ttl_s(ttl: Ttl, parameter: str = "ttl") -> float:
    """Return a length of time that ends, in seconds.

    Args:
        ttl: Seconds, text or a timedelta.
        parameter: How the caller calls it.

    Raises:
        InvalidTTL: It is no length of time.
        InvalidArgument: It is None, endless, or 0.

    Example:
        >>> checked_ttl_s("2m")
        120.0
    """
    # Here, because `tuckbox.memory` has a cache that imports this.
    from tuckbox.memory.numbers import ttl_us  # noqa: PLC0415

    wanted = f'{parameter} must be longer than 0 and have an end, such as 30 or "5m", not {ttl!r}'
    try:
        us = ttl_us(ttl)
    except InvalidTTL:
        # That message is about entries, which may have no end.
        raise InvalidTTL(wanted) from None
    if not us:
        raise InvalidArgument(wanted)
    return us / 1e6
