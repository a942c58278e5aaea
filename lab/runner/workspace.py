"""Where the stores live while they are measured, and where the runner keeps its own files.

Owns folders of its own, which are gone afterwards whatever happened. Must not know what is in them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from lab.disk import SHARED_MEMORY, memory_name, remove_memory
from lab.runner.guard import Guard

BYTES_NEEDED = 1 << 30


@dataclass(frozen=True)
class Workspace:
    """A folder for other folders. `medium` says in words what it lies on."""

    folder: Path
    medium: str
    _numbers: Iterator[int] = field(default_factory=count)

    def fresh(self, name: str) -> Path:
        """Return a new, empty folder."""
        # A contestant's name has a colon where it is one of several forms, and paths are joined
        # by colons in more than one place.
        folder = self.folder / f"{next(self._numbers):04d}-{name.replace(':', '-')}"
        folder.mkdir()
        return folder

    def discard(self, folder: Path) -> None:
        """Remove a folder that `fresh` gave, and the shared memory that is named after it."""
        shutil.rmtree(folder)
        remove_memory(memory_name(folder))


@contextmanager
def workspace(guard: Guard, parent: Path | None = None) -> Iterator[Workspace]:
    """Make a workspace, which is removed at the end, on an error, an interrupt and a kill.

    It is made in `parent`, else in shared memory where there is 1 GiB free, else where temporary
    files go.
    """
    parent, medium = place(parent)
    folder = Path(tempfile.mkdtemp(prefix="tuckbox-lab-", dir=parent)).resolve()
    guard.watch("folder", str(folder))
    try:
        yield Workspace(folder, medium)
    finally:
        shutil.rmtree(folder)
        remove_memory(f"{folder.name}-")
        guard.forget("folder", str(folder))


def place(asked: Path | None) -> tuple[Path, str]:
    """Return where a workspace is made, and that place in words."""
    if asked is not None:
        return asked, f"{asked}, as asked"
    if _has_room(SHARED_MEMORY):
        return SHARED_MEMORY, f"{SHARED_MEMORY} (memory, no disk)"
    elsewhere = Path(tempfile.gettempdir())
    return elsewhere, f"{elsewhere} ({SHARED_MEMORY} has no {BYTES_NEEDED >> 30} GiB to write to)"


def _has_room(folder: Path) -> bool:
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return writable and shutil.disk_usage(folder).free >= BYTES_NEEDED
