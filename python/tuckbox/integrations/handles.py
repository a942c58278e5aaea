"""One handle of a file per process, whoever asks for it.

Frameworks make an object of theirs for each thread, or for each request; to open the file for each
of them would be waste. Owns the handles that they share. Knows no framework.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NamedTuple

from tuckbox.cache import Cache

if TYPE_CHECKING:
    from tuckbox.favour import Favour

__all__ = ["Way", "renewed", "shared"]


class Way(NamedTuple):
    """All that a handle is opened with: what `Cache` takes."""

    path: str
    size: int | str | None = None
    max_entries: int | None = None
    lock_timeout: float = 1.0
    read_only: bool = False
    group: str | int | None = None
    favour: Favour | None = None


_handles: dict[Way, Cache] = {}
_opening = threading.Lock()


def shared(way: Way) -> Cache:
    """Return this process's handle of a file; open it if there is none.

    Handles are opened once for each way and stay open as long as the process. A forked child uses
    its parent's, which are made for that.

    Args:
        way: The file, and how to open it.

    Returns:
        The same handle to every thread.

    Raises:
        TuckboxError: Whatever opening a `Cache` raises.
    """
    handle = _handles.get(way)
    if handle is None or handle.closed:
        with _opening:
            handle = _handles.get(way)
            if handle is None or handle.closed:
                handle = _handles[way] = Cache(**way._asdict())
    return handle


def renewed(way: Way, lost: Cache) -> Cache:
    """Return this process's handle of a file, after `lost` has turned out to be no use any more.

    Args:
        way: The file, and how to open it.
        lost: A handle that raised CacheLost: its file was cut short, removed or replaced.

    Returns:
        Another handle, the same to every thread.

    Raises:
        TuckboxError: Whatever opening a `Cache` raises.
    """
    with _opening:
        if _handles.get(way) is lost:
            # Not closed: other threads may be about to find out the same.
            del _handles[way]
    return shared(way)


def _renew_the_lock() -> None:
    # Whichever thread of the parent was opening a file is not in the child.
    global _opening  # noqa: PLW0603 - A lock cannot be reset in place.
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_renew_the_lock)
