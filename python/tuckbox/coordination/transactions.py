"""`Transaction`: changes of several keys that are made together or not at all.

Owns what a transaction has read, and the changes that it has collected. How they are committed is
in `ledger`. Must not know which entries the ledger has.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Callable, NamedTuple, Optional, SupportsIndex, TypeVar

from tuckbox.contract import Store, Ttl
from tuckbox.coordination.ledger import Change, Ledger, conflict
from tuckbox.coordination.semaphores import checked_count
from tuckbox.coordination.space import Space
from tuckbox.coordination.steps import Steps, checked_timeout, pauses, run, run_on_loop
from tuckbox.errors import IntegerOverflow, InvalidArgument, NotAnInteger, TransactionConflict
from tuckbox.keys import Key
from tuckbox.loops import sleep
from tuckbox.objects import Objects
from tuckbox.results import Entry

__all__ = ["Transaction", "transact"]

_T = TypeVar("_T")
_Self = TypeVar("_Self", bound="Transaction")

_EVERYTHING = 2
"""See ``Objects.takes``."""


class _Found(NamedTuple):
    """A value as the transaction sees it, and what `incr` keeps of its entry."""

    value: Any
    terms: Change
    """As of a change. Of an entry, without its ttl."""
    has_ttl: bool = False
    """Whether it is an entry with a ttl."""


class Transaction:
    """Changes of several keys, all or nothing, as returned by ``cache.transaction()``.

    In a ``with`` or ``async with`` block, reads and changes go through this object. Changes are
    collected, and only this object's reads see them. The end of the block commits: if all keys that
    were read are unchanged, all changes are made; otherwise `TransactionConflict` is raised and
    none is made. An exception in the block drops the changes.

    A process that is killed at any moment leaves all of its changes or none: what it had committed
    is finished by the next transaction of any process. Until then, and for moments while a
    transaction is applied, a plain ``get`` may see some of the changes and not yet others.
    Transactions see all or none.

    Use the object in one thread or task.

    Example:
        >>> cache.set_many({"ann": 10, "bob": 0}, pinned=True)
        >>> with cache.transaction() as t:
        ...     t.incr("ann", -3)
        ...     t.incr("bob", 3)
        7
        3
        >>> cache.get_many(["ann", "bob"])
        {'ann': 7, 'bob': 3}
    """

    def __init__(self, store: Store, space: Space, timeout: Optional[float] = None) -> None:
        """Use ``cache.transaction()``."""
        self._store = store
        self._ledger = Ledger(store, space)
        self._timeout_s = checked_timeout(timeout)
        self._is_open = False
        self._seen: dict[Key, int] = {}
        """The versions of the keys that were read; 0 is nothing."""
        self._changes: dict[Key, Change] = {}

    # --- Operations ------------------------------------------------------------------------------

    def get(self, key: Key, default: object = None) -> Any:  # noqa: ANN401 - As the cache's.
        """Return the value of a key, with the changes of this transaction; or ``default``.

        If another process changes the key after this, the transaction cannot commit.

        Args:
            key: A str, bytes, int, or a tuple of these.
            default: Returned if the key has no value.

        Returns:
            A copy of the value, or ``default``.

        Raises:
            TransactionConflict: Another process has changed the key since it was read here.
            InvalidArgument: The transaction is over, or has not begun.
            As `tuckbox.Cache.get`.

        Example:
            >>> cache.set("stock", 10)
            >>> with cache.transaction() as t:
            ...     t.get("stock"), t.get("price", "unknown")
            (10, 'unknown')
        """
        return run(self._get(key, default))

    def __contains__(self, key: object) -> bool:
        """Return whether a key has a value. It counts as read."""
        return run(self._has(key))

    def set(
        self,
        key: Key,
        value: object,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        pinned: bool = False,
    ) -> None:
        """Store a value at the end of the transaction. The key does not count as read.

        Args:
            key: As for `get`.
            value: An object of one of the types listed in `tuckbox.Cache`. Copied at once.
            ttl: As for `tuckbox.Cache.set`. It counts from the end of the transaction.
            tags: As for `tuckbox.Cache.set`.
            pinned: As for `tuckbox.Cache.set`.

        Raises:
            As `get` and `tuckbox.Cache.set`.

        Example:
            >>> with cache.transaction() as t:
            ...     t.set("user:42", "Ada", ttl="5m")
            ...     t.set("name:Ada", 42, ttl="5m")
            >>> cache.get("name:Ada")
            42
        """
        run(self._set(key, value, ttl, tags, pinned=pinned))

    def delete(self, key: Key) -> bool:
        """Delete a key at the end of the transaction.

        Args:
            key: As for `get`.

        Returns:
            Whether it has a value. So it counts as read.

        Raises:
            As `get`.

        Example:
            >>> cache.set("user:42", "Ada")
            >>> with cache.transaction() as t:
            ...     t.delete("user:42"), t.delete("user:42")
            (True, False)
        """
        return run(self._delete(key))

    def incr(
        self,
        key: Key,
        delta: SupportsIndex = 1,
        default: Optional[SupportsIndex] = 0,
        ttl: Ttl = None,
    ) -> int:
        """Add to an int, which counts as read and keeps its ttl, tags and pin.

        Args:
            key: As for `get`.
            delta: As for `tuckbox.Cache.incr`.
            default: As for `tuckbox.Cache.incr`.
            ttl: As for `tuckbox.Cache.incr`.

        Returns:
            The sum.

        Raises:
            KeyError, NotAnInteger, IntegerOverflow: As for `tuckbox.Cache.incr`.
            As `get`.

        Example:
            >>> with cache.transaction() as t:
            ...     t.incr("visits"), t.incr("visits")
            (1, 2)
        """
        return run(self._incr(key, delta, default, ttl))

    async def aget(self, key: Key, default: object = None) -> Any:  # noqa: ANN401 - As `get`.
        """Do what `get` does, without blocking the event loop.

        Example:
            >>> async def work():
            ...     async with cache.transaction() as t:
            ...         return await t.aget("stock", 0)
            >>> await work()
            0
        """
        return await run_on_loop(self._store, self._get(key, default))

    async def ahas_key(self, key: Key) -> bool:
        """Do what ``in`` does, without blocking the event loop.

        Example:
            >>> async def work():
            ...     async with cache.transaction() as t:
            ...         return await t.ahas_key("stock")
            >>> await work()
            False
        """
        return await run_on_loop(self._store, self._has(key))

    async def aset(
        self,
        key: Key,
        value: object,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        pinned: bool = False,
    ) -> None:
        """Do what `set` does, without blocking the event loop.

        Example:
            >>> async def work():
            ...     async with cache.transaction() as t:
            ...         await t.aset("stock", 10)
            >>> await work()
            >>> cache.get("stock")
            10
        """
        await run_on_loop(self._store, self._set(key, value, ttl, tags, pinned=pinned))

    async def adelete(self, key: Key) -> bool:
        """Do what `delete` does, without blocking the event loop.

        Example:
            >>> async def work():
            ...     async with cache.transaction() as t:
            ...         return await t.adelete("stock")
            >>> await work()
            False
        """
        return await run_on_loop(self._store, self._delete(key))

    async def aincr(
        self,
        key: Key,
        delta: SupportsIndex = 1,
        default: Optional[SupportsIndex] = 0,
        ttl: Ttl = None,
    ) -> int:
        """Do what `incr` does, without blocking the event loop.

        Example:
            >>> async def work():
            ...     async with cache.transaction() as t:
            ...         return await t.aincr("visits")
            >>> await work()
            1
        """
        return await run_on_loop(self._store, self._incr(key, delta, default, ttl))

    # --- Steps -----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidArgument(
                "this transaction is over, or has not begun; use it inside of "
                '"with cache.transaction() as t:"'
            )

    def _changed(self, key: object) -> Optional[Change]:
        self._check_open()
        try:
            return self._changes.get(key)  # type: ignore[call-overload, no-any-return]
        except TypeError:
            # The store refuses what is not hashable.
            return None

    def _find(self, key: Key) -> Steps[Optional[_Found]]:
        """Return what the transaction sees, and remember that it was read."""
        change = self._changed(key)
        if change is not None:
            if change.is_deleted:
                return None
            return _Found(self._unpacked(change), change)
        entry: Optional[Entry] = yield partial(self._store.get_entry, key)
        version = 0 if entry is None else entry.version
        if self._seen.setdefault(key, version) != version:
            raise conflict(key)
        if entry is None:
            return None
        terms = Change(_plain(key), False, tags=entry.tags, pinned=entry.pinned, keeps_ttl=True)
        return _Found(entry.value, terms, entry.expiry is not None)

    def _get(self, key: Key, default: object) -> Steps[Any]:
        found = yield from self._find(key)
        return default if found is None else found.value

    def _has(self, key: object) -> Steps[bool]:
        found = yield from self._find(key)  # type: ignore[arg-type] # The store refuses others.
        return found is not None

    def _set(
        self, key: Key, value: object, ttl: Ttl, tags: Iterable[str], *, pinned: bool
    ) -> Steps[None]:
        self._check_open()
        if isinstance(tags, Iterator):
            tags = tuple(tags)
        # Refuses what is invalid, and stores nothing: no entry has version 0.
        yield partial(self._store.cas, key, value, 0, ttl, tags=tags, pinned=pinned)
        plain_key, ttl_s = _plain(key), _ttl_s(ttl)
        if ttl_s is not None and ttl_s <= 0:
            self._changes[plain_key] = Change(plain_key, is_deleted=True)
            return
        code, packed = self._packed(value)
        self._changes[plain_key] = Change(
            plain_key, False, code, packed, ttl_s, tags=tuple(tags), pinned=pinned
        )

    def _delete(self, key: Key) -> Steps[bool]:
        found = yield from self._find(key)
        if found is not None:
            plain_key = _plain(key)
            self._changes[plain_key] = Change(plain_key, is_deleted=True)
        return found is not None

    def _incr(
        self, key: Key, delta: SupportsIndex, default: Optional[SupportsIndex], ttl: Ttl
    ) -> Steps[int]:
        # Here, because `tuckbox.memory` has a cache that imports this.
        from tuckbox.memory.numbers import INT_MAX, INT_MIN, signed  # noqa: PLC0415

        found = yield from self._find(key)
        if found is None and default is None:
            raise KeyError(key)
        before = signed(default, "default") if found is None else found.value
        if type(before) is not int:
            kind = type(before).__name__
            raise NotAnInteger(f"key {key!r}: the value is of type {kind}, not an int")
        total = before + signed(delta, "delta")
        if not INT_MIN <= total <= INT_MAX:
            raise IntegerOverflow(
                f"key {key!r}: {before} + {delta} does not fit a signed 64-bit integer; the value "
                "was not changed"
            )
        if found is None:
            yield from self._set(key, total, ttl, (), pinned=False)
            return total
        terms = found.terms
        if found.has_ttl:
            left_s: Optional[float] = yield partial(self._store.ttl, key)
            if left_s is None:
                raise conflict(key)
            terms = terms._replace(ttl_s=left_s)
        self._changes[terms.key] = terms._replace(code=None, value=total)
        return total

    def _packed(self, value: object) -> tuple[Optional[int], Any]:
        """Return a copy of a value that a journal can hold."""
        objects: Optional[Objects] = self._store._objects  # type: ignore[attr-defined] # noqa: SLF001 - As `tuckbox.dumps`.
        # A codec gets whole values only, and never ints or registered types.
        if (
            objects is not None
            and objects.takes == _EVERYTHING
            and type(value) is not int
            and type(value) not in objects.by_type
        ):
            encoded = objects.encode(value, b"", b"")
            if encoded is not None:
                return encoded
        return None, copy.deepcopy(value)

    def _unpacked(self, change: Change) -> Any:  # noqa: ANN401 - What was set.
        if change.code is None:
            return copy.deepcopy(change.value)
        return self._store._objects.decode(change.code, change.value, b"", b"")  # type: ignore[attr-defined] # noqa: SLF001 - As `tuckbox.dumps`.

    # --- with ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._is_open:
            raise InvalidArgument(
                "this transaction has begun; call cache.transaction() for another one"
            )
        self._is_open, self._seen, self._changes = True, {}, {}

    def _settle(self) -> Steps[None]:
        """Let reads see all of what others have committed."""
        return self._ledger.settle(self._timeout_s)

    def _end(self) -> Steps[None]:
        self._is_open = False
        return self._ledger.commit(self._seen, list(self._changes.values()), self._timeout_s)

    def __enter__(self: _Self) -> _Self:  # noqa: PYI019 - Self is not in Python 3.9.
        """Begin. Finishes what a killed process has committed.

        Raises:
            AcquireTimeout: Others were busy for ``timeout``.
            As `tuckbox.Cache.set`, if there is something to finish.
        """
        run(self._settle())
        self._begin()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """Commit; after an error of the block, drop all changes.

        Raises:
            TransactionConflict: A key that was read was changed meanwhile. Nothing was changed.
            TransactionUnfinished: It is committed, but a key could not be stored yet.
            AcquireTimeout: Others were busy for ``timeout``. Nothing was changed.
            CacheFull, ValueTooLarge: There is no room for all changes together. Nothing was
                changed.
            As `tuckbox.Cache.set`. Nothing was changed.
        """
        steps = self._end()
        if error is None:
            run(steps)

    async def __aenter__(self: _Self) -> _Self:  # noqa: PYI019 - As above.
        """Begin. As ``with``."""
        await run_on_loop(self._store, self._settle())
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """Commit. As ``with``.

        If the task is cancelled meanwhile, all changes are made or none.
        """
        steps = self._end()
        if error is None:
            await run_on_loop(self._store, steps)

    def __repr__(self) -> str:
        """Return how much it has collected."""
        return f"<Transaction {len(self._seen)} read, {len(self._changes)} to change>"


def transact(
    begin: Callable[[], Transaction], function: Callable[[Transaction], _T], tries: int
) -> _T:
    """Run a function in a transaction, and again after each conflict. See `Coordinating.transact`.

    Args:
        begin: Returns a new transaction.
        function: The function, or a coroutine function.
        tries: How often to run it at most.
    """
    checked_count(tries, "tries")
    if inspect.iscoroutinefunction(function):
        return _on_loop(begin, function, tries)  # type: ignore[return-value]
    return run(_repeated(begin, function, tries))


def _repeated(
    begin: Callable[[], Transaction], function: Callable[[Transaction], _T], tries: int
) -> Steps[_T]:
    waits = pauses(None)
    for left in reversed(range(tries)):
        try:
            with begin() as transaction:
                return function(transaction)
        except TransactionConflict:
            if not left:
                raise
        yield next(waits)
    raise AssertionError("the last try returns or raises")


async def _on_loop(
    begin: Callable[[], Transaction], function: Callable[[Transaction], Awaitable[_T]], tries: int
) -> _T:
    waits = pauses(None)
    for left in reversed(range(tries)):
        try:
            async with begin() as transaction:
                return await function(transaction)
        except TransactionConflict:
            if not left:
                raise
        await sleep(next(waits))
    raise AssertionError("the last try returns or raises")


def _plain(key: Key) -> Key:
    """Return an equal key of plain types, which a value may contain."""
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, bytes):
        return b"".join((key,))
    return tuple(map(_plain, key)) if isinstance(key, tuple) else int(key)


def _ttl_s(ttl: Ttl) -> Optional[float]:
    # Here, because `tuckbox.memory` has a cache that imports this.
    from tuckbox.memory.numbers import ttl_us  # noqa: PLC0415

    us = ttl_us(ttl)
    return None if us is None else us / 1e6
