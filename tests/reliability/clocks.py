"""A process that does to caches what it is told, line by line, under clocks of its own.

It answers each line of JSON with one. A line is ``[name of a cache, method, arguments]``; the
method ``open`` takes a path and a kind.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from tuckbox import Cache
from tuckbox.errors import LockTimeout

FOREVER_S = 1e18


class Missing(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        return default


class Immortal(Cache):
    """Ignores the ttl."""

    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        super().set(key, value)


class ByWallClock(Cache):
    """Keeps the expiry by the wall clock, as many caches do."""

    clock = staticmethod(time.time)

    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        super().set(key, [value, FOREVER_S if ttl is None else self.clock() + ttl])

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key)
        return default if found is None or found[1] <= self.clock() else found[0]


class ByBootClock(ByWallClock):
    """Keeps the expiry by the time since the machine started, whatever that means elsewhere."""

    clock = staticmethod(lambda: time.clock_gettime(time.CLOCK_BOOTTIME))


KINDS = {kind.__name__: kind for kind in (Cache, Missing, Immortal, ByWallClock, ByBootClock)}


def main() -> None:
    caches: dict[str, Cache] = {}
    for line in sys.stdin:
        name, method, arguments = json.loads(line)
        answer: Any = None
        if method == "open":
            path, kind, lock_timeout = arguments
            caches[name] = KINDS[kind](path, size="1 MiB", lock_timeout=lock_timeout)
        elif method == "close":
            caches.pop(name).close()
        elif method == "wall_time":
            answer = time.time()
        elif method == "expiry":
            entry = caches[name].get_entry(*arguments)
            answer = entry and entry.expiry
        else:
            try:
                answer = getattr(caches[name], method)(*arguments)
            except LockTimeout:
                answer = "LockTimeout"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
