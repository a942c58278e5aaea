"""Players that store, read, evict tags and clear namespaces at random, and what each may find.

The oracle is a board in shared memory. Each player numbers what it stores, and notes the number
once the store has returned; for a value that is made, once the making has begun. To evict, a player
reads these numbers of all affected keys before, and makes them *floors* after. No later read may
find a value up to the floor. Each word of the board has one writer. A player that was killed has
noted less, which forbids less.

A replacement of a killed player has its number, and continues its numbering.
"""

from __future__ import annotations

import mmap
import os
import random
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from tuckbox.errors import CacheFull

if TYPE_CHECKING:
    from reliability.crowds import Journal

PLAYERS = 4
KEYS = 48
CANARIES = 120


class Count(IntEnum):
    """What the board counts of each player."""

    OPERATIONS = 0
    READS = 1
    HITS = 2
    STALE_HITS = 3
    INVALIDATIONS = 4
    MADE = 5
    WRONG = 6
    LOST = 7


class Names(NamedTuple):
    """How many names there are. A window of rows holds 16, so no more than 15 need to share one."""

    tags: int
    namespaces: int

    def tags_of(self, key: int) -> tuple[str, ...]:
        return f"tag {key % self.tags}", f"tag {key * 7 % self.tags}"

    def space_of(self, key: int) -> str | None:
        """The namespace of a key; half of the keys are in none."""
        return f"space {key // 2 % self.namespaces}" if key % 2 else None


FEW = Names(tags=10, namespaces=6)
MANY = Names(tags=37, namespaces=23)


class Board:
    """The shared memory. Create it before the players."""

    def __init__(self) -> None:
        self._floors = PLAYERS * (1 + KEYS)
        self._counts = self._floors + 2 * PLAYERS * PLAYERS * KEYS
        words = self._counts + PLAYERS * len(Count) + 1
        self._words = memoryview(mmap.mmap(-1, 8 * words)).cast("Q")
        self._stop = words - 1

    def next(self, player: int) -> int:
        """A number that this player has not used."""
        self._words[player] += 1
        return self._words[player]

    def note(self, player: int, key: int, number: int) -> None:
        """The store of a number has returned, or its making has begun."""
        self._words[PLAYERS + player * KEYS + key] = number

    def noted(self, player: int, key: int) -> int:
        return self._words[PLAYERS + player * KEYS + key]

    def _floor_at(self, by: int, key: int, soft: bool) -> int:
        return self._floors + (2 * (by * KEYS + key) + soft) * PLAYERS

    def forbid(self, by: int, keys: list[int], noted: list[list[int]], *, soft: bool) -> None:
        """What was noted of these keys, by player, must not be served."""
        for key, numbers in zip(keys, noted):
            at = self._floor_at(by, key, soft)
            for player, number in enumerate(numbers, at):
                self._words[player] = max(number, self._words[player])

    def floors(self, key: int, *, soft: bool) -> list[int]:
        """For each player, the highest number that must not be served."""
        starts = [self._floor_at(by, key, kind) for by in range(PLAYERS) for kind in {False, soft}]
        return [max(self._words[at + player] for at in starts) for player in range(PLAYERS)]

    def count(self, player: int, what: Count, by: int = 1) -> None:
        self._words[self._counts + player * len(Count) + what] += by

    def total(self, what: Count) -> int:
        return sum(self._words[self._counts + p * len(Count) + what] for p in range(PLAYERS))

    def stop(self) -> None:
        self._words[self._stop] = 1

    @property
    def is_stopped(self) -> bool:
        return bool(self._words[self._stop])


def plant_canaries(cache: Any) -> None:
    """Entries that nobody evicts: with tags of their own, in a namespace, and with neither."""
    for number in range(CANARIES):
        place, tags = _canary(cache, number)
        place.set(("canary", number), number, tags=tags)


def _canary(cache: Any, number: int) -> tuple[Any, tuple[str, ...]]:
    place = cache.namespace("canaries") if number % 3 == 2 and _has_spaces(cache) else cache
    return place, ("canary",) if number % 3 else ()


def _has_spaces(cache: Any) -> bool:
    return hasattr(cache, "namespace")


class Player:
    """One of those that use the cache."""

    def __init__(  # noqa: PLR0917 - The parts of one game.
        self, cache: Any, board: Board, journal: Journal, player: int, seed: float, names: Names
    ) -> None:
        self._cache = cache
        self._board = board
        self._journal = journal
        self._player = player
        self._dice = random.Random(seed)
        self._names = names
        self._has_canaries = names is FEW
        spaces = {names.space_of(key) for key in range(KEYS)} if _has_spaces(cache) else set()
        self._places = {name: cache.namespace(name) for name in spaces if name}

    def play(self, operations: int | None = None) -> None:
        """Do so many operations, or play until the game is stopped."""
        while not self._board.is_stopped and operations != 0:
            operations = None if operations is None else operations - 1
            key = self._dice.randrange(KEYS)
            choice = self._dice.random()
            if choice < 0.45:
                self._read(key)
            elif choice < 0.75:
                self._store(key)
            elif choice < 0.90:
                self._load(key)
            elif choice < 0.92:
                self._place(key).touch(key, 1000)
            else:
                self._invalidate(key)
            if self._has_canaries:
                self._look_for_a_canary()
            self._board.count(self._player, Count.OPERATIONS)

    def _place(self, key: int) -> Any:
        return self._places.get(self._names.space_of(key), self._cache)

    def _value(self, key: int, number: int) -> list[Any]:
        return [key, self._player, number, "x" * self._dice.choice((0, 50, 3000))]

    def _store(self, key: int) -> None:
        number = self._board.next(self._player)
        terms: dict[str, Any] = {"tags": self._names.tags_of(key), "stale": 1000}
        operation = self._dice.choice(("set", "set", "add", "replace", "set_many"))
        place, value = self._place(key), self._value(key, number)
        try:
            if operation == "set_many":
                place.set_many({key: value}, 1000, **terms)
                is_stored = True
            else:
                is_stored = getattr(place, operation)(key, value, 1000, **terms) is not False
        except CacheFull:
            return
        if is_stored:
            self._board.note(self._player, key, number)

    def _read(self, key: int) -> None:
        operation = self._dice.choice(("get", "get", "get_many", "get_entry", "stale"))
        floors = self._board.floors(key, soft=operation != "stale")
        place = self._place(key)
        if operation == "get":
            found = place.get(key)
        elif operation == "get_many":
            found = place.get_many([key]).get(key)
        else:
            entry = place.get_entry(key, stale=operation == "stale")
            found = None if entry is None else entry.value
            self._board.count(self._player, Count.STALE_HITS, entry is not None and entry.stale)
        self._check(operation, key, found, floors)

    def _load(self, key: int) -> None:
        """What comes may be stale: another player makes a new value."""
        floors = self._board.floors(key, soft=False)

        def make() -> list[Any]:
            number = self._board.next(self._player)
            self._board.note(self._player, key, number)
            self._board.count(self._player, Count.MADE)
            if self._dice.random() < 0.5:
                os.sched_yield()
            return self._value(key, number)

        terms: dict[str, Any] = {"tags": self._names.tags_of(key), "stale": 1000}
        found = self._place(key).get_or_set(key, make, 1000, **terms)
        if found[1] != self._player:  # What it made itself, it gets in any case.
            self._check("get_or_set", key, found, floors)

    def _check(self, operation: str, key: int, found: Any, floors: list[int]) -> None:
        self._board.count(self._player, Count.READS)
        if found is None:
            return
        self._board.count(self._player, Count.HITS)
        of, player, number, _ = found
        if of != key or number <= floors[player]:
            self._board.count(self._player, Count.WRONG)
            self._journal.note(
                f"{operation}:{key}:{of}:{player}:{number}:{floors}".replace(" ", "")
            )

    def _invalidate(self, key: int) -> None:
        operation = self._dice.choice(("evict", "evict", "soft", "delete", "clear"))
        keys = [key]
        tag, space = self._dice.choice(self._names.tags_of(key)), self._names.space_of(key)
        if operation in {"evict", "soft"}:
            keys = [one for one in range(KEYS) if tag in self._names.tags_of(one)]
        elif operation == "clear" and space and self._places:
            keys = [one for one in range(KEYS) if self._names.space_of(one) == space]
        noted = [[self._board.noted(player, one) for player in range(PLAYERS)] for one in keys]
        if operation in {"evict", "soft"}:
            self._cache.evict(tag=tag, soft=operation == "soft")
        elif len(keys) > 1:
            self._places[space].clear()
        else:
            self._place(key).delete(key)
        self._board.forbid(self._player, keys, noted, soft=operation == "soft")
        self._board.count(self._player, Count.INVALIDATIONS)

    def _look_for_a_canary(self) -> None:
        number = self._dice.randrange(CANARIES)
        place, _ = _canary(self._cache, number)
        if place.get(("canary", number)) != number:
            self._board.count(self._player, Count.LOST)
            self._journal.note(f"lost:{number}")
