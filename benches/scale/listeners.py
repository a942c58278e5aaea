"""Connections that only listen: ``python -m benches.scale.listeners PORT COUNT MODE``.

Each asks a Redis server to tell what changes, ``broadcast`` or ``default``, and counts what comes.
They read as cheaply as Python can, so that the server is what is measured. Each line on the
standard input is a number of messages. The process waits for as many, and until no more come, and
writes the counts since the last line.
"""

from __future__ import annotations

import json
import select
import socket
import sys

from lab.runner.servers import LOOPBACK

WORD = b"invalidate"
PREFIX = b"tuckbox\0"
QUIET_S = 0.2
#: After this time without messages, those that are missing do not come.
MISSING_S = 10.0
_MODES = {"broadcast": (b"BCAST", b"PREFIX", PREFIX), "default": ()}


def packed(*words: bytes) -> bytes:
    """Return a command as it is sent."""
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n%b" % (len(words), b"".join(parts))


def connected(port: int, mode: str) -> socket.socket:
    """Return a connection that listens."""
    connection = socket.create_connection((LOOPBACK, port))
    connection.sendall(packed(b"HELLO", b"3"))
    received = b""
    while b"modules" not in received:
        received += connection.recv(1 << 16)
    connection.sendall(packed(b"CLIENT", b"TRACKING", b"ON", *_MODES[mode]))
    received = b""
    while not received.endswith(b"+OK\r\n"):
        received += connection.recv(1 << 16)
    return connection


def main() -> None:
    """Listen until the standard input ends."""
    port, count, mode = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    connections = {one.fileno(): one for one in (connected(port, mode) for _ in range(count))}
    ends = dict.fromkeys(connections, b"")
    poll = select.epoll()
    for number in (*connections, sys.stdin.fileno()):
        poll.register(number, select.EPOLLIN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    counts = {"bytes": 0, "messages": 0}
    wanted: int | None = None
    while True:
        is_missing = wanted is not None and counts["messages"] < wanted
        quiet_s = MISSING_S if is_missing else QUIET_S
        events = poll.poll(None if wanted is None else quiet_s)
        for number, _ in events:
            if number == sys.stdin.fileno():
                line = sys.stdin.readline()
                if not line:
                    return
                wanted = int(line)
                continue
            received = connections[number].recv(1 << 18)
            if not received:
                return
            counts["bytes"] += len(received)
            # A message may be in two pieces.
            counts["messages"] += (ends[number] + received).count(WORD)
            ends[number] = (ends[number] + received)[1 - len(WORD) :]
        if wanted is not None and not events:
            sys.stdout.write(json.dumps(counts) + "\n")
            sys.stdout.flush()
            counts = {"bytes": 0, "messages": 0}
            wanted = None


if __name__ == "__main__":
    main()
