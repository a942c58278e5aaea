"""`Route`: which Redis server has a key. Here: one server, or the primary that sentinels name.

Owns where commands go, and what shows that another server has taken over. Must not know what the
commands do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Optional, Protocol

from tuckbox.drivers.redis_nodes import Command, Node, converted, exchange
from tuckbox.drivers.redis_watch import Check, Replaced
from tuckbox.errors import CacheClosed

__all__ = ["Address", "Closed", "Route", "Sentinels", "Single"]

Address = tuple[str, int]


class Route(Protocol):
    """Sends commands to the servers of their keys."""

    title: str
    """How messages name the servers."""

    def groups(self, keys: Sequence[bytes]) -> list[Sequence[bytes]]:
        """Return the keys in groups, of which each may be in one command."""

    def send(self, commands: Sequence[Command], keys: Sequence[bytes]) -> list[Any]:
        """Send commands, each to the server of its key, in one round trip.

        Returns:
            The replies; errors of redis-py may be among them.
        """

    def primaries(self) -> list[Node]:
        """Return the servers that take writes."""

    def watched(self) -> tuple[list[Any], Check]:
        """Return a connection to each server that takes writes, and what a watch asks them."""

    def close(self) -> None:
        """Close all connections."""


# --- One server ---------------------------------------------------------------------------------


class _Answers:
    """The check of one server: it answers after it has told every change."""

    commands: Sequence[Command] = ((b"PING",),)

    def judge(self, replies: Sequence[Sequence[Any]]) -> None:
        if list(replies[0]) != [b"PONG"]:
            raise ConnectionError(f"{replies[0]!r:.100} is no reply to PING")


class Single:
    """One server has all keys."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.title = node.title

    def groups(self, keys: Sequence[bytes]) -> list[Sequence[bytes]]:
        """See `Route.groups`."""
        return [keys]

    def send(self, commands: Sequence[Command], keys: Sequence[bytes]) -> list[Any]:  # noqa: ARG002
        """See `Route.send`."""
        return exchange([(self._node, commands)])[0]

    def primaries(self) -> list[Node]:
        """See `Route.primaries`."""
        return [self._node]

    def watched(self) -> tuple[list[Any], Check]:
        """See `Route.watched`."""
        return [self._node.watching()], _Answers()

    def close(self) -> None:
        """See `Route.close`."""
        self._node.close()


# --- No server any more -------------------------------------------------------------------------


class Closed:
    """The route of a driver that is closed."""

    def __init__(self, title: str) -> None:
        self.title = title

    def _refuse(self, *_: object) -> NoReturn:
        raise CacheClosed("this driver is closed; open it again to use it")

    groups = send = primaries = watched = _refuse

    def close(self) -> None:
        """See `Route.close`."""


# --- The primary of a Sentinel ------------------------------------------------------------------


class Sentinels(Single):
    """The primary that sentinels name. Each new connection asks them, through redis-py.

    A connection that breaks, or on which the server refuses a write as a replica, is made again.

    A watch also asks all sentinels which primary they know: an old one that is cut off from them
    still answers, but knows nothing of the writes at the new one. Sentinel promotes a new primary
    before it tells clients, so a client that writes there was sent by a sentinel. So no copy is
    older than ``max_stale`` and the time until a sentinel that this process can reach has heard.
    """

    def __init__(self, node: Node, manager: Any, service: str) -> None:  # noqa: ANN401 - redis-py.
        super().__init__(node)
        self._manager = manager
        self._service = service

    def watched(self) -> tuple[list[Any], Check]:
        """See `Route.watched`."""
        connection = self._node.watching()
        return [connection], _Named(self, connection)

    def ensure_named(self, address: Address) -> None:
        """Raise unless the sentinels that answer name this primary."""
        command = ("SENTINEL GET-MASTER-ADDR-BY-NAME", self._service)
        named: set[Optional[Address]] = set()
        failed: Optional[Exception] = None
        for sentinel in list(self._manager.sentinels):
            try:
                named.add(_address(sentinel.execute_command(*command)))
            except Exception as error:  # noqa: PERF203 - As in `exchange`.
                failed = error
        if not named:
            raise converted(self.title, failed or ConnectionError("there is no sentinel"))
        if named != {address}:
            self._node.renew()
            raise Replaced(f"{self.title} has another primary now, or will have one")

    def close(self) -> None:
        """See `Route.close`."""
        super().close()
        for sentinel in self._manager.sentinels:
            sentinel.close()


class _Named(_Answers):
    """The check of a primary: it answers, and the sentinels still name it."""

    def __init__(self, route: Sentinels, connection: Any) -> None:  # noqa: ANN401 - As above.
        self._route = route
        self._connection = connection

    def judge(self, replies: Sequence[Sequence[Any]]) -> None:
        super().judge(replies)
        self._route.ensure_named((self._connection.host, self._connection.port))


def _address(told: Any) -> Optional[Address]:  # noqa: ANN401 - As redis-py returns it.
    if told is None:
        return None
    host, port = told
    return host.decode() if isinstance(host, bytes) else host, int(port)
