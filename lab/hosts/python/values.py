"""Derived values: a pseudo-random function of seed, key number and sequence, cut to length.

Owns the derivation that every host must repeat bit for bit (PROTOCOL.md has the formula and a test
vector). Must not know who stores the values, or when.
"""

from __future__ import annotations

import hashlib
import struct

_HEAD = struct.Struct("<QQQ")
_COUNTER = struct.Struct("<I")
_BLOCK_BYTES = hashlib.sha512().digest_size


def derive(seed: int, key: int, sequence: int, length: int) -> bytes:
    """Return the `length` bytes that belong to `sequence` of `key` under `seed`.

    SHA-512 in counter mode: each block hashes seed, key and sequence as 64-bit and the number of
    the block as 32-bit little-endian integers.
    """
    head = hashlib.sha512(_HEAD.pack(seed, key, sequence))
    blocks = []
    for number in range(-(-length // _BLOCK_BYTES)):
        block = head.copy()
        block.update(_COUNTER.pack(number))
        blocks.append(block.digest())
    return b"".join(blocks)[:length]
