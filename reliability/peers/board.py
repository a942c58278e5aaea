"""The board: what every key may hold, in memory that a supervisor shares with its worker processes.

Owns the expected state and the counts of what was found. Knows no cache. Each key has one writer,
which numbers its changes. Key and number decide whether a change is a removal, so a key needs only
two words: the last change that began, and the last that was done. A *player* is the number of a
worker, which a replacement keeps.
"""

from __future__ import annotations

import mmap
import time
import zlib
from enum import IntEnum

PLAYERS = 4
KEYS_EACH = 48
CANARIES = 400

_REMOVED_ONE_IN = 8


class Count(IntEnum):
    """The counts of a player, and the time when its operation began."""

    OPERATIONS = 0
    HITS = 1
    WRONG = 2
    LOST = 3
    ERRORS = 4
    ERRORS_IN_A_ROW = 5
    STARTED_US = 6
    STALE = 7


def key_of(player: int, index: int) -> str:
    """Return a key that only this player changes."""
    return f"own:{player}:{index}"


def canary_of(index: int) -> str:
    """Return a key that is stored first and never changed."""
    return f"canary:{index}"


def removes(key: str, sequence: int) -> bool:
    """Whether this change of the key removes it. Before the first change, the key is removed."""
    return sequence == 0 or zlib.crc32(f"{key}/{sequence}".encode()) % _REMOVED_ONE_IN == 0


class Board:
    """The shared memory. Create it before forking the workers, which inherit it."""

    def __init__(self) -> None:
        keys = PLAYERS * KEYS_EACH
        self._words = memoryview(mmap.mmap(-1, 8 * (1 + 2 * keys + PLAYERS * len(Count)))).cast("Q")
        self._done = 1 + keys
        self._counts = 1 + 2 * keys

    @property
    def stopped(self) -> bool:
        """Whether the workers should end."""
        return bool(self._words[0])

    @stopped.setter
    def stopped(self, value: bool) -> None:
        self._words[0] = value

    def begin(self, player: int, index: int) -> int:
        """Note that the next change of a key begins, and return its number."""
        place = 1 + player * KEYS_EACH + index
        self._words[place] += 1
        return self._words[place]

    def done(self, player: int, index: int, sequence: int) -> None:
        """Note that a change is done."""
        self._words[self._done + player * KEYS_EACH + index] = sequence

    def known(self, player: int, index: int) -> tuple[int, int]:
        """Return the last change of a key that was done, and the last that began."""
        place = player * KEYS_EACH + index
        return self._words[self._done + place], self._words[1 + place]

    def add(self, player: int, count: Count, amount: int = 1) -> None:
        """Add to a count."""
        self._words[self._counts + player * len(Count) + count] += amount

    def put(self, player: int, count: Count, value: int) -> None:
        """Set a count."""
        self._words[self._counts + player * len(Count) + count] = value

    def at(self, player: int, count: Count) -> int:
        """Return a count of a player."""
        return self._words[self._counts + player * len(Count) + count]

    def sum(self, count: Count) -> int:
        """Return the sum of a count over all players."""
        return sum(self.at(player, count) for player in range(PLAYERS))

    def overdue(self, seconds: float) -> list[int]:
        """Return the players whose operation has taken longer than this."""
        now = now_us()
        started = [(player, self.at(player, Count.STARTED_US)) for player in range(PLAYERS)]
        return [player for player, began in started if began and now - began > seconds * 1e6]


def now_us() -> int:
    """Return the microseconds of a clock that all processes share."""
    return time.monotonic_ns() // 1000


def verdict(key: str, done_before: int, begun_after: int, found: int | None) -> str | None:
    """Return what is wrong with the answer of a read, None if the key may have held it.

    `done_before` is the last change done before the read, `begun_after` the last that had begun
    after it, `found` the sequence number of the value, None for a miss. A dead process may have
    lost the entry it was writing, so a miss is allowed after a change that began and was not done.
    """
    if found is None:
        is_settled = begun_after == done_before
        return "lost" if is_settled and not removes(key, done_before) else None
    if found < done_before:
        return "stale"
    if found > begun_after or removes(key, found):
        return "never stored"
    return None
