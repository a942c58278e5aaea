"""`Queues`: what `Cache` has of queues, whose items are entries with keys in a row.

Each queue has a record of the lowest and the highest number that its keys may have, so that the
first and the last item are found without a scan. Must not know how values become bytes.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, Optional

from tuckbox.compat.diskcache.disk import Disk, Stored
from tuckbox.compat.diskcache.entries import EXPIRE, Change, Entries, Entry, field_of
from tuckbox.compat.diskcache.passing_items import PassingItems
from tuckbox.compat.diskcache.queue_keys import (
    DIGITS,
    END,
    FIRST,
    key_of_item,
    may_be_item,
    name_of_queue,
)

__all__ = ["TRIES", "Queues", "widen_ends"]

_PROBES: Final = 1000
"""So many missing keys in a row are skipped one by one; beyond, a scan finds the next one."""


TRIES: Final = 2
"""How often the file of an item is tried to be read before the item is removed."""


_Item = tuple[int, Entry]
"""The number of an item, and its entry."""


class Queues:
    """The queues of a cache. `Cache` has the rest."""

    if TYPE_CHECKING:
        _entries: Entries
        _disk: Disk
        _items: PassingItems
        size_limit: float

        def _transact(self, retry: bool = False, *, opens: Optional[bool] = False) -> Change: ...
        def _cull_after(self, retry: bool) -> None: ...
        def _cull(self, now: float) -> None: ...
        def _fetch(self, entry: Entry, read: bool) -> Any: ...
        def _drop(self, stored: Stored) -> None: ...
        def _put_stored(
            self,
            place: Any,
            long_key: Any,
            stored: Stored,
            now: float,
            expire: Optional[float],
            tag: Any,
            old: Optional[Entry],
        ) -> None: ...
        @staticmethod
        def _with_extras(entry: Entry, value: Any, expire_time: bool, tag: bool) -> Any: ...
        @staticmethod
        def _default(default: Any, expire_time: bool, tag: bool) -> Any: ...

    def push(
        self,
        value: Any,
        prefix: Optional[str] = None,
        side: str = "back",
        expire: Optional[float] = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> Any:
        """Add a value to a queue.

        Args:
            value: The value; with ``read``, a file that is open in binary mode.
            prefix: The name of the queue. Its keys are ``"prefix-500000000000000"`` and so on;
                None is the queue whose keys are ints, 500000000000000 the first.
            side: ``"back"`` or ``"front"``.
            expire, read, tag, retry: As for `Cache.set`.

        Returns:
            The key of the entry.

        Raises:
            ValueError: ``side`` is something else.
            Timeout: The lock was not free within ``timeout``.

        Example:
            >>> cache.push("a"), cache.push("b"), cache.push("c", side="front")
            (500000000000000, 500000000000001, 499999999999999)
            >>> cache.pull()
            (499999999999999, 'c')
        """
        step = -_step_from(side)
        now = time.time()
        stored = self._disk.store(value, read)
        _, mode, filename, kept = stored
        if filename is None and type(kept) is not memoryview:
            key, is_over = self._items.push(prefix, step, mode, kept, expire, tag, self.size_limit)
            if key is not None:
                if is_over:
                    self._cull_after(retry)
                return key
        try:
            with self._transact(retry, opens=None) as entries:
                last = self._end_of(prefix, -step)
                number = FIRST if last is None else last[0] + step
                key = key_of_item(prefix, number)
                place, long_key = entries.place(key, True)
                self._put_stored(place, long_key, stored, now, expire, tag, None)
                self._cull(now)
        except BaseException:
            self._drop(stored)
            raise
        return key

    def pull(
        self,
        prefix: Optional[str] = None,
        default: Any = (None, None),
        side: str = "front",
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Remove the first item of a queue and return it. Of several callers only one gets it.

        Args:
            prefix: The name of the queue: see `push`.
            default: Returned if the queue is empty.
            side: ``"front"`` or ``"back"``.
            expire_time, tag: As for `Cache.get`.
            retry: Whether to wait for the lock for as long as it takes.

        Returns:
            A tuple of key and value, or a tuple of it and what else was asked for.

        Raises:
            ValueError: ``side`` is something else.
            Timeout: The lock was not free within ``timeout``.
        """
        return self._take(prefix, default, side, expire_time, tag, retry, keep=False)

    def peek(
        self,
        prefix: Optional[str] = None,
        default: Any = (None, None),
        side: str = "front",
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Return the first item of a queue. Removes expired ones on the way. See `pull`."""
        return self._take(prefix, default, side, expire_time, tag, retry, keep=True)

    def _take(
        self,
        prefix: Optional[str],
        default: Any,
        side: str,
        expire_time: bool,
        tag: bool,
        retry: bool,
        *,
        keep: bool,
    ) -> Any:
        step = _step_from(side)
        taken = self._items.take(prefix, step, keep=keep)
        if taken is not None:
            key, entry = taken
            if entry is None:
                return self._default(default, expire_time, tag)
            # A pickle or a `Disk` of the program may raise an OSError: then the next item is taken.
            with contextlib.suppress(OSError):
                return self._with_extras(entry, (key, self._fetch(entry, False)), expire_time, tag)
        failed: list[Entry] = []
        while True:
            with self._transact(retry, opens=None) as entries:
                found = self._end_of(prefix, step)
                if found is None:
                    return self._default(default, expire_time, tag)
                number, entry = found
                key = key_of_item(prefix, number)
                place = entries.place(key, True)[0]
                until = field_of(entry, EXPIRE)
                usable = (until is None or until >= time.time()) and failed.count(entry) < TRIES
                if not (keep and usable):
                    entries.remove(place, entry)
                    self._leave_out(prefix, number, step)
                if not usable:
                    continue
                try:
                    value = self._fetch(entry, False)
                except OSError:
                    # Tried once more: this process may have too many open files.
                    failed.append(entry)
                    continue
                return self._with_extras(entry, (key, value), expire_time, tag)

    def _leave_out(self, prefix: Optional[str], number: int, step: int) -> None:
        """Note that the first item, or the last one with step -1, was removed."""
        name = name_of_queue(prefix)
        ends = self._entries.ends(name)
        if ends is not None:
            low, high = ends
            self._entries.put_ends(name, (number + 1, high) if step > 0 else (low, number - 1))

    def _end_of(self, prefix: Optional[str], step: int) -> Optional[_Item]:
        """Return the first item, or the last one with step -1; None if the queue is empty."""
        entries = self._entries
        name = name_of_queue(prefix)
        known = entries.ends(name)
        low, high = ends = known or _scanned(entries, prefix)
        item: Optional[_Item] = None
        if low <= high:
            item = _probe(entries, prefix, low if step > 0 else high, ends, step)
            if item is None and high - low >= _PROBES:
                low, high = ends = _scanned(entries, prefix)
                if low <= high:
                    item = _probe(entries, prefix, low if step > 0 else high, ends, step)
        if item is None:
            low, high = FIRST, FIRST - 1
        elif step > 0:
            low = item[0]
        else:
            high = item[0]
        if (low, high) != known:
            entries.put_ends(name, (low, high))
        return item


def widen_ends(entries: Entries, key: Any) -> None:
    """Note that an entry was stored, in case its key is one of a queue."""
    if not entries.queues or not may_be_item(key):
        return
    if type(key) is str:
        name, number = f"-{key[: -DIGITS - 1]}", int(key[-DIGITS:])
    else:
        name, number = "", key
    if not 0 < number < END - 1:
        return
    known = entries.ends(name)
    if known is None or known[0] <= number <= known[1]:
        return
    low, high = known
    if low > high:
        low = high = int(number)
    entries.put_ends(name, (min(low, int(number)), max(high, int(number))))


def _step_from(side: str) -> int:
    if side not in {"front", "back"}:
        raise ValueError(f'side must be "front" or "back", not {side!r}')
    return 1 if side == "front" else -1


def _probe(
    entries: Entries, prefix: Optional[str], start: int, ends: tuple[int, int], step: int
) -> Optional[_Item]:
    low, high = ends
    for number in range(start, start + step * _PROBES, step):
        if not low <= number <= high:
            break
        entry = entries.peek(entries.place(key_of_item(prefix, number), True)[0])
        if entry is not None:
            return number, entry
    return None


def _scanned(entries: Entries, prefix: Optional[str]) -> tuple[int, int]:
    low, high = END, 0
    start = None if prefix is None else f"{prefix}-"
    for place, entry in entries.rows():
        key, raw = entries.key_of(place, entry)
        if not raw:
            continue
        if start is None:
            # Infinities and NaN are no numbers of items, either.
            if not isinstance(key, (int, float)) or not 0 < key < END - 1:
                continue
            number = int(key)
        else:
            if not (isinstance(key, str) and key.startswith(start)):
                continue
            digits = key[len(start) :]
            if len(digits) != DIGITS or not digits.isdecimal():
                continue
            number = int(digits)
        if 0 < number < END - 1:
            low, high = min(low, number), max(high, number)
    return (low, high) if low <= high else (FIRST, FIRST - 1)
