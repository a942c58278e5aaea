"""`RateLimit`: how often something may be done in a length of time, over all processes.

The algorithm is GCRA, the generic cell rate algorithm (ITU-T I.371): the entry has one number, the
theoretical arrival time. Each permit moves it by ``period / limit``. A permit is given while that
moment is at most ``period`` ahead. The entry ends when the moment is over.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import NamedTuple, Optional, TypeVar

from tuckbox.contract import Ttl
from tuckbox.coordination.semaphores import checked_count
from tuckbox.coordination.space import Space, checked_name, checked_ttl_s
from tuckbox.coordination.steps import Steps, checked_timeout, run, run_on_loop
from tuckbox.keys import Key
from tuckbox.results import Entry

__all__ = ["Permit", "RateLimit"]

_Self = TypeVar("_Self", bound="RateLimit")


class Permit(NamedTuple):
    """The answer of `RateLimit.try_acquire`. True if it is allowed.

    Example:
        >>> bool(Permit(False, 0.5))
        False
    """

    allowed: bool
    """Whether the caller may go on."""
    wait_s: float
    """After how many seconds to try again; 0 if it is allowed."""

    def __bool__(self) -> bool:
        """Return whether it is allowed."""
        return self.allowed


class RateLimit:
    """A limit of a rate, as returned by ``cache.rate_limit("mail", 10, "1m")``.

    Allows ``limit`` at once, and then one for each ``period / limit`` that goes by. So in a time of
    any length, at most ``limit`` more than ``limit / period`` times that length are allowed.

    Time is that of the machine that asks. Machines that share a limit need the same time.

    Example:
        >>> mails = cache.rate_limit("mail", 2, "1m")
        >>> bool(mails.try_acquire()), bool(mails.try_acquire())
        (True, True)
        >>> permit = mails.try_acquire()
        >>> permit.allowed, 29 < permit.wait_s <= 30
        (False, True)
    """

    def __init__(self, space: Space, name: str, limit: int, period: Ttl) -> None:
        """Use ``cache.rate_limit(name, limit, period)``."""
        self.name = name
        self._space = space
        self._key: Key = ("rate", checked_name(name, "rate limit"))
        period_ns = round(checked_ttl_s(period, "period") * 1e9)
        # Rounded up: never more than the limit.
        self._interval_ns = -(-period_ns // checked_count(limit, "limit"))
        self._period_ns = limit * self._interval_ns

    def try_acquire(self) -> Permit:
        """Ask whether one more is allowed now, and count it if so.

        Returns:
            A `Permit`, which is true or false.

        Raises:
            As `tuckbox.Cache.add` and `tuckbox.Cache.cas`.

        Example:
            >>> cache.rate_limit("mail", 10, "1m").try_acquire()
            Permit(allowed=True, wait_s=0.0)
        """
        return run(self._try())

    def acquire(self, timeout: Optional[float] = None) -> bool:
        """Wait until one more is allowed, and count it.

        There is no order among those that wait.

        Args:
            timeout: How many seconds to wait at most; None is no limit.

        Returns:
            True if it is allowed. False, at once, if the time would not be enough.

        Raises:
            InvalidArgument: ``timeout`` is no number of seconds.
            As `try_acquire`.

        Example:
            >>> mails = cache.rate_limit("mail", 1, "1m")
            >>> mails.acquire(), mails.acquire(timeout=1)
            (True, False)
        """
        return run(self._acquire(timeout))

    async def atry_acquire(self) -> Permit:
        """Do what `try_acquire` does, without blocking the event loop.

        Example:
            >>> await cache.rate_limit("mail", 10, "1m").atry_acquire()
            Permit(allowed=True, wait_s=0.0)
        """
        return await run_on_loop(self._space.store, self._try())

    async def aacquire(self, timeout: Optional[float] = None) -> bool:
        """Do what `acquire` does, without blocking the event loop.

        Example:
            >>> await cache.rate_limit("mail", 10, "1m").aacquire()
            True
        """
        return await run_on_loop(self._space.store, self._acquire(timeout))

    def _try(self) -> Steps[Permit]:
        while True:
            entry: Optional[Entry] = yield self._space.entry(self._key)
            now_ns = time.time_ns()
            due_ns = now_ns
            if entry is not None:
                # A clock that was set back must not stop everybody until it has caught up.
                due_ns = min(max(entry.value, now_ns), now_ns + self._period_ns)
            next_ns = due_ns + self._interval_ns
            wait_ns = next_ns - self._period_ns - now_ns
            if wait_ns > 0:
                return Permit(allowed=False, wait_s=wait_ns / 1e9)
            is_mine: bool = yield self._space.swap(
                self._key, entry, next_ns, (next_ns - now_ns) / 1e9
            )
            if is_mine:
                return Permit(allowed=True, wait_s=0.0)

    def _acquire(self, timeout: Optional[float]) -> Steps[bool]:
        left_s = checked_timeout(timeout)
        while True:
            permit = yield from self._try()
            if permit.allowed:
                return True
            if left_s is not None:
                left_s -= permit.wait_s
                if left_s < 0:
                    return False
            yield permit.wait_s

    def __enter__(self: _Self) -> _Self:  # noqa: PYI019 - Self is not in Python 3.9.
        """Wait until one more is allowed, and count it."""
        self.acquire()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """Do nothing."""

    async def __aenter__(self: _Self) -> _Self:  # noqa: PYI019 - As above.
        """Wait until one more is allowed, and count it."""
        await self.aacquire()
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        """Return the name."""
        return f"<RateLimit {self.name!r}>"
