"""Values that prove whose they are.

Owns the bytes of a value. A value is a head (the key's hash, writer, sequence, length of the body),
a body that follows from the head, and a checksum of both: no part of another value, and no value of
another key, passes.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

_HEAD = struct.Struct("<8sIQI")
_CHECKSUM_BYTES = 8
_BODY_BLOCK_BYTES = 64


class Stamp(NamedTuple):
    """Who stored a value, and the number of that change of the key."""

    writer: int
    sequence: int


class ForgedError(Exception):
    """The bytes are no value of that key; the message says why."""


def make(key: str, stamp: Stamp, body_bytes: int) -> bytes:
    """Return the value of a key."""
    head = _HEAD.pack(_hash(key.encode()), stamp.writer, stamp.sequence, body_bytes)
    block = hashlib.blake2b(head, digest_size=_BODY_BLOCK_BYTES).digest()
    body = (block * (body_bytes // _BODY_BLOCK_BYTES + 1))[:body_bytes]
    return head + body + _hash(head + body)


def read(key: str, value: object) -> Stamp:
    """Return the stamp of a value that was found under a key. Raises ForgedError."""
    if not isinstance(value, bytes):
        raise ForgedError(f"a {type(value).__name__} is none of the values")
    if len(value) < _HEAD.size + _CHECKSUM_BYTES:
        raise ForgedError(f"{len(value)} bytes are too few")
    key_hash, writer, sequence, body_bytes = _HEAD.unpack_from(value)
    if key_hash != _hash(key.encode()):
        raise ForgedError("it is another key's")
    if len(value) != _HEAD.size + body_bytes + _CHECKSUM_BYTES:
        raise ForgedError("its length is not the one it states")
    stamp = Stamp(writer, sequence)
    if value != make(key, stamp, body_bytes):
        raise ForgedError("it is torn or changed")
    return stamp


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()
