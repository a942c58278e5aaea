"""A memcached server, asked with pymemcache's own methods, each of which waits for its reply."""

from __future__ import annotations

from lab.hosts.python.contract import Limits, Store
from pymemcache import Client  # type: ignore[import-not-found, import-untyped, unused-ignore]


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the server that the settings name. The server has the limit."""
    server = settings["host"], int(settings["port"])
    client = Client(server, no_delay=True, default_noreply=False)
    return Store(get=client.get, set=client.set, delete=client.delete, close=client.close)
