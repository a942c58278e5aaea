"""Values that name their owner, such as their key, and that show any damage.

Owns their bytes. Must not know who stores them. If several processes write the same keys, nobody
knows which value is the latest. A reader can still verify that a value was written for its key and
is complete: no part of another value, and no value of another owner, passes.
"""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from functools import cache
from typing import NamedTuple

#: The shortest value. It has only a header: the owner's checksum, length, writer, sequence number.
HEAD_BYTES = 16
#: The longest value.
VALUE_BYTES_MAX = 1 << 20

_HEAD = struct.Struct("<IIII")
_BLOCK_BYTES = 64
_OFFSETS = 1 << 16


class WrongAnswerError(Exception):
    """A cache gave a wrong answer; the message has the question and the answer."""


class Stamp(NamedTuple):
    """Which value of its owner it is: the sequence number of the change, and its writer."""

    sequence: int = 0
    writer: int = 0


FIRST = Stamp()


def make(owner: str, size_bytes: int, stamp: Stamp = FIRST) -> bytes:
    """Return a value of an owner: a key, or something that several keys share.

    Values with different stamps differ everywhere. Raises ValueError for a length out of range.
    """
    if not HEAD_BYTES <= size_bytes <= VALUE_BYTES_MAX:
        raise ValueError(f"a value has {HEAD_BYTES} to {VALUE_BYTES_MAX} bytes, not {size_bytes}")
    name = owner.encode()
    head = _HEAD.pack(zlib.crc32(name), size_bytes, stamp.writer, stamp.sequence)
    block = hashlib.blake2b(head + name, digest_size=_BLOCK_BYTES).digest()
    begin = int.from_bytes(block[:2], "little")
    return (head + block + _pool()[begin : begin + size_bytes])[:size_bytes]


def read(owner: str, found: object) -> Stamp:
    """Return the stamp of a value that was found for an owner. Raises WrongAnswerError."""
    if not isinstance(found, bytes) or len(found) < HEAD_BYTES:
        raise WrongAnswerError(f"{owner} has {_shown(found)}, which was never stored")
    owner_sum, size_bytes, writer, sequence = _HEAD.unpack_from(found)
    if owner_sum != zlib.crc32(owner.encode()):
        raise WrongAnswerError(f"{owner} has {_shown(found)} of another owner")
    stamp = Stamp(sequence, writer)
    if size_bytes != len(found) or found != make(owner, size_bytes, stamp):
        raise WrongAnswerError(f"{owner} has {_shown(found)} that are torn or changed")
    return stamp


def _shown(found: object) -> str:
    return f"{len(found)} bytes" if isinstance(found, bytes) else f"a {type(found).__name__}"


@cache
def _pool() -> bytes:
    return random.Random(1).randbytes(VALUE_BYTES_MAX + _OFFSETS)
