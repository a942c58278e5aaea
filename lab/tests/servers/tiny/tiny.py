"""A server for the tests: a dictionary behind lines of JSON, with ways to go wrong.

tiny.py (--port PORT | --socket PATH) [--dies-after N] [--hangs-after N] [--deaf] [--broken]
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import socketserver
import sys
import time
from itertools import count

store: dict[str, str] = {}
requests = count(1)


class Connection(socketserver.StreamRequestHandler):
    """One client: each line is a list of a verb, a key and optionally a value."""

    def handle(self) -> None:
        """Answer until the client disconnects."""
        for line in self.rfile:
            number = next(requests)
            if number == options.dies_after:
                print("tiny: out of luck", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            if number == options.hangs_after:
                time.sleep(3600)
            self.wfile.write(json.dumps(answer(*json.loads(line))).encode() + b"\n")


def answer(verb: str, key: str, value: str = "") -> object:
    """Execute one request."""
    if verb == "get":
        return store.get(key)
    if verb == "set":
        base64.b64decode(value, validate=True)
        store[key] = value
        return True
    return store.pop(key, None) is not None


class Tcp(socketserver.ThreadingTCPServer):
    """On loopback."""

    allow_reuse_address = True
    daemon_threads = True


class Unix(socketserver.ThreadingUnixStreamServer):
    """On a socket in a folder."""

    daemon_threads = True


parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int)
parser.add_argument("--socket")
parser.add_argument("--dies-after", type=int, default=-1)
parser.add_argument("--hangs-after", type=int, default=-1)
parser.add_argument("--deaf", action="store_true")
parser.add_argument("--broken", action="store_true")
parser.add_argument("--version", action="version", version="tiny 1.0")
options = parser.parse_args()

if __name__ == "__main__":
    if options.broken:
        sys.exit("tiny: no server today")
    if options.deaf:
        print("tiny: I cannot hear you", file=sys.stderr, flush=True)
        time.sleep(3600)
    where = ("127.0.0.1", options.port)
    with Tcp(where, Connection) if options.port else Unix(options.socket, Connection) as server:
        server.serve_forever(poll_interval=0.05)
