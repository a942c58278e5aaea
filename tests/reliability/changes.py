"""Writers that change keys in every way, readers that keep objects, and what a read may find.

The state of a key after its step `n` follows from `n`: the value holds the number of a step, and
after the odd steps of a `Removal` the key is missing. A writer notes the number of a step on the
board before the step begins and after it has ended. A reader reads the second number before its
read and the first one after it: what it found must be the state between some two of these steps.

Each key has one writer. The replacement of a killed writer begins with the step after the last one
that was begun.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from tuckbox import Cache
from tuckbox.errors import CacheFull

if TYPE_CHECKING:
    from collections.abc import Sequence

TTL_S = 0.02
"""How long entries of the kind "expired" live. The writer waits for twice that."""
WRITERS = 2
READERS = 2
_GETS_MAX = 1_000
"""A reader notes their number each time it has done this many."""


class Kind(NamedTuple):
    """How a group of keys is changed, all in one step."""

    name: str
    keys: int = 1
    """Keys of a group."""
    file: int = 0
    """The cache of the group: 0 has room for all, 1 is cleared, 2 evicts."""
    spaced: bool = False
    """Whether the keys are in a namespace of the group."""
    removes: bool = False
    """Whether the odd steps remove the keys."""


KINDS = (
    Kind("rewritten"),
    Kind("of another length"),
    Kind("counted"),
    Kind("tuple"),
    Kind("container"),
    Kind("bytes beyond a segment"),
    Kind("deleted", removes=True),
    Kind("popped", removes=True),
    Kind("touched", removes=True),
    Kind("expired", removes=True),
    Kind("tagged", keys=3, removes=True),
    Kind("softly", keys=3, removes=True),
    Kind("cleared space", keys=3, removes=True, spaced=True),
    Kind("cleared", keys=6, removes=True, file=1),
    Kind("evicted", file=2),
)


class Group(NamedTuple):
    """Keys that are changed together."""

    number: int
    kind: Kind
    keys: range
    """The numbers of its keys on the board."""

    def names(self) -> list[Any]:
        """The keys in the cache: str, bytes and int."""
        made: tuple[Callable[[int], Any], ...] = (
            lambda key: f"key {key}",
            lambda key: f"key {key}".encode(),
            lambda key: key,
        )
        return [made[key % 3](key) for key in self.keys]

    def place(self, caches: Sequence[Cache]) -> Cache:
        """The cache or namespace of its keys."""
        cache = caches[self.kind.file]
        return cache.namespace(f"space {self.number}") if self.kind.spaced else cache


def groups(rounds: int = 8) -> list[Group]:
    """All groups. Only one is of a kind whose steps affect the whole cache."""
    found: list[Group] = []
    first = 0
    for turn in range(rounds):
        for kind in KINDS:
            if kind.name == "cleared" and turn:
                continue
            found.append(Group(len(found), kind, range(first, first + kind.keys)))
            first += kind.keys
    return found


class Board:
    """Words in shared memory: of each key two numbers of steps, of each process its counts."""

    COUNTS = 4
    GETS, KEPT, STALE, CHANGES = range(COUNTS)

    def __init__(self, keys: int, processes: int = WRITERS + READERS) -> None:
        self.keys = keys
        self.words = memoryview(
            mmap.mmap(-1, 8 * (2 * keys + self.COUNTS * processes + 1)),
        ).cast("Q")
        self.begun = self.words[:keys]
        self.done = self.words[keys : 2 * keys]
        self.counts = self.words[2 * keys : -1]

    def count(self, process: int, what: int, more: int) -> None:
        self.counts[self.COUNTS * process + what] += more

    def total(self, what: int) -> int:
        return sum(self.counts[what :: self.COUNTS])

    @property
    def is_over(self) -> bool:
        return bool(self.words[-1])

    def stop(self) -> None:
        self.words[-1] = 1


class Writer:
    """Changes the keys of every `WRITERS`-th group."""

    def __init__(self, caches: Sequence[Cache], board: Board, number: int, seed: float) -> None:
        self.board = board
        self.number = number
        self.dice = random.Random(seed)
        self.groups = [group for group in groups() if group.number % WRITERS == number]
        self.places = [group.place(caches) for group in self.groups]
        self.ends = [0.0] * len(self.groups)
        self.is_first = [True] * len(self.groups)

    def play(self) -> None:
        while not self.board.is_over:
            turn = self.dice.randrange(len(self.groups))
            self.step(turn)
            self.board.count(self.number, Board.CHANGES, 1)
            if not self.dice.randrange(50):
                # Readers get through, and find kept objects current.
                time.sleep(0.0005)

    def step(self, turn: int) -> None:
        group, place = self.groups[turn], self.places[turn]
        board = self.board
        kind = group.kind.name
        if self.ends[turn]:
            self._end(turn)
            return
        number = board.begun[group.keys[0]] + 1
        for key in group.keys:
            board.begun[key] = number
        if self.is_first[turn] and number % 2 and group.kind.removes:
            # The writer before may have been killed while it stored: not all need be there.
            for name in group.names():
                place.delete(name)
        self.is_first[turn], is_first = False, self.is_first[turn]
        if group.kind.removes and number % 2:
            self._remove(kind, group, place)
        else:
            for name in group.names():
                self._store(kind, group, place, name, number, is_first=is_first)
        expires = kind == "expired" and not number % 2
        for key in group.keys:
            if expires:
                # Its next step begins by itself, at any moment.
                board.begun[key] = number + 1
            board.done[key] = number
        if expires:
            self.ends[turn] = time.monotonic() + 2 * TTL_S

    def _end(self, turn: int) -> None:
        """Note that an entry has expired, if its time is over."""
        if time.monotonic() > self.ends[turn]:
            for key in self.groups[turn].keys:
                self.board.done[key] = self.board.begun[key]
            self.ends[turn] = 0.0

    def _store(
        self, kind: str, group: Group, place: Cache, name: Any, number: int, *, is_first: bool
    ) -> None:
        tag = f"tag {group.number}"
        if kind == "counted" and not is_first:
            place.incr(name)
            return
        if kind == "evicted":
            with contextlib.suppress(CacheFull):
                place.set(f"filler {self.dice.randrange(500)}", b"x" * self.dice.randrange(3000))
        terms: dict[str, Any] = {}
        if kind == "expired":
            terms["ttl"] = TTL_S
        elif kind == "touched":
            terms["ttl"] = 3600
        elif kind == "tagged":
            terms["tags"] = [tag, "all"]
        elif kind == "softly":
            terms |= {"tags": [tag], "ttl": 3600, "stale": 3600}
        place.set(name, value_of(kind, number), **terms)
        if kind == "touched":
            place.touch(name, self.dice.choice([1800, None]))

    def _remove(self, kind: str, group: Group, place: Cache) -> None:
        names = group.names()
        if kind == "deleted":
            place.delete(names[0])
        elif kind == "popped":
            place.pop(names[0], None)
        elif kind == "touched":
            place.touch(names[0], 0)
        elif kind in {"tagged", "softly"}:
            place.evict(tag=f"tag {group.number}", soft=kind == "softly")
        elif kind in {"cleared space", "cleared"}:
            place.clear()


def value_of(kind: str, number: int) -> Any:
    """The value of a key of a kind, after the step with this number."""
    if kind == "counted":
        return number
    if kind == "of another length":
        return f"{number:0{20 + number % 7 * 9}}"
    if kind == "tuple":
        return number, "text", (b"bytes", 1.5, None)
    if kind == "container":
        return {"number": number, "list": [number, [number], {"in": number}], "set": {number}}
    if kind == "bytes beyond a segment":
        return f"{number:020}".encode() * 5000
    return f"{number:020}"


def number_in(value: Any) -> int:
    """The number in a value, or -1 if its parts do not match. Changes it, if it can be changed."""
    if isinstance(value, str):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, bytes):
        return int(value[-20:])
    if isinstance(value, tuple):
        return int(value[0])
    number: int = value["number"]
    if value != value_of("container", number):
        return -1
    value["list"][1].append("changed")
    value["list"][2]["in"] = value["number"] = -1
    value["set"].clear()
    return number


class Reader:
    """Reads all keys at random, and judges what it finds."""

    def __init__(self, caches: Sequence[Cache], board: Board, number: int, seed: float) -> None:
        self.board = board
        self.number = WRITERS + number
        self.dice = random.Random(seed)
        self.keys: list[tuple[Any, Callable[[Any], Any], Kind]] = []
        for group in groups():
            place = group.place(caches)
            self.keys += [(name, place.get, group.kind) for name in group.names()]
        self.last: list[Any] = [None] * len(self.keys)
        self.examples: list[str] = []

    def play(self, until: Optional[int] = None) -> None:
        """Read until the end, or for so many gets."""
        gets = 0
        while not self.board.is_over and (until is None or gets < until):
            self.read_some()
            gets += _GETS_MAX

    def read_some(self) -> None:
        begun, done, keys, last = self.board.begun, self.board.done, self.keys, self.last
        kept = 0
        # Few keys at a time, each several times: what is read again soon is still kept.
        order = self.dice.choices(self.dice.sample(range(len(keys)), 10), k=_GETS_MAX)
        for key in order:
            name, get, kind = keys[key]
            least = done[key]
            value = get(name)
            most = begun[key]
            if value is None:
                is_right = (
                    kind.file == 2 or least == 0 or (kind.removes and (most > least or least % 2))
                )
            else:
                kept += value is last[key]
                last[key] = value
                number = number_in(value)
                is_right = least <= number <= most and not (kind.removes and number % 2)
            if not is_right:
                self.board.count(self.number, Board.STALE, 1)
                os.write(2, f"{kind.name}: {value!r:.80} of {least} to {most}\n".encode())
        self.board.count(self.number, Board.KEPT, kept)
        self.board.count(self.number, Board.GETS, len(order))


def create_all(folder: str) -> list[Cache]:
    """Create the caches: one that has room for all, one that is cleared, one that evicts."""
    sizes = enumerate(("24 MB", "1 MB", "300 kB"))
    return [Cache(_path(folder, number), size=size, lock_timeout=20) for number, size in sizes]


def open_all(kind: type[Cache], folder: str, **local: str) -> list[Cache]:
    """Open the caches that `create_all` has created."""
    return [kind(_path(folder, number), lock_timeout=20, **local) for number in range(3)]  # type: ignore[arg-type]


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number}.tuck"
