"""The values of PROTOCOL.md, implemented a second time.

Owns the derivation of binary values, for tests of hosts. Must not share code with any host.
"""

from __future__ import annotations

import functools
import hashlib
import struct


def derive(key: int, sequence: int, length: int, seed: int = 1) -> bytes:
    """Return the value of a seed, a key and a sequence."""
    head = hashlib.sha512(struct.pack("<QQQ", seed, key, sequence)).digest()
    if length <= len(head):
        return head[:length]
    offset = int.from_bytes(head[:4], "little") % 2**20
    return head + _pool(seed)[offset : offset + length - len(head)]


@functools.cache
def _pool(seed: int) -> bytes:
    blocks = (hashlib.sha512(struct.pack("<QI", seed, block)).digest() for block in range(65_536))
    return b"".join(blocks)
