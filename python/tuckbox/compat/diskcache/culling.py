"""`Culling`: which entries a cache removes because they have expired or there are too many.

Must not know how values become bytes.
"""

from __future__ import annotations

import time
from typing import Any, Final, Optional

from tuckbox.compat.diskcache.candidates import Candidates
from tuckbox.compat.diskcache.entries import (
    ACCESSED,
    COUNT,
    EXPIRE,
    NUMBER,
    STORED,
    Entries,
    Entry,
    field_of,
)

__all__ = ["Culling"]

_FIELDS: Final = {"store_time": STORED, "access_time": ACCESSED, "access_count": COUNT}
_REST: Final = 20
"""After a scan for expired entries, none follows for this many times its duration."""


class Culling:
    """Removes entries of one handle. The caller holds the lock."""

    def __init__(self, entries: Entries) -> None:
        """Remember nothing yet."""
        self._entries = entries
        self._orders = {field: Candidates(entries, field) for field in _FIELDS.values()}
        self._soonest = Candidates(entries, EXPIRE)
        self.oldest = Candidates(entries, NUMBER)
        self.newest = Candidates(entries, NUMBER, descending=True)
        self._all = (*self._orders.values(), self._soonest, self.oldest, self.newest)
        self._rest_until_s = 0.0
        entries.notice = self.notice

    def notice(self, key: Any, entry: Entry) -> None:
        """Remember an entry that was stored."""
        for candidates in self._all:
            if candidates.known:
                candidates.notice(key, entry)

    def expire(self, now: float, limit: int) -> int:
        """Remove up to ``limit`` expired entries, the soonest first, and return how many."""
        entries = self._entries
        count = 0
        while entries.soonest is not None and entries.soonest < now and count < limit:
            start_s = time.monotonic()
            if not self._soonest.known and start_s < self._rest_until_s:
                break
            scans = not self._soonest.known
            first = self._soonest.first()
            if scans:
                end_s = time.monotonic()
                self._rest_until_s = end_s + _REST * (end_s - start_s)
            entries.expires_from(None if first is None else field_of(first[1], EXPIRE))
            if first is not None and field_of(first[1], EXPIRE) < now:
                entries.remove(*first)
                count += 1
        return count

    def evict(self, field: Optional[str], limit: int) -> int:
        """Remove up to ``limit`` entries, the lowest of the field first, and return how many."""
        if field is None:
            return 0
        candidates = self._orders[_FIELDS[field]]
        for count in range(limit):
            first = candidates.first()
            if first is None:
                return count
            self._entries.remove(*first)
        return limit
