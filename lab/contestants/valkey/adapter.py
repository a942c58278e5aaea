"""A Valkey server, asked with valkey-py's own methods."""

from __future__ import annotations

from typing import Any

import valkey  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the server that the settings name."""
    if "socket" in settings:
        client = valkey.Valkey(unix_socket_path=settings["socket"])
    else:
        client = valkey.Valkey(host=settings["host"], port=int(settings["port"]))
    _let_something_fit(client, limits.bytes)
    return Store(get=client.get, set=client.set, delete=client.delete, close=client.close)


def _let_something_fit(client: valkey.Valkey, bytes_max: int) -> None:
    """Count a limit that the empty server exceeds from there on; else every set is refused."""
    memory: Any = client.info("memory")
    if 0 < memory["maxmemory"] == bytes_max <= memory["used_memory"]:
        client.config_set("maxmemory", memory["used_memory"] + bytes_max)
