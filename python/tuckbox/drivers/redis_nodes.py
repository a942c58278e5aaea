"""`Node`: one Redis server, and how to talk to it through redis-py's pool.

Owns connections and what their errors mean. Must not know which keys a server has, or other
servers.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Sequence
from typing import Any, Optional

from tuckbox.brief import refuse_if_brief
from tuckbox.errors import ClientMissing, Refused, TuckboxError, Unreachable

__all__ = ["Command", "Node", "converted", "exchange", "library", "nonsense", "packed"]

Command = Sequence[bytes]

_ADVICE = {
    "AuthenticationError": "give the user and password of the server",
    "AuthenticationWrongNumberOfArgsError": "leave out the user: the server knows only passwords",
    "NoPermissionError": "let its ACL allow @read, @write, @scripting, SCAN and CLUSTER",
    "ReadOnlyError": "give the address of the primary, because this server is a replica",
    "BusyLoadingError": "try again when the server has loaded its data",
    "OutOfMemoryError": "raise its maxmemory, or set its maxmemory-policy to allkeys-lru",
    "MovedError": "it is part of a cluster: use redis+cluster:// for its URL",
    "MISCONF": "the server cannot save: free its disk, or turn its snapshots off",
    "NOAUTH": "give the user and password of the server",
    "WRONGTYPE": "give a database that no other program uses",
}


def library() -> Any:  # noqa: ANN401 - redis-py may be missing.
    """Return redis-py. Raises ClientMissing."""
    try:
        return importlib.import_module("redis")
    except ImportError:
        raise ClientMissing(
            'the redis driver needs redis-py; run: pip install "tuckbox[redis]"'
        ) from None


def converted(title: str, error: Exception) -> TuckboxError:
    """Return an error of ours for one of redis-py."""
    if isinstance(error, TuckboxError):
        return error
    errors = library().exceptions
    if isinstance(error, errors.ClusterDownError):
        return Unreachable(f"{title} does not answer: {error}; check that all its servers run")
    words = str(error).split(" ", 1)
    advice = _ADVICE.get(type(error).__name__) or _ADVICE.get(words[0])
    if advice or isinstance(error, errors.ResponseError):
        then = f"; {advice}" if advice else ""
        return Refused(f"{title} refuses: {error}{then}")
    if isinstance(error, (errors.ConnectionError, errors.TimeoutError, OSError)):
        return Unreachable(f"{title} does not answer: {error}; check that it runs, and the address")
    return nonsense(title, error)


def nonsense(title: str, what: object) -> Unreachable:
    """Return the error for a reply that is none of Redis."""
    return Unreachable(
        f"{title} does not answer as a Redis server: {what!r:.200}; check the address"
    )


def packed(commands: Sequence[Command]) -> bytes:
    r"""Return commands as the server reads them. redis-py takes twice as long for that.

    Example:
        >>> packed([(b"GET", b"key")])
        b'*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n'
    """
    parts = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for word in command:
            parts += (b"$%d\r\n" % len(word), word, b"\r\n")
    return b"".join(parts)


class _Held:
    """A connection of the pool that a thread keeps, which is faster than to ask for it each time.

    It goes back when the thread ends. In a forked child it is left alone: it is the parent's.
    """

    __slots__ = ("_pool", "connection", "era", "pid", "unread")

    def __init__(self, pool: Any, era: int) -> None:  # noqa: ANN401 - As above.
        self._pool = pool
        self.era = era
        self.pid = os.getpid()
        self.unread = 0
        """How many replies were not read. They would answer the next command."""
        self.connection = pool.get_connection()

    def send(self, commands: Sequence[Command]) -> None:
        self.unread = len(commands)
        self.connection.send_packed_command([packed(commands)], check_health=False)

    def read(self, errors: tuple[type[Exception], ...]) -> list[Any]:
        """Read all replies. Errors of these types are replies."""
        read = self.connection.read_response
        replies: list[Any] = []
        ends = False
        for _ in range(self.unread):
            try:
                replies.append(read())
            except errors as error:  # noqa: PERF203 - Seldom.
                replies.append(error)
                ends |= str(error).startswith("Protocol error")
        self.unread = 0
        if ends:
            # The server closes it, perhaps not before the next command is sent.
            self.connection.disconnect()
        return replies

    def drop(self) -> None:
        """Close it, if there are unread replies."""
        if self.unread:
            self.connection.disconnect()
            self.unread = 0

    def __del__(self) -> None:
        if hasattr(self, "connection") and self.pid == os.getpid():
            self.drop()
            self._pool.release(self.connection)


class Node:
    """A Redis server.

    Args:
        client: A `redis.Redis` that does not decode replies.
        title: How messages name the server; None for its address.
        is_own: Whether `close` closes the client's connections.
    """

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - As above.
        title: Optional[str] = None,
        *,
        is_own: bool = True,
    ) -> None:
        self._errors = library().exceptions
        self._pool = client.connection_pool
        self._is_own = is_own
        self._of_thread = threading.local()
        self._era = 0
        known = self._pool.connection_kwargs
        self.host: Optional[str] = known.get("host")
        self.title = title or f"redis at {known.get('path') or '{host}:{port}'.format_map(known)}"
        self.replies: tuple[type[Exception], ...] = (self._errors.ResponseError,)
        """The errors that are replies to one command."""
        self.answers = True
        """Whether it has answered last."""
        self.is_retired = False
        """Whether another node may have followed at its address."""

    def take(self) -> _Held:
        """Take this thread's connection away: a signal handler meanwhile gets another one."""
        held: Optional[_Held] = vars(self._of_thread).pop("held", None)
        if held is None or held.pid != os.getpid():
            return _Held(self._pool, self._era)
        try:
            # It connects first, if need be.
            is_usable = held.era == self._era and not held.connection.can_read()
        except (self._errors.ConnectionError, self._errors.TimeoutError, OSError):
            is_usable = False
        if not is_usable:
            # The server has closed the connection, or is another one. As the pool does.
            held.era = self._era
            held.connection.disconnect()
            held.connection.connect()
        return held

    def give(self, held: _Held) -> None:
        """Give it back. Closed if a reply was not read."""
        if held.unread:
            held.drop()
        self._of_thread.held = held
        # After that, because `retire` in another thread drops what was put back after it set this.
        if self.is_retired and vars(self._of_thread).pop("held", None) is not None:
            held.connection.disconnect()

    def watching(self) -> Any:  # noqa: ANN401 - A connection of redis-py.
        """Return a new connection for protocol 3, not connected yet."""
        return self._pool.connection_class(**{**self._pool.connection_kwargs, "protocol": 3})

    def renew(self) -> None:
        """Have each thread connect again before it uses the server."""
        self._era += 1
        self._pool.disconnect(inuse_connections=False)

    def retire(self) -> None:
        """Close its connections, those in use after their command. It may still be used."""
        self.is_retired = True
        self._of_thread = threading.local()
        self._pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Give back the connections of all threads, and close them."""
        self._of_thread = threading.local()
        if self._is_own:
            self._pool.disconnect()


def exchange(work: Sequence[tuple[Node, Sequence[Command]]]) -> list[list[Any]]:
    """Send commands to each node, then read the replies of each: one round trip for all.

    Returns:
        For each node the replies; errors of redis-py may be among them.

    Raises:
        Unreachable, Refused: A node does not answer, or refuses the connection. The others may
            have done their commands.
    """
    refuse_if_brief()
    taken: list[_Held] = []
    node = work[0][0]
    try:
        for node, commands in work:
            held = node.take()
            taken.append(held)
            held.send(commands)
        replies = []
        for held, (node, _) in zip(taken, work):
            replies.append(held.read(node.replies))
            node.answers = True
    except MemoryError:
        raise
    except Exception as error:  # A wrong server can break the parser anywhere.
        node.answers = False
        raise converted(node.title, error) from error
    else:
        return replies
    finally:
        for held, (node, _) in zip(taken, work):
            node.give(held)
