"""The client of the tests' own server."""

from __future__ import annotations

import base64
import json
import socket

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the server in the settings."""
    if "socket" in settings:
        line = socket.socket(socket.AF_UNIX)
        line.connect(settings["socket"])
    else:
        line = socket.create_connection((settings["host"], int(settings["port"])))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader = line.makefile("rb")

    def ask(*request: str) -> object:
        line.sendall(json.dumps(request).encode() + b"\n")
        answer = reader.readline()
        if not answer:
            raise ConnectionError("the server hung up")
        return json.loads(answer)

    def get(key: str) -> object:
        value = ask("get", key)
        return None if value is None else base64.b64decode(str(value))

    def set_(key: str, value: bytes) -> object:
        return ask("set", key, base64.b64encode(value).decode())

    def close() -> None:
        reader.close()
        line.close()

    return Store(get=get, set=set_, delete=lambda key: ask("delete", key), close=close)
