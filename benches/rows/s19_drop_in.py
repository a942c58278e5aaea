"""S19: the drop-in for DiskCache, compared with DiskCache by the same calls.

Owns the calls and the loads. Both packages have the same names, so one program drives both. They
take turns on the same keys; each answer is compared. Eight processes, more than the cores, use the
same keys. For the mean, each times its loop by the wall clock, and for a percentile each call.
"""

from __future__ import annotations

import importlib
import itertools
import random
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from benches.data import get_all, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns
from lab.peers import title_of
from lab.runner.histograms import encode, percentiles_ns
from rig.crew import Crew

EitherCache: TypeAlias = Any
"""A cache of either package."""
Table: TypeAlias = dict[str, bytes]

_OURS, _THEIRS = "tuckbox.compat.diskcache", "diskcache"
_ENTRIES = 5_000
_FEW = 500
_PROCESSES = 8
_READS, _WRITES = 4_000, 2_000
_QUICK_SHARE = 4
_LOOPS = 40
"""How often our pass goes through the keys, so that it takes milliseconds, as one of the other
package does. A shorter one would end before the processor's caches have what the other turn has
pushed out."""
_P99 = (99.0,)

_GET = Goal("at least", 15.0)
_SET = {"tmpfs": Goal("at least", 100.0), "disk": Goal("at least", 150.0)}
_COLLECTION = Goal("at least", 10.0)
_TAIL = Goal("at least", 100.0)


def measure(conditions: Conditions) -> list[Figure]:
    """Measure the calls of caches, collections and Django's backend."""
    theirs = title_of(_THEIRS)
    figures = []
    places = (("tmpfs", conditions.tmpfs), ("disk", conditions.disk))
    for place, parent in places:
        conditions.progress(f"one process, {place}")
        figures += _one_process(conditions, theirs, place, parent)
    conditions.progress("Deque, Index and DjangoCache")
    figures += _collections(conditions, theirs)
    for place, parent in places:
        figures += _many_processes(conditions, theirs, place, parent)
    return figures


def _both(parent: Path, name: str) -> Iterator[tuple[ModuleType, str]]:
    for which in (_OURS, _THEIRS):
        yield importlib.import_module(which), str(parent / f"{name} of {which}")


@contextmanager
def _caches(parent: Path, name: str) -> Iterator[list[EitherCache]]:
    caches = [package.Cache(folder) for package, folder in _both(parent, name)]
    try:
        yield caches
    finally:
        for cache in caches:
            cache.close()


def _one_process(conditions: Conditions, theirs: str, place: str, parent: Path) -> list[Figure]:
    names, stored = keys(_ENTRIES), values(_ENTRIES)
    drawn = random.Random(0).sample(names, 2 * _FEW)
    read, written = drawn[:_FEW], drawn[_FEW:]
    tables = _tables(names, stored)

    def gets(cache: EitherCache, loops: int) -> Turn:
        def check(_given: object) -> None:
            require("a cache", map(cache.get, read), [tables[0][name] for name in read])

        return Turn(_FEW * loops, get_all(cache.get), lambda: read * loops, check)

    def sets(cache: EitherCache, loops: int, *, changes_length: bool = False) -> Turn:
        others = itertools.cycle(tables[2:] if changes_length else tables[:2])

        def prepare() -> Table:
            return next(others)

        def work(table: Table) -> None:
            for _ in range(loops):
                for name in written:
                    cache.set(name, table[name])

        def check(table: Table) -> None:
            require("a cache", map(cache.get, written), [table[name] for name in written])
            for name in written:
                cache.set(name, tables[0][name])

        return Turn(_FEW * loops, work, prepare, check)

    with _caches(parent, "one process") as caches:
        for cache in caches:
            for name, value in tables[0].items():
                cache[name] = value
        ours, others = caches
        turns = [
            gets(ours, _LOOPS),
            gets(others, 1),
            sets(ours, _LOOPS),
            sets(others, 1),
            sets(ours, 1),
            sets(ours, 1, changes_length=True),
            sets(others, 1, changes_length=True),
        ]
        our_gets, their_gets, our_sets, their_sets, cold, others_sets, their_others = take_turns(
            conditions, turns
        )
    after = f"{_FEW} in a row after the other one's turn"
    return [
        _figure(f"get, {place}", our_gets, theirs, their_gets, _GET),
        _figure(f"set, {place}", our_sets, theirs, their_sets, _SET[place]),
        _figure(f"set, {place}, {after}", cold, theirs, their_sets),
        _figure(f"the same with other lengths, {place}", others_sets, theirs, their_others),
    ]


def _tables(names: Sequence[str], stored: Sequence[bytes]) -> list[Table]:
    """Return values of the names, others of the same length, and some of other lengths."""
    others = [value[::-1] for value in stored]
    shorter, longer = (
        [value[: least + at * 37 % 60] for at, value in enumerate(stored)] for least in (30, 99)
    )
    return [dict(zip(names, some, strict=True)) for some in (stored, others, shorter, longer)]


def _collections(conditions: Conditions, theirs: str) -> list[Figure]:
    figures = []
    for what, make in (("Deque", _deque), ("Index", _index), ("DjangoCache", _django)):
        turns = [
            make(package, folder) for package, folder in _both(conditions.tmpfs, f"one {what}")
        ]
        ours, others = take_turns(conditions, turns)
        goal = None if what == "DjangoCache" else _COLLECTION
        figures.append(_figure(f"{what}: {_TEXTS[what]}", ours, theirs, others, goal))
    return figures


_TEXTS = {
    "Deque": "append and popleft",
    "Index": "set and get a key",
    "DjangoCache": "90 % gets, 9 % sets, 1 % deletes",
}


def _deque(package: ModuleType, folder: str) -> Turn:
    deque = package.Deque(range(100), folder)

    def work(_given: object) -> None:
        for number in range(_FEW):
            deque.append(number)
            deque.popleft()

    def check(_given: object) -> None:
        require("a Deque", deque, range(_FEW - 100, _FEW))

    return Turn(2 * _FEW, work, check=check)


def _index(package: ModuleType, folder: str) -> Turn:
    names, stored = keys(_FEW), values(_FEW)
    index = package.Index(folder, zip(names, stored, strict=True))
    table = dict(zip(names, stored, strict=True))

    def work(_given: object) -> None:
        for name in names:
            index[name] = table[name]
            index[name]  # The call is what is timed.

    def check(_given: object) -> None:
        require("an Index", index.items(), list(table.items()))

    return Turn(2 * _FEW, work, check=check)


def _django(package: ModuleType, folder: str) -> Turn:
    backend: EitherCache = importlib.import_module(f"{package.__name__}.djangocache").DjangoCache
    cache = backend(folder, {})
    names, stored = keys(_FEW), values(_FEW)
    table = dict(zip(names, stored, strict=True))
    draw = random.Random(0)
    calls = [(draw.choice(names), draw.randrange(100)) for _ in range(_FEW)]

    def fill() -> None:
        for name in names:
            cache.set(name, table[name])

    def work(_given: object) -> None:
        for name, number in calls:
            if number < 90:
                cache.get(name)
            elif number < 99:
                cache.set(name, table[name])
            else:
                cache.delete(name)

    deleted = {name for name, number in calls if number >= 99}
    kept = [name for name in names if name not in deleted]

    def check(_given: object) -> None:
        require("a DjangoCache", map(cache.get, kept), [table[name] for name in kept])

    return Turn(_FEW, work, fill, check)


class User:
    """A process that reads and writes."""

    def __init__(self, number: int, package: str, folder: str) -> None:
        """Open the cache."""
        self._draw = random.Random(number)
        self._cache = importlib.import_module(package).Cache(folder)
        self._tables = _tables(keys(_FEW), values(_FEW))[:2]
        self._table = self._tables[0]

    def fill(self) -> None:
        """Store all entries."""
        for name, value in self._table.items():
            self._cache.set(name, value, retry=True)

    def read(self, count: int) -> int:
        """Get so many entries, and verify them; return the nanoseconds that the gets took."""
        get, taken = self._cache.get, 0
        for start in range(0, count, _FEW):
            names = self._names(min(_FEW, count - start))
            began = time.perf_counter_ns()
            found = list(map(get, names))
            taken += time.perf_counter_ns() - began
            require("a cache", found, [self._table[name] for name in names])
        return taken

    def write(self, count: int) -> int:
        """Set so many entries; return the nanoseconds that the sets took."""
        set_, table, names = self._cache.set, self._next_table(), self._names(count)
        began = time.perf_counter_ns()
        for name in names:
            set_(name, table[name], retry=True)
        return time.perf_counter_ns() - began

    def write_each(self, count: int) -> bytes:
        """Set so many entries; return the nanoseconds of each, as an array of 64-bit integers."""
        set_, table, names = self._cache.set, self._next_table(), self._names(count)
        times = array("Q", bytes(8 * count))
        clock = time.perf_counter_ns
        for place, name in enumerate(names):
            value = table[name]
            began = clock()
            set_(name, value, retry=True)
            times[place] = clock() - began
        return times.tobytes()

    def check(self, count: int) -> int:
        """Get all entries, and verify them; return how many."""
        require("a cache", map(self._cache.get, self._table), list(self._table.values()))
        return count

    def _next_table(self) -> Table:
        # All processes write in the same turns, so all keys will have this table's values.
        self._tables.reverse()
        self._table = self._tables[0]
        return self._table

    def _names(self, count: int) -> list[str]:
        # Each key as often as every other one: so each has the last value in the end.
        names: list[str] = []
        while len(names) < count:
            names += self._draw.sample(list(self._table), _FEW)
        return names[:count]


def _many_processes(conditions: Conditions, theirs: str, place: str, parent: Path) -> list[Figure]:
    share = _QUICK_SHARE if conditions.is_quick else 1
    taken: dict[str, list[list[float]]] = {_OURS: [], _THEIRS: []}
    crews = {
        which: Crew(_PROCESSES, User, which, str(parent / f"many of {which}")) for which in taken
    }
    with crews[_OURS], crews[_THEIRS]:
        for crew in crews.values():
            crew.ask("fill", count=1)
        for number in range(-1, conditions.rounds):
            conditions.progress(
                f"{_PROCESSES} processes, {place}: round {number + 1} of {conditions.rounds}"
            )
            for which, crew in crews.items():
                # Our turn takes about as long as the other one.
                loops = _LOOPS if which == _OURS else 1
                reads, writes = _READS // share * loops, _WRITES // share * loops
                means = [
                    sum(crew.ask(what, count)) / (_PROCESSES * count) / 1e3
                    for what, count in (("read", reads), ("write", writes))
                ]
                [slow] = percentiles_ns(
                    encode(array("Q", b"".join(crew.ask("write_each", writes)))), _P99
                )
                crew.ask("check", 1)
                # The first round is a warm-up.
                if number >= 0:
                    taken[which].append([*means, slow / 1e3])
    ours, others = (list(zip(*taken[which], strict=True)) for which in (_OURS, _THEIRS))
    what = f"{_PROCESSES} processes, {place}"
    goals = (
        (f"get, {what}: mean", _GET),
        (f"set, {what}: mean", _SET[place]),
        (f"set, {what}: p99", _TAIL),
    )
    return [
        Figure(name, "us", our_samples, theirs, their_samples, "theirs / ours", goal)
        for (name, goal), our_samples, their_samples in zip(goals, ours, others, strict=True)
    ]


def _figure(
    what: str,
    ours: tuple[float, ...],
    peer: str,
    theirs: tuple[float, ...],
    goal: Goal | None = None,
) -> Figure:
    return Figure(what, "ns", ours, peer, theirs, "theirs / ours", goal)


ROW = Row(
    id="S19",
    title="The drop-in for DiskCache",
    text="the same calls of both packages, default settings, 160-byte values; our loops of gets "
    "and sets are 40 times as long, so that each takes milliseconds; see "
    "[the guide](../guide/diskcache.md)",
    measure=measure,
)
