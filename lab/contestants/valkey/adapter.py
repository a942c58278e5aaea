"""A Valkey server through valkey-py's own methods."""

from __future__ import annotations

from functools import partial
from typing import Any

import valkey  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store, ttl_seconds


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the server in the settings."""
    if "socket" in settings:
        client = valkey.Valkey(unix_socket_path=settings["socket"])
    else:
        client = valkey.Valkey(host=settings["host"], port=int(settings["port"]))
    _let_something_fit(client, limits.bytes)
    ttl_ms = round(1_000 * ttl_seconds(settings))
    set_ = partial(client.set, px=ttl_ms) if ttl_ms else client.set
    return Store(
        get=client.get,
        set=set_,
        delete=client.delete,
        close=client.close,
        clear=client.flushdb,
    )


def _let_something_fit(client: valkey.Valkey, bytes_max: int) -> None:
    """Add the empty server's memory to a limit below it, because every set would be refused."""
    memory: Any = client.info("memory")
    if 0 < memory["maxmemory"] == bytes_max <= memory["used_memory"]:
        client.config_set("maxmemory", memory["used_memory"] + bytes_max)
