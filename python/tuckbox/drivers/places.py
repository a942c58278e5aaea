"""`place`: under which bytes a driver stores a key, where long keys are not allowed."""

from __future__ import annotations

import hashlib
from typing import Optional

__all__ = ["PLACE_BYTES_MAX", "PREFIX_BYTES_MAX", "place"]

PLACE_BYTES_MAX = 500
"""The longest place. MySQL's primary keys have up to 767 bytes in its oldest row formats."""
_DIGEST_BYTES = 32
PREFIX_BYTES_MAX = PLACE_BYTES_MAX - _DIGEST_BYTES
"""Two keys that begin with the same prefix of this length have places that do so, too."""


def place(key: bytes) -> tuple[bytes, Optional[bytes]]:
    """Return the place of a key, and the whole key if the place does not contain it.

    A short key is its own place. The place of a long one is its beginning and its digest; whoever
    reads an entry there compares the whole key.

    Example:
        >>> place(b"user:1")
        (b'user:1', None)
        >>> len(place(b"x" * 60_000)[0])
        500
    """
    if len(key) < PLACE_BYTES_MAX:
        return key, None
    digest = hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()
    return key[:PREFIX_BYTES_MAX] + digest, key
