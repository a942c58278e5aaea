"""A cache on a disk, with none of it in memory.

Owns how that is arranged. The machine's memory is not filled; instead the file is written back, its
pages are dropped, and the row verifies that. Then a new process gets random keys, each from the
disk. It is compared with reads of as many bytes at random places of the file, dropped again.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from tuckbox import Cache

from benches.data import keys
from benches.row import Conditions, Figure, Row
from rig import stamps
from rig.crew import Crew, CrewError

_VALUE_BYTES = 1_600
_ROOM, _ROOM_QUICK = 2 << 30, 256 << 20
# The share that keys, record headers and values fill. The rest is index and open segments.
_FILLED_SHARE = 0.8
_ENTRY_BYTES = 1_700
_FAMILIES = 1_000
_GETS = 2_000
_ROUNDS_MAX = 6
_SAMPLES = 500
_RESIDENT_MAX = 0.05
_DROPS_MOST, _BETWEEN_DROPS_S = 10, 0.2


class Party:
    """A process that has the cache open."""

    def __init__(self, _number: int, path: str, room: int) -> None:
        """Open the cache at `path`, or create it."""
        self._path = path
        self._keys = keys(int(room * _FILLED_SHARE) // _ENTRY_BYTES)
        self._cache = Cache(path, size=room)

    def fill(self) -> float:
        """Set all keys; return the nanoseconds of a set."""
        values = [stamps.make(f"family {one}", _VALUE_BYTES) for one in range(_FAMILIES)]
        began = time.perf_counter_ns()
        for number, key in enumerate(self._keys):
            self._cache.set(key, values[number % _FAMILIES])
        return (time.perf_counter_ns() - began) / len(self._keys)

    def get(self, seed: int) -> float:
        """Get some keys; return the nanoseconds of a get. Raises WrongAnswerError."""
        dice = random.Random(seed)
        numbers = [dice.randrange(len(self._keys)) for _ in range(_GETS)]
        wanted = [self._keys[number] for number in numbers]
        get = self._cache.get
        began = time.perf_counter_ns()
        found = [get(key) for key in wanted]
        nanoseconds = (time.perf_counter_ns() - began) / _GETS
        for number, content in zip(numbers, found, strict=True):
            stamps.read(f"family {number % _FAMILIES}", content)
        return nanoseconds

    def read(self, seed: int) -> float:
        """Read as many bytes at random places of the file; return the nanoseconds of one read."""
        dice = random.Random(seed)
        file = os.open(self._path, os.O_RDONLY)
        try:
            length = os.fstat(file).st_size - _VALUE_BYTES
            places = [dice.randrange(length) for _ in range(_GETS)]
            # Without advice to the kernel, as for the cache's mapping.
            began = time.perf_counter_ns()
            for at in places:
                os.pread(file, _VALUE_BYTES, at)
            return (time.perf_counter_ns() - began) / _GETS
        finally:
            os.close(file)


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets of entries on the disk, and again once they are in memory."""
    path = conditions.disk / "cold.tuck"
    room = _ROOM_QUICK if conditions.is_quick else _ROOM
    with Crew(1, Party, str(path), room) as party:
        conditions.progress(f"filling {room >> 20} MiB on a disk")
        filling = party.ask("fill")
    cold, warm, plain = [], [], []
    for number in range(min(conditions.rounds, _ROUNDS_MAX)):
        conditions.progress(f"round {number + 1}: gets from the disk")
        _drop(path)
        with Crew(1, Party, str(path), room) as party:
            cold += party.ask("get", number)
            warm += party.ask("get", number)
        _drop(path)
        with Crew(1, Party, str(path), room) as party:
            plain += party.ask("read", number)
    size = f"{room >> 20} MiB"
    return [
        Figure(
            f"get from disk, file of {size}",
            "ns",
            tuple(cold),
            "pread of as many bytes",
            tuple(plain),
            "ours / theirs",
            None,
        ),
        Figure(
            "get of the same keys again, from memory",
            "ns",
            tuple(warm),
            "from disk",
            tuple(cold),
            "ours / theirs",
            None,
        ),
        Figure(f"set while filling {size}", "ns", tuple(filling)),
    ]


def _drop(path: Path) -> None:
    """Drop a file's pages from memory. Raises CrewError if they stay there."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        for _ in range(_DROPS_MOST):
            # Pages in the batch of another processor cannot be dropped at first.
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            resident = _resident_share(file)
            if resident <= _RESIDENT_MAX:
                return
            time.sleep(_BETWEEN_DROPS_S)
    finally:
        os.close(file)
    raise CrewError(f"{resident:.0%} of {path.name} stayed in memory after it was dropped")


def _resident_share(file: int) -> float:
    """Return which share of a file is in memory, from reads that do not wait for the disk."""
    dice = random.Random(0)
    length = os.fstat(file).st_size - 1
    there = 0
    buffer = bytearray(1)
    for _ in range(_SAMPLES):
        try:
            there += os.preadv(file, [buffer], dice.randrange(length), os.RWF_NOWAIT)
        except BlockingIOError:
            continue
    return there / _SAMPLES


ROW = Row(
    id="disk",
    title="A cache larger than memory",
    text="the file's pages are dropped from memory before each round",
    measure=measure,
)
