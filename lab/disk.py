"""How many bytes a folder occupies.

Owns that measure, which the host takes during a replay and the runner after it. Must not know whose
folder it is.
"""

from __future__ import annotations

from pathlib import Path

_BLOCK_BYTES = 512


def bytes_occupied(folder: Path) -> int:
    """Return the bytes of all blocks allocated to the files below `folder`.

    Files that vanish meanwhile count as nothing.
    """
    total = 0
    for path in folder.rglob("*"):
        try:
            stat = path.lstat()
        except FileNotFoundError:
            continue
        if path.is_file():
            total += stat.st_blocks * _BLOCK_BYTES
    return total
