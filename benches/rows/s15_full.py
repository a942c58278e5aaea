"""S15: sets of new keys, into full caches and into empty ones, compared with overwrites.

Owns which caches and peers are compared. Most is measured natively, in one thread: Tuckbox has a
file of a given size or a limit of entries; moka and quick_cache are limited to the bytes of keys
and values, or to the entries, that Tuckbox then holds. The stripped program touches the cache
lines that such a set must touch, and does nothing else. Empty caches are filled from Python, a new
store for each pass. LMDB does not sync.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tuckbox import Cache

from benches import native
from benches.data import keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns
from lab.hosts.python.contract import Store
from lab.peers import opened
from rig.machine import memory_free

_SIZES = (1 << 20, 8 << 20, 64 << 20, 256 << 20)
# A file of ten million entries, and the memory that all caches together need.
_SIZE_MOST = 2_304 << 20
_SIZE_MOST_NEEDS = 20 << 30
SIZES_QUICK = (8 << 20,)
_LIMITS = (1_000, 35_000, 280_000, 1_130_000)
# The smallest size with a goal for quick_cache.
_QUICK_CACHE_FROM = 64 << 20
_ENTRY_BYTES_MAX = 512
#: Values of other sizes, in a file of 64 MiB.
_VALUE_BYTES = (16, 1_600, 16_000)
_OTHERS_FILE = 64 << 20
FILLED = 20_000
PEER = "lmdb"
_ROOM_BYTES = 64 << 20
STRIPPED = "a ring of records, their buckets and ghosts"
#: The curves by the size of the file.
NEW, AGAIN, EMPTY = (
    "set of a new key, full cache",
    "set, overwrite, full cache",
    "set of a new key, empty cache",
)


def measure(conditions: Conditions) -> list[Figure]:
    """Measure sets of new keys."""
    conditions.progress("building the native program")
    native.build()
    figures: list[Figure] = []
    for size in SIZES_QUICK if conditions.is_quick else _sizes(conditions):
        conditions.progress(f"full caches, file of {size >> 20:,} MiB")
        figures += _full(conditions, size)
    if not conditions.is_quick:
        for most in _LIMITS:
            conditions.progress(f"full caches, {most:,} entries")
            figures += _limited(conditions, most)
        conditions.progress("full caches, half of the keys known")
        figures += _other(conditions, "half of the keys known", "--half-known")
        for length in _VALUE_BYTES:
            conditions.progress(f"full caches, values of {length:,} bytes")
            figures += _other(
                conditions, f"values of {length:,} bytes", "--value-bytes", str(length)
            )
    conditions.progress("filling empty caches")
    return [*figures, _filling(conditions)]


def _sizes(conditions: Conditions) -> tuple[int, ...]:
    if memory_free() >= _SIZE_MOST_NEEDS:
        return (*_SIZES, _SIZE_MOST)
    conditions.not_measured(
        f"a full file of {_SIZE_MOST >> 20:,} MiB: less than {_SIZE_MOST_NEEDS >> 30} GiB are free"
    )
    return _SIZES


def _run(conditions: Conditions, *arguments: str) -> dict[str, Any]:
    folder = conditions.tmpfs / "native"
    folder.mkdir(0o700)
    try:
        return native.run("full", folder, *arguments, "--rounds", str(conditions.rounds))
    finally:
        shutil.rmtree(folder)


def _compared(
    what: str,
    samples: dict[str, list[float]],
    goals: dict[str, Goal | None],
    at: int | None = None,
    along: str = "entries",
) -> list[Figure]:
    return [
        Figure(
            what,
            "ns",
            tuple(samples["tuckbox"]),
            f"{name} {native.version(name)}",
            tuple(samples[name]),
            "ours / theirs",
            goal,
            at=at,
            along=along,
            limit=tuple(samples["stripped"]),
            limited_by=STRIPPED,
        )
        for name, goal in goals.items()
    ]


def _full(conditions: Conditions, size: int) -> list[Figure]:
    found = _run(conditions, "--size-bytes", str(size))
    no_goals: dict[str, Goal | None] = {"moka": None, "quick_cache": None}
    goals: dict[str, Goal | None] = {
        "moka": Goal("at most", 1),
        "quick_cache": Goal("at most", 2) if size >= _QUICK_CACHE_FROM else None,
    }
    along = "bytes of the file"
    return [
        *_compared(NEW, found["samples"], goals, size, along),
        *_compared(AGAIN, found["again"], no_goals, size, along),
        *_compared(EMPTY, found["empty"], no_goals, size, along),
        Figure(
            f"entries in a file of {size >> 20} MiB",
            "entries",
            (float(found["entries"]),),
        ),
    ]


def _limited(conditions: Conditions, most: int) -> list[Figure]:
    size = max(most * _ENTRY_BYTES_MAX, 1 << 20)
    found = _run(conditions, "--size-bytes", str(size), "--max-entries", str(most))
    goals: dict[str, Goal | None] = {"moka": None, "quick_cache": None}
    return _compared("set of a new key, limit of entries", found["samples"], goals, most)


def _other(conditions: Conditions, what: str, *arguments: str) -> list[Figure]:
    found = _run(conditions, "--size-bytes", str(_OTHERS_FILE), *arguments)
    goals: dict[str, Goal | None] = {"moka": Goal("at most", 1), "quick_cache": None}
    return _compared(f"{NEW}, 64 MiB, {what}", found["samples"], goals)


class _Filler:
    """Opens new stores of one kind, one after the other, each in a new folder."""

    def __init__(
        self, who: str, folder: Path, open_new: Callable[[ExitStack, Path], Store | Cache]
    ) -> None:
        self._who = who
        self._folder = folder
        self._open_new = open_new
        self._stack = ExitStack()
        self._entries = list(zip(keys(FILLED), values(FILLED), strict=True))

    def turn(self) -> Turn:
        """Return the turn that fills an empty store."""

        def work(store: Store | Cache) -> None:
            set_ = store.set
            for name, value in self._entries:
                set_(name, value)

        def check(store: Store | Cache) -> None:
            names, wanted = zip(*self._entries, strict=True)
            require(self._who, map(store.get, names), wanted)

        return Turn(FILLED, work, self._new, check)

    def close(self) -> None:
        """Close the store that is open, and remove it."""
        self._stack.close()

    def _new(self) -> Store | Cache:
        self.close()
        self._folder.mkdir(0o700)
        self._stack.callback(shutil.rmtree, self._folder)
        return self._open_new(self._stack, self._folder)


def _filling(conditions: Conditions) -> Figure:
    titles: list[str] = []

    def ours(stack: ExitStack, folder: Path) -> Cache:
        return stack.enter_context(Cache(folder / "cache.tuck"))

    def theirs(stack: ExitStack, folder: Path) -> Store:
        peer = stack.enter_context(opened(PEER, folder, _ROOM_BYTES))
        titles.append(peer.title)
        return peer.store

    fillers = (
        _Filler("Tuckbox", conditions.tmpfs / "ours", ours),
        _Filler(PEER, conditions.tmpfs / "theirs", theirs),
    )
    with ExitStack() as stack:
        for filler in fillers:
            stack.callback(filler.close)
        of_ours, of_theirs = take_turns(conditions, [filler.turn() for filler in fillers])
    goal = Goal("at most", 0.5)
    what = f"set of a new key, {FILLED:,} into an empty cache"
    return Figure(what, "ns", of_ours, titles[-1], of_theirs, "ours / theirs", goal)


ROW = Row(
    id="S15",
    title="Sets of new keys",
    text=(
        "natively, all caches with as many entries; the stripped program touches the cache lines "
        "of such a set; empty caches also from Python"
    ),
    measure=measure,
)
