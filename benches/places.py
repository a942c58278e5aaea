"""Folders to measure in: one in memory, one on a disk.

Owns where they are and that they are gone afterwards. Must not know what is put into them.
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
    """There is no folder of a kind; the message says which, and what would do."""


@dataclass(frozen=True)
class Places:
    """Two empty folders."""

    tmpfs: Path
    disk: Path


@contextmanager
def places() -> Iterator[Places]:
    """Make both folders, private ones, and remove them at the end. Raises NoPlaceError."""
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
    """Return the types of the file systems by what is kept there. Raises NoPlaceError."""
    return {"memory": file_system(_in_memory()), "disk": file_system(_on_disk())}


def _in_memory() -> Path:
    if not SHARED_MEMORY.is_dir() or file_system(SHARED_MEMORY) not in _IN_MEMORY:
        raise NoPlaceError(f"{SHARED_MEMORY} is no file system in memory: mount a tmpfs there")
    return SHARED_MEMORY


def _on_disk() -> Path:
    """Return where temporary files go, or the build folder where those are in memory."""
    built = ROOT / "target"
    for folder in (Path(tempfile.gettempdir()), built):
        folder.mkdir(exist_ok=True)
        if file_system(folder) not in _IN_MEMORY:
            return folder
    raise NoPlaceError(f"neither temporary files nor {built.name}/ are on a disk: set TMPDIR")
