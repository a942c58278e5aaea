"""The overview: ten operations of Tuckbox and of six other caches and stores.

Owns the operations, and why a contestant has no figure for one. In each round all contestants take
turns. The lab's adapters drive those in Python, with servers on the same core over a unix socket;
the lab's PHP host drives APCu. Each operation has its own stores.
"""

from __future__ import annotations

import dataclasses
import pickle
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benches.contender import BATCH, Contender, opening
from benches.data import ENTRIES, VALUE_BYTES, keys, values
from benches.languages import Phase, Plan, hosted
from benches.row import Conditions, Figure, Row
from benches.turns import Turn, rounds_of
from lab import stream
from lab.hosts.python.contract import Store
from lab.hosts.python.values import values_of
from lab.peers import PeerMissingError, on_one_core, opened, opener

OURS = "Tuckbox"
APCU = "APCu"
#: The columns, and the lab's contestants in them.
CONTESTANTS = {
    OURS: "tuckbox",
    "dict": "dict:shared",
    "LMDB": "lmdb",
    "DiskCache": "diskcache",
    "memcached": "pylibmc:socket",
    "Redis": "redis:socket",
    APCU: "php_apcu:limited",
}
COLUMNS = tuple(CONTESTANTS)

# Contestants that take microseconds have fewer operations in a pass.
_SLOW = frozenset({"DiskCache", "memcached", "Redis"})
_FEW = 2_000
# These store bytes only: the program pickles.
_BYTES_ONLY = frozenset({"LMDB", "Redis"})

_ROOM_BYTES = 256 << 20
_FULL_BYTES = 16 << 20
_FULL_ENTRIES = 100_000
_LARGE_BYTES = 4_096
_LARGE_ENTRIES = 4_000
_FIELDS = 5
_SEED = 1

# The phases of each step, given the number of entries and of steps.
_Steps = Callable[[int, int], list[list[Phase]]]


def _small(count: int) -> list[object]:
    return list(values(count))


def _large(count: int) -> list[object]:
    return list(values(count, _LARGE_BYTES))


def _dicts(count: int) -> list[object]:
    complex_values = values_of("complex", _SEED)
    return [complex_values.derive(number, 0, _FIELDS) for number in range(count)]


def _zeros(count: int) -> list[object]:
    return [0] * count


def _gets(entries: int, steps: int) -> list[list[Phase]]:
    return [[Phase(stream.GET, _shuffled(entries))]] * steps


def _batches(entries: int, steps: int) -> list[list[Phase]]:
    return [[Phase(stream.GET, _shuffled(entries), batch=BATCH)]] * steps


def _misses(entries: int, steps: int) -> list[list[Phase]]:
    absent = range(entries, 2 * entries)
    return [[Phase(stream.GET, absent, misses="all")]] * steps


def _overwrites(entries: int, steps: int) -> list[list[Phase]]:
    return [[Phase(stream.SET, _shuffled(entries), VALUE_BYTES)]] * steps


def _deletes(entries: int, steps: int) -> list[list[Phase]]:
    order = _shuffled(entries)
    return [[Phase(stream.SET, order, VALUE_BYTES), Phase(stream.DELETE, order)]] * steps


def _new_keys(entries: int, steps: int) -> list[list[Phase]]:
    starts = (entries + step * ENTRIES for step in range(steps))
    return [[Phase(stream.SET, range(start, start + ENTRIES), VALUE_BYTES)] for start in starts]


def _shuffled(entries: int) -> list[int]:
    return random.Random(_SEED).sample(range(entries), entries)


@dataclass(frozen=True)
class Operation:
    """One line of the overview.

    Attributes:
        what: The name of the operation on the page.
        make: Makes the values, given the number of entries.
        turn: The pass of a contender; None for opening, which is measured separately.
        in_php: The steps of APCu, given the number of entries and of steps; None without any.
        absent: Why a contestant has no figure, in a few words, by its column.
        entries: How many entries are stored before.
        size: The size of a value for APCu, in bytes or fields.
        is_full: Whether the stores have a small limit, and are full.
    """

    what: str
    make: Callable[[int], list[object]]
    turn: Callable[[Contender], Turn] | None
    in_php: _Steps | None
    absent: Mapping[str, str] = field(default_factory=dict)
    entries: int = ENTRIES
    size: int = VALUE_BYTES
    is_full: bool = False


_NO_CALL = "no call"
_NOT_MEASURED = "not measured"

OPERATIONS = (
    Operation("get, 160 B", _small, Contender.get, _gets),
    Operation("get, missing key", _small, Contender.get_missing, _misses),
    Operation(
        "get, 4 KiB", _large, Contender.get, _gets, entries=_LARGE_ENTRIES, size=_LARGE_BYTES
    ),
    Operation("get, dict of 5 strings", _dicts, Contender.get, _gets, size=_FIELDS),
    Operation(
        "get_many, 100 keys",
        _small,
        Contender.get_many,
        _batches,
        absent={"dict": _NO_CALL, "DiskCache": _NO_CALL},
    ),
    Operation("set, overwrite, 160 B", _small, Contender.overwrite, _overwrites),
    Operation(
        "set, new key, full cache",
        _small,
        Contender.set_new,
        _new_keys,
        absent={"dict": "no limit", "LMDB": "no eviction"},
        entries=_FULL_ENTRIES,
        is_full=True,
    ),
    Operation("delete", _small, Contender.delete, _deletes),
    Operation(
        "incr",
        _zeros,
        Contender.incr,
        None,
        absent={"dict": _NO_CALL, "LMDB": _NO_CALL, APCU: _NOT_MEASURED},
    ),
    Operation(
        "open, first get",
        _small,
        None,
        None,
        absent={"dict": "not kept", "memcached": "server", "Redis": "server", APCU: "not kept"},
    ),
)


def column_of(figure: Figure) -> str:
    """Return the column of a figure's peer."""
    return next(one for one in COLUMNS if figure.peer.casefold().startswith(one.casefold()))


def measure(conditions: Conditions) -> list[Figure]:
    """Measure the ten operations."""
    figures: list[Figure] = []
    missing: set[str] = set()
    for operation in OPERATIONS:
        measurement = _Measurement(conditions, operation)
        figures += measurement.figures()
        missing |= measurement.missing
    for phrase in sorted(missing):
        conditions.not_measured(phrase)
    return figures


class _Measurement:
    """One operation, for all contestants that have it."""

    def __init__(self, conditions: Conditions, operation: Operation) -> None:
        self._conditions = conditions
        self._operation = operation
        self._stored = dict(
            zip(keys(operation.entries), operation.make(operation.entries), strict=True)
        )
        self._titles: dict[str, str] = {}
        self._folder = conditions.tmpfs / "overview"
        #: The contestants that are not installed, and how to install them.
        self.missing: set[str] = set()

    def figures(self) -> list[Figure]:
        """Return the figures of Tuckbox with each peer."""
        self._conditions.progress(self._operation.what)
        self._folder.mkdir(0o700)
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self._folder)
            stack.enter_context(on_one_core())
            turns = {column: turn for column, turn in self._turns(stack) if turn is not None}
            in_php = self._in_php(stack)
            rounds = []
            for taken in rounds_of(self._conditions, list(turns.values())):
                of_php = {APCU: in_php()} if in_php else {}
                rounds.append({**dict(zip(turns, taken, strict=True)), **of_php})
        samples = {column: tuple(one[column] for one in rounds) for column in rounds[0]}
        return [
            Figure(
                self._operation.what,
                "ns",
                samples[OURS],
                self._titles[column],
                of,
                "theirs / ours",
                None,
            )
            for column, of in samples.items()
            if column != OURS
        ]

    def _turns(self, stack: ExitStack) -> Iterator[tuple[str, Turn | None]]:
        for column in COLUMNS:
            if column == APCU or column in self._operation.absent:
                continue
            try:
                yield column, self._turn(stack, column)
            except PeerMissingError as error:
                self.missing.add(str(error))

    def _turn(self, stack: ExitStack, column: str) -> Turn:
        operation = self._operation
        folder = self._folder / column
        folder.mkdir(0o700)
        if operation.turn is None:
            return self._opening(column, folder)
        room = _FULL_BYTES if operation.is_full else _ROOM_BYTES
        peer = stack.enter_context(opened(CONTESTANTS[column], folder, room))
        self._titles[column] = "dict" if column == "dict" else peer.title
        store = peer.store
        if operation.make is _dicts and column in _BYTES_ONLY:
            store = _pickled(store)
        contender = Contender(
            self._titles[column], store, self._stored, _FEW if column in _SLOW else self._pass()
        )
        if operation.is_full:
            contender.require_full()
        return operation.turn(contender)

    def _opening(self, column: str, folder: Path) -> Turn:
        with opened(CONTESTANTS[column], folder, _ROOM_BYTES) as peer:
            Contender(peer.title, peer.store, self._stored, 1)
            self._titles[column] = peer.title
        return opening(partial(opener(CONTESTANTS[column]), folder), peer.title, self._stored)

    def _pass(self) -> int:
        return min(self._operation.entries, ENTRIES)

    def _in_php(self, stack: ExitStack) -> Callable[[], float] | None:
        """Return a function that takes a sample of APCu; None if it has no figure."""
        operation = self._operation
        if operation.in_php is None:
            return None
        # One more step, the warm-up.
        count = self._conditions.rounds + 1
        entries = operation.entries
        steps = operation.in_php(entries, count)
        fill = [Phase(stream.SET, range(entries), operation.size)]
        if operation.is_full:
            fill.append(Phase(stream.GET, range(entries), misses="some"))
        plan = Plan(
            keys=entries + count * ENTRIES,
            fill=fill,
            steps=steps,
            value="complex" if operation.make is _dicts else "binary",
            bytes_max=_FULL_BYTES if operation.is_full else _ROOM_BYTES,
        )
        folder = self._folder / APCU
        folder.mkdir(0o700)
        try:
            host = stack.enter_context(hosted(CONTESTANTS[APCU], folder, plan))
        except PeerMissingError as error:
            self.missing.add(str(error))
            return None
        self._titles[APCU] = host.title
        host.run(len(steps[0]))
        return lambda: host.run(len(steps[0]))


def _pickled(store: Store) -> Store:
    """Return a store that pickles its objects, as a program would."""
    loads: Callable[[Any], object] = pickle.loads

    def get(key: str) -> object:
        found = store.get(key)
        return None if found is None else loads(found)

    def set_(key: str, value: object) -> object:
        return store.set(key, pickle.dumps(value))

    return dataclasses.replace(store, get=get, set=set_)


ROW = Row(
    id="overview",
    title="Ten operations",
    text="",
    measure=measure,
)
