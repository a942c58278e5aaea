"""`Lock` and `RLock`: one holder at a time, over all processes that share a cache.

A lock is held while its entry exists. The entry has a random number, the token of its owner, and a
ttl, the lease: it ends by itself if the owner is killed. Owns who holds what in this process.

What makes it exclusive: `add` stores the entry for one caller only, and only the entry that still
has the owner's token is deleted or prolonged, by its version.
"""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import MutableMapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Optional, TypeVar, Union

from tuckbox.contract import Ttl
from tuckbox.coordination.space import Space, checked_name, checked_ttl_s
from tuckbox.coordination.steps import Steps, checked_timeout, pauses, run, run_on_loop
from tuckbox.errors import AcquireTimeout, LockLost, LockNotOwned
from tuckbox.keys import Key
from tuckbox.loops import current_task
from tuckbox.results import Entry

__all__ = ["LEASE_S", "Leased", "Lock", "RLock", "Timeout", "holder"]

_T = TypeVar("_T")
_Self = TypeVar("_Self", bound="Leased")

LEASE_S = 30.0
"""How long a lease is by default."""

Timeout = Union[float, None, Literal["default"]]
"""How many seconds to wait: None is no limit, "default" what the object was created with."""

_TOKEN_BITS = 62


class _Own:
    """What a thread or task holds."""

    __slots__ = ("before", "depth", "fence", "key", "process", "token")

    def __init__(self, key: Key, token: int) -> None:
        self.key = key
        self.token = token
        self.fence = 0
        self.depth = 1
        self.before: tuple[_Own, ...] = ()
        """Other places of a semaphore that it has held since earlier, the latest last."""
        self.process = os.getpid()


class Leased:
    """What locks and semaphores share: a place that is held for a lease.

    Args:
        space: The entries.
        name: The name, for messages.
        keys: The keys of the places, of which each has one holder at a time.
        ttl: The lease.
        timeout: How many seconds to wait for a place.
    """

    _what = "lock"

    def __init__(
        self, space: Space, name: str, keys: list[Key], ttl: Ttl, timeout: Optional[float]
    ) -> None:
        self.name = name
        self._space = space
        self._keys = keys
        self._ttl_s = checked_ttl_s(ttl)
        self._timeout_s = checked_timeout(timeout)
        self._owns: MutableMapping[object, _Own] = weakref.WeakKeyDictionary()
        """By thread or task."""

    # --- Operations ------------------------------------------------------------------------------

    def acquire(self, timeout: Timeout = "default") -> bool:
        """Acquire it, and wait while others hold it.

        There is no order among those that wait.

        Args:
            timeout: How many seconds to wait at most: 0 tries once, None is no limit. Without it,
                what the object was created with.

        Returns:
            True if it was acquired; False if the time is over.

        Raises:
            InvalidArgument: ``timeout`` is no number of seconds.
            As `tuckbox.Cache.add`.

        Example:
            >>> lock, other = cache.lock("report"), cache.lock("report")
            >>> lock.acquire(), other.acquire(timeout=0)
            (True, False)
            >>> lock.release()
        """
        return run(self._acquire(timeout))

    def release(self) -> None:
        """Release it, so that another holder can acquire it.

        Raises:
            LockNotOwned: This thread or task has not acquired it.
            LockLost: The lease had ended before, or the cache was cleared. Another holder may have
                acquired it meanwhile, and keeps it.
            As `tuckbox.Cache.delete`.

        Example:
            >>> lock = cache.lock("report")
            >>> lock.acquire()
            True
            >>> lock.release()
            >>> lock.release()
            Traceback (most recent call last):
            tuckbox.errors.LockNotOwned: this thread does not hold the lock 'report'...
        """
        run(self._release())

    def refresh(self, ttl: Ttl = None) -> None:
        """Begin the lease again, from now.

        Args:
            ttl: Its length; None is that of the object.

        Raises:
            As `release`; the lease of another holder is never prolonged.

        Example:
            >>> with cache.lock("report", ttl="10s") as lock:
            ...     lock.refresh()
            ...     lock.refresh("5m")
        """
        run(self._refresh(ttl))

    def owned(self) -> bool:
        """Return whether this thread or task holds it, and its lease has not ended.

        Example:
            >>> with cache.lock("report") as lock:
            ...     lock.owned()
            True
        """
        return run(self._is_owned())

    def locked(self) -> bool:
        """Return whether it is held, by anybody. A semaphore: whether all its places are.

        Example:
            >>> lock = cache.lock("report")
            >>> lock.locked()
            False
        """
        return len(self._space.values(self._keys)()) == len(self._keys)

    async def aacquire(self, timeout: Timeout = "default") -> bool:
        """Do what `acquire` does, without blocking the event loop.

        If the task is cancelled meanwhile, nobody may hold it until its lease has ended.

        Args:
            timeout: As for `acquire`.

        Returns:
            As `acquire`.

        Raises:
            As `acquire`.

        Example:
            >>> async def work():
            ...     lock = cache.lock("report")
            ...     if await lock.aacquire(timeout=10):
            ...         await lock.arelease()
            >>> await work()
        """
        return await self._on_loop(self._acquire(timeout))

    async def arelease(self) -> None:
        """Do what `release` does, without blocking the event loop.

        Raises:
            As `release`.

        Example:
            >>> async def work():
            ...     lock = cache.lock("report")
            ...     if await lock.aacquire(timeout=10):
            ...         await lock.arelease()
            >>> await work()
        """
        await self._on_loop(self._release())

    async def arefresh(self, ttl: Ttl = None) -> None:
        """Do what `refresh` does, without blocking the event loop.

        Args:
            ttl: As for `refresh`.

        Raises:
            As `refresh`.

        Example:
            >>> async def work():
            ...     async with cache.lock("report", ttl="10s") as lock:
            ...         await lock.arefresh("5m")
            >>> await work()
        """
        await self._on_loop(self._refresh(ttl))

    # --- Steps -----------------------------------------------------------------------------------

    def _acquire(self, timeout: Timeout) -> Steps[bool]:
        timeout_s = self._timeout_s if timeout == "default" else checked_timeout(timeout)
        waits = pauses(timeout_s)
        while True:
            own = yield from self._try()
            if own is not None:
                self._owns[holder()] = own
                return True
            pause_s = next(waits, None)
            if pause_s is None:
                return False
            yield pause_s

    def _try(self) -> Steps[Optional[_Own]]:
        taken: dict[Any, Any] = yield self._space.values(self._keys)
        free = [key for key in self._keys if key not in taken]
        if not free:
            return None
        # Any of them, so that not all who wait try the same one.
        key, token = secrets.choice(free), secrets.randbits(_TOKEN_BITS)
        is_mine: bool = yield self._space.add(key, token, self._ttl_s)
        return _Own(key, token) if is_mine else None

    def _own(self) -> _Own:
        own = self._owns.get(holder())
        if own is None or own.process != os.getpid():
            by = "thread" if current_task() is None else "task"
            raise LockNotOwned(
                f"this {by} does not hold the {self._what} {self.name!r}; acquire it first, in the "
                f"same {by}"
            )
        return own

    def _entry(self, own: _Own) -> Steps[Entry]:
        """Return the entry of what is held. Raises LockLost."""
        entry: Optional[Entry] = yield self._space.entry(own.key)
        if entry is None or entry.value != own.token:
            raise LockLost(
                f"the {self._what} {self.name!r} was lost: its lease ended or the cache was "
                "cleared, and others may have acquired it since; undo or check what was done under "
                "it, and pass a longer ttl or call refresh() in time"
            )
        return entry

    def _release(self) -> Steps[None]:
        own = self._own()
        try:
            yield from self._leave(own)
        except LockLost:
            del self._owns[holder()]
            raise
        if own.depth == 0:
            del self._owns[holder()]

    def _leave(self, own: _Own) -> Steps[None]:
        """Release once what is held."""
        own_entry = yield from self._entry(own)
        if own.depth > 1:
            own.depth -= 1
            return
        # False if it was refreshed, or got another version by a resize.
        while not (yield self._space.delete(own.key, own_entry)):
            own_entry = yield from self._entry(own)
        own.depth = 0

    def _refresh(self, ttl: Ttl) -> Steps[None]:
        ttl_s = self._ttl_s if ttl is None else checked_ttl_s(ttl)
        own = self._own()
        while True:
            entry = yield from self._entry(own)
            is_done: bool = yield self._space.swap(own.key, entry, own.token, ttl_s)
            if is_done:
                return

    def _is_owned(self) -> Steps[bool]:
        try:
            yield from self._entry(self._own())
        except LockNotOwned:
            return False
        return True

    async def _on_loop(self, steps: Steps[_T]) -> _T:
        return await run_on_loop(self._space.store, steps)

    # --- with ------------------------------------------------------------------------------------

    def _late(self) -> AcquireTimeout:
        return AcquireTimeout(
            f"the {self._what} {self.name!r} was not free for {self._timeout_s:g}s; try again "
            "later, or pass a longer timeout"
        )

    def __enter__(self: _Self) -> _Self:  # noqa: PYI019 - Self is not in Python 3.9.
        """Acquire it.

        Raises:
            AcquireTimeout: Others held it for ``timeout``.
        """
        if not self.acquire():
            raise self._late()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """Release it. An error of the block is not replaced by that of a lost lock."""
        with suppress(*_hidden(error)):
            self.release()

    async def __aenter__(self: _Self) -> _Self:  # noqa: PYI019 - As above.
        """Acquire it. As ``with``."""
        if not await self.aacquire():
            raise self._late()
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """Release it. As ``with``."""
        with suppress(*_hidden(error)):
            await self.arelease()

    def __repr__(self) -> str:
        """Return the kind and the name."""
        return f"<{type(self).__name__} {self.name!r}>"


class Lock(Leased):
    """A lock of all processes that share a cache, as returned by ``cache.lock("report")``.

    One thread or task of one process holds it at a time. Others wait. It is held until the holder
    releases it, or its lease ends, ``ttl`` after it was acquired or refreshed. So the lock of a
    killed process is free again after ``ttl``.

    A holder that is stopped for longer than its lease does not know that another one has the lock.
    Where that matters, use `fence`.

    Example:
        >>> with cache.lock("report", ttl="1m") as lock:
        ...     lock.owned()
        True
    """

    def __init__(
        self, space: Space, name: str, ttl: Ttl = LEASE_S, timeout: Optional[float] = None
    ) -> None:
        """Use ``cache.lock(name)``."""
        super().__init__(space, checked_name(name, "lock"), [("lock", name)], ttl, timeout)

    def _try(self) -> Steps[Optional[_Own]]:
        own = yield from super()._try()
        if own is None:
            return None
        own.fence = yield self._space.next_number(self.name)
        # If the lease has ended, a later holder may have a smaller number.
        entry: Optional[Entry] = yield self._space.entry(own.key)
        return own if entry is not None and entry.value == own.token else None

    @property
    def fence(self) -> int:
        """The number of this acquisition, larger than those of all earlier holders of this lock.

        Send it along with each write to what the lock protects, and let that refuse a write whose
        number is smaller than one that it has seen.

        Raises:
            LockNotOwned: This thread or task has not acquired the lock.

        Example:
            >>> with cache.lock("report") as first:
            ...     earlier = first.fence
            >>> with cache.lock("report") as second:
            ...     second.fence > earlier
            True
        """
        return self._own().fence


class RLock(Lock):
    """A `Lock` that its holder may acquire again, as returned by ``cache.rlock("report")``.

    It is free when the holder has released it as often as acquired. To acquire it again does not
    prolong the lease.

    Example:
        >>> lock = cache.rlock("report")
        >>> with lock, lock:
        ...     lock.owned()
        True
    """

    def _acquire(self, timeout: Timeout) -> Steps[bool]:
        try:
            own = self._own()
        except LockNotOwned:
            return (yield from super()._acquire(timeout))
        yield from self._entry(own)
        own.depth += 1
        return True


def holder() -> object:
    """The task or thread that holds what is acquired here."""
    return current_task() or threading.current_thread()


def _hidden(error: Optional[BaseException]) -> tuple[type[Exception], ...]:
    return () if error is None else (LockNotOwned,)
