"""Memory and CPU time of the processes of a cell.

Owns those questions to the operating system. Must not judge the answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]


def client_bytes(pids: Iterable[int]) -> int:
    """Return the memory of the clients, with shared pages divided among them.

    This is the proportional set size, or the resident set size where the system has no other.
    """
    total = 0
    for pid in pids:
        try:
            memory = psutil.Process(pid).memory_full_info()
        except psutil.NoSuchProcess:
            continue
        total += getattr(memory, "pss", memory.rss)
    return total


def server_bytes(pid: int) -> int:
    """Return the resident set size of a server."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def cpu_ns(pid: int) -> int:
    """Return the CPU time, user and system, of the threads of a process.

    Linux reports it for each living thread in nanoseconds. Elsewhere it is the process's time, in
    steps of the kernel's tick, usually 10 ms.
    """
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(_thread_cpu_ns(task) for task in tasks)
    except OSError:
        pass
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0
    return int((times.user + times.system) * 1e9)


def _thread_cpu_ns(task: Path) -> int:
    try:
        return int((task / "schedstat").read_text("ascii").split()[0])
    except ProcessLookupError:
        # The thread has just ended.
        return 0


def data_bytes(pid: int) -> int:
    """Return the memory of a process without mapped files, including swapped-out memory.

    Memory shared by several processes is divided among them. Raises OSError on systems other than
    Linux.
    """
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
        name, _, figure = line.partition(":")
        if name in {"Pss_Anon", "Pss_Shmem", "SwapPss"}:
            total += int(figure.split()[0]) * 1024
    return total
