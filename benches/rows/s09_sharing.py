"""S9: processes that share a cache, compared with processes that each have a dict.

Owns the readers and the writer. Each process is pinned to its own core, and makes passes over all
keys for a given time. The cost of a writer is measured with one reader and one writer, so that each
has a core. The writer overwrites the keys that are read, in all shards.
"""

from __future__ import annotations

import time
from typing import Literal

from tuckbox import Cache

from benches.data import keys
from benches.row import Conditions, Figure, Goal, Row
from rig.cores import two_cores
from rig.crew import Crew, CrewError
from rig.stamps import Stamp, WrongAnswerError, make, read

_ENTRIES = 20_000
_VALUE_BYTES = 160
# A writer changes the bytes of a key every time, so that a mixture of two writes is detected.
_EDITIONS = 3
_PACED_SETS = 10_000
_TICK_NS = 1_000_000
# A writer begins before its reader, and ends after it.
_LEAD_SECONDS = 0.05

_Store = Literal["dict", "cache"]


class Party:
    """A process with the cache open, and a dict of the same entries."""

    def __init__(self, _number: int, path: str) -> None:
        """Open the cache at `path`, which has all entries."""
        self._keys = keys(_ENTRIES)
        self._editions = [
            [make(key, _VALUE_BYTES, Stamp(edition)) for key in self._keys]
            for edition in range(_EDITIONS)
        ]
        self._dict = dict(zip(self._keys, self._editions[0], strict=True))
        self._cache = Cache(path)

    def read(self, store: _Store, seconds: float) -> tuple[float, int]:
        """Get all keys for so long; return the nanoseconds of one get, and how many were made."""
        get = self._dict.get if store == "dict" else self._cache.get
        wanted = self._keys
        passes = 0
        began = now = time.perf_counter_ns()
        deadline = began + int(seconds * 1e9)
        while now < deadline:
            for key in wanted:
                get(key)
            passes += 1
            now = time.perf_counter_ns()
        gets = passes * len(wanted)
        return (now - began) / gets, gets

    def verify(self) -> None:
        """Get all keys once. Raise WrongAnswerError unless each has one of its own values."""
        for key in self._keys:
            read(key, self._cache.get(key))

    def write(self, seconds: float) -> float:
        """Set all keys for so long; return the sets per second."""
        set_ = self._cache.set
        editions = [list(zip(self._keys, of, strict=True)) for of in self._editions]
        passes = 0
        began = now = time.perf_counter_ns()
        deadline = began + int(seconds * 1e9)
        while now < deadline:
            for key, content in editions[passes % _EDITIONS]:
                set_(key, content)
            passes += 1
            now = time.perf_counter_ns()
        return passes * len(self._keys) * 1e9 / (now - began)

    def write_paced(self, seconds: float, per_second: int) -> float:
        """Make `per_second` sets, spread over each second; return the sets per second."""
        made = 0
        began = now = time.perf_counter_ns()
        deadline = began + int(seconds * 1e9)
        while now < deadline:
            due = (now - began) * per_second // 1_000_000_000
            for turn in range(made, due):
                passes, index = divmod(turn, len(self._keys))
                self._cache.set(self._keys[index], self._editions[passes % _EDITIONS][index])
            made = due
            time.sleep(max(_TICK_NS - (time.perf_counter_ns() - now), 0) / 1e9)
            now = time.perf_counter_ns()
        return made * 1e9 / (now - began)


def measure(conditions: Conditions) -> list[Figure]:
    """Measure two readers together, and a reader with a writer."""
    path = conditions.tmpfs / "shared.tuck"
    seconds = 0.15 if conditions.is_quick else 0.4
    first, second = two_cores()
    wanted = keys(_ENTRIES)
    with Cache(path) as cache:
        for key in wanted:
            cache.set(key, make(key, _VALUE_BYTES))
        with (
            Crew(2, Party, str(path), cores=[first, second]) as readers,
            Crew(1, Party, str(path), cores=[second]) as writers,
        ):
            return _Rounds(conditions, cache, readers, writers, seconds).run()


class _Rounds:
    """All rounds of the row, and their samples."""

    def __init__(
        self, conditions: Conditions, cache: Cache, readers: Crew, writers: Crew, seconds: float
    ) -> None:
        self._conditions = conditions
        self._cache = cache
        self._readers = readers
        self._writers = writers
        self._seconds = seconds
        self._gets = 0

    def run(self) -> list[Figure]:
        """Return the figures. Raises WrongAnswerError."""
        scaling: dict[_Store, list[float]] = {"dict": [], "cache": []}
        alone, paced, full, pace, speed = [], [], [], [], []
        missed = []
        for store in ("dict", "cache"):
            self._readers.ask("read", store, self._seconds)
        for number in range(self._conditions.rounds):
            self._conditions.progress(f"round {number + 1} of {self._conditions.rounds}")
            before = self._cache.stats()
            self._gets = 0
            stores: list[_Store] = ["dict", "cache"] if number % 2 else ["cache", "dict"]
            one = {}
            for store in stores:
                one[store] = self._read_one(store)
                scaling[store].append(2 * one[store] / self._read_two(store))
            alone.append(one["cache"])
            taken, made = self._with_writer("write_paced", _PACED_SETS)
            paced.append(taken)
            pace.append(made)
            taken, made = self._with_writer("write")
            full.append(taken)
            speed.append(made)
            after = self._cache.stats()
            counted = after.hits - before.hits + after.misses - before.misses
            if counted < self._gets:
                raise WrongAnswerError(f"Tuckbox counted {counted} of {self._gets} gets")
            missed.append(after.misses - before.misses)
            self._readers.ask("verify")
        if min(pace) < 0.9 * _PACED_SETS:
            raise CrewError(
                f"the paced writer made {min(pace):.0f} sets per second instead of {_PACED_SETS}"
            )
        return [
            Figure(
                "gets of 2 readers, as a multiple of 1",
                "x",
                tuple(scaling["cache"]),
                "private dicts",
                tuple(scaling["dict"]),
                "ours / theirs",
                Goal("at least", 0.97),
            ),
            self._slower("get, with a writer at 10,000 sets/s", paced, alone, 1.10),
            self._slower("get, with a writer at full speed", full, alone, 3.0),
            Figure("misses of present keys", "misses", tuple(missed), goal=Goal("at most", 0)),
            Figure("sets of that writer", "sets/s", tuple(speed)),
        ]

    @staticmethod
    def _slower(what: str, paired: list[float], alone: list[float], bound: float) -> Figure:
        return Figure(
            what,
            "ns",
            tuple(paired),
            "without a writer",
            tuple(alone),
            "ours / theirs",
            Goal("at most", bound),
        )

    def _read_one(self, store: _Store) -> float:
        nanoseconds, gets = self._readers.ask("read", store, self._seconds, count=1)[0]
        self._gets += gets if store == "cache" else 0
        return float(nanoseconds)

    def _read_two(self, store: _Store) -> float:
        answers = self._readers.ask("read", store, self._seconds)
        self._gets += sum(gets for _, gets in answers) if store == "cache" else 0
        # Rates can be added, times cannot.
        return 2 / sum(1 / float(nanoseconds) for nanoseconds, _ in answers)

    def _with_writer(self, method: str, *arguments: object) -> tuple[float, float]:
        """Return the nanoseconds of a get with a writer, and the writer's sets per second."""
        self._writers.begin(method, self._seconds + 3 * _LEAD_SECONDS, *arguments)
        time.sleep(_LEAD_SECONDS)
        nanoseconds = self._read_one("cache")
        return nanoseconds, float(self._writers.answers()[0])


ROW = Row(
    id="S9",
    title="Sharing",
    text="each process is pinned to a core; a writer runs next to one reader",
    measure=measure,
)
