"""Where a cell's client and server run. Owns the choice of cores; must not start anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lab.runner.catalogue import Contestant, Part
from lab.runner.results import Placement


class Cores(NamedTuple):
    """The core of the client, and another for its server. None: there is no other, or no pinning.

    The second is a core of its own where there is one, and not a second thread of the first.
    """

    client: int | None
    server: int | None


def cores() -> Cores:
    """Return the cores that a pinned cell uses on this machine."""
    if not hasattr(os, "sched_getaffinity"):
        return Cores(None, None)
    usable = sorted(os.sched_getaffinity(0))
    first, others = usable[0], usable[1:]
    siblings = _siblings(first)
    apart = [core for core in others if core not in siblings]
    return Cores(first, next(iter(apart or others), None))


def core_count() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _siblings(core: int) -> set[int]:
    """Return the numbers of the threads that share a core with `core`."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    try:
        text = path.read_text("ascii").strip()
    except OSError:
        return set()
    found: set[int] = set()
    for span in filter(None, text.split(",")):
        first, _, last = span.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def placements(contestant: Contestant, part: Part, usable: Cores) -> list[Placement]:
    """Return how a contestant's cells of a part are placed: one way, or for a server both."""
    if part.processes > 1 or usable.client is None:
        return ["free"]
    if not contestant.server:
        return ["one core"]
    return ["same core", "split cores"] if usable.server is not None else ["same core"]


def client_cores(placement: Placement, usable: Cores) -> set[int] | None:
    """Return the cores a client is pinned to, or None when the scheduler decides."""
    if placement == "free" or usable.client is None:
        return None
    return {usable.client}


def server_cores(placement: Placement, usable: Cores) -> set[int] | None:
    """Return the cores a server is pinned to, or None when the scheduler decides."""
    if placement == "split cores" and usable.server is not None:
        return {usable.server}
    return client_cores(placement, usable)


@contextmanager
def started_on(cores: set[int] | None) -> Iterator[None]:
    """Have a process that is started meanwhile inherit its pinning, with every thread it will have.

    The runner itself is pinned so long. Nothing may be awaited in between but the start.
    """
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
