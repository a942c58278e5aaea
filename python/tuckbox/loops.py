"""Event loops: sleeping, threads, events and background tasks, with asyncio and with trio.

Owns what differs between the two, so that others need not ask which one runs. Programs that use
anyio run on one of them. Must not know caches.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import sys
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, Callable, Generic, Optional, Protocol, TypeVar, cast

__all__ = [
    "Event",
    "OfLoop",
    "caller_on_loop",
    "current_task",
    "event",
    "in_own_thread",
    "in_thread",
    "sleep",
    "spawn",
]

_T = TypeVar("_T")

_ALWAYS_S = 100 * 365 * 86400.0
# How often a thread looks whether the loop that it waits for was closed.
_LOOK_FOR_END_S = 0.2


class Event(Protocol):
    """Something that happens once on an event loop, and that tasks wait for."""

    def set(self) -> None:
        """Let it happen. Only on the event loop."""

    async def wait(self, timeout_s: float) -> bool:
        """Wait for at most so many seconds, which may be infinity; return whether it happened."""


def current_task() -> Optional[object]:
    """Return the task in which this code runs; None outside of tasks.

    Example:
        >>> current_task() is None
        True
    """
    trio = _trio()
    if trio is not None:
        task: object = trio.lowlevel.current_task()
        return task
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


async def sleep(seconds: float) -> None:
    """Let other tasks run for a length of time.

    Example:
        >>> asyncio.run(sleep(0.001))
    """
    trio = _trio()
    if trio is None:
        await asyncio.sleep(seconds)
    else:
        await trio.sleep(seconds)


async def in_thread(function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """Call a function in a thread, with the context variables of this task.

    If this task is cancelled, the function runs on. On trio, the cancelled task waits for it.

    Args:
        function: What to call.
        *args: Its positional arguments.
        **kwargs: Its other arguments.

    Returns:
        What the function returns.

    Example:
        >>> asyncio.run(in_thread(divmod, 7, 2))
        (3, 1)
    """
    trio = _trio()
    if trio is None:
        return await asyncio.to_thread(function, *args, **kwargs)
    result: _T = await trio.to_thread.run_sync(functools.partial(function, *args, **kwargs))
    return result


async def in_own_thread(function: Callable[[], _T]) -> _T:
    """As `in_thread`, in a thread of its own, which may wait for other threads and for this loop.

    The thread does not keep the process from exiting.

    Args:
        function: What to call.

    Returns:
        What the function returns.

    Example:
        >>> asyncio.run(in_own_thread(lambda: 42))
        42
    """
    trio = _trio()
    if trio is not None:
        limiter = trio.CapacityLimiter(1)
        result: _T = await trio.to_thread.run_sync(function, limiter=limiter)
        return result
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def end(value: Any, error: Optional[BaseException]) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # The loop was closed.
            loop.call_soon_threadsafe(end, value, error)

    context = contextvars.copy_context()
    target = functools.partial(context.run, run)
    threading.Thread(target=target, name="tuckbox-loop", daemon=True).start()
    return await future


def caller_on_loop() -> Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]:
    """Return what runs a coroutine function on this loop, for threads of `in_own_thread`.

    It raises RuntimeError if the loop is closed before the coroutine ends.

    Example:
        >>> async def main():
        ...     run = caller_on_loop()
        ...     return await in_own_thread(lambda: run(main_2))
        >>> async def main_2():
        ...     return 42
        >>> asyncio.run(main())
        42
    """
    trio = _trio()
    if trio is not None:
        return cast("Callable[..., Any]", trio.from_thread.run)
    loop = asyncio.get_running_loop()

    def run(function: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        coroutine = function()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:
            coroutine.close()
            raise
        while True:
            with contextlib.suppress(concurrent.futures.TimeoutError):
                return future.result(_LOOK_FOR_END_S)
            if future.done():
                return future.result()
            if loop.is_closed():
                raise RuntimeError("the event loop was closed")

    return run


def event() -> Event:
    """Return an event of the running event loop.

    Example:
        >>> async def main():
        ...     happened = event()
        ...     happened.set()
        ...     return await happened.wait(1)
        >>> asyncio.run(main())
        True
    """
    trio = _trio()
    return _AsyncioEvent() if trio is None else _TrioEvent(trio)


def spawn(function: Callable[[], Coroutine[Any, Any, None]], name: str) -> object:
    """Start a task that outlives its caller, at most until the event loop ends.

    The task is cancelled when `asyncio.run` or `trio.run` ends. It has a copy of the context
    variables.

    Args:
        function: A coroutine function without arguments, which raises no exception.
        name: The name of the task.

    Returns:
        The task. Keep a reference to it while it is needed.

    Example:
        >>> async def main():
        ...     happened = event()
        ...     async def work():
        ...         happened.set()
        ...     task = spawn(work, "example")
        ...     return await happened.wait(1)
        >>> asyncio.run(main())
        True
    """
    trio = _trio()
    if trio is None:
        return asyncio.get_running_loop().create_task(function(), name=name)
    context = contextvars.copy_context()
    task: object = trio.lowlevel.spawn_system_task(function, name=name, context=context)
    return task


class OfLoop(Generic[_T]):
    """One object for each running event loop, which is freed when that loop is closed.

    Nothing else may refer to the object for long. So its ``__del__`` runs when the loop is closed,
    even if tasks of the loop never end.

    Args:
        make: Makes the object of a loop.

    Example:
        >>> lists = OfLoop(list)
        >>> async def main():
        ...     return lists.get() is lists.get()
        >>> asyncio.run(main())
        True
    """

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._of_trio: Any = None
        # By the id of the loop, which is stored as well: another loop may get the same id.
        self._of_asyncio: dict[int, tuple[weakref.ref[Any], weakref.ref[_Owner]]] = {}

    def get(self) -> _T:
        """Return the object of the running loop, and make it if there is none.

        Raises:
            RuntimeError: No loop of asyncio or trio runs in this thread.

        Example:
            >>> lists = OfLoop(list)
            >>> async def main():
            ...     return lists.get()
            >>> asyncio.run(main())
            []
        """
        trio = _trio()
        if trio is not None:
            return self._get_of_trio(trio)
        loop = asyncio.get_running_loop()
        refs = self._of_asyncio.get(id(loop))
        owner = refs[1]() if refs is not None and refs[0]() is loop else None
        if owner is None:
            owner = _Owner(self._make())
            # Closing the loop drops its timers. So this one owns the object.
            loop.call_later(_ALWAYS_S, owner.keep)
            for other, (dead, _) in list(self._of_asyncio.items()):
                if dead() is None:
                    self._of_asyncio.pop(other, None)
            self._of_asyncio[id(loop)] = weakref.ref(loop), weakref.ref(owner)
        owned: _T = owner.owned
        return owned

    def _get_of_trio(self, trio: Any) -> _T:
        if self._of_trio is None:
            self._of_trio = trio.lowlevel.RunVar("tuckbox", None)
        owned: Optional[_T] = self._of_trio.get()
        if owned is None:
            owned = self._make()
            self._of_trio.set(owned)
        return owned


class _Owner:
    def __init__(self, owned: Any) -> None:
        self.owned = owned

    def keep(self) -> None:
        """Be referred to."""


class _AsyncioEvent:
    def __init__(self) -> None:
        self._is_set = False
        self._waiters: set[asyncio.Future[bool]] = set()

    def set(self) -> None:
        self._is_set = True
        for waiter in self._waiters:
            if not waiter.done() and not waiter.get_loop().is_closed():
                waiter.set_result(True)

    async def wait(self, timeout_s: float) -> bool:
        if self._is_set:
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        timer = None
        if timeout_s < _ALWAYS_S:
            timer = loop.call_later(timeout_s, _end_wait, waiter)
        self._waiters.add(waiter)
        try:
            return await waiter
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()


def _end_wait(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


class _TrioEvent:
    def __init__(self, trio: Any) -> None:
        self._trio = trio
        self._event = trio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        with self._trio.move_on_after(timeout_s):
            await self._event.wait()
        return bool(self._event.is_set())


def _trio() -> Any:
    """Return trio if this is one of its tasks, else None."""
    trio = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        trio.lowlevel.current_task()
    except (AttributeError, RuntimeError):  # The first while it is being imported.
        return None
    return trio
