"""Processes with tiers on a real Redis, networks to cut, and the oracle of what they read.

Each process writes counters under keys of its own and reads those of all. A read is wrong if it
returns a counter although a later one was acknowledged longer before the read than `max_stale`.
"""

from __future__ import annotations

import bisect
import collections
import ctypes
import os
import random
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from drivers.servers import Server
from reliability.actors import Actor
from tuckbox.drivers.breaker import Breaker
from tuckbox.drivers.redis import Redis
from tuckbox.drivers.redis_routes import _Answers
from tuckbox.errors import DriverError, LockTimeout
from tuckbox.remote import cache as remote
from tuckbox.tiers.coverage import Coverage
from tuckbox.tiers.shared_first import SharedFirst
from tuckbox.tiers.tiering import Tiering

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from typing_extensions import Self

TICK_S = 0.02
"""How far a coarse clock may be behind, and more."""
HANG_S = 20.0
"""After so long, what should be back is taken for hung."""
TIMEOUT_S = 0.3
PORT = 6379
SPACE = "part"

MISSED = -1

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


class WrongRead(AssertionError):
    """A process has read what it must not."""


class NotBack(AssertionError):
    """A process does not recover."""


# --- What processes do ----------------------------------------------------------------------------


class Read(NamedTuple):
    """What a read returned."""

    began_s: float
    ended_s: float
    key: str
    number: int
    """The counter; `MISSED` if the key had no value."""


class Write(NamedTuple):
    """A change of a key: a counter that was stored, or one after which the former are invalid."""

    key: str
    number: int
    acknowledged_s: float | None
    """None if that failed: it may have been done, or be done later."""


class Plan(NamedTuple):
    """How a process uses its tier."""

    driver: dict[str, Any]
    """The arguments of its `Redis`."""
    path: str
    max_stale_s: float
    on_outage: str = "miss"
    own: tuple[str, ...] = ()
    """The keys that it writes."""
    read: tuple[str, ...] = ()
    """The keys that it reads."""
    readers: int = 1
    pause_s: float = 0.002
    """About how long a reader pauses between reads; a writer pauses five times as long."""
    rest_s: float = 0.0
    """How long a key rests after some writes in a row."""
    slow_s: float = 0.0
    """At most how long a value is on its way from the server."""
    breaks: str = ""
    """A rule that this process breaks: for controls."""
    seed: int = 0


class Late(Breaker):
    """Values arrive late, so that changes overtake them."""

    late_s = 0.0

    def get(self, key: bytes) -> Any:
        found = super().get(key)
        time.sleep(random.random() * self.late_s)
        return found


class OneHeard(Redis):
    """Watches one server of a cluster."""

    def watch(self, prefix: bytes, changed: Any) -> Any:
        watched = self._route.watched

        def first() -> Any:
            connections, _ = watched()
            return connections[:1], _Answers()

        self._route.watched = first  # type: ignore[method-assign]
        try:
            return super().watch(prefix, changed)
        finally:
            self._route.watched = watched  # type: ignore[method-assign]


class NoPool(Late):
    """Has more connections than a pool may have, and uses all of them for each read."""

    def get(self, key: bytes) -> Any:
        driver: Any = self.driver
        known = driver._route.primaries()[0]._pool.connection_kwargs
        while len(_kept) < _KEPT:
            _kept.append(Redis(known["host"], known["port"], timeout_s=TIMEOUT_S))
        return self.ask(lambda: [one.get(key) for one in _kept][-1])


_kept: list[Redis] = []
_KEPT = 20


class NoGaps(Coverage):
    """Never clears the tier when it begins to listen again."""

    def _resume(self, watch: Any) -> None:
        self.is_listening, self.error = True, None


class NoBound(SharedFirst):
    """Serves without an end."""

    def _serve_until(self, time_us: int) -> None:
        super()._serve_until((1 << 64) - 1)


class NoLease(SharedFirst):
    """Keeps copies without a lease."""

    def _copied_from(self, lease: Any, key: Any, entry: Any, asked_us: int) -> Any:
        self._drop(lease)
        if entry is not None:
            super(Tiering, self).set(key, entry.value)
        return entry


def open_tier(plan: Plan) -> Any:
    """Open the tier of a plan, or the broken one that it asks for."""
    place = OneHeard if plan.breaks == "one heard" else Redis
    driver = (NoPool if plan.breaks == "pool" else Late)(place(timeout_s=TIMEOUT_S, **plan.driver))
    driver.late_s = plan.slow_s
    kind = {"bound": NoBound, "lease": NoLease}.get(plan.breaks, SharedFirst)
    tier = kind(
        remote.Cache(driver),
        plan.path,
        size="8 MiB",
        max_stale=plan.max_stale_s,
        on_outage=plan.on_outage,  # type: ignore[arg-type]
    )
    if plan.breaks == "gaps":
        assert tier._tiers.coverage is not None
        tier._tiers.coverage.__class__ = NoGaps
    return tier


class Worker:
    """Reads and writes in threads. Lives in an `Actor`, and is used by the functions below."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tier = open_tier(plan)
        self.reads: list[Read] = []
        self.writes: list[Write] = []
        self.wrong: list[str] = []
        self.tagged: set[str] = set()
        """Keys whose newest value has a tag."""
        self.is_stopping = threading.Event()
        works: list[Callable[[random.Random], None]] = [self._read] * plan.readers
        works += [self._write] if plan.own else []
        self.threads = [
            threading.Thread(target=self._run, args=(work, plan.seed * 100 + number), daemon=True)
            for number, work in enumerate(works)
        ]
        for thread in self.threads:
            thread.start()

    def _run(self, work: Callable[[random.Random], None], seed: int) -> None:
        try:
            work(random.Random(seed))
        except BaseException as error:
            self.wrong.append(repr(error))

    def _read(self, generator: random.Random) -> None:
        space = None
        while not self.is_stopping.is_set():
            time.sleep(generator.random() * 2 * self.plan.pause_s)
            keys = generator.sample(self.plan.read, generator.choice((1, 1, 1, 3)))
            is_spaced = keys[0].endswith("s")
            if is_spaced and space is None:
                with suppress(DriverError):
                    space = self.tier.namespace(SPACE)
                continue
            part = space if is_spaced else self.tier
            keys = [key for key in keys if key.endswith("s") is is_spaced]
            began_s = time.monotonic()
            found = part.get_many(keys) if len(keys) > 1 else {keys[0]: part.get(keys[0])}
            ended_s = time.monotonic()
            for key in keys:
                value = found.get(key)
                if value is not None and value[0] != key:
                    self.wrong.append(f"{key} has the value {value!r}")
                number = MISSED if value is None else value[1]
                self.reads.append(Read(began_s, ended_s, key, number))

    def _write(self, generator: random.Random) -> None:
        numbers = dict.fromkeys(self.plan.own, 0)
        space = None
        while not self.is_stopping.is_set():
            if space is None:
                try:
                    space = self.tier.namespace(SPACE)
                except DriverError:
                    self.is_stopping.wait(0.05)
                    continue
            # Some keys are written often, and some seldom.
            key = self.plan.own[int(len(numbers) * generator.random() ** 3)]
            for _ in range(generator.randint(1, 8) if self.plan.rest_s else 1):
                numbers[key] += 1
                self._change(
                    space if key.endswith("s") else self.tier, key, numbers[key], generator
                )
            pause_s = self.plan.rest_s or 5 * self.plan.pause_s
            self.is_stopping.wait(generator.uniform(0.5, 1.5) * pause_s)

    def _change(self, part: Any, key: str, number: int, generator: random.Random) -> None:
        chance = generator.random()
        try:
            if chance < 0.1:
                part.delete(key)
            elif chance < 0.2 and key in self.tagged:
                part.evict(tag=key)
            else:
                self.tagged.discard(key)
                tags = [key] if chance < 0.5 else []
                part.set(key, [key, number], generator.choice((None, 60)), tags=tags)
                self.tagged.update(tags)
        except (DriverError, LockTimeout):
            # A process that is stopped may hold a lock of the near file.
            self.writes.append(Write(key, number, None))
        else:
            self.writes.append(Write(key, number, time.monotonic()))


_workers: list[Worker] = []


def begin(plan: Plan) -> None:
    """Begin to work, in an actor."""
    _workers.append(Worker(plan))


def is_well() -> bool:
    """Whether the worker listens and serves, and its far tier answers."""
    tier = _workers[-1].tier
    health = tier.health()
    if not (health.is_listening and health.serves_near and health.error is None):
        return False
    with suppress(DriverError, LockTimeout):
        tier.set(f"probe {os.getpid()}", 1, 60)
        return True
    return False


def told() -> tuple[list[Read], list[Write], list[str]]:
    """What a worker has read and written since the last call, and what went wrong."""
    worker = _workers[-1]
    # The reads first: a write that they depend on is then among the writes.
    reads, worker.reads = worker.reads, []
    writes, worker.writes = worker.writes, []
    return reads, writes, worker.wrong


def health() -> dict[str, Any]:
    """The health of a worker's tier."""
    return dict(_workers[-1].tier.health()._asdict())


def end() -> None:
    """Stop working, and close the tier."""
    worker = _workers[-1]
    worker.is_stopping.set()
    for thread in worker.threads:
        thread.join(HANG_S)
        assert not thread.is_alive(), "a thread hangs"
    worker.tier.close()


# --- The server -----------------------------------------------------------------------------------


Connections = collections.Counter[int]
"""How many connections each process has, by its id."""


def _sockets(pid: object) -> set[str]:
    """The sockets that a process has open, as `/proc` names them."""
    found = set()
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            found.add(os.readlink(f"{folder}/{name}"))
    return found


def _at_busiest_port(pids: Sequence[int], ports: Sequence[int]) -> Connections:
    """The connections of these processes to the port to which they have most.

    One look at the table of the kernel, because it may have thousands of closed connections.
    """
    with open("/proc/net/tcp") as table:
        rows = [row.split(maxsplit=10) for row in table.readlines()[1:]]
    port_of = {
        f"socket:[{row[9]}]": int(row[2].partition(":")[2], 16)
        for row in rows
        if row[3] == _ESTABLISHED
    }
    # A forked process has the sockets of the test, too.
    own = _sockets("self")
    at_ports = {port: Connections() for port in ports}
    for pid in pids:
        for socket in (_sockets(pid) - own) & port_of.keys():
            if (port := port_of[socket]) in at_ports:
                at_ports[port][pid] += 1
    return max(at_ports.values(), key=Connections.total)


_ESTABLISHED = "01"


@contextmanager
def counted(actors: Sequence[Actor], *ports: int) -> Iterator[list[Connections]]:
    """Count the connections of processes to each of these ports, all the time.

    Their own sockets, because a server may notice late that a connection was closed.
    """
    counts = [Connections()]
    failed: list[Exception] = []
    is_over = threading.Event()
    pids = [actor.pid for actor in actors]

    def count() -> None:
        try:
            while not is_over.wait(0.02):
                # A process may open a connection just before it closes the former one, and wait for
                # a processor in between.
                found = [_at_busiest_port(pids, ports)]
                for _ in range(4):
                    time.sleep(0.01)
                    found.append(_at_busiest_port(pids, ports))
                counts.append(min(found, key=Connections.total))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield counts
    finally:
        is_over.set()
        thread.join()
    if failed:
        raise failed[0]
    assert len(counts) > 1, "connections were never counted"


def busiest(counts: Sequence[Connections]) -> Connections:
    """The count with the most connections."""
    return max(counts, key=Connections.total)


# --- The oracle -----------------------------------------------------------------------------------


@dataclass
class Oracle:
    """Judges reads by the writes that it was told."""

    bound_s: float
    numbers: dict[str, list[int]] = field(default_factory=lambda: collections.defaultdict(list))
    times: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    issued: dict[str, int] = field(default_factory=lambda: collections.defaultdict(int))
    unknown: set[tuple[str, int]] = field(default_factory=set)
    reads: int = 0
    hits: int = 0
    old: int = 0
    """Reads of a value that was no longer the newest: allowed, and what the bound is about."""
    losses: list[tuple[float, float]] = field(default_factory=list)
    """When servers may have lost what they acknowledged."""
    excused: list[tuple[float, float]] = field(default_factory=list)
    """When reads that began then are not judged."""

    def note(self, writes: Sequence[Write]) -> None:
        """Learn of writes, in their order for each key."""
        for key, number, acknowledged_s in writes:
            self.issued[key] = number
            if acknowledged_s is None:
                self.unknown.add((key, number))
            elif not any(first < acknowledged_s < last for first, last in self.losses):
                self.numbers[key].append(number)
                self.times[key].append(acknowledged_s)

    def judge(self, read: Read) -> None:
        """Raise `WrongRead` if a read is older than the bound."""
        self.reads += 1
        began_s, _, key, number = read
        if number == MISSED or any(first < began_s < last for first, last in self.excused):
            return
        self.hits += 1
        at = bisect.bisect_right(self.numbers[key], number)
        if at == len(self.numbers[key]) or (key, number) in self.unknown:
            return
        age_s = began_s - self.times[key][at]
        self.old += age_s > 0
        # Without a bound, no clock has a part.
        if age_s > self.bound_s + (TICK_S if self.bound_s else 0.0):
            raise WrongRead(
                f"{key} had {number} {age_s:.3f} s after {self.numbers[key][at]} was acknowledged; "
                f"the bound is {self.bound_s} s"
            )


# --- Networks -------------------------------------------------------------------------------------


def may_make_networks() -> bool:
    """Whether this process may make network namespaces."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _libc.unshare(_CLONE_NEWNET) == 0 else 1)
    is_allowed = os.waitpid(pid, 0)[1] == 0
    return is_allowed and os.geteuid() == 0


def ip(*words: str) -> None:
    """Run ``ip``."""
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


class Network:
    """A Redis server on a machine of its own, and machines that have a link to it each.

    A machine is a network namespace. Its link is a pair of devices, of which the server's can be
    set down: then nothing arrives, and nobody is told.
    """

    def __init__(self, folder: Path, machines: int) -> None:
        self._prefix = f"tuckbox-{os.getpid()}"
        self._stack = ExitStack()
        self._folder = folder
        self.machines = machines

    def __enter__(self) -> Self:
        try:
            for name in ("server", *map(str, range(self.machines))):
                ip("netns", "add", self._space(name))
                self._stack.callback(ip, "netns", "del", self._space(name))
                ip("-n", self._space(name), "link", "set", "lo", "up")
            for number in range(self.machines):
                self._join(number)
            self.server = Server("redis", self._folder, _OPEN, at_socket=True)
            self.server._command[:0] = ["ip", "netns", "exec", self._space("server")]
            self._stack.enter_context(self.server)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _space(self, name: object) -> str:
        return f"{self._prefix}-{name}"

    def _join(self, number: int) -> None:
        here, there = self._space(number), self._space("server")
        peer = ("peer", "name", f"to{number}", "netns", there)
        ip("link", "add", "near", "netns", here, "type", "veth", *peer)
        for space, device, host in ((here, "near", 2), (there, f"to{number}", 1)):
            ip("-n", space, "address", "add", f"10.77.{number}.{host}/24", "dev", device)
            ip("-n", space, "link", "set", device, "up")

    def address(self, number: int) -> dict[str, Any]:
        """The arguments of a machine's driver."""
        return {"host": f"10.77.{number}.1", "port": PORT}

    def enter(self, number: int) -> Callable[[], None]:
        """What makes a process one of a machine."""
        path = f"/run/netns/{self._space(number)}"

        def become() -> None:
            with open(path, "rb") as space:
                if _libc.setns(space.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), path)

        return become

    def set_link(self, number: int, *, up: bool) -> None:
        """Cut a machine's link, or put it back."""
        ip("-n", self._space("server"), "link", "set", f"to{number}", "up" if up else "down")


_OPEN = ("--port", str(PORT), "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "")


def wait_until_well(actors: Sequence[Actor], what: str, limit_s: float = HANG_S) -> float:
    """Wait until workers are back to normal. Return how long that took."""
    began_s = time.monotonic()
    for actor in actors:
        while not actor.call(is_well):
            if time.monotonic() - began_s > limit_s:
                wrong = actor.call(told)[2]
                raise NotBack(
                    f"{what}: no normal service after {limit_s} s: {actor.call(health)} {wrong}"
                )
            time.sleep(0.02)
    return time.monotonic() - began_s


def started(stack: ExitStack, become: Callable[[], None], plan: Plan) -> Actor:
    """Start a process with a worker."""
    actor = stack.enter_context(Actor(become))
    actor.call(begin, plan)
    return actor


def as_it_is() -> None:
    """Become nothing else."""


def keys_of(owner: object, count: int) -> tuple[str, ...]:
    """Keys that one process writes; those that end with ``s`` are in a namespace."""
    return tuple(f"{owner}:{number}{'s' * (number % 2)}" for number in range(count))


def collected(actors: Sequence[Actor], *oracles: Oracle) -> list[list[Read]]:
    """Drain workers, tell oracles the writes, and return what each worker has read."""
    drained = [actor.call(told) for actor in actors]
    for _, writes, wrong in drained:
        assert not wrong, wrong[0]
        for oracle in oracles:
            oracle.note(writes)
    return [reads for reads, _, _ in drained]
