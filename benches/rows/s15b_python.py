"""S15b: sets of new keys into a full cache, from Python, and by several processes at once.

The lab's hosts fill Tuckbox and a peer to the same limit in bytes, and then take turns: Python's
host drives Tuckbox and cachebox, the native host the engine, PHP's host APCu. APCu drops all
entries when it is full, so its samples differ. Samples compared with the engine's have more sets,
because the first ones after another contestant's turn are slower. Eight processes store into one
file, each its own keys.
"""

from __future__ import annotations

import shutil
import time
from itertools import count

from tuckbox import Cache

from benches.data import VALUE_BYTES, keys
from benches.languages import OURS, Phase, Plan, take_steps
from benches.row import Conditions, Figure, Goal, Row
from lab import stream
from lab.peers import PeerMissingError
from rig.cores import cores
from rig.crew import Crew
from rig.stamps import WrongAnswerError, make, read

#: The size of the file, and the limit of the peers.
SIZE, SIZE_QUICK = 64 << 20, 8 << 20
_KEY_BYTES = 36
# Keys and values alone would fill the file twice.
_FILLINGS = 2
#: New keys of a sample.
STORED, STORED_NATIVE = 20_000, 100_000
NATIVE = "native_tuckbox"
PEERS = ("cachebox", "php_apcu:limited")
_MORE_NS_MAX = 100
_PROCESSES = 8
_ROUNDS_MAX = 11
NEW = "set of a new key, full cache"


def measure(conditions: Conditions) -> list[Figure]:
    """Measure sets of new keys from Python, and by several processes."""
    size = SIZE_QUICK if conditions.is_quick else SIZE
    conditions.progress("full caches, from Python")
    figures = _from_python(conditions, size)
    conditions.progress(f"a full cache, {_PROCESSES} processes")
    return [*figures, *_processes(conditions, size)]


def _from_python(conditions: Conditions, size: int) -> list[Figure]:
    what = f"{NEW}, {size >> 20} MiB"
    figures = []
    for peer in (NATIVE, *PEERS):
        folder = conditions.tmpfs / "hosts"
        folder.mkdir(0o700)
        try:
            plan = _plan(size, conditions.rounds, STORED_NATIVE if peer == NATIVE else STORED)
            ours, theirs = take_steps([OURS, peer], plan, folder)
        except PeerMissingError as error:
            conditions.not_measured(str(error))
            continue
        finally:
            shutil.rmtree(folder)
        title = theirs.title
        if peer == NATIVE:
            title = "the engine from Rust"
            more = (one - other for one, other in zip(ours.samples, theirs.samples, strict=True))
            goal = Goal("at most", _MORE_NS_MAX)
            figures.append(Figure(f"{what}, more than natively", "ns", tuple(more), goal=goal))
        figures.append(Figure(what, "ns", ours.samples, title, theirs.samples, "ours / theirs"))
    return figures


def _plan(size: int, rounds: int, stored: int) -> Plan:
    filled = _FILLINGS * size // (_KEY_BYTES + VALUE_BYTES)
    starts = (filled + step * stored for step in range(rounds + 1))
    return Plan(
        keys=filled + (rounds + 1) * stored,
        fill=[
            Phase(stream.SET, range(filled), VALUE_BYTES),
            # Some entries were evicted.
            Phase(stream.GET, range(filled), misses="some"),
        ],
        steps=[[Phase(stream.SET, range(start, start + stored), VALUE_BYTES)] for start in starts],
        bytes_max=size,
    )


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

    def verify(self) -> int:
        """Return how many of them are there. Raise WrongAnswerError if one has another value."""
        found = [(name, self._cache.get(name)) for name, _ in self._entries]
        there = [(name, value) for name, value in found if value is not None]
        for name, value in there:
            read(name, value)
        return len(there)


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
        for _ in range(min(conditions.rounds, _ROUNDS_MAX)):
            for number in counts:
                storers.ask("prepare", count=number)
                answers = storers.ask("store", count=number)
                began, ended, cpu = zip(*answers, strict=True)
                elapsed[number].append((max(ended) - min(began)) / number / STORED)
                spent[number].append(sum(cpu) / number / STORED)
                # The others may have evicted all entries of the one that was done first.
                if not sum(storers.ask("verify", count=number)):
                    raise WrongAnswerError("a full Tuckbox has none of the latest entries")
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


ROW = Row(
    id="S15b",
    title="Sets of new keys, from Python",
    text="one process or eight; with the same limit in bytes; APCu is called from PHP",
    measure=measure,
)
