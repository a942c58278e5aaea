"""The cache of a Django project, in a file that all its processes share.

Owns Django's interface and its rules: keys, timeouts, culling, what is done on an event loop. What
is stored how, and which entry goes when room runs out, is the business of `tuckbox.Cache`.
"""

from __future__ import annotations

import functools
import logging
import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast

from asgiref.sync import sync_to_async
from django.core.cache.backends.base import (
    DEFAULT_TIMEOUT,
    MEMCACHE_MAX_KEY_LENGTH,
    BaseCache,
    default_key_func,
)
from django.core.exceptions import ImproperlyConfigured

from tuckbox.errors import (
    CacheLost,
    EntryCorrupt,
    IntegerOverflow,
    InvalidArgument,
    LockTimeout,
    NotAnInteger,
    TuckboxError,
    ValueTooLarge,
    ValueTypeError,
)
from tuckbox.integrations.carriers import CarrierRefused
from tuckbox.integrations.django_settings import carriers, make_private, read_settings
from tuckbox.integrations.handles import renewed, shared

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from tuckbox.cache import Cache
    from tuckbox.integrations.handles import Way
    from tuckbox.keys import Key
    from tuckbox.results import Entry

__all__ = ["TuckboxCache"]

_R = TypeVar("_R")
_Operation = TypeVar("_Operation", bound=Callable[..., Any])

# How long an event loop may wait for a lock.
_LOOP_LOCK_TIMEOUT_S = 0.02
# What the asynchronous methods below do as well.
_MIRRORED = frozenset({"add", "delete", "get", "has_key", "incr", "set", "set_many", "touch"})
_KEY_MAKERS = frozenset({"make_key", "validate_key"})
_KEY_PARTS = frozenset({"key_prefix", "version", "key_func"}) | _KEY_MAKERS
# Not None, which is a value.
_MISSING = object()

_log = logging.getLogger(__name__)


class _WouldBlock(Exception):
    """What was tried on an event loop has to be done in a thread. Nothing has changed."""


def _renewing(operation: _Operation) -> _Operation:
    """Do the operation again on a new file, should the one in use have been lost."""

    @functools.wraps(operation)
    def on_a_file_that_is_there(self: TuckboxCache, *args: Any, **kwargs: Any) -> Any:
        try:
            return operation(self, *args, **kwargs)
        except CacheLost as loss:
            self._renew(loss)
            return operation(self, *args, **kwargs)

    return cast("_Operation", on_a_file_that_is_there)


class TuckboxCache(BaseCache):  # type: ignore[misc] # Django is not typed.
    """A cache backend for Django.

    ::

        CACHES = {"default": {"BACKEND": "tuckbox.integrations.django.TuckboxCache"}}

    All processes of a project that run as one user share it. ``docs/guide/django.md`` has the
    settings.

    Plain values (see `tuckbox.Cache`) are stored as such. All others are pickled, and signed with a
    key that is derived from SECRET_KEY: nothing is unpickled that was not signed with it for that
    very entry. An entry that cannot be read is a miss. It is removed, and a warning is logged.

    What cannot be written raises the TuckboxError that it raises in `tuckbox.Cache`: LockTimeout,
    CacheFull, ValueTooLarge, KeyTooLong. Nothing has changed then.
    """

    _is_mirrored = True
    # No default of the class: it would make reading the attribute slower.
    _lead: str | None

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Note whether the asynchronous methods may go past the synchronous ones."""
        super().__init_subclass__(**kwargs)
        cls._is_mirrored = all(
            getattr(cls, name) is getattr(TuckboxCache, name) for name in _MIRRORED
        )

    def __init__(self, location: str | os.PathLike[str], params: Mapping[str, Any]) -> None:
        """Open the file, or make it.

        Args:
            location: LOCATION: an absolute path, or a name, which "default" is if there is none.
                A named file lies in memory, in a folder that only this user can enter.
            params: The other settings.

        Raises:
            ImproperlyConfigured: A setting is unknown or makes no sense. Nothing was made.
            TuckboxError: The file cannot be opened or made.
        """
        configuration = read_settings(location, params)
        super().__init__(params)
        # Django's names, and nobody's limit unless it was set.
        self._max_entries = configuration.max_entries
        self._cull_frequency = configuration.cull_frequency
        self._pickles = configuration.pickles
        self._way = configuration.way
        if configuration.folder is not None:
            make_private(configuration.folder)
        try:
            self._cache = shared(configuration.way)
        except InvalidArgument as error:
            raise ImproperlyConfigured(f"OPTIONS of a Tuckbox cache: {error}") from error

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, and keep the short ways in step with it."""
        super().__setattr__(name, value)
        if name in _KEY_PARTS:
            self._lead = self._lead_of_keys()
        elif name in _MIRRORED:
            self._is_mirrored = False

    def _lead_of_keys(self) -> str | None:
        """What each key begins with, or None if only Django's way of making keys will do."""
        own = vars(self)
        is_djangos = all(
            name not in own and getattr(type(self), name) is getattr(BaseCache, name)
            for name in _KEY_MAKERS
        )
        if is_djangos and own.get("key_func") is default_key_func:
            return f"{self.key_prefix!s}:{self.version!s}:"
        return None

    def make_and_validate_key(self, key: Any, version: Any = None) -> Any:
        """Return the key in the cache; warn if memcached would not take it.

        Does what Django's does in a fraction of the time, as long as keys are made and validated
        by Django's own functions.
        """
        lead = self._lead
        if lead is None:
            return super().make_and_validate_key(key, version=version)
        made = f"{lead}{key!s}" if version is None else f"{self.key_prefix!s}:{version!s}:{key!s}"
        # Django warns of spaces and of control characters. The latter are not printable; what else
        # is not, it tells apart itself.
        if len(made) > MEMCACHE_MAX_KEY_LENGTH or not made.isprintable() or " " in made:
            self.validate_key(made)
        return made

    def get_backend_timeout(self, timeout: Any = DEFAULT_TIMEOUT) -> float | None:
        """Return the time to live in seconds: None for ever, 0 if there is none."""
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        if timeout is None:
            return None
        # A sum is a number whatever it is that can be added to one; Django adds it to a moment.
        return 0 if timeout <= 0 else timeout + 0.0

    # Reading.

    @_renewing
    def get(self, key: Any, default: Any = None, version: Any = None) -> Any:
        """Return the value of ``key``, or ``default`` if there is none. Waits for nobody.

        Raises:
            Exception: What unpickling an object raises that this project has stored.
        """
        made = self.make_and_validate_key(key, version)
        try:
            value = self._cache.get(made, default)
        except EntryCorrupt as damage:
            return self._remove_unreadable(made, damage, default)
        if type(value) is bytearray and value is not default:
            return self._unwrapped(made, value, default)
        return value

    @_renewing
    def get_many(self, keys: Iterable[Any], version: Any = None) -> dict[Any, Any]:
        """Return the values of those ``keys`` that have one."""
        pairs = [(key, self.make_and_validate_key(key, version)) for key in keys]
        try:
            found = self._cache.get_many([made for _, made in pairs])
        except EntryCorrupt:
            # One by one, each that can be read.
            return dict(super().get_many([key for key, _ in pairs], version))
        values = {}
        for key, made in pairs:
            value = found.get(made, _MISSING)
            if type(value) is bytearray:
                value = self._unwrapped(made, value, _MISSING)
            if value is not _MISSING:
                values[key] = value
        return values

    @_renewing
    def has_key(self, key: Any, version: Any = None) -> bool:
        """Tell whether ``key`` has a value."""
        return self.make_and_validate_key(key, version) in self._cache

    # Writing.

    @_renewing
    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> None:
        """Store ``value``; with a timeout of 0 or less, remove the key.

        Raises:
            TuckboxError: It cannot be stored. The key has the value that it had.
            Exception: What pickling raises.
        """
        self._set(self._cache, key, value, timeout, version)

    @_renewing
    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> bool:
        """Store ``value`` unless ``key`` has one; tell whether it had none. Raises as `set`."""
        return self._add(self._cache, key, value, timeout, version)

    @_renewing
    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> bool:
        """Give ``key`` a new timeout; tell whether it has a value. Raises as `set`."""
        return self._touch(self._cache, key, timeout, version)

    @_renewing
    def delete(self, key: Any, version: Any = None) -> bool:
        """Remove ``key``; tell whether it had a value.

        Raises:
            LockTimeout: It could not be removed.
        """
        return self._cache.delete(self.make_and_validate_key(key, version))

    @_renewing
    def incr(self, key: Any, delta: Any = 1, version: Any = None) -> Any:
        """Add ``delta`` to the value of ``key`` and return the sum; the timeout stays as it is.

        No sum is lost, whatever other processes do.

        Raises:
            ValueError: ``key`` has no value.
            TypeError: ``delta`` cannot be added to it.
        """
        return self._incr(self._cache, key, delta, version)

    @_renewing
    def set_many(
        self, data: Mapping[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> list[Any]:
        """Store all values; return the keys of those that are too large for this cache.

        These keys have no value any more, so that no old one passes for the new one.

        Raises:
            TuckboxError: Values cannot be stored. Those before may be.
            Exception: What pickling raises. Values before that one are stored.
        """
        return self._set_many(self._cache, data, timeout, version)

    @_renewing
    def delete_many(self, keys: Iterable[Any], version: Any = None) -> None:
        """Remove ``keys``.

        Raises:
            LockTimeout: One could not be removed; others may be gone.
        """
        self._cache.delete_many([self.make_and_validate_key(key, version) for key in keys])

    @_renewing
    def clear(self) -> None:
        """Remove all entries, whatever their prefix and version, and whoever stored them."""
        self._cache.clear()

    def close(self, **kwargs: object) -> None:
        """Do nothing: Django calls this after every request, and the file stays open for all."""

    # The same on an event loop. Reads wait for nobody, and writes for a moment at most; what would
    # take longer, or run code of objects that are pickled, is done in a thread, as Django does with
    # everything. So is all that a subclass does in a way of its own.

    async def aget(self, key: Any, default: Any = None, version: Any = None) -> Any:
        """See `get`."""
        if self._is_mirrored:
            with suppress(EntryCorrupt, CacheLost):
                value = self._cache.get(self.make_and_validate_key(key, version), default)
                if type(value) is not bytearray or value is default:
                    return value
        return await sync_to_async(self.get, thread_sensitive=True)(key, default, version)

    async def ahas_key(self, key: Any, version: Any = None) -> bool:
        """See `has_key`."""
        if self._is_mirrored:
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
        self, at_once: Callable[..., _R], in_thread: Callable[..., _R], *arguments: Any
    ) -> _R:
        if self._is_mirrored:
            with suppress(_WouldBlock, LockTimeout, CacheLost):
                return at_once(self._loop_cache, *arguments)
        result: _R = await sync_to_async(in_thread, thread_sensitive=True)(*arguments)
        return result

    # What an operation does to the handle that it is given: the process's own, or the one for event
    # loops, which waits for locks no longer than a loop may.

    @functools.cached_property
    def _loop_cache(self) -> Cache:
        return shared(self._loop_way)

    @property
    def _loop_way(self) -> Way:
        lock_timeout = min(self._way.lock_timeout, _LOOP_LOCK_TIMEOUT_S)
        return self._way._replace(lock_timeout=lock_timeout)

    def _renew(self, loss: CacheLost) -> None:
        _log.warning("%s The file is opened again, or made anew.", loss)
        self._cache = renewed(self._way, self._cache)
        for_loop = self.__dict__.pop("_loop_cache", None)
        if for_loop is not None and for_loop is not self._cache:
            renewed(self._loop_way, for_loop)

    def _demand_thread(self, cache: Cache) -> None:
        """Go on only where it may take a while, and where code of stored objects may run."""
        if cache is not self._cache:
            raise _WouldBlock

    def _set(self, cache: Cache, key: Any, value: Any, timeout: Any, version: Any) -> None:
        made = self.make_and_validate_key(key, version)
        ttl = self.get_backend_timeout(timeout)
        if ttl == 0:
            cache.delete(made)
            return
        if self._max_entries is not None:
            self._make_room(cache, made, self._max_entries)
        self._store(cache, cache.set, made, value, ttl)

    def _add(self, cache: Cache, key: Any, value: Any, timeout: Any, version: Any) -> bool:
        made = self.make_and_validate_key(key, version)
        ttl = self.get_backend_timeout(timeout)
        if ttl == 0:
            return made not in cache
        if self._max_entries is not None:
            self._make_room(cache, made, self._max_entries)
        return self._store(cache, cache.add, made, value, ttl)

    def _touch(self, cache: Cache, key: Any, timeout: Any, version: Any) -> bool:
        made = self.make_and_validate_key(key, version)
        ttl = self.get_backend_timeout(timeout)
        return cache.delete(made) if ttl == 0 else cache.touch(made, ttl)

    def _delete(self, cache: Cache, key: Any, version: Any) -> bool:
        return cache.delete(self.make_and_validate_key(key, version))

    def _incr(self, cache: Cache, key: Any, delta: Any, version: Any) -> Any:
        made = self.make_and_validate_key(key, version)
        try:
            return cache.incr(made, delta)
        except KeyError:
            raise ValueError(f"Key '{key}' not found") from None
        except (NotAnInteger, IntegerOverflow):
            # A float, a longer int, or whatever else can be added to.
            pass
        self._demand_thread(cache)
        while True:
            entry = self._entry(made)
            ttl = None if entry is None or entry.expiry is None else entry.expiry - time.time()
            if entry is None or (ttl is not None and ttl <= 0):
                raise ValueError(f"Key '{key}' not found")
            # Who gives the entry another timeout at this very moment may find it as it was.
            total = entry.value + delta
            if self._store(cache, functools.partial(_swap, cache, entry.version), made, total, ttl):
                return total

    def _set_many(
        self, cache: Cache, data: Mapping[Any, Any], timeout: Any, version: Any
    ) -> list[Any]:
        ttl = self.get_backend_timeout(timeout)
        keys = {self.make_and_validate_key(key, version): key for key in data}
        values = {made: data[key] for made, key in keys.items()}
        if ttl == 0:
            cache.delete_many(values)
            return []
        if self._max_entries is None and bytearray not in map(type, values.values()):
            # If it refuses one value, it has stored none.
            with suppress(ValueTypeError, ValueTooLarge):
                cache.set_many(values, ttl)
                return []
        self._demand_thread(cache)
        failed = []
        for made, value in values.items():
            if self._max_entries is not None:
                self._make_room(cache, made, self._max_entries)
            try:
                self._store(cache, cache.set, made, value, ttl)
            except ValueTooLarge as refusal:
                _log.warning("%s holds no value for key %r: %s", self._way.path, made, refusal)
                cache.delete(made)
                failed.append(keys[made])
        return failed

    # Values.

    def _store(
        self,
        cache: Cache,
        store: Callable[[Key, object, float | None], _R],
        made: Key,
        value: object,
        ttl: float | None,
    ) -> _R:
        """Store a value as it is if that is possible, and else in a carrier."""
        if type(value) is not bytearray:
            try:
                return store(made, value, ttl)
            except ValueTypeError as refusal:
                if not self._pickles:
                    advice = "others need pickle in OPTIONS of this cache to be 'signed'"
                    raise ValueTypeError(f"{refusal}; {advice}") from None
        self._demand_thread(cache)
        return store(made, carriers(pickles=self._pickles).wrap(cache.id, made, value), ttl)

    def _unwrapped(self, made: Key, carrier: bytearray, default: Any) -> Any:
        try:
            return carriers(pickles=self._pickles).unwrap(self._cache.id, made, carrier)
        except CarrierRefused as refusal:
            return self._remove_unreadable(made, refusal, default)

    def _entry(self, made: Key) -> Entry | None:
        try:
            entry = self._cache.get_entry(made)
        except EntryCorrupt as damage:
            return self._remove_unreadable(made, damage, None)
        if entry is None or type(entry.value) is not bytearray:
            return entry
        value = self._unwrapped(made, entry.value, _MISSING)
        return None if value is _MISSING else entry._replace(value=value)

    def _remove_unreadable(self, made: Key, why: TuckboxError, default: _R) -> _R:
        """Make a miss of what is there and cannot be read, so that it can be stored anew."""
        _log.warning(
            "%s has an entry of key %r that cannot be read, which was removed: %s",
            *(self._way.path, made, why),
        )
        with suppress(LockTimeout):
            self._cache.delete(made)
        return default

    # Culling.

    def _make_room(self, cache: Cache, made: Key, max_entries: int) -> None:
        """If a new entry would be one too many, remove as many as Django says."""
        count = len(cache)
        if count < max_entries or made in cache:
            return
        self._demand_thread(cache)
        if self._cull_frequency == 0:
            cache.clear()
            return
        count_left = count - max(1, count // self._cull_frequency)
        cache.expire()
        # A fair choice in one pass. Others may be at it, too: it ends when enough are gone.
        unseen = len(cache)
        surplus = unseen - count_left
        for key in cache:
            if surplus <= 0 or len(cache) <= count_left:
                return
            if random.random() * unseen < surplus:  # noqa: S311 - Dice, not secrets.
                surplus -= cache.delete(key)
            unseen -= 1


def _swap(cache: Cache, version: int, made: Key, value: object, ttl: float | None) -> bool:
    return cache.cas(made, value, version, ttl)
