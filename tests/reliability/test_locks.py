"""T-Q1: a lock has one holder at a time, and that of a killed one is free when its lease ends."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable

import pytest

from drivers.proxy import LOOPBACK
from drivers.servers import Server
from reliability.crowds import HANG_S
from tuckbox import Cache, connect
from tuckbox.coordination.locks import Lock, _Own
from tuckbox.errors import LockLost

if TYPE_CHECKING:
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-Q1"), pytest.mark.timeout(300)]

TTL_S = 0.25
CLOCK_S = 0.05
"""By how much the clocks of the store and of the judge may differ."""
WORKERS = 4

Open = Callable[[], Any]


class Judge:
    """What a worker notes while it holds the lock, in the cache, and whether it may hold it.

    A worker judges only as long as its own lease has surely not ended: after that, others may hold
    the lock, and what they noted is right.
    """

    def __init__(self, cache: Any, lock: Lock) -> None:
        self.cache = cache
        self.lock = lock

    def blame(self, what: str) -> None:
        self.cache.set(("blame", os.getpid()), what)

    def enter(self, before_s: float, after_s: float) -> None:
        holder, fence = self.cache.get("holder"), self.cache.get_entry("fence")
        if time.monotonic() < before_s + TTL_S - CLOCK_S:
            if holder is not None and after_s < holder[1] + TTL_S - CLOCK_S:
                self.blame(f"two holders: {holder}, and {os.getpid()} at {after_s}")
            if fence is not None and fence.value >= self.lock.fence:
                self.blame(f"fence {self.lock.fence} after {fence.value}")
        self.cache.set("holder", [os.getpid(), before_s])
        self.mine = self.cache.get_entry("holder")
        self.cache.set("fence", self.lock.fence)
        self.cache.incr("entered")

    def leave(self, before_s: float, after_s: float) -> None:
        if self.mine is not None:
            self.cache.delete("holder", self.mine.version)
        began_s = time.monotonic()
        try:
            self.lock.release()
        except LockLost:
            if time.monotonic() < before_s + TTL_S - CLOCK_S:
                self.blame("the lock was lost before its lease ended")
        else:
            if began_s > after_s + TTL_S + CLOCK_S:
                self.blame("a lock was released whose lease had ended")


def work(cache: Any, kind: type[Lock], seed: int) -> None:
    """Hold the lock again and again; sometimes for longer than the lease."""
    dice = random.Random(seed)
    lock = kind(cache._coordination(), "a", TTL_S)
    judge = Judge(cache, lock)
    while True:
        before_s = time.monotonic()
        if not lock.acquire(0):
            time.sleep(dice.random() / 1000)
            continue
        after_s = time.monotonic()
        judge.enter(before_s, after_s)
        time.sleep(TTL_S * 1.5 if dice.random() < 0.1 else dice.random() / 500)
        judge.leave(before_s, after_s)


def start(open_cache: Open, kind: type[Lock], seed: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work(open_cache(), kind, seed)
        finally:
            os._exit(1)
    return pid


def storm(open_cache: Open, kills: int, seed: int, kind: type[Lock] = Lock) -> int:
    """Kill workers, often the one that holds the lock. Return how many holders were killed."""
    dice = random.Random(seed)
    cache = open_cache()
    pids = [start(open_cache, kind, dice.getrandbits(32)) for _ in range(WORKERS)]
    holders = 0
    try:
        while holders < kills:
            # Now and then nobody is killed, and some hold the lock for longer than its lease.
            time.sleep(TTL_S * 2 if dice.random() < 0.1 else dice.random() / 50)
            holder = cache.get("holder")
            victim = dice.choice(pids)
            if holder is not None and holder[0] in pids:
                victim, holders = holder[0], holders + 1
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            entered, end_s = cache.get("entered", 0), time.monotonic() + HANG_S
            pids[pids.index(victim)] = start(open_cache, kind, dice.getrandbits(32))
            while cache.get("entered", 0) == entered:
                assert time.monotonic() < end_s, "nobody acquires the lock of a killed holder"
                time.sleep(0.002)
            blames = [cache[key] for key in cache.scan(prefix=("blame",))]
            assert not blames, blames
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        cache.close()
    return holders


def on_file(folder: Path) -> Open:
    return lambda: Cache(folder / "cache.tuck", size="4 MiB")


def test_holders_that_are_killed(tmp_path: Path, trials: Trials, size: Any, seed: int) -> None:
    trials.add(storm(on_file(tmp_path), size(40, 3000), seed), "killed holders")
    assert Cache(tmp_path / "cache.tuck").check().is_sound


def test_holders_that_are_killed_where_a_server_has_the_lock(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    with Server("redis", tmp_path, ("--save", "")) as server:
        kills = storm(lambda: connect(f"redis://{LOOPBACK}:{server.port}"), size(12, 500), seed)
    trials.add(kills, "killed holders")


class Everybodys(Lock):
    def _try(self) -> Any:
        own = yield from super()._try()
        return own or _Own(self._keys[0], 0)


class OfNoOwner(Lock):
    def _entry(self, own: Any) -> Any:
        entry = yield self._space.entry(own.key)
        return entry or (yield from super()._entry(own))

    def _leave(self, own: Any) -> Any:
        yield self._space.delete(own.key)
        own.depth = 0


class WithoutLease(Lock):
    def _try(self) -> Any:
        self._ttl_s = 1e6
        return (yield from super()._try())


class WithOneFence(Lock):
    @property
    def fence(self) -> int:
        return 1


@pytest.mark.parametrize("kind", [Everybodys, OfNoOwner, WithoutLease, WithOneFence])
def test_a_broken_lock_is_caught(
    kind: type[Lock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reliability.test_locks.HANG_S", 3)
    with pytest.raises(AssertionError, match=r"two holders|released|fence|nobody acquires"):
        storm(on_file(tmp_path), 200, 1, kind)
