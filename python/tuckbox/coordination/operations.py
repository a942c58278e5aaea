"""`Coordinating`: what every cache has for the coordination of processes.

One implementation for all stores. Must not know files or servers.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Optional, TypeVar, cast

from tuckbox.advice import explains_names
from tuckbox.contract import Store, Ttl
from tuckbox.coordination.locks import LEASE_S, Lock, RLock
from tuckbox.coordination.queues import Queue
from tuckbox.coordination.rates import RateLimit
from tuckbox.coordination.semaphores import Semaphore
from tuckbox.coordination.space import NAME, Space
from tuckbox.coordination.transactions import Transaction, transact
from tuckbox.errors import InvalidArgument

if TYPE_CHECKING:
    from tuckbox.namespaces import Namespace

__all__ = ["Coordinating"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_T = TypeVar("_T")


class Coordinating:
    """Adds locks, semaphores, rate limits, queues and transactions to a store."""

    __slots__ = ()

    if TYPE_CHECKING:
        # What it needs of the store.
        def _within(self, name: str) -> Namespace: ...

    # Whether the store pins entries. Others evict by rules of their own.
    _pins: ClassVar[bool] = True

    def _coordination(self) -> Space:
        return Space(self._within(NAME), pins=self._pins)

    def _transactions(self) -> Space:
        """Return where the ledger of transactions is.

        Raises:
            Unsupported: The store has no pins, or leases that end by themselves.
        """
        return self._coordination()

    @explains_names
    def lock(self, name: str, *, ttl: Ttl = LEASE_S, timeout: Optional[float] = None) -> Lock:
        """Return a lock that one thread or task of all processes holds at a time.

        Nothing is acquired yet. The lock of a killed process is free again after ``ttl``.

        Args:
            name: The name. Equal names are the same lock, in every process.
            ttl: How long a holder has it, unless it refreshes it: seconds, text such as "5m", or a
                timedelta.
            timeout: How many seconds to wait while others hold it; None is no limit.

        Returns:
            A `tuckbox.coordination.locks.Lock`, for ``with`` and ``async with``.

        Raises:
            InvalidArgument: ``name`` is no str, ``ttl`` has no end, or ``timeout`` is no number.
            Unsupported: The cache is on a place that may evict entries at any moment (memcached).
            CacheClosed: The cache is closed.

        Example:
            >>> with cache.lock("report", ttl="1m", timeout=10) as lock:
            ...     cache.set("report", "done by one at a time")
        """
        return Lock(self._coordination(), name, ttl, timeout)

    @explains_names
    def rlock(self, name: str, *, ttl: Ttl = LEASE_S, timeout: Optional[float] = None) -> RLock:
        """Return a `lock` that its holder may acquire again.

        Args:
            name: The name. `lock` and `rlock` with the same name are the same lock.
            ttl: As for `lock`.
            timeout: As for `lock`.

        Returns:
            A `tuckbox.coordination.locks.RLock`.

        Raises:
            As `lock`.

        Example:
            >>> lock = cache.rlock("report")
            >>> with lock:
            ...     with lock:
            ...         cache.set("report", "done by one at a time")
        """
        return RLock(self._coordination(), name, ttl, timeout)

    @explains_names
    def semaphore(
        self, name: str, n: int, *, ttl: Ttl = LEASE_S, timeout: Optional[float] = None
    ) -> Semaphore:
        """Return a semaphore, which at most ``n`` threads or tasks of all processes hold at a time.

        The place of a killed process is free again after ``ttl``.

        Args:
            name: The name. Equal names are the same semaphore, in every process.
            n: How many places there are. All processes must pass the same.
            ttl: As for `lock`.
            timeout: As for `lock`.

        Returns:
            A `tuckbox.coordination.semaphores.Semaphore`, for ``with`` and ``async with``.

        Raises:
            As `lock`.

        Example:
            >>> with cache.semaphore("downloads", 4, ttl="2m"):
            ...     cache.set("page", "downloaded by at most four")
        """
        return Semaphore(self._coordination(), name, n, ttl, timeout)

    @explains_names
    def rate_limit(self, name: str, limit: int, period: Ttl) -> RateLimit:
        """Return a limit of how often something is done, over all processes.

        Args:
            name: The name. Equal names are the same limit, in every process.
            limit: How often in ``period``; so many are allowed at once.
            period: Seconds, text such as "1m", or a timedelta.

        Returns:
            A `tuckbox.coordination.rates.RateLimit`.

        Raises:
            As `lock`.

        Example:
            >>> mails = cache.rate_limit("mail", 10, "1m")
            >>> if mails.try_acquire():
            ...     cache.set("sent", 1)
        """
        return RateLimit(self._coordination(), name, limit, period)

    @explains_names
    def throttle(
        self, limit: int, period: Ttl, *, name: Optional[str] = None
    ) -> Callable[[_Function], _Function]:
        """Return a decorator: calls of the function wait until `rate_limit` allows them.

        Args:
            limit: As for `rate_limit`.
            period: As for `rate_limit`.
            name: The name of the limit; that of the function and its module by default.

        Returns:
            A decorator for functions and coroutine functions.

        Raises:
            As `rate_limit`.

        Example:
            >>> @cache.throttle(10, "1m", name="mail")
            ... def send(text):
            ...     return f"sent {text}"
            >>> send("hello")
            'sent hello'
        """

        def decorated(function: _Function) -> _Function:
            limiter = self.rate_limit(name or _name_of(function), limit, period)
            return _wrapped(function, limiter)

        return decorated

    @explains_names
    def one_at_a_time(
        self,
        *,
        name: Optional[str] = None,
        ttl: Ttl = LEASE_S,
        timeout: Optional[float] = None,
    ) -> Callable[[_Function], _Function]:
        """Return a decorator: one call of the function runs at a time, over all processes.

        Each call holds a `lock`. DiskCache calls this a barrier.

        Args:
            name: The name of the lock; that of the function and its module by default.
            ttl: As for `lock`: longer than any call takes.
            timeout: As for `lock`. A call that cannot begin in this time raises AcquireTimeout.

        Returns:
            A decorator for functions and coroutine functions.

        Raises:
            As `lock`.

        Example:
            >>> @cache.one_at_a_time(name="rebuild", ttl="10m")
            ... def rebuild():
            ...     return "rebuilt"
            >>> rebuild()
            'rebuilt'
        """

        def decorated(function: _Function) -> _Function:
            lock = self.lock(name or _name_of(function), ttl=ttl, timeout=timeout)
            return _wrapped(function, lock)

        return decorated

    @explains_names
    def queue(self, name: str, *, maxlen: Optional[int] = None) -> Queue:
        """Return a queue with two ends that all processes push to and pull from.

        Args:
            name: The name. Equal names are the same queue, in every process.
            maxlen: How many items there may be; a `push` to a full queue raises QueueFull. None is
                no limit.

        Returns:
            A `tuckbox.coordination.queues.Queue`.

        Raises:
            As `lock`.

        Example:
            >>> jobs = cache.queue("jobs")
            >>> jobs.push({"page": 7})
            >>> jobs.pull(timeout=10)
            {'page': 7}
        """
        return Queue(self._coordination(), name, maxlen)

    @explains_names
    def transaction(self, *, timeout: Optional[float] = None) -> Transaction:
        """Return a transaction: changes of several keys that are made together or not at all.

        Its end raises TransactionConflict if a key that it read was changed meanwhile. `transact`
        runs a function again then.

        Args:
            timeout: How many seconds the end may wait while other transactions end; None is no
                limit.

        Returns:
            A `tuckbox.coordination.transactions.Transaction`, for ``with`` and ``async with``.

        Raises:
            InvalidArgument: ``timeout`` is no number.
            Unsupported: The cache is on a server, in a database or in tiers.
            CacheClosed: The cache is closed.

        Example:
            >>> cache.set_many({"ann": 10, "bob": 0}, pinned=True)
            >>> with cache.transaction() as t:
            ...     if t.get("ann") >= 3:
            ...         t.set("ann", t.get("ann") - 3, pinned=True)
            ...         t.set("bob", t.get("bob") + 3, pinned=True)
            >>> cache.get("bob")
            3
        """
        return Transaction(cast("Store", self), self._transactions(), timeout)

    @explains_names
    def transact(
        self,
        function: Callable[[Transaction], _T],
        *,
        tries: int = 100,
        timeout: Optional[float] = None,
    ) -> _T:
        """Run a function in a `transaction`, and again as long as others change what it has read.

        Args:
            function: Gets the transaction. It may run several times, so it should do nothing else.
                A coroutine function is for ``await cache.transact(function)``.
            tries: How often it runs at most.
            timeout: As for `transaction`, each time.

        Returns:
            What the function returns; of a coroutine function, an awaitable.

        Raises:
            TransactionConflict: Others changed something during each try. Nothing was changed.
            InvalidArgument: ``tries`` is no positive int.
            As `transaction`, and as its end.
            Exception: Raised by the function. Nothing was changed.

        Example:
            >>> cache.set("stock", 10)
            >>> def buy(t):
            ...     left = t.incr("stock", -1)
            ...     t.set(("sale", left), "ann")
            ...     return left
            >>> cache.transact(buy)
            9
        """
        return transact(functools.partial(self.transaction, timeout=timeout), function, tries)


def _wrapped(function: _Function, guard: Any) -> _Function:
    """Let each call of a function be in a ``with`` block, or an ``async with`` block."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def on_loop(*args: Any, **kwargs: Any) -> Any:
            async with guard:
                return await function(*args, **kwargs)

        return cast("_Function", on_loop)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with guard:
            return function(*args, **kwargs)

    return cast("_Function", called)


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None)
    if name is None or "<" in name:
        raise InvalidArgument(
            f"{function!r} is in another function or has no name, so processes could confuse it; "
            "pass name="
        )
    return f"{function.__module__}.{name}"
