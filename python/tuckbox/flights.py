"""`aget_or_set` and `aget_or_set_many`: loading on event loops, for every store.

Owns the tasks in which makers run, and the waiting for makers elsewhere. What the answers of a
store mean is in `tuckbox.loads`. Must not know which event loop runs.

A maker runs in a task of its own, a *flight*. So a caller that is cancelled, or waits no longer,
does not end it. If the event loop ends, its flights end their leases: a task is cancelled or
destroyed, or `_Flights` is freed with its loop.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Callable, Final, Literal, Optional, TypeVar, Union, overload

from tuckbox.brief import WouldBlock, briefly
from tuckbox.calls import SPIN_S, call
from tuckbox.contract import FOUND, LEASE, Store, Ttl
from tuckbox.keys import Key
from tuckbox.loading import Loading
from tuckbox.loads import MISSING, Load, Options, Result, is_due, place_of_store, shown
from tuckbox.loops import OfLoop, caller_on_loop, event, in_own_thread, in_thread, sleep, spawn

__all__ = ["AsyncLoading", "load"]

_K = TypeVar("_K", bound=Key)
_T = TypeVar("_T")
_Made = Union[Result[_T], _T]

_log = logging.getLogger("tuckbox.loading")

_FIRST_PAUSE_S: Final = 0.001
_PAUSE_MAX_S: Final = 0.02


class AsyncLoading:
    """Adds loading on event loops to a store."""

    __slots__ = ()

    @overload
    async def aget_or_set(
        self: Any,
        key: Key,
        make: Callable[[], Awaitable[_Made[_T]]],
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
    async def aget_or_set(
        self: Any,
        key: Key,
        make: Callable[[], _Made[_T]],
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
    async def aget_or_set(
        self: Any,
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
    async def aget_or_set(
        self: Any,
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
    ) -> Any:
        """Do what `get_or_set` does, without blocking the event loop.

        ``make`` runs in a task of its own, or in a thread if it is a plain function. If this call
        is cancelled, ``make`` continues and its result is stored.

        Args:
            key: As for `get_or_set`.
            make: A function or coroutine function without arguments that returns the value, or a
                `Result`.
            ttl: As for `get_or_set`.
            stale: As for `get_or_set`.
            tags: As for `get_or_set`.
            timeout: As for `get_or_set`.
            early: As for `get_or_set`.
            background: As for `get_or_set`.
            force: As for `get_or_set`.
            cached_only: As for `get_or_set`.
            default: As for `get_or_set`.

        Returns:
            The value.

        Raises:
            As `get_or_set`.

        Example:
            >>> async def answer():
            ...     return 6 * 7
            >>> await cache.aget_or_set("answer", answer, ttl=60)
            42
        """
        if early is None and not force:
            value = await self.aget(key, MISSING)
            if value is not MISSING:
                return value
        if cached_only:
            entry = await call(self, self.get_entry, key, stale=True)
            return default if entry is None else entry.value
        options = Options(ttl, stale, tags, timeout, early, background, force)
        return await load(self, key, make, options)

    async def aget_or_set_many(
        self: Any,
        keys: Iterable[_K],
        make_many: Callable[[list[_K]], Union[Awaitable[Mapping[_K, Any]], Mapping[_K, Any]]],
        ttl: Union[Ttl, Callable[[Any], Ttl]] = None,
        *,
        stale: Ttl = None,
        tags: Iterable[str] = (),
        timeout: Optional[float] = None,
        force: bool = False,
        cached_only: bool = False,
    ) -> dict[_K, Any]:
        """Do what `get_or_set_many` does, without blocking the event loop.

        A thread takes the leases and waits for other callers. If this call is cancelled,
        ``make_many`` continues and its results are stored; on trio, it is cancelled too.

        Args:
            keys: As for `get_or_set_many`.
            make_many: A function or coroutine function that takes a list of keys, and returns a
                dict of their values or `Result` objects.
            ttl: As for `get_or_set_many`.
            stale: As for `get_or_set_many`.
            tags: As for `get_or_set_many`.
            timeout: As for `get_or_set_many`.
            force: As for `get_or_set_many`.
            cached_only: As for `get_or_set_many`.

        Returns:
            A dict of those keys that have a value, in their order.

        Raises:
            As `get_or_set_many`.

        Example:
            >>> async def double(keys):
            ...     return {key: 2 * key for key in keys}
            >>> await cache.aget_or_set_many([1, 2], double, ttl=60)
            {1: 2, 2: 4}
        """
        on_loop = caller_on_loop()
        is_coroutine = _is_coroutine_function(make_many)

        def make(missing: list[_K]) -> Any:
            made: Any = None if is_coroutine else make_many(missing)
            if is_coroutine or inspect.isawaitable(made):
                return on_loop(functools.partial(_awaited, make_many, missing, made))
            return made

        work = functools.partial(
            Loading.get_or_set_many,
            self,
            keys,
            make,
            ttl,
            stale=stale,
            tags=tags,
            timeout=timeout,
            force=force,
            cached_only=cached_only,
        )
        return await in_own_thread(work)


async def _awaited(function: Callable[..., Any], missing: Any, made: Any) -> Any:
    return await (function(missing) if made is None else made)


async def load(store: Store, key: Key, make: Callable[[], Any], options: Options) -> Any:
    """Return the value of a key that is missing, or must be made again.

    Args:
        store: The store.
        key: The key.
        make: The maker, a function or coroutine function.
        options: How to load.

    Example:
        >>> import asyncio
        >>> asyncio.run(load(cache, "answer", lambda: 42, Options(ttl=60)))
        42
    """
    options = options.checked()
    options = await call(store, options.checked_for, store, make)
    is_early = False
    if options.early is not None and not options.force:
        entry = await call(store, store.get_entry, key)
        if entry is not None:
            if not is_due(entry, options.early):
                return entry.value
            is_early = True
    one = Load(store, key, options, early=is_early)
    while True:
        state = await _begin(one)
        if state == FOUND:
            return one.value
        if state == LEASE:
            return await _make(one, make)
        if not await _wait_made(one):
            return one.late()


async def _begin(one: Load) -> int:
    is_left = False

    def begin() -> int:
        state = one.begin()
        if is_left:
            one.abandon()
        return state

    try:
        return await call(one.store, begin)
    except BaseException:
        # If it was cancelled, a thread may still be about to take the lease.
        is_left = True
        _end(one)
        raise


def _end(one: Load) -> None:
    """End the lease of a load, if it has one, without waiting."""
    try:
        briefly(SPIN_S, one.abandon)
    except WouldBlock:
        threading.Thread(target=one.abandon, name="tuckbox-lease", daemon=True).start()


# --- Makers --------------------------------------------------------------------------------------


class _Flights:
    """The flights of an event loop, and what its tasks wait for. Ends their leases with the loop.

    Tasks keep its parts, but not itself: so it is freed when the loop is closed.
    """

    def __init__(self) -> None:
        self.flights: set[_Flight] = set()
        self.waits: dict[Any, _Wait] = {}

    def __del__(self) -> None:
        for flight in self.flights:
            # At the end of the process, the store may be unusable.
            with contextlib.suppress(Exception):
                _end(flight.load)


_flights: Final = OfLoop(_Flights)


class _Flight:
    """A maker that runs in a task of its own, and stores what it made."""

    def __init__(self, one: Load, make: Callable[[], Any]) -> None:
        self.load = one
        self.value: Any = None
        self.error: Optional[BaseException] = None
        self.ended = event()
        self.is_left = False
        self._make = make
        self._flights = _flights.get().flights
        self._waits = _flights.get().waits
        # The set keeps the task alive.
        self._flights.add(self)
        try:
            self._task = spawn(self._run, f"tuckbox maker of {shown(one.key)}")
        except BaseException:
            self._flights.discard(self)
            raise

    async def _run(self) -> None:
        try:
            self.value = await self._call()
        except BaseException as error:
            self.error = error
            if not isinstance(error, Exception):
                raise
            if self.is_left:
                _log.warning(
                    "the background maker of key %s raised an error: nothing was stored",
                    shown(self.load.key),
                    exc_info=error,
                )
        finally:
            _end(self.load)
            self._flights.discard(self)
            self.ended.set()
            _wake(self._waits, _place(self.load))

    async def _call(self) -> Any:
        one = self.load
        began_s = time.perf_counter()
        with one.making():
            result = await _made(self._make)
        made_s = time.perf_counter() - began_s
        return await call(one.store, one.finish, result, made_s)


async def _made(make: Callable[[], Any]) -> Any:
    """Return what a maker returns."""
    if _is_coroutine_function(make):
        return await make()
    # A future cannot carry every exception, such as StopIteration.
    made, error = await in_thread(_outcome, make)
    if error is not None:
        raise error
    return await made if inspect.isawaitable(made) else made


def _outcome(make: Callable[[], Any]) -> tuple[Any, Optional[BaseException]]:
    try:
        return make(), None
    except BaseException as error:
        return None, error


def _is_coroutine_function(function: Any) -> bool:
    called = getattr(type(function), "__call__", None)  # noqa: B004 - Its function is needed.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


async def _make(one: Load, make: Callable[[], Any]) -> Any:
    try:
        flight = _Flight(one, make)
    except BaseException:
        _end(one)
        raise
    limit_s = one.left_s
    if one.options.background and one.fallback is not None:
        limit_s = 0.0
    try:
        has_ended = await flight.ended.wait(limit_s)
    except BaseException:
        flight.is_left = True
        raise
    if not has_ended:
        flight.is_left = True
        return one.late()
    if isinstance(flight.error, Exception):
        return one.recover(flight.error)
    if flight.error is not None:
        raise flight.error
    return flight.value


# --- Waiting for the makers of others ------------------------------------------------------------


class _Wait:
    """A key whose maker is elsewhere. One task looks for its end, for all that wait here."""

    def __init__(self, one: Load, waits: dict[Any, _Wait]) -> None:
        self.ended = event()
        self.count = 1
        self.is_over = False
        self._load = one
        self._waits = waits
        waits[_place(one)] = self
        self._task = spawn(self._run, f"tuckbox wait for {shown(one.key)}")

    async def _run(self) -> None:
        store, key = self._load.store, self._load.key
        pause_s = _FIRST_PAUSE_S
        try:
            while self.count and not self.is_over:
                if await call(store, store._wait_made, key, 0.0):
                    break
                await sleep(pause_s)
                pause_s = min(pause_s * 1.5, _PAUSE_MAX_S)
        except Exception:
            # Those that wait begin again, and meet the error themselves.
            _log.debug("the wait for key %s failed", shown(key), exc_info=True)
        finally:
            if not self.is_over:
                _wake(self._waits, _place(self._load))


async def _wait_made(one: Load) -> bool:
    """Wait until nobody makes the value of a load; False if its time is over."""
    waits = _flights.get().waits
    wait = waits.get(_place(one))
    if wait is None:
        wait = _Wait(one, waits)
    else:
        wait.count += 1
    try:
        return await wait.ended.wait(one.left_s)
    finally:
        wait.count -= 1


def _wake(waits: dict[Any, _Wait], place: Any) -> None:
    wait = waits.pop(place, None)
    if wait is not None:
        wait.is_over = True
        wait.ended.set()


def _place(one: Load) -> Any:
    return place_of_store(one.store), one.key
