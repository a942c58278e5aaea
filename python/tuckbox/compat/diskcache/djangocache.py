"""DiskCache's backend for Django.

Owns Django's rules for keys, versions and timeouts. Storage belongs to `FanoutCache`.
`tuckbox.integrations.django` is the backend for a project that need not stay compatible.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Callable, Optional, TypeVar

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache

from tuckbox.compat.diskcache.core import Cache
from tuckbox.compat.diskcache.deque import Deque
from tuckbox.compat.diskcache.fanout import FanoutCache
from tuckbox.compat.diskcache.index import Index
from tuckbox.compat.diskcache.memoizing import args_to_key, full_name
from tuckbox.compat.diskcache.settings import ENOVAL

__all__ = ["DjangoCache"]

_F = TypeVar("_F", bound=Callable[..., Any])


class DjangoCache(BaseCache):  # type: ignore[misc] # Django is not typed.
    """A cache backend for Django, on a `FanoutCache`.

    The setting ``SHARDS`` is the number of shards, 8 by default. ``DATABASE_TIMEOUT`` is how many
    seconds an operation waits for a lock, 0.01 by default. ``OPTIONS`` are the settings of the
    `FanoutCache`. Keys may have any length and characters.

    Args:
        directory: Where the cache is: Django's ``LOCATION``.
        params: The other settings of the cache.

    Example::

        CACHES = {
            "default": {
                "BACKEND": "tuckbox.compat.diskcache.DjangoCache",
                "LOCATION": "/var/cache/pages",
            }
        }
    """

    def __init__(self, directory: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._cache = FanoutCache(
            directory,
            params.get("SHARDS", 8),
            params.get("DATABASE_TIMEOUT", 0.010),
            **params.get("OPTIONS", {}),
        )

    @property
    def directory(self) -> str:
        """The directory of the cache."""
        return self._cache.directory

    def cache(self, name: str) -> Cache:
        """Return a `Cache` in the folder ``cache`` of the directory.

        Args:
            name: The folder in there; slashes make subfolders.

        Returns:
            The cache.
        """
        return self._cache.cache(name)

    def deque(self, name: str, maxlen: Optional[float] = None) -> Deque:
        """Return a `Deque` in the folder ``deque`` of the directory.

        Args:
            name: The folder in there; slashes make subfolders.
            maxlen: The most items it keeps; None for no limit.

        Returns:
            The deque.
        """
        return self._cache.deque(name, maxlen=maxlen)

    def index(self, name: str) -> Index:
        """Return an `Index` in the folder ``index`` of the directory.

        Args:
            name: The folder in there; slashes make subfolders.

        Returns:
            The index.
        """
        return self._cache.index(name)

    def add(
        self,
        key: object,
        value: object,
        timeout: Any = DEFAULT_TIMEOUT,
        version: Optional[int] = None,
        read: bool = False,
        tag: object = None,
        retry: bool = True,
    ) -> bool:
        """Store a value if the key is missing.

        Args:
            key: The key.
            value: The value.
            timeout: Seconds until it expires; None for never.
            version: The version of the key.
            read: Whether ``value`` is a file to read the value from.
            tag: The tag of the entry.
            retry: Whether to try again when the time for a lock is over.

        Returns:
            Whether the value was stored.
        """
        key = self.make_key(key, version=version)
        seconds = self.get_backend_timeout(timeout)
        return self._cache.add(key, value, seconds, read, tag, retry)

    def get(
        self,
        key: object,
        default: object = None,
        version: Optional[int] = None,
        read: bool = False,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Return the value of a key.

        Args:
            key: The key.
            default: What to return if it is missing.
            version: The version of the key.
            read: Whether to return an open file, if the value is stored as one.
            expire_time: Whether to return when it expires, too.
            tag: Whether to return its tag, too.
            retry: Whether to try again when the time for a lock is over.

        Returns:
            The value, or a tuple of it and what else was asked for.
        """
        key = self.make_key(key, version=version)
        return self._cache.get(key, default, read, expire_time, tag, retry)

    def read(self, key: object, version: Optional[int] = None) -> Any:
        """Return the value of a key as an open file.

        Args:
            key: The key.
            version: The version of the key.

        Returns:
            The file, open for reading bytes.

        Raises:
            KeyError: The key is missing.
        """
        return self._cache.read(self.make_key(key, version=version))

    def set(
        self,
        key: object,
        value: object,
        timeout: Any = DEFAULT_TIMEOUT,
        version: Optional[int] = None,
        read: bool = False,
        tag: object = None,
        retry: bool = True,
    ) -> bool:
        """Store a value.

        Args:
            key: The key.
            value: The value.
            timeout: Seconds until it expires; None for never.
            version: The version of the key.
            read: Whether ``value`` is a file to read the value from.
            tag: The tag of the entry.
            retry: Whether to try again when the time for a lock is over.

        Returns:
            Whether the value was stored.
        """
        key = self.make_key(key, version=version)
        seconds = self.get_backend_timeout(timeout)
        return self._cache.set(key, value, seconds, read, tag, retry)

    def touch(
        self,
        key: object,
        timeout: Any = DEFAULT_TIMEOUT,
        version: Optional[int] = None,
        retry: bool = True,
    ) -> bool:
        """Change when an entry expires.

        Args:
            key: The key.
            timeout: Seconds until it expires; None for never.
            version: The version of the key.
            retry: Whether to try again when the time for a lock is over.

        Returns:
            Whether there was an entry.
        """
        key = self.make_key(key, version=version)
        return self._cache.touch(key, self.get_backend_timeout(timeout), retry)

    def pop(
        self,
        key: object,
        default: object = None,
        version: Optional[int] = None,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = True,
    ) -> Any:
        """Remove an entry and return its value.

        Args:
            key: The key.
            default: What to return if it is missing.
            version: The version of the key.
            expire_time: Whether to return when it would expire, too.
            tag: Whether to return its tag, too.
            retry: Whether to try again when the time for a lock is over.

        Returns:
            The value, or a tuple of it and what else was asked for.
        """
        key = self.make_key(key, version=version)
        return self._cache.pop(key, default, expire_time, tag, retry)

    def delete(self, key: object, version: Optional[int] = None, retry: bool = True) -> bool:
        """Remove an entry.

        Args:
            key: The key.
            version: The version of the key.
            retry: Whether to try again when the time for a lock is over.

        Returns:
            Whether there was an entry.
        """
        return self._cache.delete(self.make_key(key, version=version), retry)

    def incr(
        self,
        key: object,
        delta: int = 1,
        version: Optional[int] = None,
        default: Optional[int] = None,
        retry: bool = True,
    ) -> Any:
        """Add to a number. Processes that add at the same time lose nothing.

        Args:
            key: The key.
            delta: What to add.
            version: The version of the key.
            default: The number to start with if the key is missing; None for an error.
            retry: Whether to try again when the time for a lock is over.

        Returns:
            The sum.

        Raises:
            ValueError: The key is missing, and there is no default.
        """
        key = self.make_key(key, version=version)
        try:
            return self._cache.incr(key, delta, default, retry)
        except KeyError:
            raise ValueError(f"Key {key!r} not found") from None

    def decr(
        self,
        key: object,
        delta: int = 1,
        version: Optional[int] = None,
        default: Optional[int] = None,
        retry: bool = True,
    ) -> Any:
        """Subtract from a number. Processes that subtract at the same time lose nothing.

        Args:
            key: The key.
            delta: What to subtract.
            version: The version of the key.
            default: The number to start with if the key is missing; None for an error.
            retry: Whether to try again when the time for a lock is over.

        Returns:
            The difference.

        Raises:
            ValueError: The key is missing, and there is no default.
        """
        return self.incr(key, -delta, version, default, retry)

    def has_key(self, key: object, version: Optional[int] = None) -> bool:
        """Tell whether there is an entry.

        Args:
            key: The key.
            version: The version of the key.

        Returns:
            Whether there is one.
        """
        return self.make_key(key, version=version) in self._cache

    def expire(self) -> int:
        """Remove expired entries.

        Returns:
            Their number.
        """
        return self._cache.expire()

    def stats(self, enable: bool = True, reset: bool = False) -> tuple[int, int]:
        """Return how many gets found an entry, and how many did not.

        Args:
            enable: Whether to count from here on.
            reset: Whether to start again at 0.

        Returns:
            Hits and misses.
        """
        return self._cache.stats(enable=enable, reset=reset)

    def create_tag_index(self) -> None:
        """Make `evict` faster, as `Cache.create_tag_index` does."""
        self._cache.create_tag_index()

    def drop_tag_index(self) -> None:
        """Undo `create_tag_index`."""
        self._cache.drop_tag_index()

    def evict(self, tag: object) -> int:
        """Remove all entries with a tag.

        Args:
            tag: The tag.

        Returns:
            Their number.
        """
        return self._cache.evict(tag)

    def cull(self) -> int:
        """Remove expired entries, and others until the cache is smaller than its limit.

        Returns:
            Their number.
        """
        return self._cache.cull()

    def clear(self) -> int:
        """Remove all entries.

        Returns:
            Their number.
        """
        return self._cache.clear()

    def close(self, **_kwargs: object) -> None:
        """Close the files of the cache. Django calls this at the end of each request."""
        self._cache.close()

    def get_backend_timeout(self, timeout: Any = DEFAULT_TIMEOUT) -> Optional[float]:
        """Return the seconds until an entry expires.

        Args:
            timeout: A timeout as Django has it.

        Returns:
            The seconds, negative for a timeout of 0; None for never.
        """
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        return -1 if timeout == 0 else timeout

    def memoize(
        self,
        name: Optional[str] = None,
        timeout: Any = DEFAULT_TIMEOUT,
        version: Optional[int] = None,
        typed: bool = False,
        tag: object = None,
        ignore: Iterable[Any] = (),
    ) -> Callable[[_F], _F]:
        """Return a decorator that stores the results of a function.

        Args:
            name: What the keys begin with; the full name of the function if None.
            timeout: Seconds until a result expires; None for never.
            version: The version of the keys.
            typed: Whether arguments of different types have different keys.
            tag: The tag of the entries.
            ignore: Positions and names of arguments that are not part of the key.

        Returns:
            The decorator. The decorated function has ``__cache_key__``, which returns the key for
            arguments.

        Raises:
            TypeError: The parentheses are missing: write ``@cache.memoize()``.
        """
        if callable(name):
            raise TypeError("name cannot be callable: write @cache.memoize()")

        def decorator(function: _F) -> _F:
            base = (full_name(function) if name is None else name,)

            def cache_key(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
                return args_to_key(base, args, kwargs, typed, ignore)

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                key = wrapper.__cache_key__(*args, **kwargs)  # type: ignore[attr-defined]
                result = self.get(key, ENOVAL, version, retry=True)
                if result is ENOVAL:
                    result = function(*args, **kwargs)
                    if timeout != 0:
                        self.set(key, result, timeout, version, tag=tag, retry=True)
                return result

            wrapper.__cache_key__ = cache_key  # type: ignore[attr-defined]
            return wrapper  # type: ignore[return-value]

        return decorator
