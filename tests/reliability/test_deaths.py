"""T-R5: processes of a site are killed, terminated and interrupted, however they were started.

No other process hangs, reads a wrong value, loses an entry or has to restart. The tests use the
workers of `processes/test_kills.py`: each value contains its key and a checksum, and a process
notes when it begins an operation.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, Callable

import pytest

from processes import workers
from reliability import sites
from reliability.holders import stopped_holder
from tuckbox import Cache

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-R5"), pytest.mark.timeout(180)]

WORKERS = 4
CANARIES = 1000
HANG_S = 20.0
CONTROL_HANG_S = 2.0
SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
# What a process may do after a signal that finds it waiting for a lock.
PROMPT_S = 0.25


class Shared:
    """What a worker and its arbiter both see."""

    def __init__(self, context: BaseContext) -> None:
        self.mistakes = context.Value("L", 0, lock=False)
        self.heartbeat = context.Value("d", 0, lock=False)
        self.stop = context.Event()


class Server:
    """An arbiter and its workers, as a web server has them."""

    def __init__(
        self, path: str, *, preload: bool, threads: int, kind: str = "Cache", hang_s: float = HANG_S
    ) -> None:
        self.context = multiprocessing.get_context("fork")
        self.hang_s = hang_s
        open_cache = functools.partial(sites.KINDS[kind], path, lock_timeout=30)
        if preload:
            cache = open_cache()
            self.open_cache: Callable[[], Cache] = lambda: cache
        else:
            self.open_cache = open_cache
        self.threads = threads
        self.team: list[tuple[Any, Shared]] = []
        self.started = 0

    def start_one(self) -> None:
        self.started += 1
        shared = Shared(self.context)
        arguments = (self.open_cache, self.started, shared, self.threads)
        process = self.context.Process(target=sites.serve, args=arguments, daemon=True)
        process.start()
        self.team.append((process, shared))

    def demand_progress(self) -> None:
        for process, shared in self.team:
            began = shared.heartbeat.value
            assert not began or time.monotonic() - began < self.hang_s, "an operation hangs"
            assert process.is_alive(), f"a worker ended by itself: {process.exitcode}"
            assert shared.mistakes.value == 0, "a wrong value was read"

    def strike(self, index: int, number: int) -> None:
        process, shared = self.team.pop(index)
        began = time.monotonic()
        # Before a worker's first operation it is Python's own that Ctrl-C interrupts, which then
        # ends with an error, or swallows it.
        while number == signal.SIGINT and not shared.heartbeat.value:
            assert time.monotonic() - began < self.hang_s, "a worker never began"
            time.sleep(0.001)
        os.kill(process.pid, number)
        process.join(self.hang_s)
        assert not process.is_alive(), f"a worker hangs after {signal.Signals(number).name}"
        assert process.exitcode in (0, -number), f"a worker failed: {process.exitcode}"
        assert shared.mistakes.value == 0, "a wrong value was read"

    def run(self, kills: int, generator: random.Random) -> None:
        """Strike so often, replacing who was struck."""
        for _ in range(WORKERS):
            self.start_one()
        for kill in range(kills):
            end = time.monotonic() + generator.uniform(0, 0.04)
            while time.monotonic() < end:
                self.demand_progress()
                time.sleep(0.002)
            if kill % 20 == 19:
                # As when the system runs out of memory: all of them at once.
                for process, _ in self.team:
                    process.kill()
                while self.team:
                    self.strike(0, signal.SIGKILL)
            else:
                self.strike(generator.randrange(len(self.team)), generator.choice(SIGNALS))
            while len(self.team) < WORKERS:
                self.start_one()
        end = time.monotonic() + max(0.1, 1.5 * self.hang_s if self.hang_s < HANG_S else 0)
        while time.monotonic() < end:
            self.demand_progress()
            time.sleep(0.01)
        for _, shared in self.team:
            shared.stop.set()
        for process, shared in self.team:
            process.join(self.hang_s)
            assert process.exitcode == 0, "a worker hangs"
            assert shared.mistakes.value == 0, "a wrong value was read"

    def end(self) -> None:
        for process, _ in self.team:
            process.kill()
            process.join()


class Canaries:
    """Entries that nobody touches."""

    def __init__(self, path: str, kind: str = "Cache") -> None:
        self.cache = sites.KINDS[kind](path, size="48 MiB", lock_timeout=30)
        self.entries = {("canary", n): workers.value_of(n, n, 60) for n in range(CANARIES)}
        self.cache.set_many(self.entries)

    def judge(self, kills: int) -> None:
        repaired = self.cache.check()  # The first check repairs what a death left.
        report = self.cache.check()
        assert report.is_sound, report
        assert self.cache.get_many(self.entries) == self.entries, "entries were lost"
        # Others are signed objects, which this handle does not read.
        for key in [key for key in self.cache if isinstance(key, int)]:
            assert workers.is_whole(key, self.cache[key]), "a wrong value is there"
        stats = self.cache.stats()
        assert stats.evictions == 0
        # A kill may cost the entry that was being written.
        assert stats.lost_entries <= kills, (stats, repaired)
        # A live process that loses its processor with a lock may cost a read, too.
        assert stats.reads_given_up <= 3

    def end(self) -> None:
        self.cache.close()


def play(path: str, kills: int, seed: int, **options: Any) -> None:
    kind = options.get("kind", "Cache")
    canaries = Canaries(path, kind)
    server = Server(path, **options)
    try:
        server.run(kills, random.Random(seed))
    finally:
        server.end()
    canaries.judge(kills)
    canaries.end()


@pytest.mark.parametrize("threads", [1, sites.THREADS], ids=["processes", "threads"])
@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "own"])
def test_a_server_and_its_workers(
    *, path: str, preload: bool, threads: int, trials: Trials, size: Any, seed: int
) -> None:
    kills = size(60, 1500)
    play(path, kills, seed, preload=preload, threads=threads)
    trials.add(kills, "kills")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_whose_workers_die(
    path: str, method: str, trials: Trials, size: Any, seed: int
) -> None:
    canaries = Canaries(path)
    generator = random.Random(seed)
    context = multiprocessing.get_context(method)
    kills = size(4, 60)
    for kill in range(kills):
        with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
            tasks = [
                pool.submit(sites.work_a_while, path, kill * 100 + n, 10)
                for n in range(3 * WORKERS)
            ]
            assert tasks[0].result(HANG_S) == 0
            team = dict(pool._processes)
            os.kill(generator.choice(list(team)), generator.choice(SIGNALS[:3]))
            for task in tasks:
                with contextlib.suppress(BrokenProcessPool):
                    assert task.result(HANG_S) == 0
            # The dead process may have held the lock of the pool's own queue, which nobody takes
            # over. The others would wait for it without end, and the pool for them.
            for process in team.values():
                process.kill()
    canaries.judge(kills)
    canaries.end()
    trials.add(kills, "kills")


def test_a_development_server(path: str, trials: Trials, size: Any, seed: int) -> None:
    canaries = Canaries(path)
    generator = random.Random(seed)
    kills = size(8, 60)
    tests = os.path.dirname(os.path.dirname(__file__))
    server = subprocess.Popen(
        [sys.executable, sites.__file__, "reload", path, "400"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": tests},
    )
    assert server.stdout is not None
    try:
        for kill in range(kills):
            child = int(server.stdout.readline())
            if kill % 2:
                time.sleep(generator.uniform(0.2, 0.5))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, generator.choice(SIGNALS[1:3]))
        assert server.poll() is None, "a wrong value was read"
    finally:
        server.terminate()
        server.wait(HANG_S)
        server.stdout.close()
    time.sleep(0.05)
    assert any(str(key).startswith(":1:page-") for key in canaries.cache)
    canaries.judge(kills)
    canaries.end()
    trials.add(kills, "kills")


@pytest.mark.parametrize("kind", ["LockFile", "Torn", "Careful", "Missing"])
def test_a_cache_that_cannot_stand_deaths_is_caught(path: str, kind: str, seed: int) -> None:
    with pytest.raises(AssertionError, match=r"hangs|wrong value|lost"):
        # A process that waits for a lock file waits without end: a short limit shows it.
        hang_s = CONTROL_HANG_S if kind == "LockFile" else HANG_S
        play(path, 40, seed, preload=False, threads=1, kind=kind, hang_s=hang_s)


# Signals that find a process waiting for a lock whose holder is stopped.

WAITING: dict[str, Callable[[Cache], Any]] = {
    "set": lambda cache: cache.set("k", "new"),
    "set of a long value": lambda cache: cache.set("k", b"x" * 1_000_000),
    "set_many": lambda cache: cache.set_many({"k": "new"}),
    "incr": lambda cache: cache.incr("n"),
    "touch": lambda cache: cache.touch("k", 1),
    "delete": lambda cache: cache.delete("k"),
    "clear": lambda cache: cache.clear(),
    "check": lambda cache: cache.check(),
}


def wait_in_child(path: str, operation: str, number: int, *, handler: bool, deaf: bool) -> float:
    """How many seconds a child that waits for a lock takes to end after a signal."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if handler:
                signal.signal(number, sites.terminated)
            if deaf:
                signal.signal(number, lambda *_: None)
            cache = Cache(path, lock_timeout=2 * PROMPT_S if deaf else 60)
            os.write(writer, b"x")
            WAITING[operation](cache)
        except (SystemExit, KeyboardInterrupt):
            os._exit(42)
        finally:
            os._exit(1)
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    os.close(writer)
    time.sleep(0.03)
    began = time.monotonic()
    os.kill(child, number)
    _, status = os.waitpid(child, 0)
    took_s = time.monotonic() - began
    code = os.waitstatus_to_exitcode(status)
    if not deaf:
        by_python = handler or number == signal.SIGINT
        assert code == (42 if by_python else -number), f"{operation} ended with {code}"
    return took_s


def prompt(path: str, operation: str, number: int, **options: bool) -> None:
    """Demand that a signal ends a wait at once: at the best of three, for the machine is busy."""
    took_s = [wait_in_child(path, operation, number, **options) for _ in range(3)]
    assert min(took_s) < PROMPT_S, f"{operation} went on for {took_s} seconds after a signal"


@pytest.fixture
def locked(path: str) -> Any:
    with Cache(path, size="24 MiB", lock_timeout=60) as cache:
        cache.set_many({n: n for n in range(20_000)})
        cache["k"] = "old"
        cache["n"] = 1
        with stopped_holder(path):
            yield path
        expected = {**{n: n for n in range(20_000)}, "k": "old", "n": 1}
        assert cache.get_many(expected) == expected
        assert cache.touch("k", 60)  # The dead holder's lock is taken over.
        cache.check()
        assert cache.check().is_sound


@pytest.mark.parametrize("operation", WAITING)
def test_who_waits_for_a_lock_hears_signals(locked: str, operation: str, trials: Trials) -> None:
    for number, handler in (
        (signal.SIGTERM, False),
        (signal.SIGTERM, True),
        (signal.SIGINT, False),
    ):
        prompt(locked, operation, number, handler=handler, deaf=False)
        trials.add(3, "signals")


def test_a_process_that_does_not_hear_is_caught(locked: str) -> None:
    with pytest.raises(AssertionError, match="after a signal"):
        prompt(locked, "set", signal.SIGTERM, handler=False, deaf=True)
