"""S7: values of 2.12 MiB, compared with plain copies.

A get is compared with `bytes(memoryview(value))`, which makes a new bytes object as a get does. A
set is compared with a copy into shared anonymous memory of the cache's size, each behind the last,
so that neither writes into the CPU cache. Both memories are written once before the clock starts.
The stripped program makes such a copy and computes a checksum over it. See `benches/limits`.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from itertools import count, cycle

from tuckbox import Cache

from benches import limits
from benches.data import get_all, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns

VALUE_BYTES = 2_222_981
_ENTRIES = 40
_SIZE = 192 << 20


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets and sets."""
    names, stored = keys(_ENTRIES), values(_ENTRIES, VALUE_BYTES)
    table = dict(zip(names, stored, strict=True))
    reader, writer = limits.reader(table), limits.writer(table)
    seeds = count(1)

    def new() -> list[bytes]:
        # One value is random and the others are rotations of it: to draw all would take too long.
        (value,) = values(1, VALUE_BYTES, next(seeds))
        return [value[turn:] + value[:turn] for turn in range(_ENTRIES)]

    with (
        Cache(conditions.tmpfs / "cache.tuck", size=_SIZE) as cache,
        mmap.mmap(-1, _SIZE) as memory,
    ):
        copies = _Copies(memory)

        def get_turn(who: str, get: Callable[[str], object]) -> Turn:
            def check(asked: Sequence[str]) -> None:
                require(who, map(get, asked), stored)

            return Turn(_ENTRIES, get_all(get), lambda: names, check)

        def set_turn(
            who: str, store: Callable[[str, bytes], object], get: Callable[[str], object]
        ) -> Turn:
            def work(given: list[bytes]) -> None:
                for name, value in zip(names, given, strict=True):
                    store(name, value)

            def check(given: list[bytes]) -> None:
                require(who, map(get, names), given)

            return Turn(_ENTRIES, work, new, check)

        for _ in range(2 * _SIZE // (_ENTRIES * VALUE_BYTES) + 1):
            copies.make(stored)
            for name, value in table.items():
                cache.set(name, value)
        conditions.progress("get")
        theirs, ours, stripped = take_turns(
            conditions,
            [
                Turn(_ENTRIES, _copy_out, lambda: stored),
                get_turn("Tuckbox", cache.get),
                get_turn("the stripped program", reader.get_verified),
            ],
        )
        conditions.progress("set")
        set_theirs, set_ours, set_stripped = take_turns(
            conditions,
            [
                Turn(_ENTRIES, copies.make, new, copies.check),
                set_turn("Tuckbox", cache.set, cache.get),
                set_turn("the stripped program", writer.set_verified, writer.get),
            ],
        )
    return [
        _figure("get", ours, "bytes(memoryview(value))", theirs, 0.45, stripped),
        _figure("set", set_ours, "copy into memory", set_theirs, 0.7, set_stripped),
    ]


def _copy_out(given: list[bytes]) -> None:
    for value in given:
        bytes(memoryview(value))


class _Copies:
    """Copies into a piece of memory, each behind the last, over and over."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._places = cycle(range(0, len(memory) - VALUE_BYTES, VALUE_BYTES))
        self._last = 0

    def make(self, given: list[bytes]) -> None:
        """Copy each value."""
        memory, place = self._memory, 0
        for value, place in zip(given, self._places, strict=False):
            memory[place : place + VALUE_BYTES] = value
        self._last = place

    def check(self, given: list[bytes]) -> None:
        """Raise WrongAnswerError unless the last copy is in its place."""
        there = self._memory[self._last : self._last + VALUE_BYTES]
        require("a copy into memory", [there], given[-1:])


def _figure(
    what: str,
    ours: tuple[float, ...],
    peer: str,
    theirs: tuple[float, ...],
    at_least: float,
    stripped: tuple[float, ...],
) -> Figure:
    return Figure(
        what,
        "us",
        _in_us(ours),
        peer,
        _in_us(theirs),
        "theirs / ours",
        Goal("at least", at_least),
        limit=_in_us(stripped),
        limited_by="make the same copy, and a checksum over it",
    )


def _in_us(samples_ns: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(nanoseconds / 1e3 for nanoseconds in samples_ns)


ROW = Row(
    id="S7",
    title="Values of 2.12 MiB",
    text="the copy into memory rotates through memory of the cache's size",
    measure=measure,
)
