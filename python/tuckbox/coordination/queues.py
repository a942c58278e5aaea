"""`Queue`: items that several processes push and pull, at both ends.

Each item is an entry with a number that no other item of the queue ever has. One more entry, the
order, has the numbers of all items. Numbers grow at the back and fall at the front, so the items
are in the order of their numbers, and a queue that is used as one is a single range.

- To push: take the next number, which puts it into the order, then store the item, then look
  whether the number is still there. If not, somebody pulled it, or found no item and dropped the
  number. Then take the item back, and push it with another number; if it is missing, it was pulled.
- To pull: read the item of the first number, then take that number out of the order, then delete
  the item. If it is missing, its pusher has taken it back. A number without item is skipped, and
  taken out of the order after a while; then look for the item once more.

The order changes only by `cas`, so one process gets each number. A process may die between any two
steps. An item without number is never returned.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal, Optional, cast

from tuckbox.coordination.semaphores import checked_count
from tuckbox.coordination.space import MISSING, Space, checked_name, now_us
from tuckbox.coordination.steps import Steps, checked_timeout, pauses, run, run_on_loop
from tuckbox.errors import InvalidArgument, QueueFull
from tuckbox.keys import Key
from tuckbox.registry import register
from tuckbox.results import Entry

__all__ = ["Queue", "Side"]

Side = Literal["front", "back"]
"""An end of a queue."""

_DROPPED_AFTER_S = 1.0
"""How long a number may have no item. Its pusher, if it lives, then pushes the item again."""


class _Order:
    """The numbers of a queue's items. Never changed.

    Args:
        front: The next number at the front.
        back: The next number at the back.
        runs: The numbers, in ranges without gaps, in ascending order.
    """

    __slots__ = ("back", "front", "runs")

    def __init__(self, front: int, back: int, runs: tuple[range, ...] = ()) -> None:
        self.front = front
        self.back = back
        self.runs = runs

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def __contains__(self, number: int) -> bool:
        return any(number in one for one in self.runs)

    def numbers(self, side: Side) -> Iterator[int]:
        """The numbers, beginning at one end."""
        for one in self.runs if side == "front" else reversed(self.runs):
            yield from one if side == "front" else reversed(one)

    def pushed(self, side: Side) -> tuple[int, _Order]:
        """Return the next number, and the order with it."""
        if side == "back":
            *others, last = self.runs or (range(self.back, self.back),)
            if last.stop == self.back:
                added = [range(last.start, self.back + 1)]
            else:
                added = [last, range(self.back, self.back + 1)]
            return self.back, _Order(self.front, self.back + 1, (*others, *added))
        first, *rest = self.runs or (range(self.front + 1, self.front + 1),)
        if first.start == self.front + 1:
            added = [range(self.front, first.stop)]
        else:
            added = [range(self.front, self.front + 1), first]
        return self.front, _Order(self.front - 1, self.back, (*added, *rest))

    def without(self, number: int) -> _Order:
        """Return the order without a number."""
        runs: list[range] = []
        for one in self.runs:
            parts = [one]
            if number in one:
                parts = [range(one.start, number), range(number + 1, one.stop)]
            runs += filter(None, parts)
        return _Order(self.front, self.back, tuple(runs))

    def state(self) -> list[int]:
        """Return plain values for `of`."""
        return [self.front, self.back, *(end for one in self.runs for end in (one.start, one.stop))]

    @staticmethod
    def of(state: list[int]) -> _Order:
        """Return what `state` was of."""
        front, back, *ends = state
        runs = tuple(range(start, stop) for start, stop in zip(ends[::2], ends[1::2]))
        return _Order(front, back, runs)


# A registered type, because a codec of the cache encodes all others.
register(_Order, name="tuckbox.queue", encode=_Order.state, decode=_Order.of)


class Queue:
    """A queue with two ends that processes share, as returned by ``cache.queue("jobs")``.

    Each item is pulled at most once. An item whose `push` has returned is pulled exactly once,
    unless its puller is killed before it can use the item, or the cache is cleared. A process that
    is killed during a push or pull leaves the queue usable: its item was pushed or not, pulled or
    not. Items of one pusher are pulled in their order.

    An item can be any value that the cache stores. There is no acknowledgement: if a lost item
    matters, use a message broker.

    Example:
        >>> jobs = cache.queue("jobs")
        >>> jobs.push("a")
        >>> jobs.push("b")
        >>> jobs.push("urgent", side="front")
        >>> list(jobs), len(jobs)
        (['urgent', 'a', 'b'], 3)
        >>> jobs.pull(), jobs.pull(side="back")
        ('urgent', 'b')
    """

    def __init__(self, space: Space, name: str, maxlen: Optional[int] = None) -> None:
        """Use ``cache.queue(name)``."""
        self.name = name
        self._space = space
        self._order_key: Key = ("queue", checked_name(name, "queue"))
        self._maxlen = None if maxlen is None else checked_count(maxlen, "maxlen")
        self._without_item: dict[int, float] = {}
        """When a number was first seen without its item."""

    # --- Operations ------------------------------------------------------------------------------

    def push(self, value: object, side: Side = "back") -> None:
        """Add an item.

        Args:
            value: The item, of one of the types listed in `tuckbox.Cache`.
            side: The end, "back" or "front".

        Raises:
            QueueFull: There are ``maxlen`` items.
            InvalidArgument: ``side`` is something else.
            As `tuckbox.Cache.set`. Nothing was pushed.

        Example:
            >>> jobs = cache.queue("jobs", maxlen=1)
            >>> jobs.push({"page": 7})
            >>> jobs.push({"page": 8})
            Traceback (most recent call last):
            tuckbox.errors.QueueFull: the queue 'jobs' has 1 items, its maxlen...
        """
        run(self._push(value, _checked(side)))

    def pull(
        self, side: Side = "front", default: object = None, *, timeout: Optional[float] = 0
    ) -> Any:  # noqa: ANN401 - What was pushed.
        """Remove an item and return it.

        Args:
            side: The end, "front" or "back".
            default: What to return if there is no item.
            timeout: How many seconds to wait for an item; None is no limit.

        Returns:
            The item, or ``default``.

        Raises:
            InvalidArgument: ``side`` or ``timeout`` is invalid.
            EntryCorrupt: The item cannot be decoded. It is kept.
            As `tuckbox.Cache.cas`. The item is kept, except if the place did not answer.

        Example:
            >>> jobs = cache.queue("jobs")
            >>> jobs.push("a")
            >>> jobs.pull(), jobs.pull(), jobs.pull(timeout=0.01)
            ('a', None, None)
        """
        return run(self._pull(_checked(side), default, timeout))

    def peek(self, side: Side = "front", default: object = None) -> Any:  # noqa: ANN401 - What was pushed.
        """Return an item and leave it in the queue.

        Args:
            side: The end, "front" or "back".
            default: What to return if there is no item.

        Returns:
            The item, or ``default``.

        Raises:
            InvalidArgument: ``side`` is something else.
            As `tuckbox.Cache.get`.

        Example:
            >>> jobs = cache.queue("jobs")
            >>> jobs.push("a")
            >>> jobs.peek(), len(jobs)
            ('a', 1)
        """
        return run(self._peek(_checked(side), default))

    def clear(self) -> int:
        """Remove all items.

        Returns:
            How many there were.

        Raises:
            As `tuckbox.Cache.cas`.

        Example:
            >>> jobs = cache.queue("jobs")
            >>> jobs.push("a")
            >>> jobs.clear(), len(jobs)
            (1, 0)
        """
        return run(self._clear())

    def __len__(self) -> int:
        """Return the number of items, including those that are being pushed."""
        entry = self._space.entry(self._order_key)()
        return 0 if entry is None else len(entry.value)

    def __iter__(self) -> Iterator[Any]:
        """Iterate from the front over the items that there are now, and leave them there."""
        entry = self._space.entry(self._order_key)()
        for number in () if entry is None else cast("_Order", entry.value).numbers("front"):
            value = self._space.value(self._item_key(number))()
            if value is not MISSING:
                yield value

    async def apush(self, value: object, side: Side = "back") -> None:
        """Do what `push` does, without blocking the event loop.

        Example:
            >>> await cache.queue("jobs").apush("a")
        """
        await run_on_loop(self._space.store, self._push(value, _checked(side)))

    async def apull(
        self, side: Side = "front", default: object = None, *, timeout: Optional[float] = 0
    ) -> Any:  # noqa: ANN401 - What was pushed.
        """Do what `pull` does, without blocking the event loop.

        If the task is cancelled meanwhile, an item may be lost.

        Example:
            >>> jobs = cache.queue("jobs")
            >>> await jobs.apush("a")
            >>> await jobs.apull(timeout=10)
            'a'
        """
        return await run_on_loop(self._space.store, self._pull(_checked(side), default, timeout))

    async def apeek(self, side: Side = "front", default: object = None) -> Any:  # noqa: ANN401 - What was pushed.
        """Do what `peek` does, without blocking the event loop.

        Example:
            >>> await cache.queue("jobs").apeek(default="nothing to do")
            'nothing to do'
        """
        return await run_on_loop(self._space.store, self._peek(_checked(side), default))

    # --- Steps -----------------------------------------------------------------------------------

    def _item_key(self, number: int) -> Key:
        return ("item", self.name, number)

    def _push(self, value: object, side: Side) -> Steps[None]:
        while True:
            number = yield from self._number(side)
            key = self._item_key(number)
            try:
                is_stored: bool = yield self._space.add(key, value)
            except Exception:
                # Of the value, or of a full cache.
                yield from self._drop(number)
                raise
            if not is_stored:
                # The order was lost, and its numbers are used again.
                yield from self._drop(number)
                continue
            entry: Optional[Entry] = yield self._space.entry(self._order_key)
            if entry is not None and number in entry.value:
                return
            is_mine: bool = yield self._space.delete(key)
            if not is_mine:
                return

    def _number(self, side: Side) -> Steps[int]:
        """Take the next number, which puts it into the order."""
        while True:
            entry: Optional[Entry] = yield self._space.entry(self._order_key)
            # From the time on, so that a queue that was lost has other numbers than before.
            now = now_us()
            order: _Order = _Order(now - 1, now) if entry is None else entry.value
            if self._maxlen is not None and len(order) >= self._maxlen:
                raise QueueFull(
                    f"the queue {self.name!r} has {len(order)} items, its maxlen; nothing was "
                    "pushed: pull some, or try again later"
                )
            number, more = order.pushed(side)
            is_mine: bool = yield self._space.swap(self._order_key, entry, more)
            if is_mine:
                return number

    def _drop(self, number: int) -> Steps[bool]:
        """Take a number out of the order. Return whether it was there."""
        while True:
            entry: Optional[Entry] = yield self._space.entry(self._order_key)
            if entry is None or number not in entry.value:
                return False
            is_done: bool = yield self._space.swap(
                self._order_key, entry, entry.value.without(number)
            )
            if is_done:
                return True

    def _pull(self, side: Side, default: object, timeout: Optional[float]) -> Steps[Any]:
        waits = pauses(checked_timeout(timeout))
        while True:
            number, value = yield from self._first(side)
            if number is None:
                pause_s = next(waits, None)
                if pause_s is None:
                    return default
                yield pause_s
                continue
            is_mine = yield from self._drop(number)
            if not is_mine:
                continue
            if value is MISSING:
                # It may have come meanwhile; then its pusher may have seen its number.
                value = yield self._space.value(self._item_key(number))
            # Not if its pusher has taken it back.
            if value is not MISSING and (yield self._space.delete(self._item_key(number))):
                return value

    def _peek(self, side: Side, default: object) -> Steps[Any]:
        entry: Optional[Entry] = yield self._space.entry(self._order_key)
        for number in () if entry is None else cast("_Order", entry.value).numbers(side):
            value: Any = yield self._space.value(self._item_key(number))
            if value is not MISSING:
                return value
        return default

    def _first(self, side: Side) -> Steps[tuple[Optional[int], Any]]:
        """Return the first number that has an item, and the item; or None.

        A number that has had no item for long is returned as well.
        """
        entry: Optional[Entry] = yield self._space.entry(self._order_key)
        seen, self._without_item = self._without_item, {}
        for number in () if entry is None else cast("_Order", entry.value).numbers(side):
            value: Any = yield self._space.value(self._item_key(number))
            if value is not MISSING:
                return number, value
            now_s = time.monotonic()
            since_s = self._without_item[number] = seen.get(number, now_s)
            if now_s - since_s > _DROPPED_AFTER_S:
                return number, MISSING
        return None, None

    def _clear(self) -> Steps[int]:
        while True:
            entry: Optional[Entry] = yield self._space.entry(self._order_key)
            if entry is None:
                return 0
            order: _Order = entry.value
            is_done: bool = yield self._space.swap(
                self._order_key, entry, _Order(order.front, order.back)
            )
            if is_done:
                break
        count = 0
        for number in order.numbers("front"):
            is_deleted: bool = yield self._space.delete(self._item_key(number))
            count += is_deleted
        return count

    def __repr__(self) -> str:
        """Return the name."""
        return f"<Queue {self.name!r}>"


def _checked(side: Side) -> Side:
    if side not in {"front", "back"}:
        raise InvalidArgument(f'side must be "front" or "back", not {side!r}')
    return side
