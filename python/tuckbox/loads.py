"""`Load`: one call of `get_or_set`, without its waiting and without its maker.

Owns what the answers of a store mean to a caller: who makes, what is served meanwhile, and what
becomes of a result or an error. Works on any `Store`. Must not wait, call a maker or start a
thread: `tuckbox.loading` does so in threads, and others may on event loops.
"""

from __future__ import annotations

import logging
import math
import os
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Callable, Generic, NamedTuple, NoReturn, Optional, TypeVar, Union

from tuckbox.brief import WouldBlock
from tuckbox.contract import FOUND, Store, Token, Ttl
from tuckbox.errors import CacheFull, InvalidArgument, LoadRecursion, LoadTimeout, LockTimeout
from tuckbox.keys import Key
from tuckbox.makers import is_making, making
from tuckbox.results import Entry

__all__ = ["MISSING", "Load", "Options", "Result", "is_due", "shown"]

_T = TypeVar("_T")

MISSING: Any = object()
"""No value. None is one."""

_log = logging.getLogger("tuckbox.loading")
_SHOWN_MAX = 80


class Result(Generic[_T]):
    """What a maker returns to say how its value is stored. What it does not say, the call says.

    Args:
        value: The value, which the callers get.
        ttl: How long it is fresh.
        stale: How long it is kept after that.
        tags: Its tags.
        store: False if the value is not to be stored. The callers that wait then make their own,
            one after the other.

    Example:
        >>> from tuckbox import Result, memory
        >>> cache = memory.Cache()
        >>> cache.get_or_set("price", lambda: Result(42, ttl=5, tags=["prices"]), ttl=60)
        42
    """

    __slots__ = ("stale", "store", "tags", "ttl", "value")

    def __init__(
        self,
        value: _T,
        *,
        ttl: Ttl = MISSING,
        stale: Ttl = MISSING,
        tags: Iterable[str] = MISSING,
        store: bool = True,
    ) -> None:
        self.value = value
        self.ttl = ttl
        self.stale = stale
        self.tags = tags
        self.store = store

    def __repr__(self) -> str:
        """Return the value and what was given with it."""
        given = [repr(self.value)]
        terms = {"ttl": self.ttl, "stale": self.stale, "tags": self.tags}
        given.extend(f"{name}={term!r}" for name, term in terms.items() if term is not MISSING)
        return f"Result({', '.join(given if self.store else [*given, 'store=False'])})"


class Options(NamedTuple):
    """The arguments of `get_or_set` that say how to load. See there."""

    ttl: Union[Ttl, Callable[[Any], Ttl]] = None
    stale: Ttl = None
    tags: Iterable[str] = ()
    timeout: Optional[float] = None
    early: Optional[float] = None
    background: bool = False
    force: bool = False

    def checked(self) -> Options:
        """Return these options, with tags that can be read more than once.

        Raises:
            InvalidArgument: ``timeout`` or ``early`` is none.

        Example:
            >>> Options(timeout=5, tags=iter("ab")).checked().tags
            ('a', 'b')
        """
        for name in ("timeout", "early"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                kind = type(value).__name__
                raise InvalidArgument(f"{name} must be a number or None, not {kind}")
            if not value >= 0:
                raise InvalidArgument(f"{name} must be at least 0, not {value!r}")
        # What is no iterable of str, the store refuses.
        if isinstance(self.tags, Iterator):
            return self._replace(tags=tuple(self.tags))
        return self

    def checked_for(self, store: Store, make: object) -> Options:
        """Return `checked` options that a store takes.

        Args:
            store: The store.
            make: What was given as the maker.

        Raises:
            InvalidArgument: As for `checked`, or the maker is no function.
            InvalidTTL, InvalidTag: ``ttl``, ``stale`` or ``tags`` is none.
            CacheReadOnly: The store cannot be written.

        Example:
            >>> Options("5m").checked_for(cache, lambda: 42).ttl
            '5m'
        """
        if not callable(make):
            kind = type(make).__name__
            raise InvalidArgument(f"a function must make the value, not {kind}; pass `lambda: ...`")
        options = self.checked()
        ttl = None if callable(options.ttl) else options.ttl
        # Stores nothing, and checks its arguments: better now than after an hour of making.
        store.set_many({}, ttl, tags=options.tags, stale=options.stale)
        return options


def is_due(entry: Entry, early: float) -> bool:
    """Return whether a caller should make a fresh value again before its ttl ends.

    At random, and more likely the closer the end is and the longer the making took, so that few
    callers do: "XFetch" of Vattani, Chierichetti and Lowenstein, "Optimal Probabilistic Cache
    Stampede Prevention", VLDB 8(8), 2015.

    Args:
        entry: The entry. Without an expiry, or stored by `set`, it is never due.
        early: 1 is optimal if making takes a random time; more makes earlier, 0 never early.

    Example:
        >>> cache.set("page", "<html>", ttl=60)
        >>> is_due(cache.get_entry("page"), 1)
        False
    """
    if entry.expiry is None or entry.made_s is None:
        return False
    ahead_s = -math.log(1.0 - random.random()) * entry.made_s * early  # noqa: S311 - No secret.
    return time.time() + ahead_s >= entry.expiry


class Load:
    """One call of `get_or_set` for one key.

    The user calls `begin`, waits if it returns BUSY, and begins again. With LEASE it calls the
    maker inside of `making`, and then `finish`, or `abandon` and `recover`. With FOUND, `value` is
    the result.

    Args:
        store: The store.
        key: The key.
        options: How to load.
        early: Whether to make the value although there is a fresh one.

    Example:
        >>> from tuckbox.contract import FOUND, LEASE
        >>> load = Load(cache, "answer", Options(ttl=60))
        >>> load.begin() == LEASE
        True
        >>> load.finish(42, made_s=1.5)
        42
        >>> load = Load(cache, "answer", Options())
        >>> load.begin() == FOUND, load.value
        (True, 42)
    """

    __slots__ = (
        "_deadline_s", "_early", "_is_made", "_pid", "_token", "entry", "key", "options", "store"
    )  # fmt: skip

    def __init__(self, store: Store, key: Key, options: Options, *, early: bool = False) -> None:
        self.store = store
        self.key = key
        self.options = options
        self.entry: Optional[Entry] = None
        self._early = early
        self._is_made = False
        self._pid = os.getpid()
        self._token: Optional[Token] = None
        timeout = options.timeout
        self._deadline_s = math.inf if timeout is None else time.monotonic() + timeout

    @property
    def left_s(self) -> float:
        """How many seconds the caller may still wait; infinity without a limit."""
        return max(0.0, self._deadline_s - time.monotonic())

    @property
    def value(self) -> Any:
        """The value of the entry that is served."""
        assert self.entry is not None  # noqa: S101 - A mistake of the user of this class.
        return self.entry.value

    @property
    def fallback(self) -> Optional[Entry]:
        """The entry to serve instead of a new value: stale, or due early. None if there is none."""
        return None if self.options.force else self.entry

    def begin(self) -> int:
        """Ask the store what to do.

        Returns:
            FOUND: serve `value`, which is stale if another caller makes a new one. LEASE: make the
            value. BUSY: wait for at most `left_s`, then begin again, or call `late`.

        Raises:
            LoadRecursion: The maker of this key has called it.
        """
        anew = self.options.force or self._early
        state, self.entry, self._token = self.store._begin(self.key, anew)
        if state == FOUND:
            return FOUND
        if is_making(place_of_store(self.store), self.key):
            self.abandon()
            raise_recursion(self.key)
        if self._token is None and self.fallback is not None:
            return FOUND
        return state

    def making(self) -> AbstractContextManager[None]:
        """Return the context in which to call the maker."""
        return making(place_of_store(self.store), (self.key,))

    def finish(self, result: Any, made_s: Optional[float]) -> Any:
        """Store what the maker returned, and end the lease.

        Args:
            result: The value, or a `Result`.
            made_s: How many seconds making it took.

        Returns:
            The value, also if the store refuses it because it was deleted meanwhile.

        Raises:
            ValueTypeError, ValueTooLarge, InvalidTTL: It cannot be stored. The lease has ended.
        """
        self._is_made = True
        token, self._token = self._token, None
        if os.getpid() != self._pid:
            token = None  # The maker forked, and this is the child: the lease is the parent's.
        try:
            return store_result(self.store, token, self.key, result, self.options, made_s)
        except WouldBlock:
            self._token = token
            raise

    def abandon(self) -> None:
        """End the lease without a value. Without a lease, does nothing."""
        if self._token is not None:
            self.store._abandon(self._token)
            self._token = None

    def recover(self, error: Exception) -> Any:
        """Return the value to serve although the maker raised an error, or raise the error.

        An error of `finish` is always raised.
        """
        entry = self.fallback
        if entry is None or self._is_made:
            raise error
        kind = "stale" if entry.stale else "old"
        _log.warning(
            "the maker of key %s raised an error: served its %s value",
            shown(self.key),
            kind,
            exc_info=error,
        )
        return entry.value

    def late(self) -> Any:
        """Return the value to serve if the maker takes longer than ``timeout``.

        Raises:
            LoadTimeout: There is none.
        """
        if self.fallback is None:
            raise_late(self.key, self.options.timeout)
        return self.value


def raise_recursion(key: Key) -> NoReturn:
    """Raise LoadRecursion for a key."""
    raise LoadRecursion(
        f"the maker of key {shown(key)} asked for the same key: it would wait for itself"
    )


def raise_late(key: Key, timeout: Optional[float]) -> NoReturn:
    """Raise LoadTimeout for a key."""
    raise LoadTimeout(
        f"the value of key {shown(key)} was not made within timeout={timeout} seconds; "
        "the maker continues, and its result will be stored"
    )


def store_result(  # noqa: PLR0917 - All are given at each call.
    store: Store,
    token: Optional[Token],
    key: Key,
    result: Any,
    options: Options,
    made_s: Optional[float],
) -> Any:
    """Store what a maker returned for a key, end its lease, and return the value."""
    value, ttl, stale, tags = result, options.ttl, options.stale, options.tags
    if isinstance(result, Result):
        value = result.value
        ttl = options.ttl if result.ttl is MISSING else result.ttl
        stale = options.stale if result.stale is MISSING else result.stale
        tags = options.tags if result.tags is MISSING else result.tags
    if token is None:
        return value
    if isinstance(result, Result) and not result.store:
        store._abandon(token)
        return value
    try:
        if callable(ttl):
            ttl = ttl(value)
        store._finish(token, key, value, ttl, stale, tags, made_s)
    except (CacheFull, LockTimeout) as error:
        # The caller has what it asked for.
        _log.warning("the value of key %s was not stored: %s", shown(key), error)
    except WouldBlock:
        # The lease lasts until the caller tries again.
        raise
    except BaseException:
        store._abandon(token)
        raise
    return value


def place_of_store(store: Store) -> object:
    """Return what tells one store from another: handles of one file are one store.

    Each namespace has keys of its own, so it counts as a store.
    """
    return getattr(store, "id", None) or id(store), getattr(store, "_names", ())


def shown(key: object) -> str:
    """Return a key for a message, cut if it is long.

    Example:
        >>> shown("user:42"), len(shown("x" * 1000))
        ("'user:42'", 83)
    """
    try:
        text = repr(key)
    except ValueError:  # Python shows no int of thousands of digits.
        return "with a large int"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
