"""The cost of up to 64 processes that use one cache, on however few cores.

Owns the processes and their load: 90 % gets and 10 % sets of the same keys, in a random order for
each process, for a given time. More processes than cores cannot do more; the row shows whether they
do less.
"""

from __future__ import annotations

import os
import random
import time

from tuckbox import Cache

from benches.data import keys
from benches.row import Conditions, Figure, Row
from rig.crew import Crew
from rig.stamps import Stamp, make, read

_ENTRIES = 20_000
_VALUE_BYTES = 160
_EDITIONS = 2
_SET_SHARE = 0.1
_DRAWN = 20_000
_COUNTS = (1, 2, 4, 8, 16, 32, 64)
_ROUNDS_MAX = 6


class Party:
    """One process."""

    def __init__(self, number: int, path: str) -> None:
        """Open the cache at `path`, which has all entries, and draw the operations."""
        dice = random.Random(number)
        self._keys = keys(_ENTRIES)
        self._cache = Cache(path)
        self._drawn = [
            (key, make(key, _VALUE_BYTES, Stamp(dice.randrange(_EDITIONS))))
            for key in (dice.choice(self._keys) for _ in range(_DRAWN))
        ]
        self._is_set = [dice.random() < _SET_SHARE for _ in range(_DRAWN)]

    def work(self, seconds: float) -> tuple[int, int]:
        """Work for so long; return the number of operations, and the CPU time in nanoseconds."""
        get, set_ = self._cache.get, self._cache.set
        drawn = list(zip(self._is_set, self._drawn, strict=True))
        done = 0
        spent = time.thread_time_ns()
        deadline = time.perf_counter_ns() + int(seconds * 1e9)
        while time.perf_counter_ns() < deadline:
            begin = done % _DRAWN
            for is_set, (key, content) in drawn[begin : begin + 1_000]:
                if is_set:
                    set_(key, content)
                else:
                    get(key)
            done += 1_000
        return done, time.thread_time_ns() - spent

    def verify(self) -> None:
        """Raise WrongAnswerError unless every key has one of its own values, undamaged."""
        for key in self._keys:
            read(key, self._cache.get(key))


def measure(conditions: Conditions) -> list[Figure]:
    """Measure 1 to 64 processes."""
    path = conditions.tmpfs / "many.tuck"
    seconds = 0.2 if conditions.is_quick else 0.5
    elapsed: dict[int, list[float]] = {count: [] for count in _COUNTS}
    spent: dict[int, list[float]] = {count: [] for count in _COUNTS}
    with Cache(path) as cache:
        for key in keys(_ENTRIES):
            cache.set(key, make(key, _VALUE_BYTES))
        conditions.progress(f"starting {_COUNTS[-1]} processes")
        with Crew(_COUNTS[-1], Party, str(path)) as parties:
            parties.ask("work", 0.01)
            for number in range(min(conditions.rounds, _ROUNDS_MAX)):
                for count in _COUNTS:
                    conditions.progress(f"round {number + 1}: {count} processes")
                    answers = parties.ask("work", seconds, count=count)
                    done = sum(operations for operations, _ in answers)
                    elapsed[count].append(seconds * 1e9 / done)
                    spent[count].append(sum(ns for _, ns in answers) / done)
            parties.ask("verify", count=1)
    cores = len(os.sched_getaffinity(0))
    return [
        *_curve(f"elapsed time per operation, {cores} cores", elapsed),
        *_curve("CPU time per operation", spent),
    ]


def _curve(what: str, samples: dict[int, list[float]]) -> list[Figure]:
    alone = tuple(samples[1])
    return [
        Figure(
            what,
            "ns",
            tuple(of),
            "one process",
            alone,
            "ours / theirs",
            None,
            at=count,
            along="processes",
        )
        for count, of in samples.items()
    ]


ROW = Row(
    id="processes",
    title="1 to 64 processes, 90 % gets",
    text="all processes use the same 20,000 keys",
    measure=measure,
)
