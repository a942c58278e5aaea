"""Calls of cache operations from event loops, so that no lock and no long work blocks the loop.

An operation is first tried on the loop, where it may spin for a lock for `SPIN_S`. If a live
process holds the lock, the task sleeps and tries again, without a thread: any number of tasks can
wait. One of them at a time waits in a thread, so that a lock that is free for moments only is
acquired as well. An operation with long work to do goes to a thread at once.

Must not know which operations there are.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, Callable, Final, TypeVar

from tuckbox.brief import Locked, WouldBlock, briefly
from tuckbox.errors import LockTimeout
from tuckbox.loops import in_thread, sleep

__all__ = ["ENTRIES_MAX", "SPIN_S", "call", "late", "pauses", "resumed", "watching"]

_R = TypeVar("_R")

SPIN_S: Final = 64e-6
ENTRIES_MAX: Final = 1000
"""Operations on more keys at once go to a thread."""

_FIRST_PAUSE_S: Final = 0.0005
_PAUSE_MAX_S: Final = 0.016
_WATCH_AFTER_S: Final = 0.05

# The ids of the stores for which a thread waits.
_watched: set[int] = set()


async def call(
    store: object,
    function: Callable[..., _R],
    *args: Any,
    **kwargs: Any,
) -> _R:
    """Call an operation without blocking the event loop.

    Args:
        store: The store, whose ``lock_timeout`` limits the wait.
        function: The operation. If it raises WouldBlock, it is called again, perhaps in a thread.
        *args: Its positional arguments.
        **kwargs: Its other arguments.

    Returns:
        What the operation returns.

    Raises:
        LockTimeout: A live process held the lock for longer than ``lock_timeout``.

    Example:
        >>> asyncio.run(call(cache, cache.add, "job", 1))
        True
    """
    try:
        return briefly(SPIN_S, function, *args, **kwargs)
    except WouldBlock as refusal:
        is_locked = isinstance(refusal, Locked)
    thread = functools.partial(in_thread, function, *args, **kwargs)
    if not is_locked:
        return await thread()
    return await resumed(store, functools.partial(function, *args, **kwargs), thread)


async def resumed(
    store: object, operation: Callable[[], _R], thread: Callable[[], Awaitable[_R]]
) -> _R:
    """Repeat an operation that met a lock, until it is done or ``lock_timeout`` is over.

    Args:
        store: The store.
        operation: The operation.
        thread: Runs the operation in a thread.

    Returns:
        What the operation returns.

    Raises:
        LockTimeout: A live process held the lock for longer than ``lock_timeout``.

    Example:
        >>> asyncio.run(resumed(cache, lambda: 42, lambda: in_thread(lambda: 42)))
        42
    """
    for pause_s, waited_s in pauses(store):
        await sleep(pause_s)
        try:
            return briefly(0.0, operation)
        except Locked:
            pass
        except WouldBlock:
            return await thread()
        with watching(store, waited_s) as is_mine:
            if is_mine:
                return await thread()
    raise AssertionError("the pauses end with LockTimeout")


def pauses(store: object) -> Iterator[tuple[float, float]]:
    """Yield how many seconds to sleep before an operation is tried again, and how many went by.

    Raises:
        LockTimeout: The ``lock_timeout`` of the store is over.

    Example:
        >>> next(pauses(cache))[0]
        0.0005
    """
    limit_s: float = getattr(store, "lock_timeout", 1.0)
    began_s = time.monotonic()
    pause_s = _FIRST_PAUSE_S
    while True:
        waited_s = time.monotonic() - began_s
        if waited_s >= limit_s:
            raise late(waited_s)
        yield min(pause_s, limit_s - waited_s), waited_s
        pause_s = min(pause_s * 2, _PAUSE_MAX_S)


@contextmanager
def watching(store: object, waited_s: float) -> Iterator[bool]:
    """Tell whether the caller may now wait in a thread: one at a time for each store.

    Example:
        >>> with watching(cache, 1.0) as first, watching(cache, 1.0) as second:
        ...     first, second
        (True, False)
    """
    if waited_s < _WATCH_AFTER_S or id(store) in _watched:
        yield False
        return
    _watched.add(id(store))
    try:
        yield True
    finally:
        _watched.discard(id(store))


def late(waited_s: float) -> LockTimeout:
    """Return the exception of an operation that waited for a lock for too long.

    Example:
        >>> raise late(1.0)
        Traceback (most recent call last):
        tuckbox.errors.LockTimeout: waited 1.000s for a lock that a live process still holds...
    """
    return LockTimeout(
        f"waited {waited_s:.3f}s for a lock that a live process still holds (it may be stopped); "
        "nothing was changed: try again, or raise lock_timeout"
    )
