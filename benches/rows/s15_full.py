"""S15: sets of new keys, into full caches and into empty ones, compared with overwrites.

Owns which caches and peers are compared. Most is measured natively, in one thread: Tuckbox has a
file of a given size or a limit of entries; moka and quick_cache are limited to the bytes of keys
and values, or to the entries, that Tuckbox then holds. The stripped program touches the cache
lines that such a set must touch, and does nothing else. From Python, the lab's hosts fill a file
and its peers to the same limit in bytes. Eight processes store into one file. Empty caches are
filled from Python, a new store for each pass. LMDB does not sync.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from tuckbox import Cache

from benches import native
from benches.data import VALUE_BYTES, keys, require, values
from benches.languages import OURS, Phase, Plan, take_steps
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns
from lab import stream
from lab.hosts.python.contract import Store
from lab.peers import PeerMissingError, opened
from rig.cores import cores
from rig.crew import Crew
from rig.machine import memory_free
from rig.stamps import WrongAnswerError, make, read

_SIZES = (1 << 20, 8 << 20, 64 << 20, 256 << 20)
# Ten million entries, and what all caches together take of memory.
_SIZE_MOST = 2_304 << 20
_SIZE_MOST_NEEDS = 20 << 30
SIZES_QUICK = (8 << 20,)
_LIMITS = (1_000, 35_000, 280_000, 1_130_000)
# The smallest size with a goal for quick_cache.
_QUICK_CACHE_FROM = 64 << 20
_ENTRY_BYTES_MAX = 512
_KEY_BYTES = 36
#: Values of other sizes, in a file of 64 MiB.
_VALUE_BYTES = (16, 1_600, 16_000)
_OTHERS_FILE = 64 << 20
#: From Python: the size of the file, the limit of the peers, and new keys in a sample.
PYTHON_BYTES, PYTHON_BYTES_QUICK = 64 << 20, 8 << 20
STORED = 20_000
# Keys and values alone would fill the file twice.
_PYTHON_FILLINGS = 2
NATIVE = "native_tuckbox"
PEERS_FROM_PYTHON = ("cachebox", "php_apcu:limited")
_PYTHON_MORE_NS = 100
_PROCESSES = 8
_PROCESS_ROUNDS_MAX = 11
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
    size = PYTHON_BYTES_QUICK if conditions.is_quick else PYTHON_BYTES
    conditions.progress("full caches, from Python")
    figures += _from_python(conditions, size)
    conditions.progress(f"a full cache, {_PROCESSES} processes")
    figures += _processes(conditions, size)
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


def _from_python(conditions: Conditions, size: int) -> list[Figure]:
    keys_filled = _PYTHON_FILLINGS * size // (_KEY_BYTES + VALUE_BYTES)
    starts = (keys_filled + step * STORED for step in range(conditions.rounds + 1))
    plan = Plan(
        keys=keys_filled + (conditions.rounds + 1) * STORED,
        fill=[
            Phase(stream.SET, range(keys_filled), VALUE_BYTES),
            # Some entries were evicted.
            Phase(stream.GET, range(keys_filled), misses="some"),
        ],
        steps=[[Phase(stream.SET, range(start, start + STORED), VALUE_BYTES)] for start in starts],
        bytes_max=size,
    )
    what = f"{NEW}, {size >> 20} MiB, from Python"
    figures = []
    for peer in (NATIVE, *PEERS_FROM_PYTHON):
        folder = conditions.tmpfs / "hosts"
        folder.mkdir(0o700)
        try:
            ours, theirs = take_steps([OURS, peer], plan, folder)
        except PeerMissingError as error:
            conditions.not_measured(str(error))
            continue
        finally:
            shutil.rmtree(folder)
        if peer == NATIVE:
            more = (one - other for one, other in zip(ours.samples, theirs.samples, strict=True))
            goal = Goal("at most", _PYTHON_MORE_NS)
            figures.append(Figure(f"{what}, more than natively", "ns", tuple(more), goal=goal))
        figures.append(
            Figure(what, "ns", ours.samples, theirs.title, theirs.samples, "ours / theirs")
        )
    return figures


class Storer:
    """A process that stores new keys into a full cache."""

    def __init__(self, number: int, path: str) -> None:
        """Open the cache at `path`."""
        self._cache = Cache(path)
        # No two processes have a key in common.
        self._firsts = count(number << 40, STORED)
        self._entries: list[tuple[str, bytes]] = []

    def prepare(self) -> None:
        """Make the next keys and values."""
        names = keys(STORED, first=next(self._firsts))
        self._entries = [(name, make(name, VALUE_BYTES)) for name in names]

    def store(self) -> tuple[int, int, int]:
        """Store them; return when it began and ended, and the CPU time, in nanoseconds."""
        set_ = self._cache.set
        spent = time.thread_time_ns()
        began = time.perf_counter_ns()
        for name, value in self._entries:
            set_(name, value)
        ended = time.perf_counter_ns()
        return began, ended, time.thread_time_ns() - spent

    def verify(self) -> None:
        """Raise WrongAnswerError unless some of them are there, each with its value."""
        found = [(name, self._cache.get(name)) for name, _ in self._entries]
        there = [(name, value) for name, value in found if value is not None]
        if not there:
            raise WrongAnswerError(f"a full Tuckbox has none of the {STORED:,} latest keys")
        for name, value in there:
            read(name, value)


def _processes(conditions: Conditions, size: int) -> list[Figure]:
    path = conditions.tmpfs / "shared.tuck"
    counts = (1, _PROCESSES)
    elapsed: dict[int, list[float]] = {number: [] for number in counts}
    spent: dict[int, list[float]] = {number: [] for number in counts}
    with Cache(path, size=size) as cache, Crew(_PROCESSES, Storer, str(path)) as storers:
        filled = 0
        while filled * (_KEY_BYTES + VALUE_BYTES) < size:
            storers.ask("prepare")
            storers.ask("store")
            filled += _PROCESSES * STORED
        if len(cache) >= filled:
            raise WrongAnswerError(f"Tuckbox has all of {filled:,} entries: it is not full")
        for _ in range(min(conditions.rounds, _PROCESS_ROUNDS_MAX)):
            for number in counts:
                storers.ask("prepare", count=number)
                answers = storers.ask("store", count=number)
                began, ended, cpu = zip(*answers, strict=True)
                elapsed[number].append((max(ended) - min(began)) / number / STORED)
                spent[number].append(sum(cpu) / number / STORED)
                storers.ask("verify", count=number)
    path.unlink()
    what = f"{NEW}, {size >> 20} MiB, {_PROCESSES} processes"
    return [
        Figure(
            f"{what}: {time_of}",
            "ns",
            tuple(samples[_PROCESSES]),
            "one process",
            tuple(samples[1]),
            "ours / theirs",
        )
        for time_of, samples in (
            (f"elapsed time, {len(cores())} cores", elapsed),
            ("CPU time", spent),
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
    text=(
        "natively, all caches with as many entries; the stripped program touches the cache lines "
        "of such a set; from Python, with the same limit in bytes, APCu from PHP"
    ),
    measure=measure,
)
