"""The cores of this machine, and pinning processes to them.

Owns the choice of cores. Must not know what runs on them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Cores(NamedTuple):
    """The cores of a client and of its server. None without another core, or without pinning.

    If possible, the server's is another physical core, not a second thread of the first.
    """

    client: int | None
    server: int | None


def cores() -> Cores:
    """Return the cores to pin to on this machine."""
    if not hasattr(os, "sched_getaffinity"):
        return Cores(None, None)
    usable = sorted(os.sched_getaffinity(0))
    first, others = usable[0], usable[1:]
    siblings = _siblings(first)
    apart = [core for core in others if core not in siblings]
    return Cores(first, next(iter(apart or others), None))


class CoresError(Exception):
    """There are too few cores; the message says how many are needed."""


def two_cores() -> tuple[int, int]:
    """Return two cores, for two processes that must run at the same time. Raises CoresError."""
    first, second = cores()
    if first is None or second is None:
        raise CoresError("this needs two cores; the process may use only one, or cannot be pinned")
    return first, second


def core_count() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def kept_to(cores: set[int] | None) -> Iterator[None]:
    """Pin this process to some cores within the context, if any are given.

    Processes that it starts meanwhile stay pinned, with all their threads.
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


def _siblings(core: int) -> set[int]:
    """Return the numbers of the hardware threads that share a physical core with `core`."""
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
