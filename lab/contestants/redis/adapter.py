"""A Redis server through redis-py's own methods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import redis  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store, ttl_seconds


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the server in the settings."""
    if "socket" in settings:
        client = redis.Redis(unix_socket_path=settings["socket"])
    else:
        client = redis.Redis(host=settings["host"], port=int(settings["port"]))
    if "policy" in settings:
        client.config_set("maxmemory-policy", settings["policy"])
    _let_something_fit(client, limits.bytes)
    ttl_ms = round(1_000 * ttl_seconds(settings))

    def get_many(keys: Sequence[str]) -> object:
        found: Any = client.mget(keys)
        return {key: value for key, value in zip(keys, found, strict=True) if value is not None}

    return Store(
        get=client.get,
        set=partial(client.set, px=ttl_ms) if ttl_ms else client.set,
        delete=client.delete,
        close=client.close,
        incr=client.incr,
        get_many=get_many,
        clear=client.flushdb,
    )


def _let_something_fit(client: redis.Redis, bytes_max: int) -> None:
    """Add the empty server's memory to a limit below it, because every set would be refused."""
    memory: Any = client.info("memory")
    if 0 < memory["maxmemory"] == bytes_max <= memory["used_memory"]:
        client.config_set("maxmemory", memory["used_memory"] + bytes_max)
