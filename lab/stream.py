"""The recorded operation stream, which every host reads before the clock starts.

Owns the file format (see PROTOCOL.md). Must not know how operations are drawn or run.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

GET, SET, DELETE = 0, 1, 2
VERB_NAMES = ("get", "set", "delete")

_MAGIC = b"LABOPS01"
# A verb is one byte and three zeros, so a record is three 32-bit numbers.
_RECORD_BYTES = 12
# Records written or read at once, to avoid long lists.
_CHUNK = 65_536


class Operation(NamedTuple):
    """One operation.

    `size` is the size of the value to store, in bytes or fields; 0 for get and delete. In a replay
    it is the size of the value to store after a miss.
    """

    verb: int
    key: int
    size: int


class Written(NamedTuple):
    """A written stream: the verb of each operation, and one more than its highest key number."""

    verbs: bytes
    key_count: int


def write(path: Path, operations: Iterable[Operation]) -> Written:
    """Write a stream to a new file. Raises FileExistsError if `path` exists."""
    left = iter(operations)
    verbs = bytearray()
    key_count = 0
    with path.open("xb") as file:
        file.write(_MAGIC)
        while numbers := array("I", chain.from_iterable(islice(left, _CHUNK))):
            verbs.extend(iter(numbers[0::3]))
            key_count = max(key_count, 1 + max(numbers[1::3]))
            file.write(_little(numbers))
    return Written(bytes(verbs), key_count)


def read(path: Path) -> Iterator[Operation]:
    """Yield the operations of a stream. Raises ValueError if the file is not a stream."""
    return map(Operation._make, zip(*columns(path), strict=True))


def columns(path: Path) -> tuple[bytes, array[int], array[int]]:
    """Return the verbs, keys and sizes of a stream. Raises ValueError if the file is not a stream.

    Creates no object per operation: a store could use memory that a host frees before a replay.
    """
    verbs = bytearray()
    keys, sizes = array("I"), array("I")
    with path.open("rb") as file:
        is_one = file.read(len(_MAGIC)) == _MAGIC
        while is_one and (content := file.read(_CHUNK * _RECORD_BYTES)):
            is_one = len(content) % _RECORD_BYTES == 0
            if is_one:
                numbers = _little(array("I", content))
                verbs.extend(iter(numbers[0::3]))
                keys.extend(numbers[1::3])
                sizes.extend(numbers[2::3])
    if not is_one:
        raise ValueError(f"{path} is not an operation stream; let the runner write it again")
    return bytes(verbs), keys, sizes


def _little(numbers: array[int]) -> array[int]:
    """Convert numbers between this machine's byte order and that of the file."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
