"""The processes of a web site that share a cache, and broken caches for them to share."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from processes import workers
from tuckbox import Cache

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 4


class LockFile(Cache):
    """Keeps others out by a file, which outlives who made it."""

    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        while True:
            try:
                os.close(os.open(f"{self.path}.lock", os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                time.sleep(0.001)
        time.sleep(0.001)
        super().set(key, value, ttl)
        os.remove(f"{self.path}.lock")


class Torn(Cache):
    """Writes a value in two parts."""

    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        if not isinstance(value, list) or len(value) != 3:
            return super().set(key, value, ttl)
        super().set(("head", key), value[:2], ttl)
        time.sleep(0.002)
        return super().set(("body", key), value[2:], ttl)

    def get(self, key: Any, default: Any = None) -> Any:
        head, body = super().get(("head", key)), super().get(("body", key))
        return head + body if head and body else super().get(key, default)


class Careful(Cache):
    """Removes everything whenever a process joins: who knows what the last one left."""

    def __init__(self, path: str, **kwargs: Any) -> None:
        super().__init__(path, **kwargs)
        self.clear()


class Missing(Cache):
    def get_many(self, keys: Any) -> Any:
        return {}


KINDS: dict[str, type[Cache]] = {
    kind.__name__: kind for kind in (Cache, LockFile, Torn, Careful, Missing)
}


def terminated(number: int, frame: object) -> None:
    """What the servers here do at a SIGTERM."""
    raise SystemExit(0)


def serve(open_cache: Callable[[], Cache], seed: int, shared: Any, threads: int) -> None:
    """Work until a signal comes; with threads, as many share the handle."""
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        cache = open_cache()
        arguments = (shared.mistakes, shared.heartbeat, shared.stop)
        for number in range(1, threads):
            own = (cache, seed * THREADS + number, shared.mistakes, Unheeded(), shared.stop)
            threading.Thread(target=workers.work_with, args=own, daemon=True).start()
        workers.work_with(cache, seed * THREADS, *arguments)
    # A process that waits for its threads here would not end.
    os._exit(0)


class Unheeded:
    """A heartbeat that nobody watches: only that of one thread is watched."""

    value = 0.0


def work_a_while(path: str, seed: int, turns: int) -> int:
    """A task of a pool; how many wrong values it has seen."""
    shared = Unheeded()
    mistakes = Unheeded()

    class Turns:
        left = turns

        def is_set(self) -> bool:
            self.left -= 1
            return self.left < 0

    workers.work_for_ever(path, seed, mistakes, shared, Turns())  # type: ignore[arg-type]
    return int(mistakes.value)


RELOADED = 3


def reload_for_ever(path: str, turns: str) -> None:
    """What Django's development server does: a child serves, and is restarted when the code has
    changed."""
    child: subprocess.Popen[bytes] | None = None

    def stop(number: int, frame: object) -> None:
        if child is not None:
            child.terminate()
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    for seed in range(10**6):
        child = subprocess.Popen([sys.executable, __file__, "serve", path, turns, str(seed)])
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()
        if child.wait() not in (RELOADED, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT):
            sys.exit(1)


def serve_and_reload(path: str, turns: str, seed: str) -> None:
    """Work through the Django backend in a thread, and leave from the main one meanwhile."""
    from integrations.django import project

    project.configure()
    from tuckbox.integrations.django import TuckboxCache

    backend = TuckboxCache(path, {"OPTIONS": {"lock_timeout": 30, "on_error": "raise"}})

    def request() -> None:
        number = int(seed) << 32
        while True:
            number += 1
            key = number % 50
            found = backend.get(f"page-{key}")
            if found is not None and not workers.is_whole(key, found["page"]):
                os._exit(9)
            backend.set(f"page-{key}", {"page": workers.value_of(key, number, 3000), "of": ...})

    threading.Thread(target=request, daemon=True).start()
    time.sleep(int(turns) / 1000)
    sys.exit(RELOADED)


if __name__ == "__main__":
    {"reload": reload_for_ever, "serve": serve_and_reload}[sys.argv[1]](*sys.argv[2:])
