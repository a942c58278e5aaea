"""S15: sets of new keys, into full caches and into empty ones.

Owns which sizes and peers are compared. Full caches are measured natively, in one thread. Tuckbox
has a file of a given size; moka and quick_cache are limited to the bytes of keys and values that
Tuckbox then holds. Empty caches are filled from Python, a new store for each pass. LMDB does not
sync.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tuckbox import Cache

from benches import native
from benches.data import keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns
from lab.hosts.python.contract import Store
from lab.peers import opened

_SIZES = (8 << 20, 64 << 20, 256 << 20)
SIZES_QUICK = (8 << 20,)
# The smallest size with a goal for quick_cache.
_QUICK_CACHE_FROM = 64 << 20
FILLED = 20_000
PEER = "lmdb"
_ROOM_BYTES = 64 << 20


def measure(conditions: Conditions) -> list[Figure]:
    """Measure sets of new keys."""
    conditions.progress("building the native program")
    native.build()
    figures: list[Figure] = []
    for size in SIZES_QUICK if conditions.is_quick else _SIZES:
        conditions.progress(f"full caches, file of {size >> 20} MiB")
        figures += _full(conditions, size)
    conditions.progress("filling empty caches")
    return [*figures, _filling(conditions)]


def _full(conditions: Conditions, size: int) -> list[Figure]:
    folder = conditions.tmpfs / f"{size}"
    folder.mkdir(0o700)
    found = native.run(
        "full", folder, "--size-bytes", str(size), "--rounds", str(conditions.rounds)
    )
    shutil.rmtree(folder)
    goals = {
        "moka": Goal("at most", 1),
        "quick_cache": Goal("at most", 2) if size >= _QUICK_CACHE_FROM else None,
    }
    return [
        Figure(
            "set of a new key, full cache",
            "ns",
            tuple(found["samples"]["tuckbox"]),
            f"{name} {native.version(name)}",
            tuple(found["samples"][name]),
            "ours / theirs",
            goal,
            at=size,
            along="bytes of the file",
        )
        for name, goal in goals.items()
    ] + [
        Figure(
            f"entries in a file of {size >> 20} MiB",
            "entries",
            (float(found["entries"]),),
        )
    ]


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
    text="full caches natively, all with as many entries; empty caches from Python",
    measure=measure,
)
