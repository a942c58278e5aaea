"""S4: gets and sets beside the caches and stores that programs share today.

Each peer holds the same 20,000 entries, and takes turns with a Tuckbox that does. Peers are driven
by the lab's adapters. Servers and this process share one core, where a round trip costs least. A
pass of a peer that needs microseconds is 2,000 operations on keys drawn anew; Tuckbox goes through
all of its keys in every pass, so that its entries are not nearer to the processor.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from tuckbox import Cache

from benches.data import ENTRIES, get_all, keys, require, values
from benches.languages import measure_gets
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns
from lab.hosts.python.contract import Store
from lab.peers import PeerMissingError, on_one_core, opened

FEW = 2_000
# Room for all entries and more, with every peer.
BYTES_MAX = 256 << 20
LANGUAGES = ("php_apcu:limited", "perl_fastmmap:sized")

_Set = tuple[Sequence[str], bytes]


@dataclass(frozen=True)
class Beside:
    """A peer, by its row in the lab. `slow` ones need microseconds for an operation."""

    row: str
    place: Literal["tmpfs", "disk"]
    get_at_least: float | None
    set_at_least: float
    slow: bool


PEERS = (
    Beside("lmdb", "tmpfs", 6, 4, slow=False),
    Beside("diskcache", "tmpfs", 60, 110, slow=True),
    Beside("diskcache", "disk", None, 150, slow=True),
    Beside("pylibmc:socket", "tmpfs", 100, 35, slow=True),
    Beside("redis:socket", "tmpfs", 100, 80, slow=True),
)


class _Contender:
    """Tuckbox or a peer with its entries. A pass is `operations` of its keys."""

    def __init__(self, who: str, store: Store | Cache, operations: int) -> None:
        self.who = who
        self._store = store
        self._operations = operations
        self._names = keys(ENTRIES)
        self._stored = dict(zip(self._names, values(ENTRIES), strict=True))
        self._dice = random.Random(1)
        self._seeds = count(1)
        for name, value in self._stored.items():
            store.set(name, value)

    def get_turn(self) -> Turn:
        """Return the turn that gets the values of the beginning."""
        return Turn(self._operations, get_all(self._store.get), self._drawn, self._check_get)

    def set_turn(self) -> Turn:
        """Return the turn that overwrites values, after which those of the beginning are gone."""
        return Turn(self._operations, self._set_all, self._to_set, self._check_set)

    def _drawn(self) -> Sequence[str]:
        if self._operations == ENTRIES:
            return self._names
        return self._dice.sample(self._names, self._operations)

    def _to_set(self) -> _Set:
        return self._drawn(), values(1, seed=next(self._seeds))[0]

    def _set_all(self, given: _Set) -> None:
        names, value = given
        store = self._store.set
        for name in names:
            store(name, value)

    def _check_get(self, names: Sequence[str]) -> None:
        require(self.who, map(self._store.get, names), [self._stored[name] for name in names])

    def _check_set(self, given: _Set) -> None:
        names, value = given
        require(self.who, map(self._store.get, names), [value] * len(names))


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets and sets beside each peer, and gets beside peers in other languages."""
    figures: list[Figure] = []
    for number, beside in enumerate(PEERS):
        parent = conditions.tmpfs if beside.place == "tmpfs" else conditions.disk
        folder = parent / f"{number}"
        folder.mkdir(0o700)
        figures += _measure(conditions, beside, folder)
    conditions.progress("APCu from PHP, Cache::FastMmap from Perl")
    folder = conditions.tmpfs / "languages"
    folder.mkdir(0o700)
    try:
        figures += measure_gets(LANGUAGES, conditions.rounds, folder)
    except PeerMissingError as error:
        conditions.not_measured(str(error))
    return figures


def _measure(conditions: Conditions, beside: Beside, folder: Path) -> list[Figure]:
    figures = []
    with ExitStack() as stack:
        stack.enter_context(on_one_core())
        peer = stack.enter_context(opened(beside.row, folder, BYTES_MAX))
        cache = stack.enter_context(Cache(folder / "cache.tuck"))
        where = " on disk" if beside.place == "disk" else ""
        conditions.progress(f"{peer.title}{where}")
        theirs = _Contender(peer.title, peer.store, FEW if beside.slow else ENTRIES)
        ours = _Contender("Tuckbox", cache, ENTRIES)
        if beside.get_at_least is not None:
            samples = take_turns(conditions, [ours.get_turn(), theirs.get_turn()])
            figures.append(_figure(f"get{where}", peer.title, samples, beside.get_at_least))
        samples = take_turns(conditions, [ours.set_turn(), theirs.set_turn()])
        figures.append(_figure(f"set{where}", peer.title, samples, beside.set_at_least))
    return figures


def _figure(what: str, peer: str, samples: list[tuple[float, ...]], at_least: float) -> Figure:
    ours, theirs = samples
    goal = Goal("at least", at_least)
    return Figure(what, "ns", ours, peer, theirs, "theirs / ours", goal)


ROW = Row(
    id="S4",
    title="Shared caches and stores",
    goal_text="get: 60 x as fast as DiskCache, 6 x LMDB, 100 x memcached and Redis over a unix "
    "socket on one core, and faster than APCu from PHP and Cache::FastMmap from Perl; set: 110 x "
    "DiskCache on tmpfs and 150 x on disk, 4 x LMDB without sync, 35 x memcached, 80 x Redis",
    measure=measure,
)
