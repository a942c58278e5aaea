"""Values that prove whose they are, whoever wrote them and in whatever order.

Owns their bytes. Must not know who stores them. Where several processes write the same keys nobody
knows which value is the last; a reader can still tell whether it is one that the key was given, and
whole: no part of another value, and no value of another owner, passes.
"""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from functools import cache
from typing import NamedTuple

#: A value has at least so many bytes, its head: its owner's checksum, length, writer, sequence,
HEAD_BYTES = 16
#: and at most so many.
VALUE_BYTES_MAX = 1 << 20

_HEAD = struct.Struct("<IIII")
_BLOCK_BYTES = 64
_OFFSETS = 1 << 16


class WrongAnswerError(Exception):
    """A cache gave a wrong answer; the message says what was asked, and what the answer was."""


class Stamp(NamedTuple):
    """Which value of its owner it is: the number of the change, and who made it."""

    sequence: int = 0
    writer: int = 0


FIRST = Stamp()


def make(owner: str, size_bytes: int, stamp: Stamp = FIRST) -> bytes:
    """Return a value of an owner, which is a key, or whatever several keys have in common.

    Values with other stamps differ everywhere. Raises ValueError for a length that no value has.
    """
    if not HEAD_BYTES <= size_bytes <= VALUE_BYTES_MAX:
        raise ValueError(f"a value has {HEAD_BYTES} to {VALUE_BYTES_MAX} bytes, not {size_bytes}")
    name = owner.encode()
    head = _HEAD.pack(zlib.crc32(name), size_bytes, stamp.writer, stamp.sequence)
    block = hashlib.blake2b(head + name, digest_size=_BLOCK_BYTES).digest()
    begin = int.from_bytes(block[:2], "little")
    return (head + block + _pool()[begin : begin + size_bytes])[:size_bytes]


def read(owner: str, found: object) -> Stamp:
    """Return the stamp of what an owner was found to have. Raises WrongAnswerError."""
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
