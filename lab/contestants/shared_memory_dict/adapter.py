"""shared-memory-dict: one block of shared memory with one pickled dictionary."""

from __future__ import annotations

from pathlib import Path

from lab.disk import memory_name
from lab.hosts.python.contract import Limits, Store
from shared_memory_dict import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    SharedMemoryDict,
)

# Every get copies the whole block, full or not.
_BYTES_MAX = 1 << 22


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the block of `folder`, and create it if it does not exist."""
    size = min(limits.bytes or _BYTES_MAX, _BYTES_MAX)
    entries = SharedMemoryDict(name=f"{memory_name(Path(folder))}dict", size=size)

    def set_(key: str, value: object) -> bool:
        try:
            entries[key] = value
        except ValueError:
            return False
        return True

    def delete(key: str) -> bool:
        return entries.pop(key, None) is not None

    return Store(
        get=entries.get,
        set=set_,
        delete=delete,
        close=entries.cleanup,
        clear=entries.clear,
    )
