"""S7: values of 2.12 MiB, beside plain copies.

A get is compared with `bytes(memoryview(value))`, which makes a new bytes object as a get does. A
set is compared with a copy into shared anonymous memory of the cache's size, each to the place
after the one before, so that neither writes into what is still in the processor's cache. Both have
been written to before the clock starts.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from itertools import count, cycle

from tuckbox import Cache

from benches.data import keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns

_VALUE_BYTES = 2_222_981
_ENTRIES = 40
_SIZE = 192 << 20


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets and sets. Returns times of one, and the peer's time as a multiple."""
    names, stored = keys(_ENTRIES), values(_ENTRIES, _VALUE_BYTES)
    seeds = count(1)
    with (
        Cache(conditions.tmpfs / "cache.tuck", size=_SIZE) as cache,
        mmap.mmap(-1, _SIZE) as memory,
    ):
        places = _places(memory)

        def get_cache(names: list[str]) -> None:
            get = cache.get
            for name in names:
                get(name)

        def copy(given: list[bytes]) -> None:
            for value in given:
                bytes(memoryview(value))

        def set_cache(given: list[bytes]) -> None:
            store = cache.set
            for name, value in zip(names, given, strict=True):
                store(name, value)

        def copy_in(given: list[bytes]) -> None:
            for value, place in zip(given, places, strict=False):
                memory[place : place + _VALUE_BYTES] = value

        def new() -> list[bytes]:
            # Few are made, and turned: to draw them all anew would take much longer than to store.
            (value,) = values(1, _VALUE_BYTES, next(seeds))
            return [value[turn:] + value[:turn] for turn in range(_ENTRIES)]

        def check_copies(given: list[bytes]) -> None:
            require("a copy", (bytes(memoryview(value)) for value in given), stored)

        def check_set(given: list[bytes]) -> None:
            require("Tuckbox", map(cache.get, names), given)

        for _ in range(2 * _SIZE // (_ENTRIES * _VALUE_BYTES)):
            copy_in(stored)
            set_cache(stored)
        conditions.progress("get")
        theirs, ours = take_turns(
            conditions,
            [
                Turn(_ENTRIES, copy, lambda: stored, check_copies),
                Turn(
                    _ENTRIES,
                    get_cache,
                    lambda: names,
                    lambda names: require("Tuckbox", map(cache.get, names), stored),
                ),
            ],
        )
        conditions.progress("set")
        set_theirs, set_ours = take_turns(
            conditions,
            [Turn(_ENTRIES, copy_in, new), Turn(_ENTRIES, set_cache, new, check_set)],
        )
    return [
        _figure("get", ours, "bytes(memoryview(value))", theirs, 0.45),
        _figure("set", set_ours, "a copy into memory", set_theirs, 0.7),
    ]


def _places(memory: mmap.mmap) -> Iterator[int]:
    """Yield places of values in `memory`, one after the other, over and over."""
    return cycle(range(0, len(memory) - _VALUE_BYTES, _VALUE_BYTES))


def _figure(
    what: str, ours: tuple[float, ...], peer: str, theirs: tuple[float, ...], at_least: float
) -> Figure:
    ours, theirs = (tuple(one / 1e3 for one in samples) for samples in (ours, theirs))
    return Figure(what, "us", ours, peer, theirs, "theirs / ours", Goal("at least", at_least))


ROW = Row(
    id="S7",
    title="Values of 2.12 MiB",
    goal_text="get at least 0.45 x the speed of `bytes(memoryview(value))`, set at least 0.7 x "
    "that of a copy into memory rotating through the cache's size",
    measure=measure,
)
