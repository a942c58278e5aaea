"""The size of a store: its folder, and shared memory that is named after the folder.

Owns that measure and the rule for the names. Must not know whose folder it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from glob import escape
from itertools import chain
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")

_BLOCK_BYTES = 512


def memory_name(folder: Path) -> str:
    """Return the prefix for the names of all shared memory of the store in `folder`.

    Such memory is counted and removed with the folder. A library's own prefix may come first.
    """
    return f"{folder.parent.name}-{folder.name}-"


def remove_memory(beginning: str) -> None:
    """Remove the shared memory whose names start with `beginning`, such as a `memory_name`."""
    for path in _memory_named(beginning):
        path.unlink(missing_ok=True)


def _memory_named(beginning: str) -> Iterator[Path]:
    # Some libraries add their own prefix to every name.
    return SHARED_MEMORY.glob(f"*{escape(beginning)}*")


def bytes_occupied(folder: Path) -> int:
    """Return the bytes of all blocks allocated to the files below `folder` and to its memory.

    Files that disappear meanwhile do not count.
    """
    total = 0
    for path in chain(folder.rglob("*"), _memory_named(memory_name(folder))):
        try:
            stat = path.lstat()
        except FileNotFoundError:
            continue
        if path.is_file():
            total += stat.st_blocks * _BLOCK_BYTES
    return total
