"""What a cell uses of the machine: memory and CPU time of its processes.

Owns those questions to the operating system. Must not judge the answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]


def client_bytes(pids: Iterable[int]) -> int:
    """Return the memory of the clients: pages that several share are divided among them.

    The proportional set size; where the system does not tell it, the resident set size.
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
    """Return the CPU time, user and system, that the threads of a process have used.

    Linux tells it of each living thread in nanoseconds. Elsewhere it is that of the process, in
    steps of the kernel's tick, mostly 10 ms.
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
        # It has ended just now.
        return 0


def data_bytes(pid: int) -> int:
    """Return the memory of a process that is no part of a mapped file, swapped out or not.

    What several processes share is divided among them. Raises OSError where the kernel does not
    tell: it is Linux that does.
    """
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
        name, _, figure = line.partition(":")
        if name in {"Pss_Anon", "Pss_Shmem", "SwapPss"}:
            total += int(figure.split()[0]) * 1024
    return total
