"""`get_or_set` and `get_or_set_many`, for every store.

Owns the waiting and the calls of makers, in threads. What the answers of a store mean is in
`tuckbox.loads`. Must not assume a file: it uses the operations of `tuckbox.contract.Store`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Callable, Literal, Optional, TypeVar, Union, overload

from tuckbox.advice import explains_names, hides_others, unexpected
from tuckbox.contract import FOUND, LEASE, Store, Token, Ttl
from tuckbox.errors import InvalidResult
from tuckbox.keys import Key
from tuckbox.loads import (
    MISSING,
    Load,
    Options,
    Result,
    is_due,
    place_of_store,
    raise_late,
    raise_recursion,
    shown,
    store_result,
)
from tuckbox.makers import Job, StillRunning, is_making, making
from tuckbox.results import Entry

__all__ = ["Loading", "load"]

_K = TypeVar("_K", bound=Key)
_T = TypeVar("_T")

_Leases = dict[Any, tuple[Token, Optional[Entry]]]
"""By key: the lease, and the entry that was there."""

_log = logging.getLogger("tuckbox.loading")
_NO_LOCK: AbstractContextManager[Any] = contextlib.nullcontext()


class Loading:
    """Adds loading to a store."""

    __slots__ = ()

    @overload
    def get_or_set(
        self: Store,
        key: Key,
        make: Callable[[], Result[_T]],
        ttl: Union[Ttl, Callable[[_T], Ttl]] = ...,
        *,
        stale: Ttl = ...,
        tags: Iterable[str] = ...,
        timeout: Optional[float] = ...,
        early: Optional[float] = ...,
        background: bool = ...,
        force: bool = ...,
        cached_only: Literal[False] = ...,
        default: Any = ...,
    ) -> _T: ...
    @overload
    def get_or_set(
        self: Store,
        key: Key,
        make: Callable[[], _T],
        ttl: Union[Ttl, Callable[[_T], Ttl]] = ...,
        *,
        stale: Ttl = ...,
        tags: Iterable[str] = ...,
        timeout: Optional[float] = ...,
        early: Optional[float] = ...,
        background: bool = ...,
        force: bool = ...,
        cached_only: Literal[False] = ...,
        default: Any = ...,
    ) -> _T: ...
    @overload
    def get_or_set(
        self: Store,
        key: Key,
        make: Callable[[], Any],
        ttl: Union[Ttl, Callable[[Any], Ttl]] = ...,
        *,
        stale: Ttl = ...,
        tags: Iterable[str] = ...,
        timeout: Optional[float] = ...,
        early: Optional[float] = ...,
        background: bool = ...,
        force: bool = ...,
        cached_only: bool,
        default: Any = ...,
    ) -> Any: ...
    @hides_others
    def get_or_set(  # noqa: D417 - Nobody may give others.
        self: Store,
        key: Key,
        make: Callable[[], Any],
        ttl: Union[Ttl, Callable[[Any], Ttl]] = None,
        *,
        stale: Ttl = None,
        tags: Iterable[str] = (),
        timeout: Optional[float] = None,
        early: Optional[float] = None,
        background: bool = False,
        force: bool = False,
        cached_only: bool = False,
        default: Any = None,
        **others: object,
    ) -> Any:
        """Return the value of ``key``; if it has none, call ``make`` and store what that returns.

        One caller makes, over all threads and processes that share the cache. The others wait for
        its value. If it raises an error or its process dies, one of them makes.

        A value is not stored if its key or tags were deleted or evicted while it was made, or if
        another value was stored. Its caller gets it all the same.

        Args:
            key: A str, bytes, int, or a tuple of these.
            make: A function without arguments that returns the value, or a `Result`.
            ttl: Seconds, text such as "5m", or a timedelta; None never expires. Or a function that
                returns one of these for a value.
            stale: How long the value is kept after its ttl. Such a stale value is served while one
                caller makes a new one, and if ``make`` raises an error, which is then logged.
            tags: Names for `evict`.
            timeout: How many seconds to wait at most, both for other callers and for ``make``,
                which then runs in a thread of its own. After that, it continues there and its
                result is stored; this call returns the stale value or raises LoadTimeout. None
                (the default) waits for as long as the maker's process lives.
            early: Let one caller, chosen at random, make a new value shortly before the ttl ends,
                so that nobody has to wait: 1 is usually best, more is earlier.
            background: Return a stale value at once, also to the caller that makes a new one: its
                ``make`` runs in a thread.
            force: Make a new value in any case, after another caller that is making one. A stale
                value is not served.
            cached_only: Do not make: return the value, be it stale, or ``default``.
            default: See ``cached_only``.

        Returns:
            The value.

        Raises:
            LoadTimeout: There was no value after ``timeout``.
            LoadRecursion: ``make`` called this for the same key.
            InvalidArgument: An argument is invalid.
            Exception: What ``make`` raised, unless there is a stale value.
            As `get` and `set`. If the value cannot be stored because the cache is full or its lock
                is held, that is logged, and the value returned.

        Example:
            >>> cache.get_or_set("answer", lambda: 6 * 7, ttl=60)
            42
            >>> cache.get_or_set("answer", lambda: 1 / 0)
            42
        """
        if others:
            raise TypeError(unexpected(Loading.get_or_set, next(iter(others))))
        if early is None and not force:
            value = self.get(key, MISSING)
            if value is not MISSING:
                return value
        if cached_only:
            entry = self.get_entry(key, stale=True)
            return default if entry is None else entry.value
        options = Options(ttl, stale, tags, timeout, early, background, force)
        return load(self, key, make, options)

    @explains_names
    def get_or_set_many(
        self: Store,
        keys: Iterable[_K],
        make_many: Callable[[list[_K]], Mapping[_K, Any]],
        ttl: Union[Ttl, Callable[[Any], Ttl]] = None,
        *,
        stale: Ttl = None,
        tags: Iterable[str] = (),
        timeout: Optional[float] = None,
        force: bool = False,
        cached_only: bool = False,
    ) -> dict[_K, Any]:
        """Return the values of several keys; make those that are missing with one call.

        Each key has one maker at a time, as with `get_or_set`. ``make_many`` gets the missing keys
        that nobody else makes; then this call waits for the others.

        Args:
            keys: An iterable of keys.
            make_many: A function that takes a list of keys, and returns a dict of their values or
                `Result` objects. A key that it leaves out has no value, and nothing is stored.
            ttl: As for `get_or_set`, for each of the values.
            stale: As for `get_or_set`.
            tags: As for `get_or_set`, for each of the values.
            timeout: As for `get_or_set`, for the whole call.
            force: Make new values for all keys.
            cached_only: Do not make: return the values there are, be they stale.

        Returns:
            A dict of those keys that have a value, in their order.

        Raises:
            InvalidResult: ``make_many`` returned no mapping, or a key that it was not asked for.
            KeyTypeError: A key is invalid, or ``keys`` is a single str or bytes.
            As `get_or_set`. What ``make_many`` raised is raised if one of its keys has no stale
                value.

        Example:
            >>> cache.set("a", 1)
            >>> cache.get_or_set_many(["a", "b"], lambda keys: {key: 2 for key in keys}, ttl=60)
            {'a': 1, 'b': 2}
        """
        options = Options(ttl, stale, tags, timeout, None, False, force)
        return _Many(self, keys, make_many, options).load(cached_only=cached_only)


def load(store: Store, key: Key, make: Callable[[], Any], options: Options) -> Any:
    """Return the value of a key that is missing, or must be made again. See `Loading.get_or_set`.

    Args:
        store: The store.
        key: The key.
        make: The maker.
        options: How to load.

    Example:
        >>> load(cache, "answer", lambda: 42, Options(ttl=60))
        42
    """
    is_early = False
    early = options.early
    if early is not None and not options.force:
        options = options.checked()
        entry = store.get_entry(key)
        if entry is not None:
            if not is_due(entry, early):
                return entry.value
            is_early = True
    options = options.checked_for(store, make)
    one = Load(store, key, options, early=is_early)
    while True:
        state = one.begin()
        if state == FOUND:
            return one.value
        if state == LEASE:
            return _make(one, make)
        if not store._wait_made(key, one.left_s):
            return one.late()


def _make(one: Load, make: Callable[[], Any]) -> Any:
    limit_s = None if one.options.timeout is None else one.left_s
    if one.options.background and one.fallback is not None:
        limit_s = 0.0
    try:
        if limit_s is None:
            return _call(one, make, _NO_LOCK)
        try:
            job = Job(lambda lock: _call(one, make, lock), f"key {shown(one.key)}")
        except BaseException:
            one.abandon()
            raise
        return job.wait(limit_s)
    except StillRunning:
        return one.late()
    except Exception as error:
        return one.recover(error)


def _call(one: Load, make: Callable[[], Any], lock: AbstractContextManager[Any]) -> Any:
    try:
        began_s = time.perf_counter()
        with one.making():
            result = make()
        made_s = time.perf_counter() - began_s
        with lock:
            return one.finish(result, made_s)
    except BaseException:
        one.abandon()
        raise


class _Many:
    """One call of `get_or_set_many`."""

    def __init__(
        self,
        store: Store,
        keys: Iterable[Any],
        make: Callable[[list[Any]], Any],
        options: Options,
    ) -> None:
        self.store = store
        # `get_many` refuses what is no iterable of keys.
        given = keys if isinstance(keys, (str, bytes)) else list(keys)
        self.found = store.get_many(given)
        self.keys = list(dict.fromkeys(given))
        if options.force:
            self.found = {}
        self.make = make
        self.options = options
        self.is_made = False
        self.pid = os.getpid()

    def load(self, *, cached_only: bool) -> dict[Any, Any]:
        missing = [key for key in self.keys if key not in self.found]
        if cached_only:
            for key in self.keys:
                entry = self.store.get_entry(key, stale=True)
                if entry is not None:
                    self.found[key] = entry.value
        elif missing:
            self.options = self.options.checked_for(self.store, self.make)
            self._load(missing)
        return {key: self.found[key] for key in self.keys if key in self.found}

    def _load(self, missing: list[Any]) -> None:
        timeout = self.options.timeout
        ends_s = float("inf") if timeout is None else time.monotonic() + timeout

        def left_s() -> float:
            return max(0.0, ends_s - time.monotonic())

        while missing:
            leases, busy = self._begin(missing)
            if leases:
                self._make(leases, None if timeout is None else left_s())
            # Without leases of its own: two callers could wait for each other.
            for key in busy:
                if not self.store._wait_made(key, left_s()):
                    raise_late(key, timeout)
            missing = busy

    def _begin(self, keys: list[Any]) -> tuple[_Leases, list[Any]]:
        """Take the leases that are free. Return these, and the keys that others make."""
        leases: _Leases = {}
        busy = []
        place = place_of_store(self.store)
        try:
            for key in keys:
                state, entry, token = self.store._begin(key, self.options.force)
                if token is not None:
                    leases[key] = token, entry
                if state != FOUND and is_making(place, key):
                    raise_recursion(key)
                if state == FOUND or (
                    state != LEASE and entry is not None and not self.options.force
                ):
                    assert entry is not None  # noqa: S101 - The contract.
                    self.found[key] = entry.value
                elif state != LEASE:
                    busy.append(key)
        except BaseException:
            self._abandon(leases)
            raise
        return leases, busy

    def _make(self, leases: _Leases, limit_s: Optional[float]) -> None:
        keys = list(leases)
        stale = {
            key: entry.value
            for key, (_, entry) in leases.items()
            if entry is not None and not self.options.force
        }
        self.is_made = False
        try:
            if limit_s is None:
                self.found.update(self._call(leases, _NO_LOCK))
                return
            try:
                job = Job(lambda lock: self._call(leases, lock), f"{len(keys)} keys")
            except BaseException:
                self._abandon(leases)
                raise
            self.found.update(job.wait(limit_s))
        except StillRunning:
            for key in keys:
                if key not in stale:
                    raise_late(key, self.options.timeout)
            self.found.update(stale)
        except Exception as error:
            if self.is_made or len(stale) < len(keys):
                raise
            _log.warning(
                "the maker of %d keys raised an error: served their stale values",
                len(keys),
                exc_info=error,
            )
            self.found.update(stale)

    def _call(self, leases: _Leases, lock: AbstractContextManager[Any]) -> dict[Any, Any]:
        """Make and store the values of the leases, and end all of them."""
        keys = list(leases)
        values = {}
        try:
            began_s = time.perf_counter()
            with making(place_of_store(self.store), keys):
                made = self.make(keys)
            self.is_made = True
            made_s = (time.perf_counter() - began_s) / len(keys)
            if not isinstance(made, Mapping):
                kind = type(made).__name__
                raise InvalidResult(f"make_many must return a dict of keys to values, not {kind}")
            for key in made:
                if key not in leases:
                    raise InvalidResult(
                        f"make_many returned a value for {shown(key)}, "
                        "which is none of the keys that it was given"
                    )
            with lock:
                for key, result in made.items():
                    token = leases[key][0] if os.getpid() == self.pid else None
                    values[key] = store_result(self.store, token, key, result, self.options, made_s)
        finally:
            self._abandon(leases)
        return values

    def _abandon(self, leases: _Leases) -> None:
        for token, _ in leases.values():
            self.store._abandon(token)
