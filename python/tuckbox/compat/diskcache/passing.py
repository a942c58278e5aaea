"""`Passing`: changes of one entry that take no lock, because nobody holds it.

The file has a *gate*, which is closed while a handle holds the lock. A change looks at the gate and
at its entry, and is made only if both are the same still. It is refused otherwise, and also if it
concerns more than one entry: then the caller takes the lock. Must not know how values become bytes.
"""

from __future__ import annotations

import time
from typing import Any, Final, Optional

from tuckbox.compat.diskcache.disk import MODE_RAW
from tuckbox.compat.diskcache.entries import (
    EXPIRE,
    FILENAME,
    KEY,
    NUMBER,
    SHORT,
    VALUE,
    Entries,
    Entry,
    Known,
    bytes_of,
)
from tuckbox.compat.diskcache.queue_keys import may_be_item
from tuckbox.errors import CacheClosed, CacheFull, LockTimeout, ValueTooLarge

__all__ = ["OVER", "PASSED", "PRESENT", "REFUSALS", "REFUSED", "Passing"]

REFUSED: Final = 0
"""Nothing was changed: take the lock."""
PASSED: Final = 1
"""The change was made."""
PRESENT: Final = 2
"""There is a value already."""
OVER: Final = 3
"""The change was made, and there is too much now."""

_Seen = tuple[int, int, Optional[Entry]]
"""A number, the version of an entry, and the entry, if any."""
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1
REFUSALS: Final = (CacheClosed, CacheFull, LockTimeout, ValueTooLarge)
"""What the file may raise. The way with the lock finds out why, and raises what there is to."""


class Passing:
    """Changes the entries of one handle."""

    def __init__(self, entries: Entries) -> None:
        """Change nothing yet."""
        self._entries = entries

    def put(
        self,
        place: Any,
        long_key: Any,
        mode: int,
        value: Any,
        expire: Optional[float],
        tag: Any,
        size_limit: float,
        only_new: bool,
    ) -> int:
        """Store an entry without a file.

        Args:
            place, long_key: What `Entries.place` returned.
            mode, value: What `Disk.store` returned.
            expire, tag: As for `Cache.set`.
            size_limit: The setting.
            only_new: Whether a value that is there is kept.

        Returns:
            ``REFUSED``, ``PASSED``, ``PRESENT`` or ``OVER``.
        """
        entries = self._entries
        known = entries.known
        try:
            seen = entries.file._look(place, known[0])
            if seen is None:
                found = self._look_again(place)
                if found is None:
                    return REFUSED
                known, seen = found
            number, version, old = seen
            gate, soonest, file_bytes, queues, most = known
            now = time.time()
            if soonest is not None and soonest < now:
                return REFUSED
            own = number
            if old is None:
                if queues and may_be_item(long_key[0] if long_key else place):
                    return REFUSED
            else:
                if only_new and _is_fresh(old, now):
                    return PRESENT
                own = old[NUMBER]
                if len(old) > SHORT:
                    if old[FILENAME] is not None:
                        return REFUSED
                    # As the first one that was stored: 1 for 1.0.
                    long_key = old[KEY]
                else:
                    long_key = None
            if expire is None and mode == MODE_RAW and tag is None and long_key is None:
                entry: Entry = (value, own, now)
            else:
                until = None if expire is None else now + expire
                if until is not None and (soonest is None or until < soonest):
                    return REFUSED
                entry = (value, own, now, until, tag, mode, None, 0, now, 0, long_key)
            delta = bytes_of(place, entry)
            if old is not None:
                delta -= bytes_of(place, old)
            weight = entries.file._store_passing(place, entry, gate, version, delta)
        except REFUSALS:
            return REFUSED
        if weight is None:
            return REFUSED
        if entries.watched:
            entries.remember(number, place, entry)
        return OVER if weight >= most or weight + file_bytes >= size_limit else PASSED

    def add_to(
        self, place: Any, long_key: Any, delta: Any, default: Any, size_limit: float
    ) -> tuple[int, Any]:
        """Add to a number that has neither an expiry nor a tag, or store a new one.

        Args:
            place, long_key: What `Entries.place` returned.
            delta, default: As for `Cache.incr`.
            size_limit: The setting.

        Returns:
            As `put`; and the sum.
        """
        entries = self._entries
        gate, soonest, file_bytes, queues, most = entries.known
        try:
            seen = entries.file._look(place, gate)
            if seen is None:
                found = self._look_again(place)
                if found is None:
                    return REFUSED, None
                (gate, soonest, file_bytes, queues, most), seen = found
            number, version, old = seen
            now = time.time()
            if soonest is not None and soonest < now:
                return REFUSED, None
            if old is None:
                if default is None or long_key is not None or (queues and may_be_item(place)):
                    return REFUSED, None
                total, own = default + delta, number
            elif len(old) == SHORT:
                total, own = old[VALUE] + delta, old[NUMBER]
            else:
                return REFUSED, None
            kind = type(total)
            if kind is not float and not (kind is int and _INT_MIN <= total <= _INT_MAX):
                return REFUSED, None
            entry = (total, own, now)
            added = bytes_of(place, entry) if old is None else 0
            weight = entries.file._store_passing(place, entry, gate, version, added)
        except REFUSALS:
            return REFUSED, None
        if weight is None:
            return REFUSED, None
        if entries.watched:
            entries.remember(number, place, entry)
        return OVER if weight >= most or weight + file_bytes >= size_limit else PASSED, total

    def take(self, place: Any) -> tuple[int, Optional[Entry]]:
        """Remove an entry without a file.

        Args:
            place: The key of the file.

        Returns:
            ``REFUSED`` or ``PASSED``; and the entry, None if there was none that is fresh.
        """
        entries = self._entries
        known = entries.known
        try:
            seen = entries.file._look(place, known[0])
            if seen is None:
                found = self._look_again(place)
                if found is None:
                    return REFUSED, None
                known, seen = found
            number, version, old = seen
            if old is None:
                return PASSED, None
            if len(old) > SHORT:
                if old[FILENAME] is not None:
                    return REFUSED, None
                if not _is_fresh(old, time.time()):
                    return PASSED, None
            delta = -bytes_of(place, old)
            weight = entries.file._delete_passing(place, known[0], version, delta)
        except REFUSALS:
            return REFUSED, None
        if weight is None:
            return REFUSED, None
        if entries.watched:
            entries.remember(number, place, None)
        return PASSED, old

    def _look_again(self, place: Any) -> Optional[tuple[Known, _Seen]]:
        """Look after another handle has held the lock."""
        known = self._entries.learn()
        seen = None if known is None else self._entries.file._look(place, known[0])
        return None if known is None or seen is None else (known, seen)


def _is_fresh(entry: Entry, now: float) -> bool:
    return len(entry) == SHORT or entry[EXPIRE] is None or bool(entry[EXPIRE] > now)
