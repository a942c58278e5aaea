"""The board: what every key may hold, in memory that a supervisor shares with its workers.

Owns the expected state and the counts of what was found. Knows no cache. Each key is changed by one
seat alone, which numbers its changes; which of them are removals follows from key and number, so
that two words for a key are enough: the last change that began, and the last that was done.
"""

from __future__ import annotations

import mmap
import time
import zlib
from enum import IntEnum

SEATS = 4
KEYS_EACH = 48
CANARIES = 400

_REMOVED_ONE_IN = 8


class Count(IntEnum):
    """What a seat counts, over all processes that had it; and when its operation began, in us."""

    OPERATIONS = 0
    HITS = 1
    WRONG = 2
    LOST = 3
    ERRORS = 4
    ERRORS_IN_A_ROW = 5
    STARTED_US = 6
    STALE = 7


def key_of(seat: int, index: int) -> str:
    """Return the key that a seat alone changes."""
    return f"own:{seat}:{index}"


def canary_of(index: int) -> str:
    """Return the key that is stored first and never touched."""
    return f"canary:{index}"


def removes(key: str, sequence: int) -> bool:
    """Whether that change of the key removes it. The state before the first change is a removal."""
    return sequence == 0 or zlib.crc32(f"{key}/{sequence}".encode()) % _REMOVED_ONE_IN == 0


class Board:
    """Made before the workers fork, which inherit it."""

    def __init__(self) -> None:
        keys = SEATS * KEYS_EACH
        self._words = memoryview(mmap.mmap(-1, 8 * (1 + 2 * keys + SEATS * len(Count)))).cast("Q")
        self._done = 1 + keys
        self._counts = 1 + 2 * keys

    @property
    def stopped(self) -> bool:
        """Whether the workers shall end."""
        return bool(self._words[0])

    @stopped.setter
    def stopped(self, value: bool) -> None:
        self._words[0] = value

    def begin(self, seat: int, index: int) -> int:
        """Begin the next change of a key, and return its number."""
        place = 1 + seat * KEYS_EACH + index
        self._words[place] += 1
        return self._words[place]

    def done(self, seat: int, index: int, sequence: int) -> None:
        """The change was made."""
        self._words[self._done + seat * KEYS_EACH + index] = sequence

    def known(self, seat: int, index: int) -> tuple[int, int]:
        """Return the last change of a key that was done, and the last that began."""
        place = seat * KEYS_EACH + index
        return self._words[self._done + place], self._words[1 + place]

    def add(self, seat: int, count: Count, amount: int = 1) -> None:
        """Add to a count."""
        self._words[self._counts + seat * len(Count) + count] += amount

    def put(self, seat: int, count: Count, value: int) -> None:
        """Set a count."""
        self._words[self._counts + seat * len(Count) + count] = value

    def at(self, seat: int, count: Count) -> int:
        """Return a count of a seat."""
        return self._words[self._counts + seat * len(Count) + count]

    def sum(self, count: Count) -> int:
        """Return a count of all seats together."""
        return sum(self.at(seat, count) for seat in range(SEATS))

    def overdue(self, seconds: float) -> list[int]:
        """Return the seats whose operation has taken longer than that."""
        now = now_us()
        started = [(seat, self.at(seat, Count.STARTED_US)) for seat in range(SEATS)]
        return [seat for seat, began in started if began and now - began > seconds * 1e6]


def now_us() -> int:
    """Return microseconds of a clock that all processes share."""
    return time.monotonic_ns() // 1000


def verdict(key: str, done_before: int, begun_after: int, found: int | None) -> str | None:
    """Return why what a read found is not what the key may have held meanwhile; None if it is.

    `done_before` was the last change done before the read, `begun_after` the last that had begun
    after it, `found` the sequence of the value, None for a miss.
    """
    if found is None:
        changes = range(done_before, begun_after + 1)
        return None if any(removes(key, one) for one in changes) else "lost"
    if found < done_before:
        return "stale"
    if found > begun_after or removes(key, found):
        return "never stored"
    return None
