"""Locks, averages and decorators on a cache, as DiskCache has them.

Owns what is stored under the keys of these recipes. Uses public methods of `Cache` and
`FanoutCache` only, so that each recipe works on both.
"""

from __future__ import annotations

import functools
import math
import os
import random
import threading
import time
from collections.abc import Iterable
from typing import Any, Callable, ClassVar, Optional, TypeVar, Union

from tuckbox.compat.diskcache.core import Cache
from tuckbox.compat.diskcache.fanout import FanoutCache
from tuckbox.compat.diskcache.memoizing import args_to_key, full_name
from tuckbox.compat.diskcache.settings import ENOVAL

__all__ = [
    "Averager",
    "BoundedSemaphore",
    "Lock",
    "RLock",
    "barrier",
    "memoize_stampede",
    "throttle",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_AnyCache = Union[Cache, FanoutCache]

_POLL_S = 0.001
"""How long a waiter sleeps before it tries again."""


class _Recipe:
    """An entry of a cache, and how it is stored."""

    def __init__(
        self,
        cache: _AnyCache,
        key: object,
        expire: Optional[float] = None,
        tag: object = None,
    ) -> None:
        self._cache = cache
        self._key = key
        self._expire = expire
        self._tag = tag

    def _get(self, default: object) -> Any:
        return self._cache.get(self._key, default=default, retry=True)

    def _set(self, value: object) -> None:
        self._cache.set(self._key, value, expire=self._expire, tag=self._tag, retry=True)


class Averager(_Recipe):
    """An average of numbers that processes share.

    Args:
        cache: A `Cache` or `FanoutCache`.
        key: The key of the entry.
        expire: Seconds after which the entry expires; None for never.
        tag: The tag of the entry.

    Example:
        >>> latency = Averager(Cache(), "latency")
        >>> latency.add(0.080)
        >>> latency.add(0.120)
        >>> latency.get()
        0.1
    """

    def add(self, value: float) -> None:
        """Add a number.

        Args:
            value: The number.
        """
        with self._cache.transact(retry=True):
            total, count = self._get((0.0, 0))
            self._set((total + value, count + 1))

    def get(self) -> Optional[float]:
        """Return the average.

        Returns:
            The average; None if there is no number.
        """
        return self._average(self._get((0.0, 0)))

    def pop(self) -> Optional[float]:
        """Return the average and remove all numbers.

        Returns:
            The average; None if there is no number.
        """
        return self._average(self._cache.pop(self._key, default=(0.0, 0), retry=True))

    @staticmethod
    def _average(state: tuple[float, int]) -> Optional[float]:
        total, count = state
        return total / count if count else None


class _Waiting(_Recipe):
    """What a ``with`` statement acquires, trying again until it succeeds."""

    _unowned: ClassVar[str]

    def acquire(self) -> None:
        """Wait until it is acquired."""
        while not self._try():
            time.sleep(_POLL_S)

    def _try(self) -> bool:
        raise NotImplementedError

    def release(self) -> None:
        """Release it.

        Raises:
            AssertionError: It was not acquired.
        """
        raise NotImplementedError

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class Lock(_Waiting):
    """A lock that processes and threads share.

    A process that dies while it holds the lock leaves it locked until ``expire`` seconds are over.

    Args:
        cache: A `Cache` or `FanoutCache`.
        key: The key of the entry.
        expire: Seconds after which the lock is free in any case; None for never.
        tag: The tag of the entry.

    Example:
        >>> lock = Lock(Cache(), "report")
        >>> with lock:
        ...     lock.locked()
        True
    """

    def _try(self) -> bool:
        return bool(
            self._cache.add(self._key, None, expire=self._expire, tag=self._tag, retry=True)
        )

    def release(self) -> None:
        """Release the lock, whoever holds it."""
        self._cache.delete(self._key, retry=True)

    def locked(self) -> bool:
        """Tell whether the lock is held.

        Returns:
            Whether any thread of any process holds it.
        """
        return self._key in self._cache


class RLock(_Waiting):
    """A lock that processes and threads share, and that its owner may acquire again.

    Args:
        cache: A `Cache` or `FanoutCache`.
        key: The key of the entry.
        expire: Seconds after which the lock is free in any case; None for never.
        tag: The tag of the entry.

    Example:
        >>> lock = RLock(Cache(), "report")
        >>> with lock, lock:
        ...     pass
    """

    @staticmethod
    def _me() -> str:
        return f"{os.getpid()}-{threading.get_ident()}"

    def _try(self) -> bool:
        me = self._me()
        with self._cache.transact(retry=True):
            owner, count = self._get((None, 0))
            if count and owner != me:
                return False
            self._set((me, count + 1))
            return True

    def release(self) -> None:
        """Release the lock once.

        Raises:
            AssertionError: This thread does not hold the lock.
        """
        me = self._me()
        with self._cache.transact(retry=True):
            owner, count = self._get((None, 0))
            if owner != me or not count:
                raise AssertionError(f"cannot release the lock {self._key!r}: not acquired here")
            self._set((me, count - 1))


class BoundedSemaphore(_Waiting):
    """A semaphore that processes and threads share.

    Args:
        cache: A `Cache` or `FanoutCache`.
        key: The key of the entry.
        value: How many may hold it at the same time.
        expire: Seconds after which all of it is free in any case; None for never.
        tag: The tag of the entry.

    Example:
        >>> workers = BoundedSemaphore(Cache(), "workers", value=2)
        >>> with workers, workers:
        ...     pass
    """

    def __init__(
        self,
        cache: _AnyCache,
        key: object,
        value: int = 1,
        expire: Optional[float] = None,
        tag: object = None,
    ) -> None:
        super().__init__(cache, key, expire, tag)
        self._value = value

    def _try(self) -> bool:
        with self._cache.transact(retry=True):
            free = self._get(self._value)
            if free <= 0:
                return False
            self._set(free - 1)
            return True

    def release(self) -> None:
        """Release it once.

        Raises:
            AssertionError: Nobody holds it.
        """
        with self._cache.transact(retry=True):
            free = self._get(self._value)
            if free >= self._value:
                raise AssertionError(f"cannot release the semaphore {self._key!r}: not acquired")
            self._set(free + 1)


def throttle(
    cache: _AnyCache,
    count: float,
    seconds: float,
    name: Optional[str] = None,
    expire: Optional[float] = None,
    tag: object = None,
    time_func: Callable[[], float] = time.time,
    sleep_func: Callable[[float], object] = time.sleep,
) -> Callable[[_F], _F]:
    """Return a decorator that limits how often all processes together call a function.

    Calls wait until there is a token. Each call takes one; ``count`` tokens are added in
    ``seconds``, and at most ``count`` are there at once.

    Args:
        cache: A `Cache` or `FanoutCache`.
        count: The calls that are allowed in ``seconds``.
        seconds: A number of seconds.
        name: The key of the entry; the full name of the function if None.
        expire: Seconds after which the entry expires, and all tokens are there; None for never.
        tag: The tag of the entry.
        time_func: Returns the time in seconds.
        sleep_func: Waits for a number of seconds.

    Returns:
        The decorator.

    Example:
        >>> @throttle(Cache(), count=2, seconds=1)
        ... def download(page):
        ...     return page
        >>> download(7)
        7
    """
    rate = count / seconds

    def decorator(function: _F) -> _F:
        key = full_name(function) if name is None else name

        def missing_s() -> float:
            """Take a token, or return the seconds until there is one."""
            with cache.transact(retry=True):
                now = time_func()
                last, tokens = cache.get(key, default=(now, count), retry=True)
                tokens = min(count, tokens + (now - last) * rate)
                if tokens < 1:
                    return float(1 - tokens) / rate
                cache.set(key, (now, tokens - 1), expire=expire, tag=tag, retry=True)
                return 0.0

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            while delay := missing_s():
                sleep_func(delay)
            return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorator


def barrier(
    cache: _AnyCache,
    lock_factory: Callable[..., Any],
    name: Optional[str] = None,
    expire: Optional[float] = None,
    tag: object = None,
) -> Callable[[_F], _F]:
    """Return a decorator that holds a lock during each call of a function.

    Args:
        cache: A `Cache` or `FanoutCache`.
        lock_factory: `Lock`, `RLock` or `BoundedSemaphore`.
        name: The key of the lock; the full name of the function if None.
        expire: Seconds after which the lock is free in any case; None for never.
        tag: The tag of the entry.

    Returns:
        The decorator.

    Example:
        >>> @barrier(Cache(), Lock)
        ... def write_report(year):
        ...     return year
        >>> write_report(2024)
        2024
    """

    def decorator(function: _F) -> _F:
        key = full_name(function) if name is None else name
        lock = lock_factory(cache, key, expire=expire, tag=tag)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with lock:
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorator


def memoize_stampede(
    cache: _AnyCache,
    expire: float,
    name: Optional[str] = None,
    typed: bool = False,
    tag: object = None,
    beta: float = 1,
    ignore: Iterable[Any] = (),
) -> Callable[[_F], _F]:
    """Return a decorator that stores results, and makes them again before they expire.

    The closer a result is to its expiry, and the longer it took to make, the more likely a call
    starts a thread that makes it again; the call itself returns the stored result. So callers wait
    only for the first result, and one that nobody asked for until it expired.

    Args:
        cache: A `Cache` or `FanoutCache`.
        expire: Seconds after which a result expires.
        name: What the keys begin with; the full name of the function if None.
        typed: Whether arguments of different types have different keys.
        tag: The tag of the entries.
        beta: A larger number makes results again earlier.
        ignore: Positions and names of arguments that are not part of the key.

    Returns:
        The decorator. The decorated function has ``__cache_key__``, which returns the key for
        arguments.

    Example:
        >>> @memoize_stampede(Cache(), expire=60)
        ... def square(number):
        ...     return number * number
        >>> square(9), square(9)
        (81, 81)
    """

    def decorator(function: _F) -> _F:
        base = (full_name(function) if name is None else name,)

        def cache_key(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
            key: tuple[Any, ...] = args_to_key(base, args, kwargs, typed, ignore)
            return key

        def make(key: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            begin = time.time()
            result = function(*args, **kwargs)
            pair = result, time.time() - begin
            cache.set(key, pair, expire=expire, tag=tag, retry=True)
            return result

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            key = wrapper.__cache_key__(*args, **kwargs)  # type: ignore[attr-defined]
            found, expiry = cache.get(key, default=ENOVAL, expire_time=True, retry=True)
            if found is ENOVAL:
                return make(key, args, kwargs)
            result, took = found
            # "Optimal Probabilistic Cache Stampede Prevention", Vattani et al., 2015.
            lead = -took * beta * math.log(1 - random.random())  # noqa: S311
            is_due = time.time() + lead >= expiry
            # Only one caller adds this entry, and starts a thread, in the time that making took.
            # Its key is unique: no key of `args_to_key` begins with a tuple.
            if is_due and cache.add((key,), None, expire=took, tag=tag, retry=True):
                threading.Thread(target=make, args=(key, args, kwargs), daemon=True).start()
            return result

        wrapper.__cache_key__ = cache_key  # type: ignore[attr-defined]
        return wrapper  # type: ignore[return-value]

    return decorator
