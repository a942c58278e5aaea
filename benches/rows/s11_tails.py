"""S11: tail latencies of sets in a full cache, and how long a shard's lock is held.

Owns the writers, and how their times are counted. Each set is timed: in two processes by the wall
clock, in memory and on a disk; in eight processes, more than the cores, by their own CPU time. All
write the same keys. The cache is full before the clock starts, so every set must evict. Values are
made before, with log-uniform sizes. The native program watches the shard's lock from outside while
one process writes.
"""

from __future__ import annotations

import math
import random
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuckbox import Cache

from benches import native
from benches.data import keys
from benches.row import Conditions, Figure, Goal, Row
from lab.runner.histograms import encode, percentiles_ns
from rig.cores import two_cores
from rig.crew import Crew, CrewError
from rig.stamps import HEAD_BYTES, WrongAnswerError, make, read

_PERCENTS = (50.0, 99.0, 99.9, 99.99, 100.0)


@dataclass(frozen=True)
class Load:
    """The keys and values to write, and how.

    Keys share the values of their family, which is the key's number modulo `families`. `sizes` is
    how many lengths each family has. `room` is the cache's size in bytes; the keys could fill it
    several times.
    """

    processes: int
    bytes_max: int
    keys: int
    families: int
    sizes: int
    room: int
    sets: int
    clock: str


_SMALL = Load(2, 64 << 10, 40_000, 500, 8, 64 << 20, 50_000, "wall")
_LARGE = Load(8, 1 << 20, 16_000, 100, 4, 256 << 20, 5_000, "cpu")
_WATCHED_SETS = 100_000
# Fewer have no p99.9.
_HOLDS_MIN = 1_000
_FILLINGS_MAX = 20
# --quick makes this many times fewer sets.
_QUICK_SHARE = 5

_CLOCKS: dict[str, Callable[[], int]] = {
    "wall": time.perf_counter_ns,
    "cpu": time.thread_time_ns,
}


class Writer:
    """A process that writes."""

    def __init__(self, number: int, path: str, load: Load) -> None:
        """Open the cache at `path`, or create it."""
        self._random = random.Random(number)
        self._load = load
        self._keys = keys(load.keys)
        lengths = random.Random(0)
        self._values = [
            [
                make(f"family {family}", _log_uniform(lengths, load.bytes_max))
                for _ in range(load.sizes)
            ]
            for family in range(load.families)
        ]
        self._cache = Cache(path, size=load.room)

    def fill(self) -> None:
        """Set until entries have been evicted for a while.

        Raises ValueError if none ever is.
        """
        wanted = self._cache.stats().evictions + self._load.keys // 4
        for _ in range(_FILLINGS_MAX):
            for key, content in self._drawn(self._load.keys):
                self._cache.set(key, content)
            if self._cache.stats().evictions >= wanted:
                return
        raise ValueError(f"a cache of {self._load.room} bytes was never full")

    def write(self, sets: int) -> bytes:
        """Make so many sets; return the nanoseconds of each, as an array of 64-bit integers."""
        set_, clock = self._cache.set, _CLOCKS[self._load.clock]
        times = array("Q", bytes(8 * sets))
        for index, (key, content) in enumerate(self._drawn(sets)):
            began = clock()
            set_(key, content)
            times[index] = clock() - began
        return times.tobytes()

    def verify(self) -> float:
        """Get all keys; return the share that is present, from 0 to 1.

        Raises WrongAnswerError for a value that its key never had.
        """
        there = 0
        for number, key in enumerate(self._keys):
            found = self._cache.get(key)
            if found is not None:
                read(f"family {number % self._load.families}", found)
                there += 1
        return there / len(self._keys)

    def _drawn(self, count: int) -> list[tuple[str, bytes]]:
        draw = self._random.randrange
        families, sizes = self._load.families, self._load.sizes
        numbers = [draw(len(self._keys)) for _ in range(count)]
        return [
            (self._keys[number], self._values[number % families][draw(sizes)]) for number in numbers
        ]


def _log_uniform(dice: random.Random, most: int) -> int:
    return round(math.exp(dice.uniform(math.log(HEAD_BYTES), math.log(most))))


def measure(conditions: Conditions) -> list[Figure]:
    """Measure single sets, and how long a lock is held."""
    conditions.progress("building the native program")
    native.build()
    found = []
    for where, folder in (("tmpfs", conditions.tmpfs), ("disk", conditions.disk)):
        rounds = _written(conditions, folder / "tails.tuck", _SMALL, f"2 processes, {where}")
        what = f"set, 2 processes, {where}"
        found += [
            _figure(f"{what}: p99.9", "us", rounds, 2, Goal("at most", 100)),
            _figure(f"{what}: p99.99", "us", rounds, 3, Goal("at most", 5_000)),
            _figure(f"{what}: median", "us", rounds, 0, None),
            _figure(f"{what}: maximum", "us", rounds, 4, None),
        ]
    rounds = _written(conditions, conditions.tmpfs / "large.tuck", _LARGE, "8 processes, to 1 MiB")
    what = "set, 8 processes, values up to 1 MiB, CPU time"
    found += [
        _figure(f"{what}: p99.9", "us", rounds, 2, Goal("at most", 1_000)),
        _figure(f"{what}: median", "us", rounds, 0, None),
        _figure(f"{what}: maximum", "us", rounds, 4, None),
    ]
    return found + _held(conditions)


def _written(conditions: Conditions, path: Path, load: Load, what: str) -> list[list[float]]:
    """Return the percentiles of each round, in microseconds."""
    sets = load.sets // (_QUICK_SHARE if conditions.is_quick else 1)
    rounds = []
    with Crew(load.processes, Writer, str(path), load) as writers:
        conditions.progress(f"{what}: filling")
        writers.ask("fill")
        # A warm-up.
        writers.ask("write", sets // 4)
        for number in range(conditions.rounds):
            conditions.progress(f"{what}: round {number + 1} of {conditions.rounds}")
            times = array("Q", b"".join(writers.ask("write", sets)))
            rounds.append([ns / 1e3 for ns in percentiles_ns(encode(times), _PERCENTS)])
        [there] = writers.ask("verify", count=1)
        if not there:
            raise WrongAnswerError("the cache has none of the stored entries")
    path.unlink()
    return rounds


def _held(conditions: Conditions) -> list[Figure]:
    path = conditions.tmpfs / "held.tuck"
    holds_min = 1 if conditions.is_quick else _HOLDS_MIN
    first, second = two_cores()
    rounds = []
    with Crew(1, Writer, str(path), _SMALL, cores=[first]) as writers:
        writers.ask("fill")
        for number in range(conditions.rounds):
            conditions.progress(f"a shard's lock: round {number + 1} of {conditions.rounds}")
            watcher = native.begin("watch-lock", path, core=second)
            try:
                writers.ask("write", _WATCHED_SETS)
            finally:
                seen = native.end(watcher)
            if seen["holds"] < holds_min:
                raise CrewError(
                    f"the lock was seen held {seen['holds']} times; {holds_min} are needed"
                )
            rounds.append([seen[f"ns_{name}"] / 1e3 for name in ("p50", "p99", "p999", "max")])
    path.unlink()
    what = "shard lock held"
    return [
        _figure(f"{what}: p99.9", "us", rounds, 2, Goal("at most", 50)),
        _figure(f"{what}: median", "us", rounds, 0, None),
        _figure(f"{what}: maximum", "us", rounds, 3, None),
    ]


def _figure(
    what: str, unit: str, rounds: list[list[float]], index: int, goal: Goal | None
) -> Figure:
    return Figure(what, unit, tuple(one[index] for one in rounds), goal=goal)


ROW = Row(
    id="S11",
    title="Tails",
    text="single sets in a full cache, sizes log-uniform from 16 B to 64 KiB, or to 1 MiB with 8 "
    "processes; percentiles are over all processes; another process watches the lock",
    measure=measure,
)
