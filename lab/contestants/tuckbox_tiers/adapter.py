"""Tuckbox's tiers as any user would open them: a shared file in front of a server."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tuckbox import connect

from lab.hosts.python.contract import Limits, Store, ttl_seconds

# The size of APCu in front of a server, in `php_two_level`. The server has the suite's limit.
NEAR_BYTES = 32 << 20


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the near file in `folder`, and connect to the server in the settings."""
    size = min(NEAR_BYTES, limits.bytes or NEAR_BYTES)
    near = f"shared://{Path(folder, 'near.tuck')}?size={size}B"
    far = f"{settings['far']}://{settings['host']}:{settings['port']}?{settings['options']}"
    # With the default, "miss", a dead server would look like an empty one.
    cache = connect(near, far, on_outage="raise")
    ttl = ttl_seconds(settings)
    return Store(
        get=cache.get,
        set=partial(cache.set, ttl=ttl) if ttl else cache.set,
        delete=cache.delete,
        close=cache.close,
        incr=cache.incr,
        get_many=cache.get_many,
    )
