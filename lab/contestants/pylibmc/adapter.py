"""A memcached server through pylibmc's own methods."""

from __future__ import annotations

from functools import partial
from math import ceil

import pylibmc  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store, ttl_seconds


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the server in the settings. The server has the limit."""
    server = settings.get("socket") or f"{settings['host']}:{settings['port']}"
    client = pylibmc.Client([server], behaviors={"tcp_nodelay": True})
    ttl = ceil(ttl_seconds(settings))
    return Store(
        get=client.get,
        set=partial(client.set, time=ttl) if ttl else client.set,
        delete=client.delete,
        close=client.disconnect_all,
        incr=client.incr,
        get_many=client.get_multi,
    )
