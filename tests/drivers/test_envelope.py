"""Envelopes: the bytes are those of the specification, and damaged ones are no envelope."""

from __future__ import annotations

import random
import zlib

import pytest

from tuckbox.remote.envelope import Envelope, pack, unpack

FULL = Envelope(
    key=b"key",
    version=7,
    value=b"\x07value",
    expiry_us=1_700_000_000_000_000,
    stale_us=60_000_000,
    made_us=12,
    tags=("a", "ключ"),
    stamp=99,
    lease=(5, 1_700_000_030_000_000),
)


def test_the_bytes_are_those_of_the_specification() -> None:
    rest = (
        b"\x07\0\0\0\0\0\0\0"  # version
        b"\x3f"  # flags
        b"\x00\x40\x1e\x18\x24\x0a\x06\x00"  # expiry
        b"\x00\x87\x93\x03\x00\x00\x00\x00"  # stale
        b"\x0c\0\0\0\0\0\0\0"  # made
        b"\x63\0\0\0\0\0\0\0\x02\x01a\x08\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87"  # tags
        b"\x05\0\0\0\0\0\0\0\x80\x03\xe8\x19\x24\x0a\x06\x00"  # lease
        b"\x03key"
        b"\x07value"
    )
    packed = pack(FULL)
    assert packed[:8] == b"TBE\x01" + zlib.crc32(rest).to_bytes(4, "little")
    assert packed[8:].hex(" ") == rest.hex(" ")
    assert unpack(packed, b"key") == FULL


@pytest.mark.parametrize("value", [None, b"", b"x" * 100_000])
def test_fields_that_are_not_given_take_no_room(value: bytes | None) -> None:
    envelope = Envelope(b"k" * 300, 1, value)
    packed = pack(envelope)
    assert len(packed) == 17 + 2 + 300 + len(value or b"")
    assert unpack(packed, b"k" * 300) == envelope


def test_another_key_is_none() -> None:
    assert unpack(pack(FULL), b"kez") is None
    assert unpack(pack(FULL), b"") is None


def test_damaged_bytes_are_none() -> None:
    packed = pack(FULL)
    for at in range(len(packed)):
        for flip in (1, 0x80):
            damaged = bytearray(packed)
            damaged[at] ^= flip
            assert unpack(bytes(damaged), b"key") is None
        assert unpack(packed[:at], b"key") is None
    for damaged_length in (packed + b"\0", b"", b"TBE\x01"):
        assert unpack(damaged_length, b"key") is None


def test_hostile_bytes_with_a_right_checksum_are_none_or_whole() -> None:
    draws = random.Random(20)
    for _ in range(20_000):
        rest = bytearray(pack(FULL)[8:])
        for _ in range(draws.randrange(1, 4)):
            rest[draws.randrange(len(rest))] = draws.randrange(256)
        rest = rest[: draws.randrange(len(rest) + 1)]
        packed = b"TBE\x01" + zlib.crc32(rest).to_bytes(4, "little") + bytes(rest)
        envelope = unpack(packed, b"key")
        if envelope is not None:
            assert envelope.key == b"key"
            assert 0 < envelope.version < 1 << 63
            assert all(isinstance(tag, str) for tag in envelope.tags)
