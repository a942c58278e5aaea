"""The folders for the stores during a run, and for the runner's own files.

Owns these folders, which are removed afterwards whatever happens. Must not know their content.
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
    """A folder for other folders. `medium` is a text that names the place."""

    folder: Path
    medium: str
    _numbers: Iterator[int] = field(default_factory=count)

    def fresh(self, name: str) -> Path:
        """Return a new, empty folder."""
        # A form's name contains a colon, which separates paths in environment variables.
        folder = self.folder / f"{next(self._numbers):04d}-{name.replace(':', '-')}"
        folder.mkdir()
        return folder

    def discard(self, folder: Path) -> None:
        """Remove a folder returned by `fresh`, and the shared memory that is named after it."""
        shutil.rmtree(folder)
        remove_memory(memory_name(folder))


@contextmanager
def workspace(guard: Guard, parent: Path | None = None) -> Iterator[Workspace]:
    """Make a workspace, and remove it at the end, also after an error, an interrupt or a kill.

    It is made in `parent`, else in shared memory if 1 GiB is free there, else in the folder for
    temporary files.
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
    """Return the folder for a workspace, and a text that names the place."""
    if asked is not None:
        return asked, f"{asked}, as asked"
    if _has_room(SHARED_MEMORY):
        return SHARED_MEMORY, f"{SHARED_MEMORY} (memory, no disk)"
    elsewhere = Path(tempfile.gettempdir())
    return elsewhere, f"{elsewhere} ({SHARED_MEMORY} has no {BYTES_NEEDED >> 30} GiB to write to)"


def _has_room(folder: Path) -> bool:
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return writable and shutil.disk_usage(folder).free >= BYTES_NEEDED
