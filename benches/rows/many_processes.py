"""The cost of up to 64 processes that use one cache, on however few cores.

Owns the processes and their load: 90 % gets and 10 % sets of the same keys, in a random order for
each process, for a given time. More processes than cores cannot do more; the row shows whether they
do less. The peer is a dict in each process, with the same load: processes that share nothing slow
each other down, too.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Worked:
    """How many operations a process did, from when to when, and the CPU time that they took."""

    operations: int
    began_ns: int
    ended_ns: int
    spent_ns: int


class Party:
    """One process."""

    def __init__(self, number: int, path: str) -> None:
        """Open the cache at `path`, which has all entries, and draw the operations."""
        dice = random.Random(number)
        self._keys = keys(_ENTRIES)
        self._cache = Cache(path)
        self._table = {key: make(key, _VALUE_BYTES) for key in self._keys}
        drawn = [
            (key, make(key, _VALUE_BYTES, Stamp(dice.randrange(_EDITIONS))))
            for key in (dice.choice(self._keys) for _ in range(_DRAWN))
        ]
        self._drawn = [(dice.random() < _SET_SHARE, *one) for one in drawn]

    def share(self, seconds: float) -> Worked:
        """Use the cache for so long."""
        return self._work(seconds, self._cache.get, self._cache.set)

    def keep(self, seconds: float) -> Worked:
        """Use the dict for so long."""
        return self._work(seconds, self._table.get, self._table.__setitem__)

    def _work(
        self,
        seconds: float,
        get: Callable[[str], object],
        set_: Callable[[str, bytes], object],
    ) -> Worked:
        done = 0
        spent_ns = time.thread_time_ns()
        # One clock for all processes.
        began_ns = ended_ns = time.monotonic_ns()
        while ended_ns < began_ns + seconds * 1e9:
            begin = done % _DRAWN
            for is_set, key, content in self._drawn[begin : begin + 1_000]:
                if is_set:
                    set_(key, content)
                else:
                    get(key)
            done += 1_000
            ended_ns = time.monotonic_ns()
        return Worked(done, began_ns, ended_ns, time.thread_time_ns() - spent_ns)

    def verify(self) -> None:
        """Raise WrongAnswerError unless every key has one of its own values, undamaged."""
        for key in self._keys:
            read(key, self._cache.get(key))
            read(key, self._table.get(key))


# The methods that use the cache, and the dict.
_WAYS = (Party.share.__name__, Party.keep.__name__)
# Nanoseconds of an operation, by method and number of processes.
_Samples = defaultdict[tuple[str, int], list[float]]


def measure(conditions: Conditions) -> list[Figure]:
    """Measure 1 to 64 processes."""
    path = conditions.tmpfs / "many.tuck"
    seconds = 0.2 if conditions.is_quick else 0.5
    elapsed, spent = _Samples(list), _Samples(list)
    with Cache(path) as cache:
        for key in keys(_ENTRIES):
            cache.set(key, make(key, _VALUE_BYTES))
        conditions.progress(f"starting {_COUNTS[-1]} processes")
        with Crew(_COUNTS[-1], Party, str(path)) as parties:
            for way in _WAYS:
                parties.ask(way, seconds)
            for number in range(min(conditions.rounds, _ROUNDS_MAX)):
                for count in _COUNTS:
                    conditions.progress(f"round {number + 1}: {count} processes")
                    for way in _WAYS[:: -1 if number % 2 else 1]:
                        answers: list[Worked] = parties.ask(way, seconds, count=count)
                        done = sum(each.operations for each in answers)
                        began_ns = min(each.began_ns for each in answers)
                        ended_ns = max(each.ended_ns for each in answers)
                        elapsed[way, count].append((ended_ns - began_ns) / done)
                        spent[way, count].append(sum(each.spent_ns for each in answers) / done)
            parties.ask("verify", count=1)
    cores = len(os.sched_getaffinity(0))
    return [
        *_curve(f"elapsed time per operation, {cores} cores", elapsed),
        *_curve("CPU time per operation", spent),
    ]


def _curve(what: str, samples: _Samples) -> list[Figure]:
    ours, theirs = _WAYS
    return [
        Figure(
            what,
            "ns",
            tuple(samples[ours, count]),
            "dict in each process",
            tuple(samples[theirs, count]),
            "ours / theirs",
            at=count,
            along="processes",
        )
        for count in _COUNTS
    ]


ROW = Row(
    id="processes",
    title="1 to 64 processes, 90 % gets",
    text="all processes use the same 20,000 keys; the peer is a dict in each, with the same load; "
    "it is asked with its own key objects",
    measure=measure,
)
