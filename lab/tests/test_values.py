"""The derivation of values, which all hosts must repeat."""

from __future__ import annotations

import hashlib
import struct

import pytest

from lab.hosts.python.values import BYTES_MAX, Binary, Complex, Values, values_of

VECTOR = {"key": 2, "sequence": 3}
LARGE_SHA256 = "2ad75dc6464d534612a572b889bba549b7162a70d9530a16125371ca8484cff9"
FIELDS = {"b735f219": "bc273e57528ade22a8a2", "bb1548b8": "9e31e28cd7993e26c5b5"}


def test_the_vectors_of_the_protocol() -> None:
    values = Binary(seed=1)
    assert values.derive(**VECTOR, size=16).hex() == "b735f219bc273e57528ade22a8a2bb15"
    middling = values.derive(**VECTOR, size=160)
    assert len(middling) == 160
    assert middling[-16:].hex() == "213f8fdc19127ea4b21dc76f14548aac"
    large = values.derive(**VECTOR, size=2_222_981)
    assert len(large) == 2_222_981
    assert hashlib.sha256(large).hexdigest() == LARGE_SHA256
    assert Complex(seed=1).derive(**VECTOR, size=2) == FIELDS


def test_a_value_is_the_hash_and_then_a_window_of_the_pool() -> None:
    seed = 2**64 - 1
    head = hashlib.sha512(struct.pack("<QQQ", seed, 5, 6)).digest()
    blocks = (hashlib.sha512(struct.pack("<QI", seed, number)) for number in range(65_536))
    pool = b"".join(block.digest() for block in blocks)
    start = struct.unpack("<I", head[:4])[0] % 2**20
    value = Binary(seed).derive(5, 6, 1_000)
    assert value == head + pool[start : start + 936]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 128, 495, 2_000, BYTES_MAX])
def test_a_value_has_its_length_and_begins_as_a_longer_one(size: int) -> None:
    values = Binary(7)
    value = values.derive(8, 9, size)
    assert len(value) == size
    assert values.derive(8, 9, BYTES_MAX).startswith(value)


@pytest.mark.parametrize("size", [-1, BYTES_MAX + 1])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="a value must have 0 to 3,145,728 bytes"):
        Binary(1).derive(1, 1, size)


def test_seed_key_and_sequence_each_change_the_value() -> None:
    numbers = [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4)]
    assert len({Binary(seed).derive(key, sequence, 16) for seed, key, sequence in numbers}) == 4


def test_a_complex_value_has_its_fields() -> None:
    value = Complex(1).derive(2, 3, 55)
    assert len(value) == 55
    assert list(value.items())[:2] == list(FIELDS.items())
    assert {(len(name), len(content)) for name, content in value.items()} == {(8, 20)}


@pytest.mark.parametrize("size", [3, 64, 65, 160, 5_000])
def test_a_value_is_recognised_by_its_mark_and_checked_to_its_end(size: int) -> None:
    values = Binary(1)
    value = values.derive(2, 3, size)
    assert values.mark(2, 3, size) in (values.marks(value) or ())
    assert values.is_whole(value, 2, 3, size)
    assert not values.is_whole(value + b"x", 2, 3, size)
    assert not values.is_whole(value[:-1], 2, 3, size)
    for at in range(64, size, max(1, size // 7)):
        spoilt = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
        assert not values.is_whole(spoilt, 2, 3, size)


def test_a_complex_value_is_recognised_in_any_order() -> None:
    values: Values = values_of("complex", 1)
    fields = list(Complex(1).derive(2, 3, 5).items())
    for turned in (dict(fields), dict(reversed(fields))):
        assert values.mark(2, 3, 5) in (values.marks(turned) or ())
        assert values.is_whole(turned, 2, 3, 5)
    assert not values.is_whole(dict(fields[:-1]), 2, 3, 5)
    assert not values.is_whole(dict(fields) | {"more": "fields"}, 2, 3, 5)


@pytest.mark.parametrize("answer", [b"bytes", {"name": 1}, {b"name": "text"}, {"name": []}, "text"])
def test_what_is_no_map_of_texts_has_no_mark(answer: object) -> None:
    assert Complex(1).marks(answer) is None


@pytest.mark.parametrize("answer", ["text", bytearray(b"bytes"), 7, {}, False])
def test_what_is_not_bytes_has_no_mark(answer: object) -> None:
    assert Binary(1).marks(answer) is None


@pytest.mark.parametrize(("size", "weak"), [(0, True), (7, True), (8, False), (160, False)])
def test_below_eight_bytes_a_check_is_weak(size: int, weak: bool) -> None:
    values = Binary(1)
    assert values.is_weak(values.derive(1, 2, size)) is weak
