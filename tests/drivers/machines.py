"""What tests of tiers wait for, and look at."""

from __future__ import annotations

import functools
import os
import signal
import time
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from drivers.servers import Server

# For what must happen, however slow the machine is.
PATIENT_S = 20.0


def until(condition: Callable[[], object]) -> None:
    ends_s = time.monotonic() + PATIENT_S
    while not condition():
        assert time.monotonic() < ends_s
        time.sleep(0.01)


def listening(cache: Any) -> Any:
    """The cache, once it serves copies and is told what changes."""
    cache.get("")
    until(lambda: cache.health().is_listening and cache.health().serves_near)
    return cache


def is_near(cache: Any, key: str) -> bool:
    """Whether a read needs no other tier."""
    asked = sum(cache.health()[2:4])
    cache.get(key)
    return bool(sum(cache.health()[2:4]) == asked)


def keep(cache: Any, values: dict[str, Any]) -> None:
    """Store values without tags, and have copies that last: the writes are told already."""
    before = cache.health().changes
    cache.set_many(values)
    until(lambda: cache.health().changes >= before + len(values))
    for key, value in values.items():
        assert cache.get(key) == value
        # A pause of this process may have let the copy become too old.
        until(functools.partial(is_near, cache, key))


def in_child(work: Callable[[], int]) -> int:
    """Return what a function returns in a forked child: an int below 100."""
    child = os.fork()
    if child == 0:
        status = 100
        try:
            status = work()
        finally:
            os._exit(status)
    ends_s = time.monotonic() + PATIENT_S
    try:
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            assert time.monotonic() < ends_s, "the child hangs"
            time.sleep(0.01)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return os.waitstatus_to_exitcode(ended[1])


def client(server: Server) -> Any:
    import redis as library  # The name is that of a fixture.

    return library.Redis(port=server.port)


def commands(server: Server) -> int:
    return int(client(server).info("stats")["total_commands_processed"])
