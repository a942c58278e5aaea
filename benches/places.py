"""Folders to measure in: one in memory, one on a disk.

Owns where they are and that they are removed afterwards. Must not know what is stored in them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rig.machine import SHARED_MEMORY, file_system
from rig.sources import ROOT

_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class NoPlaceError(Exception):
    """A folder is missing; the message says which, and what to do."""


@dataclass(frozen=True)
class Places:
    """Two empty folders."""

    tmpfs: Path
    disk: Path


@contextmanager
def places() -> Iterator[Places]:
    """Create both folders, private ones, and remove them at the end. Raises NoPlaceError."""
    tmpfs = Path(tempfile.mkdtemp(prefix="tuckbox-bench-", dir=_in_memory()))
    try:
        disk = Path(tempfile.mkdtemp(prefix="tuckbox-bench-", dir=_on_disk()))
        try:
            yield Places(tmpfs, disk)
        finally:
            shutil.rmtree(disk)
    finally:
        shutil.rmtree(tmpfs)


def file_systems() -> dict[str, str]:
    """Return the type of each file system, by what it is for. Raises NoPlaceError."""
    return {"memory": file_system(_in_memory()), "disk": file_system(_on_disk())}


def _in_memory() -> Path:
    if not SHARED_MEMORY.is_dir() or file_system(SHARED_MEMORY) not in _IN_MEMORY:
        raise NoPlaceError(f"{SHARED_MEMORY} is not in memory: mount a tmpfs there")
    return SHARED_MEMORY


def _on_disk() -> Path:
    """Return the folder of temporary files, or the build folder if that one is in memory."""
    built = ROOT / "target"
    for folder in (Path(tempfile.gettempdir()), built):
        folder.mkdir(exist_ok=True)
        if file_system(folder) not in _IN_MEMORY:
            return folder
    raise NoPlaceError(
        f"neither the folder of temporary files nor {built.name}/ is on a disk: set TMPDIR"
    )
