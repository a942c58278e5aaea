"""`RedisWatch`: client-side caching of Redis, on a connection to each server that takes writes.

Owns the messages about changes. Must not know which servers these are: a `Check` does.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from tuckbox.drivers.contract import Changed
from tuckbox.drivers.redis_nodes import Command, converted, packed
from tuckbox.errors import TuckboxError, Unreachable

__all__ = ["Check", "RedisWatch", "Replaced"]

_Self = TypeVar("_Self", bound="RedisWatch")


class Replaced(Unreachable):
    """Another server takes writes now, or may: it tells nobody on the present connections."""


class Check(Protocol):
    """What a watch asks its servers, to know that they tell every change."""

    commands: Sequence[Command]
    """Sent to each server."""

    def judge(self, replies: Sequence[Sequence[Any]]) -> None:
        """Raise unless each change before the commands has been told. Raises `Replaced`."""


class _Message(NamedTuple):
    """A message about keys that changed, as the server sent it."""

    parts: Sequence[Any]


class RedisWatch:
    """A `Watch`: client-side caching of Redis, in broadcasting mode.

    https://redis.io/docs/latest/develop/reference/client-side-caching/. A server sends messages
    and replies in the order of what they are about, so the reply to a command of the check comes
    after the messages about all earlier changes.

    Args:
        title: How messages name the servers.
        connections: A connection of redis-py to each server, for protocol 3, not connected yet.
            Closed with this.
        prefix: The beginning of the keys.
        changed: See `Watchable.watch`. Also called, with None, before `Replaced` is raised.
        check: What is asked by `confirm`, and when the watch begins.

    Example::

        with driver.watch(b"app", print) as watch:
            driver.set(b"app:1", b"new", None)
            watch.confirm()  # Prints [b'app:1'].
    """

    def __init__(
        self,
        title: str,
        connections: Sequence[Any],
        prefix: bytes,
        changed: Changed,
        check: Check,
    ) -> None:
        self._title = title
        self._connections = connections
        self._changed = changed
        self._check = check
        self._is_open = True
        with self._talking():
            for connection in connections:
                connection.connect()
                # No other way to its messages. What the handler raised would be lost there.
                connection._parser.set_invalidation_push_handler(_Message)  # noqa: SLF001
                connection.send_command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix)
            for connection in connections:
                if (reply := self._reply(connection)) != b"OK":
                    raise ConnectionError(f"{reply!r:.100} is no reply to this command")
        # After the tracking has begun everywhere.
        self.confirm()

    def wait(self, seconds: float) -> None:
        """See `Watch.wait`."""
        ends_s = time.monotonic() + seconds
        poll = select.poll()
        with self._talking():
            for connection in self._connections:
                poll.register(connection._sock, select.POLLIN)  # noqa: SLF001 - No other way.
            while True:
                for connection in self._connections:
                    while self._is_open and connection.can_read(0):
                        self._read(connection)
                left_s = ends_s - time.monotonic()
                self._ensure_open()
                if left_s <= 0:
                    return
                poll.poll(left_s * 1000)

    def confirm(self) -> None:
        """See `Watch.confirm`."""
        commands = self._check.commands
        with self._talking():
            for connection in self._connections:
                connection.send_packed_command([packed(commands)], check_health=False)
            replies = [[self._reply(one) for _ in commands] for one in self._connections]
            self._ensure_open()
            try:
                self._check.judge(replies)
            except Replaced:
                self._changed(None)
                raise

    def _ensure_open(self) -> None:
        # redis-py would connect again.
        if not self._is_open:
            raise ConnectionError("the watch was closed")

    def _reply(self, connection: Any) -> object:  # noqa: ANN401 - As above.
        while isinstance(reply := self._read(connection), _Message):
            pass
        return reply

    def _read(self, connection: Any) -> object:  # noqa: ANN401 - As above.
        """Read and return a reply, or a message, which is told."""
        read = connection.read_response(push_request=True)
        if isinstance(read, _Message):
            keys = read.parts[1] if len(read.parts) > 1 else None
            self._changed(keys if isinstance(keys, list) else None)
        return read

    @contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            self._ensure_open()
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, (MemoryError, TuckboxError)) or not isinstance(error, Exception):
                raise
            raise converted(self._title, error) from error

    def close(self) -> None:
        """See `Watch.close`."""
        self._is_open = False
        for connection in self._connections:
            connection.disconnect()

    def __enter__(self: _Self) -> _Self:  # noqa: PYI019 - Self is not in Python 3.9.
        """See `Watch`."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `Watch`."""
        self.close()
