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
_SECONDS_BETWEEN_READS = 0.001
_READS_MAX = 1000
# So often, because a process may start a program between two looks.
_EMPTY_READS = 3
# Places in /proc/PID/stat, counted from the state, which follows the name in parentheses.
_STATE, _ENVIRONMENT_END = 0, 48


def environment(mark: str) -> dict[str, str]:
    """Return this process's environment with a mark added, for a child."""
    return {**os.environ, _NAME: f"{os.environ.get(_NAME, '')} {mark}".strip()}


def marked(beginning: str) -> list[int]:
    """Return the ids of other processes with a mark that begins so.

    Empty on systems without /proc.
    """
    return [pid for pid in _others() if has_mark(pid, beginning)]


def has_mark(pid: int, beginning: str) -> bool:
    """Return whether a process has a mark that begins so."""
    with suppress(OSError):
        for one in _environment(pid).split(b"\0"):
            name, _, marks = one.partition(b"=")
            if name == _NAME.encode():
                return any(mark.startswith(beginning.encode()) for mark in marks.split())
    return False


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
            if has_mark(pid, beginning):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False


def _environment(pid: int) -> bytes:
    """Return a process's environment; of a zombie or a thread of the kernel an empty one.

    While a process starts another program, its environment looks empty for a moment.
    """
    empty = 0
    for _ in range(_READS_MAX):
        if environment := Path(f"/proc/{pid}/environ").read_bytes():
            return environment
        if _is_starting(pid):
            time.sleep(_SECONDS_BETWEEN_READS)
        elif (empty := empty + 1) == _EMPTY_READS:
            break
    return b""


def _is_starting(pid: int) -> bool:
    """Return whether a process has a program but no place for its environment yet."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    is_alive = fields[_STATE] not in "ZX" and fields[_ENVIRONMENT_END] == "0"
    # A thread of the kernel has no program.
    return is_alive and bool(Path(f"/proc/{pid}/exe").readlink())


def _others() -> list[int]:
    with suppress(OSError):
        found = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
        return [pid for pid in found if pid != os.getpid()]
    return []
