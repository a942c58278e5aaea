"""A memcached server, asked with pylibmc's own methods."""

from __future__ import annotations

import pylibmc  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the server that the settings name. The server has the limit."""
    server = settings.get("socket") or f"{settings['host']}:{settings['port']}"
    client = pylibmc.Client([server], behaviors={"tcp_nodelay": True})
    return Store(
        get=client.get,
        set=client.set,
        delete=client.delete,
        close=client.disconnect_all,
        incr=client.incr,
        get_many=client.get_multi,
    )
