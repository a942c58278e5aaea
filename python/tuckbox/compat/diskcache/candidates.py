"""`Candidates`: which entries come first in some order, without a scan for each.

A scan of the whole file is remembered for many calls. Must not know why the first entries are
wanted, nor how the file is locked.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from typing import Any, Final, Optional

from tuckbox.compat.diskcache.entries import (
    COUNT,
    EXPIRE,
    NUMBER,
    Entries,
    Entry,
    Row,
    field_of,
)

__all__ = ["Candidates"]

_FEWEST: Final = 512
_PART: Final = 16
"""A scan remembers this part of the entries, so each of them pays for this many visits."""


class Candidates:
    """The first entries in the order of a field. Entries with None in the field do not count.

    What it remembers is checked when it is used. An entry that comes into the order later must be
    told to `notice`, unless it comes after all that were there at the scan.
    """

    def __init__(self, entries: Entries, field: int, *, descending: bool = False) -> None:
        """Remember nothing yet."""
        self._entries = entries
        self._field = field
        self._sign = -1 if descending else 1
        # Whether later entries may come before those that are remembered.
        self._open = descending or field in {EXPIRE, COUNT}
        self._foreign = -1
        self._serial = 0
        self.forget()

    def forget(self) -> None:
        """Scan at the next call."""
        self._items: list[tuple[Any, ...]] = []
        self._next = 0
        self._horizon = -math.inf
        self.known = False

    def first(self) -> Optional[Row]:
        """Return the first entry, or None. The caller holds the lock."""
        if self._open and self._foreign != self._entries.foreign:
            self.forget()
        found = self._remembered()
        if found is None and not (self.known and self._horizon == math.inf):
            self._scan()
            found = self._remembered()
        return found

    def _remembered(self) -> Optional[Row]:
        while self._next < len(self._items):
            measure, number, _, key = self._items[self._next]
            entry = self._entries.peek(key)
            if entry is not None:
                if (measure, number) == (self._measure(entry), entry[NUMBER]):
                    return key, entry
                self._next += 1
                self.notice(key, entry)
            else:
                self._next += 1
        return None

    def _measure(self, entry: Entry) -> Any:
        measure = field_of(entry, self._field)
        return None if measure is None else self._sign * measure

    def notice(self, key: Any, entry: Entry) -> None:
        """Remember an entry that was stored, if it comes before others that are remembered."""
        if not self.known:
            return
        measure = self._measure(entry)
        if measure is not None and measure <= self._horizon:
            self._serial += 1
            insort(self._items, (measure, entry[NUMBER], self._serial, key), lo=self._next)

    def _scan(self) -> None:
        self.forget()
        total = len(self._entries)
        limit = max(_FEWEST, total // _PART)
        measured = (
            (self._measure(entry), entry[NUMBER], serial, key)
            for serial, (key, entry) in enumerate(self._entries.rows())
        )
        self._serial = total + limit
        self._items = heapq.nsmallest(limit, (item for item in measured if item[0] is not None))
        self._foreign = self._entries.foreign
        self.known = True
        if self._open:
            self._entries.watched = True
        if self._open and len(self._items) < limit:
            self._horizon = math.inf
        elif self._items:
            self._horizon = self._items[-1][0]
