"""Where the stores live while they are measured.

Owns one folder of its own, which is gone afterwards whatever happened. Must not know what is in it.
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

SHARED_MEMORY = Path("/dev/shm")
BYTES_NEEDED = 1 << 30


@dataclass(frozen=True)
class Workspace:
    """A folder for streams and stores. `medium` says in words what it lies on."""

    folder: Path
    medium: str
    _numbers: Iterator[int] = field(default_factory=count)

    def fresh(self, name: str) -> Path:
        """Return a new, empty folder."""
        folder = self.folder / f"{next(self._numbers):04d}-{name}"
        folder.mkdir()
        return folder

    def discard(self, folder: Path) -> None:
        """Remove a folder that `fresh` gave."""
        shutil.rmtree(folder)


@contextmanager
def workspace(parent: Path | None = None) -> Iterator[Workspace]:
    """Make a workspace, which is removed at the end, on an error and on an interrupt.

    It is made in `parent`, else in shared memory where there is 1 GiB free, else where temporary
    files go.
    """
    if parent is not None:
        medium = f"{parent}, as asked"
    elif _has_room(SHARED_MEMORY):
        parent, medium = SHARED_MEMORY, f"{SHARED_MEMORY} (memory, no disk)"
    else:
        parent = Path(tempfile.gettempdir())
        medium = f"{parent} ({SHARED_MEMORY} has no {BYTES_NEEDED >> 30} GiB to write to)"
    folder = Path(tempfile.mkdtemp(prefix="tuckbox-lab-", dir=parent))
    try:
        yield Workspace(folder, medium)
    finally:
        shutil.rmtree(folder)


def _has_room(folder: Path) -> bool:
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return writable and shutil.disk_usage(folder).free >= BYTES_NEEDED
