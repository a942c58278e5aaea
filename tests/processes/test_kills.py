"""Writers are killed at any moment, under load.

Each value contains its key and a checksum, which shows torn and misplaced values. A watchdog looks
at when each worker began its operation, which shows hangs. Entries that nobody touches
must still be there at the end: a cache that loses everything would otherwise pass.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from typing import Any

import pytest

from processes import workers
from tuckbox import Cache

WORKERS = 3
KILLS = 40
CANARIES = 500
HANG_S = 20


class Worker:
    def __init__(self, path: str, seed: int) -> None:
        context = multiprocessing.get_context("fork")
        self.mistakes = context.Value("L", 0)
        self.heartbeat = context.Value("d", 0)
        self.stop = context.Event()
        arguments = (path, seed, self.mistakes, self.heartbeat, self.stop)
        self.process = context.Process(target=workers.work_for_ever, args=arguments, daemon=True)
        self.process.start()

    def demand_progress(self) -> None:
        began = self.heartbeat.value
        assert not began or time.monotonic() - began < HANG_S, "an operation hangs"
        assert self.process.is_alive() or self.process.exitcode == 0, "an operation failed"

    def end(self) -> None:
        assert self.mistakes.value == 0, "a wrong value was read"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("size", ["32 MiB", "2 MiB"], ids=["roomy", "evicting"])
def test_the_dead_harm_nobody(path: str, size: str) -> None:
    seed = 20_261_120
    generator = random.Random(seed)
    cache = Cache(path, size=size, lock_timeout=30)
    canaries = {("canary", n): workers.value_of(n, n, 60) for n in range(CANARIES)}
    cache.set_many(canaries)
    team = [Worker(path, number) for number in range(WORKERS)]
    seeds = iter(range(WORKERS, 10**6))
    try:
        for kill in range(KILLS):
            time.sleep(generator.uniform(0, 0.04))
            for worker in team:
                worker.demand_progress()
            victim = team.pop(generator.randrange(WORKERS))
            victim.process.kill()
            victim.process.join()
            victim.end()
            team.append(Worker(path, next(seeds)))
            if kill % 20 == 19:
                assert cache.check().is_sound or size == "2 MiB"
        for worker in team:
            worker.stop.set()
        for worker in team:
            worker.process.join(HANG_S)
            worker.demand_progress()
            assert worker.process.exitcode == 0
            worker.end()
    finally:
        for worker in team:
            worker.process.kill()
            worker.process.join()

    cache.check()
    report = cache.check()
    assert report.is_sound, report
    for key, value in cache.items():
        if isinstance(key, int):
            assert workers.is_whole(key, value)
    found: dict[Any, Any] = cache.get_many(canaries)
    assert all(canaries[key] == value for key, value in found.items())
    if size == "32 MiB":
        assert len(found) == CANARIES, "an entry that nobody touched is lost"
        assert cache.stats().evictions == 0
    # A live process that loses its processor with a lock may cost a read.
    assert cache.stats().reads_given_up <= 3
    cache.close()
