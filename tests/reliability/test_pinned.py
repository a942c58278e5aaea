"""T-E2: a pinned entry, and any entry of a cache that does not evict, stays until it is deleted."""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox import Cache
from tuckbox.errors import CacheFull

if TYPE_CHECKING:
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-E2"), pytest.mark.timeout(300)]

WORKERS = 4
KEYS = 30
"""Entries of each worker that must stay. With their largest values, they take a quarter of it."""
SIZE = "4 MiB"
STORED, DELETED = 1, 0

_NOTE = struct.Struct("<QQQ")


class Notes:
    """What the workers have begun and completed, in memory that survives them.

    For each entry: the number of the last write that began, that of the last one that returned, and
    whether that one stored a value.
    """

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, WORKERS * KEYS * _NOTE.size)

    def read(self, worker: int, key: int) -> tuple[int, int, int]:
        return _NOTE.unpack_from(self._map, (worker * KEYS + key) * _NOTE.size)

    def write(self, worker: int, key: int, begun: int, done: int, state: int) -> None:
        _NOTE.pack_into(self._map, (worker * KEYS + key) * _NOTE.size, begun, done, state)


class Worker:
    """Writes its own entries, and floods the cache with others."""

    def __init__(self, cache: Cache, notes: Notes, worker: int, seed: int, *, pinned: bool) -> None:
        self.cache = cache
        self.notes = notes
        self.worker = worker
        self.dice = random.Random(seed)
        self.pinned = pinned

    def run(self) -> None:
        while True:
            key = self.dice.randrange(KEYS)
            self.delete(key) if self.dice.random() < 0.1 else self.store(key)
            for _ in range(20):
                self.flood()

    def store(self, key: int) -> None:
        begun, done, state = self.notes.read(self.worker, key)
        number, length = begun + 1, int(2 ** self.dice.uniform(3, 13))
        self.notes.write(self.worker, key, number, done, state)
        try:
            value = [number, bytes(length)]
            self.cache.set(("stays", self.worker, key), value, pinned=self.pinned)
        except CacheFull:
            # Refused: the entry is as it was.
            self.notes.write(self.worker, key, done, done, state)
        else:
            self.notes.write(self.worker, key, number, number, STORED)

    def delete(self, key: int) -> None:
        begun, done, state = self.notes.read(self.worker, key)
        self.notes.write(self.worker, key, begun + 1, done, state)
        self.cache.delete(("stays", self.worker, key))
        self.notes.write(self.worker, key, begun + 1, begun + 1, DELETED)

    def flood(self) -> None:
        value = bytes(int(2 ** self.dice.uniform(3, 12)))
        with suppress(CacheFull):
            self.cache.set(("flood", self.worker, self.dice.randrange(100_000)), value, ttl=0.5)


def start(path: Path, notes: Notes, worker: int, seed: int, *, pinned: bool) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            Worker(Cache(path), notes, worker, seed, pinned=pinned).run()
        finally:
            os._exit(1)
    return pid


def judge(cache: Cache, notes: Notes, worker: int) -> int:
    """Demand the entries of a worker that does not run, and note what is there. Return how many."""
    stayed = 0
    for key in range(KEYS):
        begun, done, state = notes.read(worker, key)
        value = cache.get(("stays", worker, key))
        number = None if value is None else value[0]
        if begun == done:
            wanted = done if state == STORED else None
            assert number == wanted, f"entry {key} of {worker}: {number} instead of {wanted}"
            stayed += state
        elif number is not None:
            # It was being written: then it may be lost, or have either value.
            assert number == begun or (number, state) == (done, STORED), f"entry {key}: {number}"
        notes.write(worker, key, begun, begun, STORED if number is not None else DELETED)
        if number not in {None, begun}:
            notes.write(worker, key, number, number, STORED)
    return stayed


def storm(path: Path, least: int, seed: int, *, pinned: bool = True) -> tuple[int, int]:
    """Kill workers, and demand what each had stored. Return the kills, and how many entries stayed.

    There are at least `least` kills. They go on until enough entries stayed, on average a quarter
    of a worker's for each of these kills. So a slow machine takes longer, and does not fail.
    """
    dice, notes = random.Random(seed), Notes()
    kills = stayed = 0
    with Cache(path) as cache:
        pids: list[int] = []
        try:
            for worker in range(WORKERS):
                pids.append(start(path, notes, worker, dice.getrandbits(32), pinned=pinned))
            while kills < least or stayed <= least * KEYS // 4:
                time.sleep(dice.uniform(0, 0.1))
                worker = dice.randrange(WORKERS)
                end(pids[worker])
                kills += 1
                stayed += judge(cache, notes, worker)
                pids[worker] = start(path, notes, worker, dice.getrandbits(32), pinned=pinned)
        finally:
            for pid in pids:
                end(pid)
        stayed += sum(judge(cache, notes, worker) for worker in range(WORKERS))
        assert cache.check().is_sound
        # Nothing but the entries of workers was lost by the repair.
        stayed += sum(judge(cache, notes, worker) for worker in range(WORKERS))
    return kills, stayed


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL, "a worker failed"


def test_pinned_entries_stay_in_a_full_cache(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    path = tmp_path / "cache.tuck"
    Cache(path, size=SIZE).close()
    kills, stayed = storm(path, size(60, 3000), seed)
    with Cache(path) as cache:
        assert cache.stats().evictions > 0
    trials.add(kills, "kills")
    trials.figure("entries_that_stayed", stayed)


def test_all_entries_stay_in_a_cache_that_does_not_evict(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    path = tmp_path / "cache.tuck"
    Cache(path, size=SIZE, evict=False).close()
    kills, _ = storm(path, size(60, 3000), seed, pinned=False)
    with Cache(path) as cache:
        assert cache.stats().evictions == 0
    trials.add(kills, "kills")


def test_entries_that_are_not_pinned_are_missed(tmp_path: Path, seed: int) -> None:
    """The control: what is stored without the pin is evicted, and that is found."""
    path = tmp_path / "cache.tuck"
    Cache(path, size=SIZE).close()
    with pytest.raises(AssertionError, match="instead of"):
        storm(path, 100_000, seed, pinned=False)
