"""T-N5: hostile keys and values cannot become commands of a network protocol.

The proxy captures what a driver sends. The capture is taken apart by parsers of its own, which
accept nothing but whole commands, and compared with what the operation sends for a plain key.
"""

from __future__ import annotations

import random
import re
import struct
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import pytest

from drivers.databases import Postgresql
from drivers.proxy import LOOPBACK, Proxy
from drivers.servers import Server
from reliability.inputs import TEXTS, key_errors
from reliability.inputs import keys as keys_of_caches
from tuckbox.drivers import memcached as memcached_driver
from tuckbox.drivers import redis_nodes, sql
from tuckbox.drivers.contract import KEY_BYTES_MAX
from tuckbox.drivers.memcached import Memcached
from tuckbox.drivers.redis import Redis
from tuckbox.drivers.sql import Sql
from tuckbox.errors import DriverError
from tuckbox.remote.cache import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-N5"), pytest.mark.timeout(300)]

PLAIN = b"plain"
PATIENT_S = 20.0
ATTACKS = [
    b"k\r\nset evil 0 0 1\r\nx",
    b"k 0 0 1\r\nx\r\nflush_all",
    b"k\nflush_all\n",
    b"k evil",
    b"k\0evil",
    b"\r\n*1\r\n$8\r\nFLUSHALL\r\n",
    b"$-1\r\n",
    b"END\r\n",
    b"~",
    b"~eqkpx2EalxJpdH9wi05Jf_50jyaYTm2I24SJxS3oBnU",
    b"'; DROP TABLE tuckbox; --",
    b"\\'; DROP TABLE tuckbox; --",
    b"E'\\\\x00'",
    b"$1",
    b"%s %(key)s :key ?",
    b'{"$ne": null}',
    b"$where",
    b"*?[a-z]",
    b"{tag}",
]


class Injected(AssertionError):
    """The server was sent something else than the command of the operation."""


def hostile_keys(seed: int, count: int) -> list[bytes]:
    """Every single byte, attacks, texts, lengths around limits, and random bytes."""
    generator = random.Random(seed)
    keys = [bytes([byte]) for byte in range(256)]
    keys += [text.encode("utf-8", "surrogatepass") for text in TEXTS] + ATTACKS
    keys += [b"k" * length for length in (249, 250, 251, 10_000, KEY_BYTES_MAX)]
    keys += [b" " * 250, b"\r\n" * 5000, b"\xff" * KEY_BYTES_MAX, bytes(range(256))]
    while len(keys) < count:
        keys.append(generator.randbytes(generator.randint(1, 300)))
    return keys


# --- What was sent --------------------------------------------------------------------------------


def of_redis(sent: bytes) -> list[list[bytes]]:
    """The commands, each as its words. Raises `Injected` if there is anything else."""
    commands = []
    rest = sent
    while rest:
        words = []
        count, rest = _line(rest, rb"\*(\d+)\r\n")
        for _ in range(count):
            length, rest = _line(rest, rb"\$(\d+)\r\n")
            words.append(rest[:length])
            if rest[length : length + 2] != b"\r\n":
                raise Injected(f"no end of a word: {rest[length:][:40]!r}")
            rest = rest[length + 2 :]
        commands.append(words)
    return commands


def _line(rest: bytes, pattern: bytes) -> tuple[int, bytes]:
    match = re.match(pattern, rest)
    if match is None:
        raise Injected(f"this is no command: {rest[:40]!r}")
    return int(match[1]), rest[match.end() :]


_MEMCACHED = re.compile(
    rb"(?:(gets|delete) ([\x21-\x7e]{1,250})"
    rb"|(touch) ([\x21-\x7e]{1,250}) (-?\d+)"
    rb"|(set|add|cas) ([\x21-\x7e]{1,250}) (\d+) (-?\d+) (\d+)( \d+)?)\r\n"
)


def of_memcached(sent: bytes) -> list[list[bytes]]:
    """As `of_redis`. A name has 1 to 250 visible ASCII characters."""
    commands = []
    rest = sent
    while rest:
        match = _MEMCACHED.match(rest)
        if match is None:
            raise Injected(f"this is no command: {rest[:40]!r}")
        words = [word for word in match.groups() if word is not None]
        rest = rest[match.end() :]
        if words[0] in {b"set", b"add", b"cas"}:
            length = int(words[4])
            words.append(rest[:length])
            if rest[length : length + 2] != b"\r\n":
                raise Injected(f"no end of a value: {rest[length:][:40]!r}")
            rest = rest[length + 2 :]
        commands.append(words)
    return commands


def of_postgresql(sent: bytes) -> list[list[bytes]]:
    """The messages: statements, their names with the values that were bound, or other letters."""
    commands = []
    rest = sent
    while rest:
        kind, length = rest[:1], int.from_bytes(rest[1:5], "big")
        body = rest[5 : 1 + length]
        if kind not in b"QPBEDSCHX" or len(body) != length - 4:
            raise Injected(f"this is no message: {rest[:40]!r}")
        rest = rest[1 + length :]
        if kind == b"B":
            _, statement, values = body.split(b"\0", 2)
            commands.append([kind, statement, *_bound(values)])
        else:
            commands.append([kind, body if kind in b"QP" else b""])
    return commands


def _bound(rest: bytes) -> list[bytes]:
    (formats,) = struct.unpack_from(">H", rest)
    rest = rest[2 + 2 * formats :]
    (count,) = struct.unpack_from(">H", rest)
    rest = rest[2:]
    values = []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", rest)
        values.append(rest[4 : 4 + max(length, 0)])
        rest = rest[4 + max(length, 0) :]
    return values


class Protocol(NamedTuple):
    """A server, its driver, and how its commands are read."""

    server: Callable[[Path], Server]
    driver: Callable[[int], Any]
    commands: Callable[[bytes], list[list[bytes]]]
    fixed: int
    """How many of a command's words are the same for all keys."""


PROTOCOLS = {
    "redis": Protocol(
        lambda folder: Server("redis", folder, ("--save", "")),
        lambda port: Redis(LOOPBACK, port, timeout_s=PATIENT_S),
        of_redis,
        1,
    ),
    "memcached": Protocol(
        lambda folder: Server("memcached", folder),
        lambda port: Memcached(f"{LOOPBACK}:{port}", timeout_s=PATIENT_S),
        of_memcached,
        1,
    ),
    "postgresql": Protocol(
        lambda folder: Postgresql("postgresql", folder),
        lambda port: Sql(f"postgresql://root@{LOOPBACK}:{port}/postgres", timeout_s=PATIENT_S),
        of_postgresql,
        2,
    ),
}


class Wire:
    """A driver whose requests are captured."""

    def __init__(self, stack: ExitStack, folder: Path, name: str) -> None:
        self.protocol = PROTOCOLS[name]
        server = stack.enter_context(self.protocol.server(folder))
        self.proxy = stack.enter_context(Proxy((LOOPBACK, server.port)))
        self.driver = self.protocol.driver(self.proxy.port)
        stack.callback(self.driver.close)
        self._shapes: dict[str, set[tuple[Any, ...]]] = {}

    def sent(self, operation: Callable[[], object]) -> list[list[bytes]]:
        """The commands of an operation. Raises `Injected`, or the error of the driver."""
        self.proxy.requested.clear()
        error: DriverError | None = None
        try:
            operation()
        except DriverError as caught:
            error = caught
        commands = self.protocol.commands(bytes(self.proxy.requested))
        if error is not None:
            raise error
        return commands

    def learn(self, name: str, operation: Callable[[], object]) -> None:
        """Learn what an operation sends for a plain key."""
        self._shapes.setdefault(name, set()).add(self._shape(self.sent(operation)))

    def check(self, name: str, operation: Callable[[], object]) -> list[list[bytes]]:
        """Raise `Injected` if an operation sends anything else than for a plain key."""
        commands = self.sent(operation)
        shape = self._shape(commands)
        if shape not in self._shapes[name]:
            raise Injected(f"{name} sends {shape}, and {self._shapes[name]} for a plain key")
        return commands

    def _shape(self, commands: list[list[bytes]]) -> tuple[Any, ...]:
        fixed = self.protocol.fixed
        return tuple((*words[:fixed], len(words)) for words in commands)


def operations(driver: Any, key: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    """Operations on a key that has no value, each after the preparation that it needs."""
    value = b"v " + key[:1000] + b"\r\n"
    yield "set", lambda: driver.set(key, value, 60)
    yield "get", lambda: driver.get(key)
    yield "get_many", lambda: driver.get_many([key])
    yield "add", lambda: driver.add(key, value, 60)
    yield "touch", lambda: driver.touch(key, 60)
    version = driver.get(key).version
    yield "swap", lambda: driver.swap(key, value, 60, version)
    assert driver.get(key).value == value
    yield "delete", lambda: driver.delete(key)
    driver.set(key, value, 60)
    latest = driver.get(key).version
    yield "delete a version", lambda: driver.delete(key, latest)


def check_words(name: str, key: bytes, commands: list[list[bytes]]) -> None:
    """The key is sent as it is to Redis, and to memcached only as a name without control bytes."""
    (words,) = commands
    if name == "redis" and words[3 if words[0] == b"EVALSHA" else 1] != key:
        raise Injected(f"Redis gets another key: {words!r:.100}")
    if name == "memcached":
        is_plain = re.fullmatch(rb"(?!~)[\x21-\x7e]{1,250}", key)
        if words[1] != key if is_plain else not re.fullmatch(rb"~[\w-]{43}", words[1]):
            raise Injected(f"memcached gets the name {words[1]!r:.100} for {key!r:.100}")


def inject(
    folder: Path, name: str, keys: list[bytes], spoil: Callable[[], None] = lambda: None
) -> int:
    """Use hostile keys at a server. Return how many operations that were.

    What they send is learned before ``spoil`` breaks the driver.
    """
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # Some writes of this driver send another statement after them.
        patch.setattr(sql, "_WRITES_BETWEEN_SWEEPS", 1 << 62)
        wire = Wire(stack, folder, name)
        for plain in (PLAIN, PLAIN * 2000):
            for _ in range(8):  # After some, a client library prepares the statement.
                for _, operation in operations(wire.driver, plain):
                    operation()
            for what, operation in operations(wire.driver, plain):
                wire.learn(what, operation)
        spoil()
        count = 0
        for key in keys:
            for what, operation in operations(wire.driver, key):
                commands = wire.check(what, operation)
                if name in {"redis", "memcached"}:
                    check_words(name, key, commands)
                count += 1
        return count


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_key_is_never_a_command(
    tmp_path: Path, trials: Trials, size: Any, seed: int, name: str
) -> None:
    count = inject(tmp_path, name, hostile_keys(seed, size(330, 10_000)))
    assert count > 2000
    trials.add(count, "operations with hostile keys")


@pytest.mark.parametrize("name", ["redis", "memcached"])
def test_a_key_of_a_cache_is_never_a_command(tmp_path: Path, trials: Trials, name: str) -> None:
    """The keys are those of T-B1, and the prefix is hostile, too."""
    with ExitStack() as stack:
        wire = Wire(stack, tmp_path, name)
        cache: Any = Cache(wire.driver, "tuck box\r\n")

        def each(key: Any) -> Iterator[tuple[str, Callable[[], object]]]:
            yield "set", lambda: cache.set(key, "v\r\n", 60)
            yield "get", lambda: cache.get(key)
            yield "delete", lambda: cache.delete(key)

        for _, operation in each("plain"):
            operation()  # The first one connects, and sends the scripts.
        for what, operation in each("plain"):
            wire.learn(what, operation)
        count = 0
        for key in keys_of_caches():
            if _is_good(key):
                for what, operation in each(key):
                    wire.check(what, operation)
                    count += 1
        assert count > 200
        trials.add(count, "operations of caches with hostile keys")


def _is_good(key: Any) -> bool:
    with suppress(Exception):  # Some keys raise whatever they are asked.
        return not key_errors(key)
    return False


# --- Controls -------------------------------------------------------------------------------------


def test_names_that_are_sent_raw_are_caught(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil() -> None:
        monkeypatch.setattr(memcached_driver, "key_at_server", lambda key: key)

    with pytest.raises(Injected):
        inject(tmp_path, "memcached", hostile_keys(seed, 330), spoil)


def test_lengths_in_characters_are_caught(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(held: Any, commands: Any) -> None:
        packed = b""
        for words in commands:
            packed += b"*%d\r\n" % len(words)
            for word in words:
                sent = word if isinstance(word, bytes) else str(word).encode()
                packed += b"$%d\r\n%b\r\n" % (len(sent.decode("utf-8", "replace")), sent)
        held.unread = len(commands)
        held.connection.send_packed_command([packed], check_health=False)

    def spoil() -> None:
        monkeypatch.setattr(redis_nodes._Held, "send", send)

    with pytest.raises(Injected):
        inject(tmp_path, "redis", ["é".encode()], spoil)
