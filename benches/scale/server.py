"""Measures what a Redis server and a process with tiers pay for changes.

Owns the server that is measured, the writer, and the processes that listen. The server
tells its own CPU time, so programs on other cores do not count.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

import tuckbox

from benches.scale.listeners import PREFIX, connected, packed
from benches.scale.record import FanOut, Measured
from lab.runner.catalogue.servers import servers
from lab.runner.servers import LOOPBACK, free_port, program_of

KEY = PREFIX + b"e" + b"k" * 36
OTHER = b"other" + KEY[5:]
VALUE = b"v" * 160
CONNECTIONS = (1, 10, 100, 500)
CHANGES = (1, 16)
COMMANDS = 20_000
MESSAGES = 100_000
WRITES_LEAST = 400
TRACKED_KEYS, TRACKING_CONNECTIONS = 10_000, 20
PACE, PACE_S = 1_000, 3.0
READY_S_MAX = 20.0
#: A process that listens asks for a confirmation every second by default.
IDLE_S = 5.0


class Writer:
    """A connection that sends commands and waits for their replies."""

    def __init__(self, port: int, connection: socket.socket | None = None) -> None:
        self._socket = connection or socket.create_connection((LOOPBACK, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, commands: bytes, reply_bytes: int) -> bytes:
        """Send commands together, and return replies of so many bytes."""
        self._socket.sendall(commands)
        received = b""
        while len(received) < reply_bytes:
            more = self._socket.recv(1 << 16)
            if not more:
                raise ConnectionError("the server has closed the connection")
            received += more
        return received

    def info(self, section: bytes) -> dict[str, str]:
        """Return a section of INFO."""
        self._socket.sendall(packed(b"INFO", section))
        received = b""
        # A head with the number of bytes, and as many.
        while (found := received.partition(b"\r\n"))[2] == b"" or len(found[2]) < int(
            found[0][1:]
        ) + 2:
            received += self._socket.recv(1 << 16)
        lines = received.decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def cpu_us(self) -> float:
        """Return the CPU time of the server's main thread, where commands are executed."""
        told = self.info(b"cpu")
        return 1e6 * sum(float(told[f"used_cpu_{kind}_main_thread"]) for kind in ("sys", "user"))

    def memory_bytes(self) -> int:
        """Return the memory that the server has allocated."""
        return int(self.info(b"memory")["used_memory"])


@contextmanager
def running() -> Iterator[int]:
    """Run a server on loopback that keeps nothing, and yield its port."""
    port = free_port()
    command = [program_of(servers()["redis"]), "--port", str(port), "--bind", LOOPBACK]
    with subprocess.Popen([*command, "--save", ""], stdout=subprocess.DEVNULL) as process:
        try:
            give_up_s = time.monotonic() + READY_S_MAX
            while True:
                with suppress(OSError), socket.create_connection((LOOPBACK, port)):
                    break
                if time.monotonic() > give_up_s:
                    raise RuntimeError("redis-server does not start")
                time.sleep(0.01)
            yield port
        finally:
            process.kill()


class Child:
    """A process of this package that answers each line with a line of JSON."""

    def __init__(self, module: str, *words: object) -> None:
        command = [sys.executable, "-m", f"benches.scale.{module}", *map(str, words)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        if self._line() != "ready\n":
            raise RuntimeError(f"{module} did not start")

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def request(self, messages: int = 1) -> None:
        """Ask for an answer, after a number of messages."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{messages}\n")

    def answer(self) -> dict[str, Any]:
        """Return the answer to `request`."""
        return json.loads(self._line())  # type: ignore[no-any-return]

    def ask(self) -> dict[str, Any]:
        """Ask, and return the answer."""
        self.request()
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            process.kill()


def measure(rounds: int, say: Callable[[str], None]) -> Measured:
    """Measure everything, interleaved, in so many rounds."""
    with running() as port, Writer(port) as writer:
        writer.ask(packed(b"SET", KEY, VALUE), 5)
        message = _message_bytes(port, writer, 1)
        more = _message_bytes(port, writer, 2) - message
        costs: dict[str, list[float]] = {name: [] for name in ("read", "write", "ping")}
        fan_out: dict[tuple[int, int], tuple[list[float], list[float]]] = {
            (count, changes): ([], []) for changes in CHANGES for count in CONNECTIONS
        }
        memory: list[float] = []
        tracked: list[float] = []
        applied: list[float] = []
        idle: list[float] = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            costs["read"].append(_command_us(writer, packed(b"MGET", KEY), 4 + 6 + len(VALUE) + 2))
            costs["write"].append(_command_us(writer, packed(b"SET", KEY, VALUE), 5))
            costs["ping"].append(_command_us(writer, packed(b"PING"), 7))
            for (count, changes), (cpu_us, per_second) in fan_out.items():
                took_us, rate = _fan_out(port, writer, count, changes, (message, more))
                cpu_us.append(took_us)
                per_second.append(rate)
            memory.append(_connection_bytes(port, writer))
            tracked.append(_tracked_key_bytes(port, writer))
            busy_us, idle_us = _applied_us(port, writer)
            applied.append(busy_us)
            idle.append(idle_us)
        return Measured(
            server=f"Redis {writer.info(b'server')['redis_version']}",
            rounds=rounds,
            key_bytes=len(KEY),
            message_bytes=message,
            more_key_bytes=more,
            read_us=costs["read"],
            write_us=costs["write"],
            ping_us=costs["ping"],
            fan_out=[
                FanOut(count, changes, *figures) for (count, changes), figures in fan_out.items()
            ],
            connection_bytes=memory,
            tracked_key_bytes=tracked,
            applied_us=applied,
            idle_us=idle,
            told=told(port, writer),
        )


def _command_us(writer: Writer, command: bytes, reply_bytes: int) -> float:
    before = writer.cpu_us()
    for _ in range(COMMANDS):
        writer.ask(command, reply_bytes)
    return (writer.cpu_us() - before) / COMMANDS


def _message_bytes(port: int, writer: Writer, changes: int) -> int:
    """Return the bytes of the message about so many changes."""
    with Child("listeners", port, 1, "broadcast") as child:
        writer.ask(_changes(KEY, changes), 5 * changes)
        told = child.ask()
    assert told["messages"] == 1
    return int(told["bytes"])


def _changes(key: bytes, count: int) -> bytes:
    """Return commands that change so many keys of the same length."""
    sets = (packed(b"SET", key[:-2] + b"%02d" % number, VALUE) for number in range(count))
    return b"".join(sets)


def _fan_out(
    port: int, writer: Writer, connections: int, changes: int, sizes: tuple[int, int]
) -> tuple[float, float]:
    """Return the server's CPU time for a message, and the messages per second."""
    writes = max(WRITES_LEAST, min(COMMANDS, MESSAGES // connections))
    with ExitStack() as stack:
        halves = [half for half in (connections // 2, connections - connections // 2) if half]
        children = [
            stack.enter_context(Child("listeners", port, half, "broadcast")) for half in halves
        ]
        times_us = []
        # The first pass changes what nobody listens to.
        for key in (OTHER, KEY):
            command, before_us, began_s = _changes(key, changes), writer.cpu_us(), time.monotonic()
            for _ in range(writes):
                writer.ask(command, 5 * changes)
            took_s = time.monotonic() - began_s
            times_us.append(writer.cpu_us() - before_us)
        for child, share in zip(children, halves, strict=True):
            child.request(writes * share)
        answers = [child.answer() for child in children]
    messages = sum(answer["messages"] for answer in answers)
    received = sum(answer["bytes"] for answer in answers)
    message, more = sizes
    # The number of keys has more digits.
    each = message + (changes - 1) * more + len(str(changes)) - 1
    if messages != writes * connections or received != messages * each:
        raise RuntimeError(f"{messages} messages of {received} bytes came about {writes} writes")
    return (times_us[1] - times_us[0]) / messages, messages / took_s


def _connection_bytes(port: int, writer: Writer) -> float:
    """Return the server's memory for each connection that listens in broadcast mode."""
    before, count = writer.memory_bytes(), 200
    with Child("listeners", port, count, "broadcast"):
        return (writer.memory_bytes() - before) / count


def _tracked_key_bytes(port: int, writer: Writer) -> float:
    """Return the server's memory for each key that a connection has read, in the default mode."""
    keys = [KEY[:-6] + b"%06d" % number for number in range(TRACKED_KEYS)]
    with ExitStack() as stack:
        connections = [stack.enter_context(_tracking(port)) for _ in range(TRACKING_CONNECTIONS)]
        before = writer.memory_bytes()
        for connection in connections:
            for key in keys:
                connection.ask(packed(b"GET", key), 3)
        grown = writer.memory_bytes() - before
    return grown / TRACKED_KEYS / TRACKING_CONNECTIONS


@contextmanager
def _tracking(port: int) -> Iterator[Writer]:
    with connected(port, "default") as connection:
        yield Writer(port, connection)


def _applied_us(port: int, writer: Writer) -> tuple[float, float]:
    """Return the CPU time of a process with tiers for one message, and in a second without any."""
    with Child("applying", port) as child:
        first = child.ask()
        time.sleep(IDLE_S)
        idle = child.ask()
        began_s = time.monotonic()
        count = round(PACE * PACE_S)
        for number in range(count):
            writer.ask(packed(b"SET", KEY[:-6] + b"%06d" % number, VALUE), 5)
            time.sleep(max(0.0, began_s + (number + 1) / PACE - time.monotonic()))
        give_up_s = time.monotonic() + READY_S_MAX
        while (last := child.ask())["changes"] < idle["changes"] + count:
            if time.monotonic() > give_up_s:
                break
            time.sleep(0.05)
        took_s = time.monotonic() - began_s
    if last["changes"] - idle["changes"] != count or last["gaps"] != first["gaps"]:
        raise RuntimeError(f"{count} changes were made, but the process has seen: {last}")
    idle_us = 1e6 * (idle["cpu_s"] - first["cpu_s"]) / IDLE_S
    busy_us = 1e6 * (last["cpu_s"] - idle["cpu_s"]) - idle_us * took_s
    return busy_us / count, idle_us


def told(port: int, writer: Writer) -> dict[str, int]:
    """Return how many messages the server tells about each operation."""
    writer.ask(packed(b"FLUSHALL"), 5)
    cache = tuckbox.connect(f"redis://{LOOPBACK}:{port}")
    space = cache.namespace("space")
    operations: dict[str, Callable[[], object]] = {
        "`set`": lambda: cache.set("a", 1),
        "`delete`": lambda: cache.delete("a"),
        "`get_or_set`, which makes the value": lambda: cache.get_or_set("b", lambda: 1),
        "`set` with a tag, already known": lambda: cache.set("d", 1, tags=["t"]),
        "`evict` of a tag": lambda: cache.evict(tag="t"),
        "`clear` of a namespace": space.clear,
    }
    cache.set("c", 1, tags=["t"])
    space.set("e", 1)
    counts = {}
    with Child("listeners", port, 1, "broadcast") as child:
        for name, operate in operations.items():
            operate()
            counts[name] = int(child.ask()["messages"])
    cache.close()
    return counts
