"""`PassingItems`: changes of a queue that take no lock, because no other handle follows the queue.

The handle that has opened the gate knows the ends of a queue until another one takes the lock,
which closes the gate. So it adds and removes items as `Passing` changes entries. All else is left
to the caller, who takes the lock. Must not know how values become bytes.

A change takes the ends away while it uses them. So another thread, or a signal handler, finds none
and takes the lock, which closes the gate: then the change is refused, or it is complete already. It
puts the ends back only into the dict from which it has taken them. If the lock was taken since,
that one is not used any more.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final, Optional

from tuckbox.compat.diskcache.disk import MODE_RAW
from tuckbox.compat.diskcache.entries import (
    ENDS_MOST,
    EXPIRE,
    FILENAME,
    GATE_CLOSED,
    SHORT,
    SIZE,
    Entries,
    Entry,
    bytes_of,
)
from tuckbox.compat.diskcache.passing import REFUSALS
from tuckbox.compat.diskcache.queue_keys import FIRST, key_of_item, name_of_queue

__all__ = ["PassingItems"]

_ABSENT: Final = 0
"""In place of an entry's version: there is none."""


class PassingItems:
    """Changes the queues of one handle."""

    def __init__(self, entries: Entries) -> None:
        """Change nothing yet."""
        self._entries = entries

    def push(
        self,
        prefix: Optional[str],
        step: int,
        mode: int,
        value: Any,
        expire: Optional[float],
        tag: Any,
        size_limit: float,
    ) -> tuple[Any, bool]:
        """Add an item without a file.

        Args:
            prefix: As for `Cache.push`.
            step: 1 to add it at the back, -1 at the front.
            mode: What `Disk.store` returned,
            value: and the value.
            expire: As for `Cache.push`.
            tag: As for `Cache.push`.
            size_limit: The setting.

        Returns:
            The item's key, None if nothing was changed; and whether there is too much now.
        """
        entries = self._entries
        gate, soonest, file_bytes, _, most = entries.known
        name = name_of_queue(prefix)
        now = time.time()
        known_ends = entries.known_ends
        # Last: only then the dict is that of the time when this handle opened the gate.
        if entries.gate != gate | GATE_CLOSED or entries.process != os.getpid():
            return None, False
        if soonest is not None and soonest < now:
            return None, False
        ends = after = known_ends.pop(name, None)
        if ends is None:
            return None, False
        try:
            (low, high), stored = ends
            if low > high:
                low = high = number = FIRST
            else:
                last = high if step > 0 else low
                if _place(entries, prefix, last)[1] not in entries.file:
                    # It was deleted by its key: another one is the last.
                    return None, False
                number = last + step
                low, high = (low, number) if step > 0 else (number, high)
            if not stored[0] <= low <= high <= stored[1]:
                # Others would not look there.
                return None, False
            key, place, long_key = _place(entries, prefix, number)
            change = entries.file._next_number()
            if expire is None and mode == MODE_RAW and tag is None and long_key is None:
                entry: Entry = (value, change, now)
            else:
                until = None if expire is None else now + expire
                if until is not None and (soonest is None or until < soonest):
                    return None, False
                entry = (value, change, now, until, tag, mode, None, 0, now, 0, long_key)
            added = bytes_of(place, entry)
            after = None
            weight = entries.file._store_passing(place, entry, gate, _ABSENT, added)
            if weight is None:
                return None, False
            after = ((low, high), stored)
        except REFUSALS:
            return None, False
        finally:
            if after is not None:
                known_ends.setdefault(name, after)
        if entries.watched:
            entries.remember(change, place, entry)
        return key, weight >= most or weight + file_bytes >= size_limit

    def take(
        self, prefix: Optional[str], step: int, *, keep: bool
    ) -> Optional[tuple[Any, Optional[Entry]]]:
        """Return the first item, and remove it.

        Args:
            prefix: As for `Cache.pull`.
            step: 1 for the front, -1 for the back.
            keep: Whether not to remove it.

        Returns:
            None if nothing was found out or changed. Otherwise the key and the entry of the item;
            None for both if the queue is empty.
        """
        entries = self._entries
        gate = entries.known[0]
        name = name_of_queue(prefix)
        known_ends = entries.known_ends
        if entries.gate != gate | GATE_CLOSED or entries.process != os.getpid():
            return None
        ends = after = known_ends.pop(name, None)
        if ends is None:
            return None
        try:
            (low, high), stored = ends
            if low > high:
                return (None, None) if entries.file._gate == gate else None
            number, left = (low, (low + 1, high)) if step > 0 else (high, (low, high - 1))
            if not keep and (left[0] - ENDS_MOST > stored[0] or stored[1] > left[1] + ENDS_MOST):
                # Others would look at too many numbers.
                return None
            key, place, _ = _place(entries, prefix, number)
            seen = entries.file._look(place, gate)
            if seen is None:
                return None
            change, version, entry = seen
            if entry is None or not _is_plain(entry):
                return None
            if keep:
                return key, entry
            freed = -bytes_of(place, entry)
            after = None
            if entries.file._delete_passing(place, gate, version, freed) is None:
                return None
            after = (left, stored)
        except REFUSALS:
            return None
        finally:
            if after is not None:
                known_ends.setdefault(name, after)
        if entries.watched:
            entries.remember(change, place, None)
        return key, entry


def _place(entries: Entries, prefix: Optional[str], number: int) -> tuple[Any, Any, Any]:
    """Return the key of an item, and what `Entries.place` returns for it."""
    if prefix is None:
        return number, number, None
    key = key_of_item(prefix, number)
    return (key, *entries.place(key, True))


def _is_plain(entry: Entry) -> bool:
    """Return whether an entry has no file and has not expired."""
    if len(entry) == SHORT:
        return True
    until = entry[EXPIRE]
    return entry[FILENAME] is None and not entry[SIZE] and (until is None or until >= time.time())
