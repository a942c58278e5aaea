"""`Proxy`: a TCP proxy on loopback that breaks replies at a chosen byte.

Owns the faults of a network. Must not know a protocol.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

LOOPBACK = "127.0.0.1"
_NEVER = 1 << 62


class Proxy:
    """Forwards connections to a server until it is told to do something else.

    Args:
        target: The host and port of the server, or the path of its socket.

    `port` is where it listens, `replied` counts the bytes of replies that it has forwarded, and
    `requested` has those of the requests of all connections, until it is cleared.

    A fault holds for all connections, also for new ones, until `heal`. What a fault has broken
    remains broken: a connection that was cut is closed; one that was held forwards the rest.
    """

    def __init__(self, target: tuple[str, int] | str) -> None:
        self._target = target
        self._changed = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._is_closed = False
        self.replied = 0
        self.requested = bytearray()
        self._heal()
        self._listener = _listen(0)
        self.port: int = self._listener.getsockname()[1]
        self._accept()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Faults --------------------------------------------------------------------------------

    def _heal(self) -> None:
        self._budget = _NEVER
        self._holds = False
        self._delay_s = 0.0

    def heal(self) -> None:
        """Forward everything again, and the bytes that were held."""
        with self._changed:
            self._heal()
            self._changed.notify_all()
        if self._listener.fileno() < 0:
            self._listener = _listen(self.port)
            self._accept()

    def cut_after(self, count: int) -> None:
        """Forward this many bytes of replies from now on, then close each connection."""
        with self._changed:
            self._heal()
            self._budget = count

    def hold_after(self, count: int) -> None:
        """Forward this many bytes of replies from now on, then nothing more until `heal`.

        With 0, the server is a black hole: it accepts connections and never answers.
        """
        with self._changed:
            self._heal()
            self._budget, self._holds = count, True

    def delay(self, seconds: float) -> None:
        """Forward each part of a reply this much later."""
        with self._changed:
            self._heal()
            self._delay_s = seconds

    def refuse(self) -> None:
        """Close all connections, and refuse new ones until `heal`."""
        _shut(self._listener)
        self.drop()

    def lead_to(self, target: tuple[str, int] | str) -> None:
        """Have another server answer, from the next connection on. Reset the present ones."""
        self._target = target
        self.drop()

    def drop(self) -> None:
        """Reset all connections."""
        with self._changed:
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            # Zero seconds to linger: close sends a reset. A pump may have closed it by now.
            with suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            _shut(one)

    def close(self) -> None:
        """Close all connections and stop to listen."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self.refuse()

    # --- Forwarding ----------------------------------------------------------------------------

    def _accept(self) -> None:
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                _shut(client)
                continue
            for one in (client, server):
                if one.family != socket.AF_UNIX:
                    # Otherwise, a request in two parts waits for an acknowledgement of the first.
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self._sockets |= {client, server}
            for work in (self._requests, self._replies):
                threading.Thread(target=work, args=(client, server), daemon=True).start()

    def _connect(self) -> socket.socket:
        # `create_connection` asks the resolver. If the test forks at that moment, nobody releases
        # its locks in the child.
        is_path = isinstance(self._target, str)
        server = socket.socket(socket.AF_UNIX if is_path else socket.AF_INET)
        try:
            server.connect(self._target)
        except OSError:
            server.close()
            raise
        return server

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                # First: when the reply is there, so is the request.
                self.requested += data
                server.sendall(data)
        self._end(client, server)

    def _replies(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                time.sleep(self._delay_s)
                while data and (allowed := self._allowed(len(data))):
                    client.sendall(data[:allowed])
                    data = data[allowed:]
                if data:
                    break
        self._end(client, server)

    def _allowed(self, wanted: int) -> int:
        """How many bytes may be forwarded now. Waits while they are held; 0 to cut."""
        with self._changed:
            self._changed.wait_for(lambda: self._budget or not self._holds or self._is_closed)
            if not self._budget or self._is_closed:
                return 0
            allowed = min(wanted, self._budget)
            self._budget -= allowed
            self.replied += allowed
            return allowed

    def _end(self, *sockets: socket.socket) -> None:
        with self._changed:
            self._sockets.difference_update(sockets)
        for one in sockets:
            _shut(one)


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    listener.listen(64)
    return listener


def _shut(one: socket.socket) -> None:
    # A shutdown wakes the thread that waits in accept or recv; a close does not.
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
