"""The machine and the sources that a record speaks of.

Owns the questions to the operating system and to git. Must not judge the answers.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped, unused-ignore]

from reliability.catalogue import ROOT

# What a run itself changes says nothing about what was tried.
_RESULTS = (":(exclude)reliability/records", ":(exclude)docs/reliability.md")


class Machine(msgspec.Struct, frozen=True):
    """What a run ran on. `files` names the file systems by what is kept there."""

    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    system: str
    python: str
    files: dict[str, str]


class Sources(msgspec.Struct, frozen=True):
    """What was tried: a commit, and a digest of what was changed since, None for nothing."""

    commit: str
    changes: str | None


def machine() -> Machine:
    """Return the sheet of this machine."""
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        system=_system(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        files={
            "shared memory": file_system(Path("/dev/shm")),
            "temporary files": file_system(Path(tempfile.gettempdir())),
        },
    )


def sources(root: Path = ROOT, results: Sequence[str] = _RESULTS) -> Sources:
    """Return what the sources are now, without the `results` that a run itself changes.

    Those are pathspecs that exclude. Raises subprocess.CalledProcessError outside a clone.
    """
    commit = _git(root, "rev-parse", "--short=12", "HEAD").decode().strip()
    changes = _git(root, "diff", "HEAD", "--binary", "--", ".", *results)
    new = _git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", ".", *results)
    digest = hashlib.sha256(changes)
    for name in filter(None, new.split(b"\0")):
        digest.update(name + b"\0" + (root / os.fsdecode(name)).read_bytes())
    return Sources(commit, digest.hexdigest()[:12] if changes or new else None)


def _git(root: Path, *words: str) -> bytes:
    command = ["git", *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True).stdout


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()


def file_system(folder: Path) -> str:
    """Return the type of the file system that `folder` is on: the deepest mount above it."""
    inside = [
        part
        for part in psutil.disk_partitions(all=True)
        if folder.resolve().is_relative_to(part.mountpoint)
    ]
    return max(inside, key=lambda part: len(part.mountpoint)).fstype if inside else "unknown"
