"""Which caches a directory has, and what must hold of the files of their values.

For the importer and the exporter. Must not know how entries are stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final, Optional

__all__ = ["MISSING", "caches_in", "file_objection", "same_content"]

MISSING: Final = "file of the value is missing"
_COMPARED_BYTES: Final = 2**20


def caches_in(directory: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each cache in a directory, in order.

    Args:
        directory: The directory.
        name: The name of the file that holds the entries.

    Yields:
        The directory of the cache, and those of its shards: itself, unless it has some.
    """
    for folder, names, files in os.walk(directory):
        if name in files:
            yield folder, [folder]
            names[:] = [below for below in names if not re.fullmatch("[0-9a-f]{2}", below)]
        shards = sorted(below for below in names if re.fullmatch("[0-9]{3}", below))
        shards = [shard for shard in shards if os.path.exists(os.path.join(folder, shard, name))]
        if shards and shards == [f"{number:03}" for number in range(len(shards))]:
            yield folder, [os.path.join(folder, shard) for shard in shards]
            names[:] = sorted(set(names) - set(shards))
        names.sort()


def file_objection(path: str, directory: str, size: int) -> Optional[str]:
    """Return why the file of a value cannot be copied, or None.

    Args:
        path: The file, as the entry names it.
        directory: The directory of the cache.
        size: The length that the entry names, in bytes.
    """
    try:
        # The entry may name any file of the system.
        if not os.path.realpath(path).startswith(directory + os.sep):
            return "value is outside of the directory"
        if os.stat(path).st_size != size:
            return "file of the value has a wrong length"
    except OSError:
        return MISSING
    return None


def same_content(one: str, other: str) -> bool:
    """Return whether two files can be read and have the same bytes."""
    try:
        with open(one, "rb", buffering=0) as first, open(other, "rb", buffering=0) as second:
            if os.fstat(first.fileno()).st_size != os.fstat(second.fileno()).st_size:
                return False
            while True:
                part = first.read(_COMPARED_BYTES)
                if part != second.read(_COMPARED_BYTES):
                    return False
                if not part:
                    return True
    except OSError:
        return False
