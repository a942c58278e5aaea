"""Marks by which a program finds what it has started, and whatever that has started.

Owns the marks and the killing by them. Must not know what is found. A mark is in a process's
environment, which its children inherit, so that one in a session of its own is found as well. A
process that was started by a marked one may have a mark more.
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
    """Return the environment of a process that is to have a mark: ours, and the mark."""
    return {**os.environ, _NAME: f"{os.environ.get(_NAME, '')} {mark}".strip()}


def marked(beginning: str) -> list[int]:
    """Return the processes with a mark that begins so, but not this one.

    Nothing where there is no /proc.
    """
    return [pid for pid in _others() if _has_mark(pid, beginning)]


def kill_marked(beginning: str) -> None:
    """Kill the processes with a mark that begins so, and those that they start meanwhile."""
    for _ in range(_KILLS_MAX):
        if not sum(_kill_if_marked(pid, beginning) for pid in _others()):
            return
        time.sleep(_SECONDS_BETWEEN_KILLS)


def _kill_if_marked(pid: int, beginning: str) -> bool:
    with suppress(OSError):
        # Until this is closed its number is nobody else's.
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
        # A dead process that waits to be reaped has no environment.
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
