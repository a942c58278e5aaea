"""`Asynchronous`: the operations of a cache for event loops, `aget`, `aset` and so on.

Owns which operation runs where. How a call gets around locks and long work is in `tuckbox.calls`.
Must not know how a store works, or which event loop runs.

``tests/api/test_async_signatures.py`` compares the signatures with those of the other operations.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal, Optional, SupportsIndex, TypeVar, Union

from tuckbox.brief import WouldBlock, briefly
from tuckbox.calls import ENTRIES_MAX, SPIN_S, call
from tuckbox.choices import Favour
from tuckbox.keys import Key, Prefix
from tuckbox.loops import in_thread
from tuckbox.results import CheckReport, Entry, Loaded

__all__ = ["Asynchronous"]

_K = TypeVar("_K", bound=Key)
_Ttl = Union[float, SupportsIndex, str, timedelta, None]

_MISSING: Any = object()


class Asynchronous:
    """Adds the operations for event loops: ``await cache.aget(key)`` is ``cache.get(key)``.

    They work in tasks of asyncio and trio, and so with anyio. What cannot block runs at once. A
    lock that is held, or a value longer than 128 KiB, never blocks the event loop: see
    ``docs/guide/async.md``.

    A task that is cancelled while it waits for a lock has changed nothing. One that is cancelled
    while a thread works for it does not stop the thread.
    """

    __slots__ = ()

    async def aget(self: Any, key: Key, default: Any = None) -> Any:
        """Do what `get` does, without blocking the event loop.

        Args:
            key, default: As for `get`.

        Returns:
            The value, or ``default``.

        Raises:
            As `get`.

        Example:
            >>> await cache.aset("user:42", {"name": "Ada"})
            >>> await cache.aget("user:42")
            {'name': 'Ada'}
        """
        try:
            return briefly(SPIN_S, self.get, key, default)
        except WouldBlock:
            return await call(self, self.get, key, default)

    async def aget_entry(self: Any, key: Key, *, stale: bool = False) -> Optional[Entry]:
        """Do what `get_entry` does, without blocking the event loop.

        Args:
            key, stale: As for `get_entry`.

        Returns:
            An `Entry`, or None.

        Raises:
            As `get_entry`.

        Example:
            >>> await cache.aset("user:42", "Ada")
            >>> (await cache.aget_entry("user:42")).value
            'Ada'
        """
        return await call(self, self.get_entry, key, **_shown(stale))

    async def ahas_key(self: Any, key: Key) -> bool:
        """Do what ``in`` does, without blocking the event loop.

        Args:
            key: As for `get`.

        Returns:
            True if the key has a value, as ``key in cache``.

        Raises:
            As `get`.

        Example:
            >>> await cache.ahas_key("user:42")
            False
        """
        return await call(self, self.__contains__, key)

    async def aset(
        self: Any,
        key: Key,
        value: object,
        ttl: _Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: _Ttl = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> None:
        """Do what `set` does, without blocking the event loop.

        Args:
            key, value, ttl, tags, stale, keep_ttl, pinned: As for `set`.

        Raises:
            As `set`.

        Example:
            >>> await cache.aset("user:42", {"name": "Ada"}, ttl=300)
        """
        await call(self, self.set, key, value, ttl, **_terms(tags, stale, keep_ttl, pinned))

    async def aadd(
        self: Any,
        key: Key,
        value: object,
        ttl: _Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: _Ttl = None,
        pinned: bool = False,
    ) -> bool:
        """Do what `add` does, without blocking the event loop.

        Args:
            key, value, ttl, tags, stale, pinned: As for `add`.

        Returns:
            True if the value was stored.

        Raises:
            As `add`.

        Example:
            >>> await cache.aadd("seen:7", True), await cache.aadd("seen:7", True)
            (True, False)
        """
        return await call(self, self.add, key, value, ttl, **_terms(tags, stale, pinned=pinned))

    async def areplace(
        self: Any,
        key: Key,
        value: object,
        ttl: _Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: _Ttl = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> bool:
        """Do what `replace` does, without blocking the event loop.

        Args:
            key, value, ttl, tags, stale, keep_ttl, pinned: As for `replace`.

        Returns:
            True if the value was stored.

        Raises:
            As `replace`.

        Example:
            >>> await cache.areplace("user:42", "Ada")
            False
        """
        return await call(
            self, self.replace, key, value, ttl, **_terms(tags, stale, keep_ttl, pinned)
        )

    async def acas(
        self: Any,
        key: Key,
        value: object,
        version: int,
        ttl: _Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: _Ttl = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> bool:
        """Do what `cas` does, without blocking the event loop.

        Args:
            key, value, version, ttl, tags, stale, keep_ttl, pinned: As for `cas`.

        Returns:
            True if the value was stored.

        Raises:
            As `cas`.

        Example:
            >>> await cache.aset("cart", ["tea"])
            >>> entry = await cache.aget_entry("cart")
            >>> await cache.acas("cart", entry.value + ["milk"], entry.version)
            True
        """
        return await call(
            self, self.cas, key, value, version, ttl, **_terms(tags, stale, keep_ttl, pinned)
        )

    async def asetdefault(self: Any, key: Key, default: Any = None, ttl: _Ttl = None) -> Any:
        """Do what `setdefault` does, without blocking the event loop.

        Args:
            key, default, ttl: As for `setdefault`.

        Returns:
            The value, or ``default``.

        Raises:
            As `setdefault`.

        Example:
            >>> await cache.asetdefault("theme", "dark"), await cache.asetdefault("theme", "light")
            ('dark', 'dark')
        """
        return await call(self, self.setdefault, key, default, ttl)

    async def adelete(self: Any, key: Key, version: Optional[int] = None) -> bool:
        """Do what `delete` does, without blocking the event loop.

        Args:
            key, version: As for `delete`.

        Returns:
            True if the key had a value.

        Raises:
            As `delete`.

        Example:
            >>> await cache.adelete("user:42")
            False
        """
        return await call(self, self.delete, key, **_expected(version))

    async def apop(self: Any, key: Key, default: Any = _MISSING) -> Any:
        """Do what `pop` does, without blocking the event loop.

        Args:
            key, default: As for `pop`.

        Returns:
            The value, or ``default``.

        Raises:
            As `pop`.

        Example:
            >>> await cache.aset("token", "abc")
            >>> await cache.apop("token"), await cache.apop("token", None)
            ('abc', None)
        """
        given = () if default is _MISSING else (default,)
        return await call(self, self.pop, key, *given)

    async def apopitem(self: Any, last: bool = True) -> tuple[Any, Any]:
        """Do what `popitem` does, without blocking the event loop.

        Args:
            last: As for `popitem`.

        Returns:
            A (key, value) tuple.

        Raises:
            As `popitem`.

        Example:
            >>> await cache.aset("job", "mail")
            >>> await cache.apopitem()
            ('job', 'mail')
        """
        return await call(self, self.popitem, last)

    async def apeekitem(self: Any, last: bool = True) -> tuple[Any, Any]:
        """Do what `peekitem` does, without blocking the event loop.

        Args:
            last: As for `peekitem`.

        Returns:
            A (key, value) tuple.

        Raises:
            As `peekitem`.

        Example:
            >>> from tuckbox import Cache
            >>> jobs = Cache(ordered=True)
            >>> await jobs.aset("job", "mail")
            >>> await jobs.apeekitem()
            ('job', 'mail')
        """
        return await call(self, self.peekitem, last)

    async def atouch(self: Any, key: Key, ttl: _Ttl = None) -> bool:
        """Do what `touch` does, without blocking the event loop.

        Args:
            key, ttl: As for `touch`.

        Returns:
            True if the key has a value.

        Raises:
            As `touch`.

        Example:
            >>> await cache.atouch("session", ttl=3600)
            False
        """
        return await call(self, self.touch, key, ttl)

    async def aget_and_touch(self: Any, key: Key, ttl: _Ttl = None, default: Any = None) -> Any:
        """Do what `get_and_touch` does, without blocking the event loop.

        Args:
            key, ttl, default: As for `get_and_touch`.

        Returns:
            The value, or ``default``.

        Raises:
            As `get_and_touch`.

        Example:
            >>> await cache.aset("session", "abc", ttl=60)
            >>> await cache.aget_and_touch("session", ttl=3600)
            'abc'
        """
        return await call(self, self.get_and_touch, key, ttl, default)

    async def attl(self: Any, key: Key) -> Optional[float]:
        """Do what `ttl` does, without blocking the event loop.

        Args:
            key: As for `ttl`.

        Returns:
            Seconds as a float, `math.inf` if it never expires, or None if it has no value.

        Raises:
            As `ttl`.

        Example:
            >>> await cache.aset("session", "abc", ttl=60)
            >>> round(await cache.attl("session"))
            60
        """
        return await call(self, self.ttl, key)

    async def aincr(
        self: Any,
        key: Key,
        delta: SupportsIndex = 1,
        default: Optional[SupportsIndex] = 0,
        ttl: _Ttl = None,
    ) -> int:
        """Do what `incr` does, without blocking the event loop.

        Args:
            key, delta, default, ttl: As for `incr`.

        Returns:
            The sum.

        Raises:
            As `incr`.

        Example:
            >>> await cache.aincr("visits"), await cache.aincr("visits")
            (1, 2)
        """
        return await call(self, self.incr, key, delta, default, ttl)

    async def adecr(
        self: Any,
        key: Key,
        delta: SupportsIndex = 1,
        default: Optional[SupportsIndex] = 0,
        ttl: _Ttl = None,
    ) -> int:
        """Do what `decr` does, without blocking the event loop.

        Args:
            key, delta, default, ttl: As for `decr`.

        Returns:
            The difference.

        Raises:
            As `decr`.

        Example:
            >>> await cache.aset("stock", 10)
            >>> await cache.adecr("stock", 3)
            7
        """
        return await call(self, self.decr, key, delta, default, ttl)

    async def aget_many(self: Any, keys: Iterable[_K]) -> dict[_K, Any]:
        """Do what `get_many` does, without blocking the event loop.

        Args:
            keys: As for `get_many`.

        Returns:
            A dict of those keys that have a value.

        Raises:
            As `get_many`.

        Example:
            >>> await cache.aset("a", 1)
            >>> await cache.aget_many(["a", "b"])
            {'a': 1}
        """
        listed = _listed(keys)
        if len(listed) > ENTRIES_MAX:
            return await in_thread(self.get_many, listed)
        return await call(self, self.get_many, listed)

    async def aset_many(
        self: Any,
        mapping: Mapping[Any, Any],
        ttl: _Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: _Ttl = None,
        pinned: bool = False,
    ) -> None:
        """Do what `set_many` does, without blocking the event loop.

        Args:
            mapping, ttl, tags, stale, pinned: As for `set_many`.

        Raises:
            As `set_many`.

        Example:
            >>> await cache.aset_many({"a": 1, "b": 2}, ttl=60)
        """
        terms = _terms(tags, stale, pinned=pinned)
        if hasattr(mapping, "items") and len(mapping) <= ENTRIES_MAX:
            try:
                briefly(SPIN_S, self.set_many, mapping, ttl, **terms)
            except WouldBlock:
                # In a thread even if it met a lock: each attempt begins with the first entry.
                pass
            else:
                return
        await in_thread(self.set_many, mapping, ttl, **terms)

    async def aupdate(self: Any, other: Any = (), /, **values: Any) -> None:
        """Do what `update` does, without blocking the event loop.

        Args:
            other: As for `update`.
            **values: As for `update`.

        Raises:
            As `update`.

        Example:
            >>> await cache.aupdate({"a": 1}, b=2)
        """
        await in_thread(self.update, other, **values)

    async def adelete_many(self: Any, keys: Iterable[Key]) -> int:
        """Do what `delete_many` does, without blocking the event loop.

        Args:
            keys: As for `delete_many`.

        Returns:
            How many of them had a value.

        Raises:
            As `delete_many`.

        Example:
            >>> await cache.aset("a", 1)
            >>> await cache.adelete_many(["a", "b"])
            1
        """
        listed = _listed(keys)
        count = 0
        if len(listed) <= ENTRIES_MAX:
            try:
                return briefly(SPIN_S, self.delete_many, listed)
            except WouldBlock as refusal:
                done, count = refusal.done
                listed = listed[done:]
        return count + await in_thread(self.delete_many, listed)

    async def aevict(self: Any, *, tag: str, soft: bool = False) -> None:
        """Do what `evict` does, without blocking the event loop.

        Args:
            tag, soft: As for `evict`.

        Raises:
            As `evict`.

        Example:
            >>> await cache.aset("user:42", "Ada", tags=["users"])
            >>> await cache.aevict(tag="users")
            >>> await cache.aget("user:42")
        """
        await call(self, self.evict, tag=tag, soft=soft)

    async def adelete_prefix(self: Any, prefix: Prefix) -> int:
        """Do what `delete_prefix` does, without blocking the event loop.

        Args:
            prefix: As for `delete_prefix`.

        Returns:
            How many keys were deleted.

        Raises:
            As `delete_prefix`.

        Example:
            >>> await cache.aset_many({"user:1": "Ada", "post:7": "Hello"})
            >>> await cache.adelete_prefix("user:")
            1
        """
        return await in_thread(self.delete_prefix, prefix)

    async def aclear(self: Any) -> int:
        """Do what `clear` does, without blocking the event loop.

        Returns:
            How many entries were deleted.

        Raises:
            As `clear`.

        Example:
            >>> await cache.aset("a", 1)
            >>> await cache.aclear()
            1
        """
        return await in_thread(self.clear)

    async def aexpire(self: Any) -> int:
        """Do what `expire` does, without blocking the event loop.

        Returns:
            How many entries were deleted.

        Raises:
            As `expire`.

        Example:
            >>> await cache.aset("a", 1, ttl=0)
            >>> await cache.aexpire()
            1
        """
        return await in_thread(self.expire)

    async def acheck(self: Any) -> CheckReport:
        """Do what `check` does, without blocking the event loop.

        Returns:
            A report of the damage found and repaired.

        Raises:
            As `check`.

        Example:
            >>> (await cache.acheck()).is_sound
            True
        """
        return await in_thread(self.check)

    async def aresize(
        self: Any,
        size: Union[float, str, None] = None,
        *,
        max_entries: Union[int, Literal["keep"], None] = "keep",
        favour: Optional[Favour] = None,
    ) -> None:
        """Do what `resize` does, without blocking the event loop.

        Args:
            size, max_entries, favour: As for `resize`.

        Raises:
            As `resize`.

        Example:
            >>> cache = Cache("./app.tuck", size="64 MB")
            >>> await cache.aresize("128 MB")
            >>> cache.size
            128000000
        """
        await in_thread(self.resize, size, max_entries=max_entries, favour=favour)

    async def adump(self: Any, path: Union[str, os.PathLike[str]]) -> int:
        """Do what `dump` does, without blocking the event loop.

        Args:
            path: As for `dump`.

        Returns:
            How many entries were written.

        Raises:
            As `dump`.

        Example:
            >>> await cache.aset("a", 1)
            >>> await cache.adump("./app.dump")
            1
        """
        return await in_thread(self.dump, path)

    async def aload(
        self: Any, path: Union[str, os.PathLike[str]], *, replace: bool = True
    ) -> Loaded:
        """Do what `load` does, without blocking the event loop.

        Args:
            path, replace: As for `load`.

        Returns:
            How many entries were stored, and why others were not.

        Raises:
            As `load`.

        Example:
            >>> await cache.aset("a", 1)
            >>> await cache.adump("./app.dump")
            1
            >>> (await cache.aload("./app.dump")).stored
            1
        """
        return await in_thread(self.load, path, replace=replace)

    async def acopy_to(self: Any, path: Union[str, os.PathLike[str]]) -> None:
        """Do what `copy_to` does, without blocking the event loop.

        Args:
            path: As for `copy_to`.

        Raises:
            As `copy_to`.

        Example:
            >>> cache = Cache("./app.tuck")
            >>> await cache.acopy_to("./copy.tuck")
        """
        await in_thread(self.copy_to, path)

    async def aclose(self: Any) -> None:
        """Do what `close` does, without blocking the event loop.

        Example:
            >>> await cache.aclose()
            >>> cache.closed
            True
        """
        await in_thread(self.close)


# Options that most calls do not give are passed on only if they are given.


def _terms(
    tags: Iterable[str], stale: _Ttl, keep_ttl: bool = False, pinned: bool = False
) -> dict[str, Any]:
    if isinstance(tags, Iterator):
        # An operation that met a lock is called again.
        tags = tuple(tags)
    terms = {} if tags == () and stale is None else {"tags": tags, "stale": stale}
    flags = {"keep_ttl": keep_ttl, "pinned": pinned}
    return {**terms, **{name: given for name, given in flags.items() if given is not False}}


def _shown(stale: bool) -> dict[str, Any]:
    return {"stale": True} if stale else {}


def _expected(version: Optional[int]) -> dict[str, Any]:
    return {} if version is None else {"version": version}


def _listed(keys: Any) -> Any:
    """Return the keys as a list, so that they can be used twice. A single key is refused later."""
    return keys if isinstance(keys, (str, bytes)) else list(keys)
