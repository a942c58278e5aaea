"""T-N7: values wait for Redis, while it dies and connections break, and processes are killed.

Each process stores counters under keys of its own, reads them, and flushes now and then. What it
has begun to store, and what a flush has confirmed, is in a file that outlives it. The server is
read by another connection all the time.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import pytest

from drivers.proxy import LOOPBACK, Proxy
from drivers.servers import Server
from reliability.actors import Actor
from reliability.networks import HANG_S, SPACE, TIMEOUT_S, WrongRead, as_it_is
from tuckbox import connect
from tuckbox.drivers.breaker import Breaker
from tuckbox.drivers.redis import Redis
from tuckbox.errors import DriverError
from tuckbox.remote import cache as remote
from tuckbox.tiers.behind import Behind
from tuckbox.tiers.shared_first import SharedFirst

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-N7"), pytest.mark.timeout(120)]

PROCESSES = 3
KEYS = 8
"""How many each process writes. Every second one is in a namespace."""
_WORDS = struct.Struct("<QQ")


class Forgets(Behind):
    """Puts a value that could not be sent in the place of the newer one."""

    def _send(self, group: list[Any]) -> None:
        time.sleep(0.002)  # So that there are newer ones.
        try:
            super()._send(group)
        except DriverError:
            for write in group:
                self._waiting[write.names, write.key] = write
            raise


class Confirms(Behind):
    """Confirms without a wait."""

    def flush(self, timeout_s: float | None) -> bool:
        return True


class Tears(Behind):
    """Sends the values of two writes as those of each other."""

    def _send(self, group: list[Any]) -> None:
        values = [write.value for write in group]
        others = [write._replace(value=value) for write, value in zip(group, values[::-1])]
        for write in others:
            self._waiting[write.names, write.key] = write
        super()._send(others)


BROKEN = {"order": Forgets, "flush": Confirms, "values": Tears}


class Notes:
    """Of each key of a process, in a file: the last counter that it began to store, and the last
    one that a flush confirmed."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, KEYS * _WORDS.size)
        self._map = mmap.mmap(self._file, KEYS * _WORDS.size)

    def get(self, index: int) -> tuple[int, int]:
        issued, confirmed = _WORDS.unpack_from(self._map, index * _WORDS.size)
        return issued, confirmed

    def issue(self, index: int, number: int) -> None:
        struct.pack_into("<Q", self._map, index * _WORDS.size, number)

    def confirm(self, index: int, number: int) -> None:
        struct.pack_into("<Q", self._map, index * _WORDS.size + 8, number)


class Plan(NamedTuple):
    """How a process writes."""

    port: int
    near: str
    notes: str
    owner: int
    seed: int
    breaks: str = ""


def key_of(owner: int, index: int) -> str:
    return f"{owner}:{index}"


def value_of(owner: int, index: int, number: int) -> list[Any]:
    # Long enough for several packets.
    return [key_of(owner, index), number, str(number) * (1 + number % 7 * 300)]


class Writer:
    """Stores, reads and flushes in a thread. Lives in an `Actor`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        driver = Breaker(Redis(LOOPBACK, plan.port, timeout_s=TIMEOUT_S))
        self.tier: Any = SharedFirst(
            remote.Cache(driver), plan.near, size="8 MiB", max_stale=0.5, writes="behind"
        )
        if plan.breaks:
            self.tier._tiers.behind.__class__ = BROKEN[plan.breaks]
        self.notes = Notes(plan.notes)
        self.wrong: list[str] = []
        self.is_stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._work(random.Random(self.plan.seed))
        except BaseException as error:
            self.wrong.append(repr(error))

    def _work(self, generator: random.Random) -> None:
        space: Any = None
        while space is None:
            with suppress(DriverError):
                space = self.tier.namespace(SPACE)
            time.sleep(0.01)
        parts = [self.tier, space] * (KEYS // 2)
        numbers = [self.notes.get(index)[0] for index in range(KEYS)]
        own: list[Any] = [None] * KEYS
        while not self.is_stopping.is_set():
            count = generator.choice((1, 1, 1, 2, 3))
            first = generator.randrange(KEYS)
            chosen = range(first, KEYS, 2)[:count]  # Of one namespace.
            values = {}
            for index in chosen:
                numbers[index] += 1
                self.notes.issue(index, numbers[index])
                own[index] = value_of(self.plan.owner, index, numbers[index])
                values[key_of(self.plan.owner, index)] = own[index]
            if count == 1:
                ((key, value),) = values.items()
                parts[first].set(key, value, generator.choice((None, 600)))
            else:
                parts[first].set_many(values)
            index = generator.randrange(KEYS)
            # While the server does not answer, only what waits can be read.
            if index in chosen or self.tier.health().waiting:
                self._read(parts[index], index, own[index])
            if generator.random() < 0.05 and self.tier.flush(generator.random() / 2):
                for index, number in enumerate(numbers):
                    if own[index] is not None:  # A former process may have lost it.
                        self.notes.confirm(index, number)
            time.sleep(generator.random() * 0.004)

    def _read(self, part: Any, index: int, wanted: Any) -> None:
        found = part.get(key_of(self.plan.owner, index))
        # What has just been sent is read from the server, which may not answer.
        if wanted is not None and found is not None and found != wanted:
            self.wrong.append(f"{found[:2]} was read after {wanted[:2]} was stored")


_writers: list[Writer] = []


def begin(plan: Plan) -> None:
    """Begin to write, in an actor."""
    _writers.append(Writer(plan))


def state() -> tuple[list[str], int, int]:
    """What went wrong, how many writes wait, and how many were dropped."""
    health = _writers[-1].tier.health()
    return _writers[-1].wrong, health.waiting, health.dropped


def end() -> bool:
    """Stop, flush, and return whether that is confirmed."""
    writer = _writers[-1]
    writer.is_stopping.set()
    writer.thread.join(HANG_S)
    assert not writer.thread.is_alive(), "a thread hangs"
    is_confirmed: bool = writer.tier.flush(HANG_S)
    writer.tier.close()
    return is_confirmed


class Trial:
    """Processes that write, the faults of their server, and the oracle of what it has."""

    def __init__(self, stack: ExitStack, folder: Path, seed: int, breaks: str) -> None:
        (folder / "server").mkdir()
        keeps = ("--dir", str(folder / "server"), "--appendonly", "yes", "--appendfsync", "no")
        self.server = stack.enter_context(
            Server("redis", folder / "server", (*keeps, "--save", ""))
        )
        self.proxy = stack.enter_context(Proxy((LOOPBACK, self.server.port)))
        self.far: Any = stack.enter_context(connect(f"redis://{LOOPBACK}:{self.server.port}"))
        self._stack = stack
        self._folder = folder
        self._breaks = breaks
        self.generator = random.Random(seed)
        self._notes = [Notes(str(folder / f"notes{owner}")) for owner in range(PROCESSES)]
        self._seen: dict[str, int] = {}
        # Of each process, what was begun before it started: some of that may be lost.
        self._former: list[list[int]] = [[0] * KEYS] * PROCESSES
        self.reads = self.lost = self.waited = 0
        self.actors = [self._start(owner) for owner in range(PROCESSES)]
        self.faults: dict[str, Callable[[float], None]] = {
            "reset": lambda _: self.proxy.drop(),
            "refused": self._refused,
            "cut": self._cut,
            "killed": self._killed,
        }

    def _start(self, owner: int) -> Actor:
        actor = self._stack.enter_context(Actor(as_it_is))
        near = str(self._folder / f"near{owner % 2}")  # Two share one.
        notes = str(self._folder / f"notes{owner}")
        seed = self.generator.randrange(1 << 32)
        self._former[owner] = [self._notes[owner].get(index)[0] for index in range(KEYS)]
        actor.call(begin, Plan(self.proxy.port, near, notes, owner, seed, self._breaks))
        return actor

    def _refused(self, seconds: float) -> None:
        self.proxy.refuse()
        self.watch(seconds)
        self.proxy.heal()

    def _cut(self, seconds: float) -> None:
        self.proxy.cut_after(self.generator.randrange(4000))
        self.watch(seconds)
        self.proxy.heal()

    def _killed(self, seconds: float) -> None:
        self.server.kill()
        time.sleep(seconds)
        self.server.start()

    def watch(self, seconds: float) -> None:
        """Judge what the server has, for some time."""
        ends_s = time.monotonic() + seconds
        while True:
            self.judge()
            if time.monotonic() > ends_s:
                return
            time.sleep(0.02)

    def judge(self) -> None:
        """Raise `WrongRead` if the server has a value that it must not have."""
        for owner, notes in enumerate(self._notes):
            for space in (None, SPACE):
                before = {index: notes.get(index) for index in range(space is not None, KEYS, 2)}
                found = self._read(space, [key_of(owner, index) for index in before])
                for index, (_, confirmed) in before.items():
                    key = key_of(owner, index)
                    self._judge(key, owner, index, found.get(key), confirmed)

    def _read(self, space: str | None, keys: list[str]) -> dict[str, Any]:
        """What the server has, once it has loaded its entries after a restart."""
        gives_up_s = time.monotonic() + HANG_S
        while True:
            try:
                part = self.far if space is None else self.far.namespace(space)
                found: dict[str, Any] = part.get_many(keys)
            except DriverError:
                if time.monotonic() > gives_up_s:
                    raise
                time.sleep(0.02)
            else:
                return found

    def _judge(self, key: str, owner: int, index: int, value: Any, confirmed: int) -> None:
        number = 0 if value is None else value[1]
        self.reads += 1
        if value is not None and value != value_of(owner, index, number):
            raise WrongRead(f"{key} has a torn or foreign value: {value[:2]}")
        if number > self._notes[owner].get(index)[0]:
            raise WrongRead(f"{key} has {number}, which nobody stored")
        least = max(confirmed, self._seen.get(key, 0))
        if number < least:
            raise WrongRead(f"{key} has {number} after {least}, {confirmed} was confirmed")
        self._seen[key] = number

    def kill(self, owner: int) -> None:
        """Kill a process with what waits in it, judge, and start another in its place."""
        actor = self.actors[owner]
        wrong, waiting, dropped = actor.call(state)
        assert not wrong, wrong[0]
        assert dropped == 0
        self.waited = max(self.waited, waiting)
        os.kill(actor.pid, signal.SIGKILL)
        os.waitpid(actor.pid, 0)
        actor.pid = 0
        self.judge()
        self.lost += sum(
            self._notes[owner].get(index)[0] - self._seen[key_of(owner, index)]
            for index in range(KEYS)
        )
        self.actors[owner] = self._start(owner)

    def end(self) -> None:
        """End all processes: what they have stored has arrived."""
        for owner, actor in enumerate(self.actors):
            assert actor.call(end), "the flush was not confirmed"
            wrong, waiting, dropped = actor.call(state)
            assert not wrong, wrong[0]
            assert (waiting, dropped) == (0, 0)
            self.judge()
            for index in range(KEYS):
                issued, _ = self._notes[owner].get(index)
                is_own = issued > self._former[owner][index]
                if is_own and self._seen[key_of(owner, index)] != issued:
                    raise WrongRead(f"{key_of(owner, index)} lacks {issued}, which was flushed")


def trial(folder: Path, rounds: int, seed: int, breaks: str = "") -> Iterator[Trial]:
    """Let faults happen, and yield the trial after each; it is ended after the last."""
    with ExitStack() as stack:
        tried = Trial(stack, folder, seed, breaks)
        tried.watch(0.3)
        for turn in range(rounds):
            for fault in tried.faults.values():
                if turn % 2:
                    # While it does not answer, so that the queue is long.
                    tried.proxy.refuse()
                    tried.watch(0.2)
                    tried.kill(tried.generator.randrange(PROCESSES))
                    tried.proxy.heal()
                fault(tried.generator.random() * 0.3)
                tried.kill(tried.generator.randrange(PROCESSES))
                tried.watch(0.1)
                yield tried
        tried.end()


def test_values_that_wait(tmp_path: Path, trials: Trials, size: Any, seed: int) -> None:
    tried = None
    faults = 0
    for tried in trial(tmp_path, size(4, 150), seed):  # noqa: B007 - The last one is used.
        faults += 1
    assert tried is not None
    assert tried.lost, "no process was killed while values waited"
    trials.add(faults, "faults of the server, each with a killed process")
    trials.figure("values read at the server", tried.reads)
    trials.figure("values lost with killed processes", tried.lost)
    trials.figure("most that waited when one was killed", tried.waited)


@pytest.mark.parametrize("breaks", BROKEN)
def test_a_broken_queue_is_caught(tmp_path: Path, seed: int, breaks: str) -> None:
    with pytest.raises((WrongRead, AssertionError), match=r"after|flushed|torn"):
        for _ in trial(tmp_path, 20, seed, breaks):
            pass
