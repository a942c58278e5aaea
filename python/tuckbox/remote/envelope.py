"""`Envelope`: an entry as the bytes that a driver stores.

The layout is specified in ``docs/explanation/envelope.md``, and is for programs in any language.
Bytes of another layout, or damaged ones, are no envelope: `unpack` returns None, and the entry is
missing.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple, Optional

from tuckbox.memory.keys import take_length, varint

__all__ = ["VERSIONS_END", "Envelope", "pack", "unpack"]

_MAGIC = b"TBE\x01"
_HEAD = struct.Struct("<4sIQB")
"""Magic, checksum, version, flags."""
_SUMMED_AT = 8
_WORD = struct.Struct("<Q")
_EXPIRY, _STALE, _MADE, _TAGS, _LEASE, _VALUE, _PINNED = 1, 2, 4, 8, 16, 32, 64
_FLAGS = 127
VERSIONS_END = 1 << 63
"""Versions are below this, and at least 1."""


class Envelope(NamedTuple):
    """An entry. See `tuckbox.contract` for its states."""

    key: bytes
    """The whole key: a driver may give several keys one place."""
    version: int
    value: Optional[bytes]
    """The encoded value; None if the key only has a lease."""
    expiry_us: Optional[int] = None
    """The moment at which its ttl ends, in microseconds since 1970; None is never."""
    stale_us: int = 0
    """How long it is kept as a stale one after that."""
    made_us: Optional[int] = None
    """How long making the value took."""
    tags: tuple[str, ...] = ()
    """Its tags, sorted."""
    stamp: int = 0
    """With tags: what the clock of evictions showed when the making of the value began."""
    lease: Optional[tuple[int, int]] = None
    """The number of the lease on the key, and the moment at which it ends in microseconds."""
    pinned: bool = False
    """In a dump: whether the entry is never evicted."""


def pack(envelope: Envelope) -> bytes:
    """Return the bytes of an envelope.

    Example:
        >>> unpack(pack(Envelope(b"k", 7, b"value")), b"k").value
        b'value'
    """
    flags, parts = _PINNED if envelope.pinned else 0, []
    if envelope.expiry_us is not None:
        flags |= _EXPIRY
        parts.append(_WORD.pack(envelope.expiry_us))
    if envelope.stale_us:
        flags |= _STALE
        parts.append(_WORD.pack(envelope.stale_us))
    if envelope.made_us is not None:
        flags |= _MADE
        parts.append(_WORD.pack(envelope.made_us))
    if envelope.tags:
        flags |= _TAGS
        parts += [_WORD.pack(envelope.stamp), varint(len(envelope.tags))]
        for name in map(str.encode, envelope.tags):
            parts += [varint(len(name)), name]
    if envelope.lease is not None:
        flags |= _LEASE
        parts += [_WORD.pack(word) for word in envelope.lease]
    parts += [varint(len(envelope.key)), envelope.key]
    if envelope.value is not None:
        flags |= _VALUE
        parts.append(envelope.value)
    rest = b"".join(parts)
    head = _HEAD.pack(_MAGIC, 0, envelope.version, flags)
    checksum = zlib.crc32(rest, zlib.crc32(head[_SUMMED_AT:]))
    return _HEAD.pack(_MAGIC, checksum, envelope.version, flags) + rest


def unpack(packed: bytes, key: Optional[bytes]) -> Optional[Envelope]:
    """Return the envelope of a key, or of any; None if the bytes are none, or another key's."""
    try:
        magic, checksum, version, flags = _HEAD.unpack_from(packed)
        is_sound = magic == _MAGIC and checksum == zlib.crc32(packed[_SUMMED_AT:])
        if not is_sound or flags & ~_FLAGS or not 0 < version < VERSIONS_END:
            return None
        if flags != _VALUE:
            return _unpack_rest(packed, key, version, flags)
        # Nearly all: nothing but the value.
        length, at = take_length(packed, _HEAD.size)
        end = at + length
        own = packed[at:end]
        return Envelope(own, version, packed[end:]) if key in {None, own} else None
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _unpack_rest(
    packed: bytes, key: Optional[bytes], version: int, flags: int
) -> Optional[Envelope]:
    at = _HEAD.size

    def word() -> int:
        nonlocal at
        (number,) = _WORD.unpack_from(packed, at)
        at += _WORD.size
        return int(number)

    def counted() -> bytes:
        nonlocal at
        length, at = take_length(packed, at)
        part = packed[at : at + length]
        if len(part) != length:
            raise IndexError
        at += length
        return part

    expiry_us = word() if flags & _EXPIRY else None
    stale_us = word() if flags & _STALE else 0
    made_us = word() if flags & _MADE else None
    stamp, tags = 0, []
    if flags & _TAGS:
        stamp = word()
        count, at = take_length(packed, at)
        # Each takes at least a byte: the count of a damaged envelope is not believed.
        tags = [counted().decode() for _ in range(min(count, len(packed)))]
    lease = (word(), word()) if flags & _LEASE else None
    own = counted()
    if key is not None and own != key:
        return None
    value = packed[at:] if flags & _VALUE else None
    pinned = bool(flags & _PINNED)
    return Envelope(
        own, version, value, expiry_us, stale_us, made_us, tuple(tags), stamp, lease, pinned
    )
