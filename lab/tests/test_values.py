"""The derivation of values, which every host must repeat."""

from __future__ import annotations

import hashlib

import pytest

from lab.hosts.python.values import derive


def test_the_vector_of_the_protocol() -> None:
    assert derive(seed=1, key=2, sequence=3, length=16).hex() == "735777f62012cfbc9dfbf08590d39666"


def test_the_first_block_is_the_hash_that_the_protocol_says() -> None:
    numbers = (1).to_bytes(8, "little") + (2).to_bytes(8, "little") + (3).to_bytes(8, "little")
    expected = hashlib.sha512(numbers + (0).to_bytes(4, "little")).digest()
    assert derive(1, 2, 3, 64) == expected


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 128, 495, 2_000])
def test_a_value_has_its_length_and_begins_as_a_longer_one(length: int) -> None:
    value = derive(7, 8, 9, length)
    assert len(value) == length
    assert derive(7, 8, 9, 4_000).startswith(value)


def test_seed_key_and_sequence_each_change_the_value() -> None:
    values = {derive(*numbers, 16) for numbers in [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4)]}
    assert len(values) == 4
