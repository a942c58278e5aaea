"""The recorded operation stream, which every host reads before the clock starts.

Owns the file format (PROTOCOL.md describes it). Must not know how operations are drawn or obeyed.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

GET, SET, DELETE = 0, 1, 2
VERB_NAMES = ("get", "set", "delete")

_MAGIC = b"LABOPS01"
_RECORD = struct.Struct("<BxxxII")


class Operation(NamedTuple):
    """One operation.

    `size` is that of the value to store, in bytes or fields, and 0 for get and delete. In a replay
    it is the size of the value to store after a miss.
    """

    verb: int
    key: int
    size: int


def write(path: Path, operations: Iterable[Operation]) -> None:
    """Write a stream to a new file. Raises FileExistsError when `path` is there."""
    with path.open("xb") as file:
        file.write(_MAGIC)
        file.write(b"".join(_RECORD.pack(*operation) for operation in operations))


def read(path: Path) -> Iterator[Operation]:
    """Yield the operations of a stream. Raises ValueError when the file is not one."""
    return map(Operation._make, zip(*columns(path), strict=True))


def columns(path: Path) -> tuple[bytes, array[int], array[int]]:
    """Return the verbs, keys and sizes of a stream. Raises ValueError when the file is not one.

    Nothing is made for each operation: what a host frees before a replay is not measured there.
    """
    content = path.read_bytes()
    if not content.startswith(_MAGIC) or (len(content) - len(_MAGIC)) % _RECORD.size:
        raise ValueError(f"{path} is not an operation stream; let the runner write it again")
    numbers = array("I", content[len(_MAGIC) :])
    if sys.byteorder == "big":
        numbers.byteswap()
    return bytes(iter(numbers[0::3])), numbers[1::3], numbers[2::3]
