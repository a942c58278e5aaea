"""`Semaphore`: at most so many holders at a time. Each place is held as a lock is."""

from __future__ import annotations

from typing import Optional

from tuckbox.contract import Ttl
from tuckbox.coordination.locks import Leased, Timeout, holder
from tuckbox.coordination.space import Space, checked_name
from tuckbox.coordination.steps import Steps
from tuckbox.errors import InvalidArgument
from tuckbox.keys import Key

__all__ = ["Semaphore", "checked_count"]


class Semaphore(Leased):
    """A limit of concurrency, as returned by ``cache.semaphore("downloads", 4)``.

    Each holder has one of ``n`` places, with a lease of its own: the place of a killed process is
    free again after ``ttl``. To acquire one looks at all places, so ``n`` should not be large.

    A thread or task may acquire several places. `release`, `refresh` and `owned` are about the one
    that it acquired last.

    Example:
        >>> with cache.semaphore("downloads", 2) as place:
        ...     place.owned()
        True
    """

    _what = "semaphore"

    def __init__(self, space: Space, name: str, n: int, ttl: Ttl, timeout: Optional[float]) -> None:
        """Use ``cache.semaphore(name, n)``."""
        keys: list[Key] = [
            ("place", checked_name(name, "semaphore"), number)
            for number in range(checked_count(n, "n"))
        ]
        super().__init__(space, name, keys, ttl, timeout)

    def _acquire(self, timeout: Timeout) -> Steps[bool]:
        last = self._owns.get(holder())
        is_mine = yield from super()._acquire(timeout)
        if is_mine and last is not None:
            own = self._own()
            # A lease that ended is no place: its key may be the new one's.
            own.before = tuple(place for place in (*last.before, last) if place.key != own.key)
            last.before = ()
        return is_mine

    def _release(self) -> Steps[None]:
        before = self._own().before
        try:
            yield from super()._release()
        finally:
            if before and holder() not in self._owns:
                self._owns[holder()] = before[-1]
                before[-1].before = before[:-1]


def checked_count(count: object, parameter: str) -> int:
    """Return a number of at least 1.

    Raises:
        InvalidArgument: It is none.

    Example:
        >>> checked_count(2, "n")
        2
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InvalidArgument(f"{parameter} must be an int from 1 on, not {count!r}")
    return count
