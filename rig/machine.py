"""The machine sheet, and the load of other programs during a measurement.

Owns every question to the operating system about the machine. Must not judge the answers.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped, unused-ignore]

from rig.cores import core_count, cores

SHARED_MEMORY = Path("/dev/shm")

_LIBRARIES = ("hdrhistogram", "msgspec", "psutil", "rich", "zstandard")


class Machine(msgspec.Struct, frozen=True):
    """The machine of a run. `cores` is what the process may use.

    `files` has the type of each file system, by what it is for. `client_core` and `server_core`
    are the cores to pin to, None without a second core, or without pinning.
    """

    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    system: str
    python: str
    files: dict[str, str] = {}
    libraries: dict[str, str] = {}
    client_core: int | None = None
    server_core: int | None = None
    load_before: float = 0.0


def machine() -> Machine:
    """Return the current sheet of this machine."""
    pinned = cores()
    return Machine(
        cpu=_cpu(),
        cores=core_count(),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        system=_system(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        files={
            "shared memory": file_system(SHARED_MEMORY),
            "temporary files": file_system(Path(tempfile.gettempdir())),
        },
        libraries={name: version(name) for name in _LIBRARIES},
        client_core=pinned.client,
        server_core=pinned.server,
        load_before=os.getloadavg()[0],
    )


def memory_free() -> int:
    """Return how many bytes of memory are available, to the machine or within this cgroup."""
    free = int(psutil.virtual_memory().available)
    try:
        limit, used = (
            int(Path(f"/sys/fs/cgroup/memory.{name}").read_text("ascii"))
            for name in ("max", "current")
        )
    except (OSError, ValueError):
        # No cgroup, or one without a limit.
        return free
    return min(free, max(limit - used, 0))


class Disturbance(msgspec.Struct):
    """Shares of the machine's CPU time, from 0 to 1, that other programs or machines used."""

    others: float
    stolen: float


class Disturbances:
    """Measures the CPU time that others use, from its creation."""

    def __init__(self) -> None:
        self._times = psutil.cpu_times()
        self._own_seconds = _own_seconds()

    def until_now(self) -> Disturbance:
        """Return the disturbance since the creation. Children count once they have ended."""
        now = psutil.cpu_times()
        spent = {
            name: getattr(now, name) - getattr(self._times, name)
            for name in now._fields
            # User and nice time already include guest time.
            if name not in ("guest", "guest_nice")
        }
        total = max(sum(spent.values()), sys.float_info.min)
        idle = spent["idle"] + spent.get("iowait", 0.0)
        stolen = spent.get("steal", 0.0)
        own = _own_seconds() - self._own_seconds
        others = max(total - idle - stolen - own, 0.0)
        return Disturbance(others=others / total, stolen=stolen / total)


def file_system(folder: Path) -> str:
    """Return the type of the file system of `folder`: that of the deepest mount above it."""
    inside = [
        part
        for part in psutil.disk_partitions(all=True)
        if folder.resolve().is_relative_to(part.mountpoint)
    ]
    return max(inside, key=lambda part: len(part.mountpoint)).fstype if inside else "unknown"


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()
