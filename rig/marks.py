"""Marks by which a program finds all processes that it started, directly or not.

Owns the marks, and killing by mark. Must not know what the processes do. A mark is in the
environment, which children inherit, also in another session. A process may have several marks.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_NAME = "TUCKBOX_MARKS"
_KILLS_MAX = 20
_SECONDS_BETWEEN_KILLS = 0.02


def environment(mark: str) -> dict[str, str]:
    """Return this process's environment with a mark added, for a child."""
    return {**os.environ, _NAME: f"{os.environ.get(_NAME, '')} {mark}".strip()}


def marked(beginning: str) -> list[int]:
    """Return the ids of other processes with a mark that begins so.

    Empty on systems without /proc.
    """
    return [pid for pid in _others() if _has_mark(pid, beginning)]


def kill_marked(beginning: str) -> None:
    """Kill all other processes with a mark that begins so, also those they start meanwhile."""
    for _ in range(_KILLS_MAX):
        if not sum(_kill_if_marked(pid, beginning) for pid in _others()):
            return
        time.sleep(_SECONDS_BETWEEN_KILLS)


def _kill_if_marked(pid: int, beginning: str) -> bool:
    with suppress(OSError):
        # While this is open, the pid is not reused.
        descriptor = os.pidfd_open(pid)
        try:
            if _has_mark(pid, beginning):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False


def _has_mark(pid: int, beginning: str) -> bool:
    with suppress(OSError):
        # A zombie has no environment.
        for one in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, marks = one.partition(b"=")
            if name == _NAME.encode():
                return any(mark.startswith(beginning.encode()) for mark in marks.split())
    return False


def _others() -> list[int]:
    with suppress(OSError):
        found = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
        return [pid for pid in found if pid != os.getpid()]
    return []
