"""A memcached server through pymemcache's own methods, which wait for each reply."""

from __future__ import annotations

from functools import partial
from math import ceil

from lab.hosts.python.contract import Limits, Store, ttl_seconds
from pymemcache import Client  # type: ignore[import-not-found, import-untyped, unused-ignore]


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the server in the settings. The server has the limit."""
    server = settings["host"], int(settings["port"])
    client = Client(server, no_delay=True, default_noreply=False)
    ttl = ceil(ttl_seconds(settings))
    set_ = partial(client.set, expire=ttl) if ttl else client.set
    return Store(get=client.get, set=set_, delete=client.delete, close=client.close)
