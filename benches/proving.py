"""Values that prove which key they belong to, whoever wrote them and in whatever order.

Owns their form. Must not know who stores them. Where several processes write the same keys nobody
knows which value is the last; a reader can still tell whether it is one that the key was given,
and whole.
"""

from __future__ import annotations

import random
import struct
from functools import cache

from benches.row import WrongAnswerError

#: A value has at least so many bytes, which name its family, its edition and its length,
HEAD_BYTES = 16
#: and at most so many.
VALUE_BYTES_MAX = 1 << 20

_HEAD = struct.Struct("<IIQ")
_STEPS = 4093


def value(family: int, size_bytes: int, edition: int = 0) -> bytes:
    """Return the value of a family with this length. Editions of a value differ everywhere.

    Raises ValueError for a length that no value has.
    """
    if not HEAD_BYTES <= size_bytes <= VALUE_BYTES_MAX:
        raise ValueError(f"a value has {HEAD_BYTES} to {VALUE_BYTES_MAX} bytes, not {size_bytes}")
    begin = (family * 31 + edition * 7 + size_bytes) % _STEPS * 8
    head = _HEAD.pack(family, edition, size_bytes)
    return head + _pool()[begin : begin + size_bytes - HEAD_BYTES]


def prove(key: str, found: object, family: int) -> None:
    """Raise WrongAnswerError unless what a key was found to have is a value of a family, whole."""
    if not isinstance(found, bytes) or len(found) < HEAD_BYTES:
        raise WrongAnswerError(f"{key} has {type(found).__name__}, which was never stored")
    of_family, edition, size_bytes = _HEAD.unpack_from(found)
    if of_family != family:
        raise WrongAnswerError(f"{key} has a value of family {of_family}; its own is {family}")
    if size_bytes != len(found) or found != value(family, size_bytes, edition):
        raise WrongAnswerError(f"{key} has {len(found)} bytes that are no value of family {family}")


@cache
def _pool() -> bytes:
    return random.Random(1).randbytes(VALUE_BYTES_MAX + _STEPS * 8)
