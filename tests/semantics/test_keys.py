"""What can be a key, and which keys are one key."""

from __future__ import annotations

import enum
import math
from collections import namedtuple
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tuckbox.errors import KeyTooLong, KeyTypeError

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory", "remote")

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


class OwnHash(str):
    """Equal to the plain str, but no dict would find it by that."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 1


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


class Plain(enum.Enum):
    A = 1.5
    B = "b"


STORES = {
    "set": lambda cache, key: cache.set(key, 1),
    "add": lambda cache, key: cache.add(key, 1),
    "replace": lambda cache, key: cache.replace(key, 1),
    "cas": lambda cache, key: cache.cas(key, 1, 1),
    "incr": lambda cache, key: cache.incr(key),
    "decr": lambda cache, key: cache.decr(key),
    "brackets": lambda cache, key: cache.__setitem__(key, 1),
    "setdefault": lambda cache, key: cache.setdefault(key, 1),
}
LOOKUPS = {
    "get": lambda cache, key: cache.get(key),
    "get_entry": lambda cache, key: cache.get_entry(key),
    "delete": lambda cache, key: cache.delete(key),
    "pop": lambda cache, key: cache.pop(key, None),
    "touch": lambda cache, key: cache.touch(key),
    "get_many": lambda cache, key: cache.get_many([key]),
    "delete_many": lambda cache, key: cache.delete_many([key]),
    "in": lambda cache, key: key in cache,
}
RAISING_LOOKUPS = {
    "brackets": lambda cache, key: cache[key],
    "del": lambda cache, key: cache.__delitem__(key),
    "pop without default": lambda cache, key: cache.pop(key),
}

HASHABLE = [
    (None, "NoneType cannot be a key; keys are .* of these; use a string that stands for it"),
    (1.5, "key 1.5: float cannot be a key.*use an int, or its repr"),
    (math.nan, "float cannot be a key"),
    (math.inf, "float cannot be a key"),
    (1j, "complex cannot be a key.*use a str or a tuple that identifies it"),
    (frozenset(), r"frozenset cannot be a key.*use tuple\(sorted"),
    (Decimal("0.5"), r"decimal.Decimal cannot be a key.*use str\(\.\.\.\)"),
    (date(2026, 1, 1), r"datetime.date cannot be a key.*use its isoformat\(\)"),
    (Path("x"), r"Path cannot be a key.*use os.fspath\(\.\.\.\)"),
    (Plain.A, r"Plain cannot be a key.*use its .name, and make .* with Plain\[\.\.\.\]"),
    (Plain.B, r"Plain cannot be a key.*use its .value, and make .* with Plain\(\.\.\.\)"),
    (..., "ellipsis cannot be a key"),
    (("a", None), r"key \('a', None\): NoneType cannot be a key"),
    (("a", (1.5,)), r"key \('a', \(1.5,\)\): float cannot be a key"),
]
UNHASHABLE = [
    ([1], r"key \[1\]: list cannot be a key.*use a tuple"),
    ({1: 2}, "dict cannot be a key.*use a tuple of its items"),
    ({1}, "set cannot be a key"),
    (bytearray(b"a"), r"bytearray cannot be a key.*use bytes\(\.\.\.\)"),
    (("a", None, [1]), r"key \('a', None, \[1\]\): (list|NoneType) cannot be a key"),
]
UNEQUAL = [
    (AnyCase("a"), r"AnyCase cannot be a key, because it is a subclass of str .*str.__str__"),
    ((1, AnyCase("a")), r"key \(1, 'a'\): .*AnyCase cannot be a key"),
    (OwnHash("a"), r"OwnHash cannot be a key, because it is a subclass of str"),
]


@pytest.mark.parametrize(("key", "message"), [*HASHABLE, *UNHASHABLE, *UNEQUAL], ids=repr)
@pytest.mark.parametrize("operation", STORES)
def test_what_cannot_be_a_key_is_not_stored(
    cache: Cache, operation: str, key: object, message: str
) -> None:
    cache["k"] = 1
    with pytest.raises(KeyTypeError, match=message):
        STORES[operation](cache, key)
    assert dict(cache) == {"k": 1}


@pytest.mark.parametrize("key", [key for key, _ in HASHABLE], ids=repr)
@pytest.mark.parametrize("operation", LOOKUPS)
def test_a_lookup_of_another_hashable_object_is_a_miss_as_in_a_dict(
    cache: Cache, operation: str, key: object
) -> None:
    cache[1] = cache["1"] = cache["None"] = cache[()] = "value"
    assert key not in dict(cache)
    assert not LOOKUPS[operation](cache, key)
    assert len(cache) == 4


@pytest.mark.parametrize("operation", RAISING_LOOKUPS)
@pytest.mark.parametrize("key", [None, 1.5, ("a", None)], ids=repr)
def test_a_missing_key_of_another_type_is_a_key_error(
    cache: Cache, operation: str, key: object
) -> None:
    with pytest.raises(KeyError) as caught:
        RAISING_LOOKUPS[operation](cache, key)
    assert caught.value.args == (key,)


@pytest.mark.parametrize(("key", "message"), [*UNHASHABLE, *UNEQUAL], ids=repr)
@pytest.mark.parametrize("operation", [*LOOKUPS, *RAISING_LOOKUPS])
def test_a_lookup_of_an_unhashable_object_is_a_type_error_as_in_a_dict(
    cache: Cache, operation: str, key: object, message: str
) -> None:
    cache["k"] = 1
    with pytest.raises(KeyTypeError, match=message):
        {**LOOKUPS, **RAISING_LOOKUPS}[operation](cache, key)
    assert dict(cache) == {"k": 1}


@pytest.mark.parametrize(
    ("key", "equal"),
    [
        (1.0, 1),
        (-0.0, 0),
        (-1.0, -1),
        (-2.0, -2),
        (2.0**60, 2**60),
        (Decimal("42.0"), 42),
        (Fraction(-7), -7),
        (3 + 0j, 3),
        (("a", 1.0), ("a", 1)),
        ((("a", (Decimal(2),)), 1.0), (("a", (2,)), 1)),
    ],
    ids=repr,
)
def test_a_lookup_finds_the_key_that_is_equal_as_in_a_dict(
    cache: Cache, key: object, equal: object
) -> None:
    cache[equal] = "value"
    assert {equal: "value"}[key] == "value"
    assert cache[key] == cache.get(key) == cache.get_many([key])[key] == "value"
    assert key in cache
    with pytest.raises(KeyTypeError):
        cache[key] = "other"
    assert cache.delete(key) is True
    assert len(cache) == 0


def test_many_lookups_pass_over_what_cannot_be_a_key(cache: Cache) -> None:
    cache.set_many({"a": 1, "b": 2, 3: 3})
    assert cache.get_many(["a", None, 3.0, 1.5]) == {"a": 1, 3: 3}
    assert cache.delete_many([None, "a", 1.5, "b"]) == 2
    with pytest.raises(KeyTypeError, match="list cannot be a key"):
        cache.delete_many([3, []])
    assert dict(cache) == {3: 3}


class Index:
    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class Fails:
    def __index__(self) -> int:
        raise ZeroDivisionError


def test_an_object_with_index_is_the_key_that_its_int_is(cache: Cache) -> None:
    cache[Index(5)] = "five"
    assert cache[5] == cache.get(Index(5)) == "five"
    cache["id", Index(-(2**70))] = "far"
    assert cache["id", -(2**70)] == "far"
    assert set(cache) == {5, ("id", -(2**70))}
    for operation in (cache.get, lambda key: cache.set(key, 1)):
        with pytest.raises(ZeroDivisionError):
            operation(Fails())


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
