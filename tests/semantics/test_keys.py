"""What can be a key, and which keys are one key."""

from __future__ import annotations

import enum
import math
from collections import namedtuple
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tuckbox import KeyTooLong, KeyTypeError

if TYPE_CHECKING:
    from tuckbox import Cache

KEY_BYTES_MAX = 65_536


class Colour(enum.IntEnum):
    RED = 1


class Word(str):
    __slots__ = ()


class AnyCase(str):
    """Equal whatever the case: no dict would take it for the plain str."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


class OddLength(bytes):
    def __len__(self) -> int:
        return 1


Point = namedtuple("Point", "x y")  # noqa: PYI024

KEYS = [
    "",
    "a",
    "user:42",
    "ключ",
    "e\u0301",
    "\u00e9",
    "😀",
    "\ud83d\ude00",
    "\ud800",
    "nul\0inside",
    "\x7f \r\n\t",
    b"",
    b"a",
    b"\xff",
    b"\xffb",
    b"\x00",
    0,
    1,
    -1,
    127,
    128,
    -128,
    -129,
    255,
    256,
    2**31,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    2**64,
    10**100,
    -(10**100),
    (),
    ((),),
    ("a",),
    ("a", "b"),
    ("ab",),
    (("a",), "b"),
    ("a", ("b",)),
    (b"a",),
    (1,),
    ("1",),
    (1, 2),
    (12,),
    ("x" * 200, 1),
    ("x" * 20_000, ("y" * 20_000,)),
]


def test_different_keys_are_different_entries(cache: Cache) -> None:
    for number, key in enumerate(KEYS):
        cache[key] = number
    assert len(cache) == len(KEYS)
    for number, key in enumerate(KEYS):
        assert cache[key] == number


def test_keys_come_back_as_they_were(cache: Cache) -> None:
    for key in KEYS:
        cache.clear()
        cache[key] = None
        (found,) = cache
        assert found == key
        assert type(found) is type(key)
        assert repr(found) == repr(key)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (False, 0),
        ((True, "a"), (1, "a")),
        (Colour.RED, 1),
        (Word("red"), "red"),
        ((Word("red"), Colour.RED), ("red", 1)),
        (Point(1, 2), (1, 2)),
        (OddLength(b"abc"), b"abc"),
    ],
    ids=repr,
)
def test_equal_keys_are_one_key_and_iteration_gives_the_plain_one(
    cache: Cache, one: object, other: object
) -> None:
    assert one == other
    assert hash(one) == hash(other)
    cache[one] = "first"
    assert cache[other] == "first"
    cache[other] = "second"
    assert cache[one] == "second"
    (found,) = cache
    assert found == other
    assert type(found) is type(other)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (None, "NoneType cannot be a key; keys are str, bytes, int and tuples of these"),
        (1.0, "float cannot be a key.*use an int, or its repr"),
        (math.nan, "float cannot be a key"),
        (1j, "complex cannot be a key"),
        ([1], "list cannot be a key.*use a tuple"),
        ({1: 2}, "dict cannot be a key"),
        (frozenset(), "frozenset cannot be a key"),
        (bytearray(b"a"), r"bytearray cannot be a key.*use bytes\(\.\.\.\)"),
        (memoryview(b"a"), r"memoryview cannot be a key.*use bytes\(\.\.\.\)"),
        (Decimal(1), "decimal.Decimal cannot be a key"),
        (object(), "object cannot be a key"),
        (("a", None), r"in key \('a', None\): NoneType cannot be a key"),
        (("a", (1.5,)), r"in key \('a', \(1.5,\)\): float cannot be a key"),
        (AnyCase("a"), r"AnyCase cannot be a key, because it is a subclass of str with its own"),
        ((1, AnyCase("a")), r"in key \(1, 'a'\): .*AnyCase cannot be a key"),
    ],
    ids=repr,
)
def test_what_cannot_be_a_key_is_refused_by_every_operation(
    cache: Cache, key: object, name: str
) -> None:
    cache["k"] = 1
    for operation in (
        lambda: cache.get(key),
        lambda: cache.get_entry(key),
        lambda: cache.set(key, 1),
        lambda: cache.add(key, 1),
        lambda: cache.replace(key, 1),
        lambda: cache.cas(key, 1, 1),
        lambda: cache.delete(key),
        lambda: cache.pop(key, None),
        lambda: cache.touch(key),
        lambda: cache.incr(key, default=1),
        lambda: cache.decr(key, default=1),
        lambda: cache.get_many([key]),
        lambda: cache.delete_many([key]),
        lambda: cache[key],
        lambda: cache.__setitem__(key, 1),
        lambda: cache.__delitem__(key),
        lambda: key in cache,
    ):
        with pytest.raises(KeyTypeError, match=name):
            operation()
    assert dict(cache) == {"k": 1}


def test_tuples_too_deep_are_refused(cache: Cache) -> None:
    def nested(depth: int) -> tuple[object, ...]:
        key: tuple[object, ...] = ()
        for _ in range(depth - 1):
            key = (key,)
        return key

    cache[nested(64)] = 1
    assert list(cache) == [nested(64)]
    with pytest.raises(KeyTypeError, match="nested more than 64 deep"):
        cache[nested(65)] = 1


class TestLength:
    @pytest.mark.parametrize(
        "key",
        [
            "x" * KEY_BYTES_MAX,
            "ü" * (KEY_BYTES_MAX // 2),
            b"x" * (KEY_BYTES_MAX - 2),
            ("x" * (KEY_BYTES_MAX - 5),),
            1 << ((KEY_BYTES_MAX - 3) * 8),
        ],
        ids=lambda key: type(key).__name__,
    )
    def test_up_to_64_kib(self, opened, path: str, key: object) -> None:
        cache = opened(path, size="64 MiB")
        cache[key] = "value"
        assert cache[key] == "value"
        assert list(cache) == [key]

    @pytest.mark.parametrize(
        "key",
        [
            "x" * (KEY_BYTES_MAX + 1),
            b"x" * (KEY_BYTES_MAX - 1),
            ("x" * (KEY_BYTES_MAX - 4),),
            1 << ((KEY_BYTES_MAX - 2) * 8),
            "x" * 10_000_000,
        ],
        ids=lambda key: type(key).__name__,
    )
    def test_longer_keys_are_refused(self, cache: Cache, key: object) -> None:
        for operation in (
            lambda: cache.set(key, 1),
            lambda: cache.get(key),
            lambda: cache.delete(key),
            lambda: cache.incr(key, default=1),
            lambda: cache.get_many([key]),
            lambda: key in cache,
        ):
            with pytest.raises(KeyTooLong, match=r"the limit is 65536 bytes; shorten it"):
                operation()
        assert len(cache) == 0
