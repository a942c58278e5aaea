"""A cache backend for Django.

Implements Django's rules for keys, timeouts, culling and the asynchronous methods. Storage and
eviction are left to `tuckbox.Cache`.
"""

from __future__ import annotations

import functools
import logging
import os
import random
import time
import weakref
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Callable, Optional, TypeVar, Union, cast

from asgiref.sync import sync_to_async
from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.cache import caches
from django.core.cache.backends.base import (
    DEFAULT_TIMEOUT,
    MEMCACHE_MAX_KEY_LENGTH,
    BaseCache,
    default_key_func,
)

from tuckbox.brief import Locked, WouldBlock, briefly, refuse_if_brief
from tuckbox.cache import Cache
from tuckbox.calls import SPIN_S, resumed
from tuckbox.errors import (
    CacheClosed,
    CacheLost,
    EntryCorrupt,
    IntegerOverflow,
    LockTimeout,
    NotAnInteger,
    TuckboxError,
    ValueTooLarge,
    ValueTypeError,
)
from tuckbox.integrations.django_checks import RUN_AS_THEM, check_cache, twins
from tuckbox.integrations.django_failures import FAILURES, failed, not_found, operation
from tuckbox.integrations.django_settings import Configuration, read_settings
from tuckbox.integrations.django_testing import current_test_process
from tuckbox.integrations.handles import reopened, shared
from tuckbox.keys import Key
from tuckbox.places import make_private
from tuckbox.results import Entry

__all__ = ["TuckboxCache", "TuckboxConfig"]

_R = TypeVar("_R")

# The methods with an asynchronous version below.
_SYNC_METHODS = frozenset({"add", "delete", "get", "has_key", "incr", "set", "set_many", "touch"})
_KEY_METHODS = frozenset({"make_key", "validate_key"})
_KEY_PARTS = frozenset({"key_prefix", "version", "key_func"}) | _KEY_METHODS

_log = logging.getLogger(__name__)
_backends: weakref.WeakSet[TuckboxCache] = weakref.WeakSet()


class _Unopened:
    """Takes the place of the handle until the first operation, and then opens the file.

    So commands that create every backend but use none, such as ``check`` and ``migrate``, create no
    file, and an operation needs no test whether the file is open.
    """

    def __init__(self, opened: Callable[[], Cache]) -> None:
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened(), name)

    def __contains__(self, key: Key) -> bool:
        return key in self._opened()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._opened())

    def __len__(self) -> int:
        return len(self._opened())


class TuckboxCache(BaseCache):  # type: ignore[misc] # Django is not typed.
    """A cache backend for Django.

    All processes of a project that run as the same user share the cache. ``docs/guide/django.md``
    describes the settings.

    Plain values and objects of registered types (see `tuckbox.Cache`) are stored without pickle.
    Others are pickled and signed with a secret derived from SECRET_KEY, and only unpickled if the
    signature matches the entry. An entry that cannot be read is a miss: it is removed, and a
    warning is logged.

    If the cache fails (LockTimeout, ValueTooLarge, KeyTooLong or a CacheFileError), the operation
    logs an error and behaves as if there were no entry; with ``on_error`` "raise" it raises the
    error. Either way nothing was changed, except that ``set`` with "log" deletes the old value if
    the new one is too large. Mistakes of the program are always raised.

    Example::

        CACHES = {"default": {"BACKEND": "tuckbox.integrations.django.TuckboxCache"}}
    """

    # Whether the asynchronous methods may bypass the synchronous ones: no subclass overrides those.
    _is_async_direct = True
    # Without a class attribute, because that would make reading it slower.
    _fast_prefix: Optional[str]

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Note whether the subclass overrides a synchronous method."""
        super().__init_subclass__(**kwargs)
        cls._is_async_direct = all(
            getattr(cls, name) is getattr(TuckboxCache, name) for name in _SYNC_METHODS
        )

    def __init__(self, location: Union[str, os.PathLike[str]], params: Mapping[str, Any]) -> None:
        """Validate the settings. The first operation opens or creates the file.

        Args:
            location: LOCATION: an absolute path, or a name (``"default"`` if empty). A name is a
                file in memory, in a directory that only this user can enter.
            params: The other settings of the cache.

        Raises:
            ImproperlyConfigured: A setting is unknown or invalid.
        """
        configuration = read_settings(location, params)
        super().__init__(params)
        # Replaces Django's default of 300: there is no limit unless one is set.
        self._max_entries = configuration.max_entries
        self._cull_frequency = configuration.cull_frequency
        self._raises = configuration.raises
        self.configuration = configuration
        self._open_options = configuration.open_options
        self._cache = cast("Cache", _Unopened(self._opened))
        _backends.add(self)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, and update what is derived from it."""
        super().__setattr__(name, value)
        if name in _KEY_PARTS:
            self._fast_prefix = self._prefix_of_default_keys()
        elif name in _SYNC_METHODS:
            self._is_async_direct = False

    def _prefix_of_default_keys(self) -> str | None:
        """Return what every key starts with; None if the project builds keys in its own way."""
        own = vars(self)
        is_djangos = all(
            name not in own and getattr(type(self), name) is getattr(BaseCache, name)
            for name in _KEY_METHODS
        )
        if is_djangos and own.get("key_func") is default_key_func:
            return f"{self.key_prefix!s}:{self.version!s}:"
        return None

    def make_and_validate_key(self, key: Any, version: Any = None) -> Any:
        """Return the key used in the cache; warn if memcached would reject it.

        Equal to Django's own method, but faster if the project does not customise keys.

        Args:
            key: The key as the project gives it.
            version: The version; None means the default version.

        Returns:
            The key with prefix and version, such as ``":1:user"``.
        """
        prefix = self._fast_prefix
        if prefix is None:
            return super().make_and_validate_key(key, version=version)
        if version is None:
            cache_key = f"{prefix}{key!s}"
        else:
            cache_key = f"{self.key_prefix!s}:{version!s}:{key!s}"
        # Django warns about spaces and control characters. Control characters are not printable;
        # Django itself tells them from other characters that are not.
        if (
            len(cache_key) > MEMCACHE_MAX_KEY_LENGTH
            or not cache_key.isprintable()
            or " " in cache_key
        ):
            self.validate_key(cache_key)
        return cache_key

    def get_backend_timeout(self, timeout: Any = DEFAULT_TIMEOUT) -> Optional[float]:
        """Return the time to live in seconds: None means never, 0 means already expired."""
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        if timeout is None:
            return None
        # Adding 0.0 accepts every type that Django accepts: it adds the timeout to a time.
        return 0 if timeout <= 0 else timeout + 0.0

    # Opening.

    def _opened(self) -> Cache:
        """Return the handle, and open the file if this is the first operation.

        Raises:
            TuckboxError: The file cannot be opened or created.
        """
        if isinstance(self._cache, _Unopened):
            # Tests get a cache of their own, so that they neither see nor clear the project's.
            process = current_test_process()
            self._open_options = self._open_options._replace(test_process=process)
            if process is None:
                _prepare(self.configuration)
            self._cache = shared(self._open_options)
        return self._cache

    def _close_for_tests(self) -> None:
        """If the tests began or ended after this backend opened its cache, leave that cache."""
        if self._open_options.test_process != current_test_process():
            self._forget()

    def _forget(self) -> None:
        self._cache = cast("Cache", _Unopened(self._opened))

    # Reading.

    @operation
    def get(self, key: Any, default: Any = None, version: Any = None) -> Any:
        """Return the value of ``key``, or ``default`` if there is none. Takes no lock.

        Raises:
            Exception: Raised by unpickling an object of this project.
        """
        cache_key = self.make_and_validate_key(key, version)
        try:
            return self._cache.get(cache_key, default)
        except EntryCorrupt as damage:
            return self._remove_unreadable(cache_key, damage, default)

    @operation
    def get_many(self, keys: Iterable[Any], version: Any = None) -> dict[Any, Any]:
        """Return a dict of those ``keys`` that have a value. Raises as `get`."""
        pairs = [(key, self.make_and_validate_key(key, version)) for key in keys]
        try:
            found = self._cache.get_many([cache_key for _, cache_key in pairs])
        except EntryCorrupt:
            # One key at a time, so that the other values are still found.
            return dict(super().get_many([key for key, _ in pairs], version))
        return {key: found[cache_key] for key, cache_key in pairs if cache_key in found}

    @operation
    def has_key(self, key: Any, version: Any = None) -> bool:
        """Return whether ``key`` has a value."""
        return self.make_and_validate_key(key, version) in self._cache

    # Writing.

    @operation
    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> None:
        """Store ``value`` for ``timeout`` seconds. A timeout of 0 or less deletes the key.

        Raises:
            TuckboxError: The value cannot be stored. The old value is kept.
            Exception: Raised by pickling. The old value is kept.
        """
        try:
            self._set(key, value, timeout, version)
        except ValueTooLarge:
            if not self._raises:
                # The old value must not be taken for the new one.
                with suppress(LockTimeout):
                    self._cache.delete(self.make_and_validate_key(key, version))
            raise

    @operation
    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> bool:
        """Store ``value`` if ``key`` has none; return whether it was stored. Raises as `set`."""
        return self._add(key, value, timeout, version)

    @operation
    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> bool:
        """Give ``key`` a new timeout; return whether it has a value. Raises as `set`."""
        return self._touch(key, timeout, version)

    @operation
    def delete(self, key: Any, version: Any = None) -> bool:
        """Delete ``key``; return whether it had a value.

        Raises:
            LockTimeout: A live process holds the lock. Nothing was deleted.
        """
        return self._cache.delete(self.make_and_validate_key(key, version))

    @operation
    def incr(self, key: Any, delta: Any = 1, version: Any = None) -> Any:
        """Add ``delta`` to the value of ``key`` and return the sum. The timeout does not change.

        Atomic over all processes.

        Raises:
            ValueError: ``key`` has no value.
            TypeError: ``delta`` cannot be added to the value.
        """
        return self._incr(key, delta, version)

    @operation
    def set_many(
        self, data: Mapping[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> list[Any]:
        """Store all values of ``data``; return the keys whose values are too large.

        The old values of these keys are deleted, so that they are not taken for the new ones.

        Raises:
            TuckboxError: A value cannot be stored. Some of the others may be stored.
            Exception: Raised by pickling. Some of the others may be stored.
        """
        return self._set_many(data, timeout, version)

    @operation
    def delete_many(self, keys: Iterable[Any], version: Any = None) -> None:
        """Delete ``keys``.

        Raises:
            LockTimeout: A live process holds a lock. Some of the keys may be deleted.
        """
        self._cache.delete_many([self.make_and_validate_key(key, version) for key in keys])

    @operation
    def clear(self) -> None:
        """Delete all entries, of every prefix and version, including those of other aliases."""
        self._close_for_tests()
        self._cache.clear()

    def close(self, **_: object) -> None:
        """Keep the file open. Django calls this after every request."""
        self._close_for_tests()

    # `tuckbox.calls` waits for locks without blocking the event loop. An operation continues in a
    # thread if it has long work to do or would run code of pickled objects, and always if a
    # subclass overrides a synchronous method.

    async def aget(self, key: Any, default: Any = None, version: Any = None) -> Any:
        """See `get`."""
        if self._is_async_direct:
            with suppress(EntryCorrupt, WouldBlock, *FAILURES):
                cache_key = self.make_and_validate_key(key, version)
                return briefly(SPIN_S, self._cache.get, cache_key, default)
        return await sync_to_async(self.get, thread_sensitive=True)(key, default, version)

    async def ahas_key(self, key: Any, version: Any = None) -> bool:
        """See `has_key`."""
        if self._is_async_direct:
            return self.has_key(key, version)
        return await sync_to_async(self.has_key, thread_sensitive=True)(key, version)

    async def aset(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> None:
        """See `set`."""
        await self._on_loop(self._set, self.set, key, value, timeout, version)

    async def aadd(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> bool:
        """See `add`."""
        return await self._on_loop(self._add, self.add, key, value, timeout, version)

    async def atouch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> bool:
        """See `touch`."""
        return await self._on_loop(self._touch, self.touch, key, timeout, version)

    async def adelete(self, key: Any, version: Any = None) -> bool:
        """See `delete`."""
        return await self._on_loop(self._delete, self.delete, key, version)

    async def aincr(self, key: Any, delta: Any = 1, version: Any = None) -> Any:
        """See `incr`."""
        return await self._on_loop(self._incr, self.incr, key, delta, version)

    async def aset_many(
        self, data: Mapping[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> list[Any]:
        """See `set_many`."""
        return await self._on_loop(self._set_many, self.set_many, data, timeout, version)

    async def _on_loop(
        self, direct: Callable[..., _R], in_thread: Callable[..., _R], *arguments: Any
    ) -> _R:
        def thread() -> Awaitable[_R]:
            there: Awaitable[_R] = sync_to_async(in_thread, thread_sensitive=True)(*arguments)
            return there

        if not self._is_async_direct:
            return await thread()
        operation = functools.partial(direct, *arguments)
        try:
            try:
                return briefly(SPIN_S, operation)
            except Locked:
                return await resumed(self._cache, operation, thread)
        except LockTimeout as failure:
            answer: _R = failed(self, in_thread.__name__, failure, *arguments)
            return answer
        except (WouldBlock, *FAILURES):
            # The operation in the thread deals with the failure.
            return await thread()

    def _reopen(self, loss: CacheClosed | CacheLost) -> None:
        # The handle could not open what is at its path now, which may be another release's file.
        path = self._open_options.path
        _log.warning("%s is opened again, or created again if it is missing: %s", path, loss)
        if self._open_options.test_process is None:
            _prepare(self.configuration)
        self._cache = reopened(self._open_options, self._cache)

    def _set(self, key: Any, value: Any, timeout: Any, version: Any) -> None:
        cache_key = self.make_and_validate_key(key, version)
        ttl = self.get_backend_timeout(timeout)
        if ttl == 0:
            self._cache.delete(cache_key)
            return
        if self._max_entries is not None:
            self._make_room(cache_key, self._max_entries)
        self._store(self._cache.set, cache_key, value, ttl)

    def _add(self, key: Any, value: Any, timeout: Any, version: Any) -> bool:
        cache_key = self.make_and_validate_key(key, version)
        ttl = self.get_backend_timeout(timeout)
        if ttl == 0:
            return cache_key not in self._cache
        if self._max_entries is not None:
            self._make_room(cache_key, self._max_entries)
        return self._store(self._cache.add, cache_key, value, ttl)

    def _touch(self, key: Any, timeout: Any, version: Any) -> bool:
        cache_key = self.make_and_validate_key(key, version)
        ttl = self.get_backend_timeout(timeout)
        return self._cache.delete(cache_key) if ttl == 0 else self._cache.touch(cache_key, ttl)

    def _delete(self, key: Any, version: Any) -> bool:
        return self._cache.delete(self.make_and_validate_key(key, version))

    def _incr(self, key: Any, delta: Any, version: Any) -> Any:
        cache_key = self.make_and_validate_key(key, version)
        try:
            return self._cache.incr(cache_key, delta, default=None)
        except KeyError:
            raise not_found(key) from None
        except (NotAnInteger, IntegerOverflow):
            # A float, a larger int, or another type with `+`.
            pass
        refuse_if_brief()
        while True:
            entry = self._entry(cache_key)
            ttl = None if entry is None or entry.expiry is None else entry.expiry - time.time()
            if entry is None or (ttl is not None and ttl <= 0):
                raise not_found(key)
            # A `touch` between the read and the swap is undone: only values have versions.
            total = entry.value + delta
            swap = functools.partial(_swap, self._cache, entry.version)
            if self._store(swap, cache_key, total, ttl):
                return total

    def _set_many(self, data: Mapping[Any, Any], timeout: Any, version: Any) -> list[Any]:
        ttl = self.get_backend_timeout(timeout)
        keys = {self.make_and_validate_key(key, version): key for key in data}
        values = {cache_key: data[key] for cache_key, key in keys.items()}
        if ttl == 0:
            self._cache.delete_many(values)
            return []
        if self._max_entries is None:
            # If it raises one of these, it has stored nothing.
            with suppress(ValueTypeError, ValueTooLarge):
                self._cache.set_many(values, ttl)
                return []
        refuse_if_brief()
        failed = []
        for cache_key, value in values.items():
            if self._max_entries is not None:
                self._make_room(cache_key, self._max_entries)
            try:
                self._store(self._cache.set, cache_key, value, ttl)
            except ValueTooLarge as refusal:
                path = self._open_options.path
                _log.warning("%s: the value of key %r was not stored: %s", path, cache_key, refusal)
                self._cache.delete(cache_key)
                failed.append(keys[cache_key])
        return failed

    # Values.

    def _store(
        self,
        store: Callable[[Key, object, float | None], _R],
        cache_key: Key,
        value: object,
        ttl: float | None,
    ) -> _R:
        try:
            return store(cache_key, value, ttl)
        except ValueTypeError as refusal:
            if self._open_options.pickle != "never":
                raise
            advice = "to store other types, set pickle in OPTIONS of this cache to 'signed'"
            raise ValueTypeError(f"{refusal}; {advice}") from None

    def _entry(self, cache_key: Key) -> Entry | None:
        try:
            return self._cache.get_entry(cache_key)
        except EntryCorrupt as damage:
            return self._remove_unreadable(cache_key, damage, None)

    def _remove_unreadable(self, cache_key: Key, why: TuckboxError, default: _R) -> _R:
        """Delete an entry that cannot be read, and return the default as for a miss."""
        path = self._open_options.path
        _log.warning("%s: deleted key %r, which could not be read: %s", path, cache_key, why)
        with suppress(LockTimeout):
            self._cache.delete(cache_key)
        return default

    # Culling.

    def _make_room(self, cache_key: Key, max_entries: int) -> None:
        """If a new entry would exceed MAX_ENTRIES, cull as Django does."""
        count = len(self._cache)
        if count < max_entries or cache_key in self._cache:
            return
        refuse_if_brief()
        if self._cull_frequency == 0:
            self._cache.clear()
            return
        count_left = count - max(1, count // self._cull_frequency)
        self._cache.expire()
        # Selection sampling: one pass chooses `surplus` keys with equal probability. Other
        # processes may be culling too, so stop when enough entries are deleted.
        unseen = len(self._cache)
        surplus = unseen - count_left
        for key in self._cache:
            if surplus <= 0 or len(self._cache) <= count_left:
                return
            if random.random() * unseen < surplus:  # noqa: S311 - Dice, not secrets.
                surplus -= self._cache.delete(key)
            unseen -= 1


def _prepare(configuration: Configuration) -> None:
    """Create the folder of a named cache."""
    if configuration.folder is not None:
        make_private(configuration.folder)
        _warn_of_twins(configuration)


@functools.lru_cache(maxsize=64)  # Once for each cache.
def _warn_of_twins(configuration: Configuration) -> None:
    path = configuration.open_options.path
    for user, twin in twins(configuration):
        _log.warning("%s is not the cache of user %s, %s: %s", path, user, twin, RUN_AS_THEM)


def _swap(cache: Cache, version: int, cache_key: Key, value: object, ttl: float | None) -> bool:
    return cache.cas(cache_key, value, version, ttl)


def _forget_parents_test_cache() -> None:
    # A forked test worker gets its number later, and opens its own cache then.
    if current_test_process() is not None:
        for backend in list(_backends):
            backend._forget()  # noqa: SLF001 - Of this module.


os.register_at_fork(after_in_child=_forget_parents_test_cache)


class TuckboxConfig(AppConfig):  # type: ignore[misc] # Django is not typed.
    """An app that adds system checks of the project's Tuckbox caches, for ``INSTALLED_APPS``."""

    name = "tuckbox.integrations"
    label = "tuckbox"
    verbose_name = "Tuckbox"

    def ready(self) -> None:
        """Register the system checks."""
        checks.register(_check, checks.Tags.caches)


def _check(**_: object) -> list[checks.CheckMessage]:
    backends = ((alias, caches[alias]) for alias in settings.CACHES)
    return [
        message
        for alias, backend in backends
        if isinstance(backend, TuckboxCache)
        for message in check_cache(alias, backend.configuration)
    ]
