"""Derived values: pseudo-random functions of seed, key number and sequence.

Owns the derivations, which all hosts must repeat bit for bit (PROTOCOL.md has the formulas and test
vectors), and how an answer is recognised without keeping the stored values. Must not know who
stores the values, or when.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Hashable
from functools import lru_cache
from typing import Protocol

from lab.hosts.python.contract import Value
from lab.protocol import ValueKind

BYTES_MAX = 3 * 2**20
WEAK_BELOW_BYTES = 8

_HEAD = struct.Struct("<QQQ")
_HEAD_BYTES = 64
_BLOCK = struct.Struct("<QI")
_POOL_BLOCKS = 65_536
_OFFSETS = 2**20
_FIELD_BYTES = 14
_NAME_DIGITS = 8
_FIELD_DIGITS = 28


class Values(Protocol):
    """The values of one kind under one seed. Sizes are bytes or fields, depending on the kind.

    A mark is a short part of a value by which an answer is recognised. Only values below the weak
    length can share a mark; for others the probability is negligible.
    """

    def derive(self, key: int, sequence: int, size: int) -> Value:
        """Return the value of `sequence` of `key`. Raises ValueError for an invalid size."""
        ...

    def mark(self, key: int, sequence: int, size: int) -> Hashable:
        """Return the mark of that value."""
        ...

    def marks(self, answer: object) -> Collection[Hashable] | None:
        """Return the possible marks of an answer; None if it is not of this kind."""
        ...

    def is_whole(self, answer: object, key: int, sequence: int, size: int) -> bool:
        """Return whether an answer with the mark of that value equals the whole value."""
        ...

    def is_weak(self, answer: object) -> bool:
        """Return whether an answer is so short that it could be right by chance."""
        ...

    def describe(self, answer: object) -> str:
        """Return a description of an answer for a message."""
        ...


class Binary:
    """Byte strings. The mark is the value's first 64 bytes, which are the hash."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._pool = _pool(seed)

    def derive(self, key: int, sequence: int, size: int) -> bytes:
        """Return the `size` bytes of `sequence` of `key`."""
        if not 0 <= size <= BYTES_MAX:
            raise ValueError(f"a value must have 0 to {BYTES_MAX:,} bytes, not {size:,}")
        head = hashlib.sha512(_HEAD.pack(self._seed, key, sequence)).digest()
        if size <= _HEAD_BYTES:
            return head[:size]
        offset = _offset(head)
        window = memoryview(self._pool)[offset : offset + size - _HEAD_BYTES]
        return b"".join((head, window))

    def mark(self, key: int, sequence: int, size: int) -> bytes:
        """Return the beginning of the value."""
        return self.derive(key, sequence, min(size, _HEAD_BYTES))

    def marks(self, answer: object) -> Collection[bytes] | None:
        """Return the beginning of the answer."""
        return (answer[:_HEAD_BYTES],) if type(answer) is bytes else None

    def is_whole(self, answer: object, key: int, sequence: int, size: int) -> bool:  # noqa: ARG002 - The protocol has the arguments.
        """Compare the length and the bytes after the mark."""
        assert isinstance(answer, bytes)
        if len(answer) != size or size <= _HEAD_BYTES:
            return len(answer) == size
        # `startswith` compares memory without a copy; a comparison of views is slower.
        return self._pool.startswith(memoryview(answer)[_HEAD_BYTES:], _offset(answer))

    def is_weak(self, answer: object) -> bool:
        """Return whether it is shorter than 8 bytes."""
        assert isinstance(answer, bytes)
        return len(answer) < WEAK_BELOW_BYTES

    def describe(self, answer: object) -> str:
        """Return its length."""
        assert isinstance(answer, bytes)
        return f"{len(answer):,} bytes"


class Complex:
    """Dictionaries of str to str, cut from a byte string. The mark is the first field."""

    def __init__(self, seed: int) -> None:
        self._binary = Binary(seed)

    def derive(self, key: int, sequence: int, size: int) -> dict[str, str]:
        """Return the dictionary of `size` fields of `sequence` of `key`."""
        digits = self._binary.derive(key, sequence, _FIELD_BYTES * size).hex()
        return {
            digits[at : at + _NAME_DIGITS]: digits[at + _NAME_DIGITS : at + _FIELD_DIGITS]
            for at in range(0, len(digits), _FIELD_DIGITS)
        }

    def mark(self, key: int, sequence: int, size: int) -> tuple[str, str]:
        """Return the first field, with its content because another could have the same name."""
        return next(iter(self.derive(key, sequence, size).items()))

    def marks(self, answer: object) -> Collection[Hashable] | None:
        """Return all fields, because a store need not keep their order."""
        if type(answer) is not dict:
            return None
        texts = (*answer, *answer.values())
        return answer.items() if all(type(text) is str for text in texts) else None

    def is_whole(self, answer: object, key: int, sequence: int, size: int) -> bool:
        """Derive the value again and compare."""
        return answer == self.derive(key, sequence, size)

    def is_weak(self, answer: object) -> bool:  # noqa: ARG002 - The protocol has the argument.
        """Return False: a single field has 14 bytes."""
        return False

    def describe(self, answer: object) -> str:
        """Return the number of its fields."""
        assert isinstance(answer, dict)
        return f"{len(answer)} fields"


def values_of(kind: ValueKind, seed: int) -> Values:
    """Return the values of a kind under a seed."""
    return Binary(seed) if kind == "binary" else Complex(seed)


@lru_cache(maxsize=1)
def _pool(seed: int) -> bytes:
    blocks = range(_POOL_BLOCKS)
    return b"".join(hashlib.sha512(_BLOCK.pack(seed, block)).digest() for block in blocks)


def _offset(head: bytes) -> int:
    return int.from_bytes(head[:4], "little") % _OFFSETS
