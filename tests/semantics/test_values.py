"""What can be a value: it comes back with the same type, or is refused."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as datetime_module
import enum
import math
import os
import re
import struct
import uuid
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import freezegun
import pytest
import time_machine

from tuckbox.errors import ValueTooLarge, ValueTypeError

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory", "remote")

BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = timezone(timedelta(hours=5, minutes=30), "IST")
MOMENT = datetime(2026, 10, 25, 2, 30, 15, 123456)

VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    63,
    64,
    -64,
    2**62,
    2**63 - 1,
    -(2**63),
    2**63,
    -(2**63) - 1,
    10**500,
    -(10**500),
    0.0,
    -0.0,
    1.5,
    -1e308,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    "",
    "a",
    "x" * 62,
    "x" * 63,
    "x" * 64,
    "ü" * 31,
    "ü" * 32,
    "日本語",
    "😀",
    "\ud800 lone \udfff",
    "nul\0",
    b"",
    b"\x00\xff",
    b"x" * 100_000,
    bytearray(),
    bytearray(b"abc"),
    [],
    [1, [2, [3, []]]],
    (),
    (1,),
    ((), [()], {"a": ()}),
    {},
    {"b": 1, "a": 2, 3: [4], (1, "x"): None, None: True, 1.5: b"", frozenset([1]): "s"},
    set(),
    {1, "a", (2,), frozenset()},
    frozenset(),
    frozenset([b"x", None]),
    MOMENT,
    MOMENT.replace(fold=1),
    MOMENT.replace(microsecond=999_999),
    MOMENT.replace(tzinfo=timezone.utc),
    MOMENT.replace(tzinfo=KOLKATA),
    MOMENT.replace(tzinfo=timezone(timedelta(hours=-3, seconds=1, microseconds=2))),
    MOMENT.replace(tzinfo=timezone(timedelta(0), "Zulu")),
    MOMENT.replace(tzinfo=BERLIN),
    MOMENT.replace(tzinfo=BERLIN, fold=1),
    datetime.min,
    datetime.max,
    date(1970, 1, 1),
    date.min,
    date.max,
    time(),
    time(23, 59, 59, 999_999),
    time(1, 2, fold=1, tzinfo=KOLKATA),
    time(1, tzinfo=BERLIN),
    timedelta(),
    timedelta(days=-1, microseconds=1),
    timedelta.min,
    timedelta.max,
    Decimal("0"),
    Decimal("-0.00"),
    Decimal("1.50E+1000"),
    Decimal("NaN"),
    Decimal("-sNaN123"),
    Decimal("Infinity"),
    Decimal("0." + "123456789" * 20),
    uuid.UUID(int=0),
    uuid.UUID("12345678-1234-5678-1234-567812345678"),
    uuid.uuid1(),
    [None, True, 1, 2.5, "s", b"b", [1], (2,), {"k": {3}}, MOMENT, Decimal(1), uuid.UUID(int=7)],
]


def same(one: Any, other: Any) -> bool:
    """Equal, of the same type, and so are the parts."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        types = collections.Counter((type(member), repr(member)) for member in one)
        return types == collections.Counter((type(member), repr(member)) for member in other)
    if isinstance(one, (datetime, time)):
        zones = (one.tzinfo, other.tzinfo)
        fields = (one.replace(tzinfo=None), other.replace(tzinfo=None))
        return (
            fields[0] == fields[1]
            and one.fold == other.fold
            and type(zones[0]) is type(zones[1])
            and repr(zones[0]) == repr(zones[1])
        )
    if isinstance(one, Decimal):
        return one.as_tuple() == other.as_tuple()
    if isinstance(one, uuid.UUID):
        return one == other and one.is_safe == other.is_safe
    return bool(one == other)


def name(value: object) -> str:
    """The same in every process, as addresses, orders of sets and new UUIDs are not."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, uuid.UUID) and value.version == 1:
        return "uuid1"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:40]


@pytest.mark.parametrize("value", VALUES, ids=name)
def test_values_come_back_with_the_same_type(cache: Cache, value: Any) -> None:
    for stored in (value, [value], {"k": value}, (value, value)):
        cache["k"] = stored
        for found in (
            cache["k"],
            cache.get("k"),
            cache.get_entry("k").value,
            cache.get_many(["k"])["k"],
            next(iter(cache.values())),
            next(iter(cache.items()))[1],
        ):
            assert same(stored, found), found
        assert same(stored, cache.pop("k"))


def test_dicts_keep_their_order(cache: Cache) -> None:
    value = {"z": 1, "a": 2, "m": 3}
    cache["k"] = value
    assert list(cache["k"]) == ["z", "a", "m"]


def test_utc_is_utc_itself(cache: Cache) -> None:
    cache["k"] = MOMENT.replace(tzinfo=timezone.utc)
    assert cache["k"].tzinfo is timezone.utc
    cache["k"] = MOMENT.replace(tzinfo=BERLIN)
    assert cache["k"].tzinfo is BERLIN


def test_a_container_is_a_copy(cache: Cache) -> None:
    shared: list[int] = []
    cache["k"] = [shared, shared]
    shared.append(1)
    assert cache["k"] == [[], []]
    found = cache["k"]
    found[0].append(2)
    assert found == [[2], []]


class Level(enum.IntEnum):
    LOW = 1


class Season(str, enum.Enum):
    SPRING = "a"


class Corner(enum.Enum):
    LEFT = object()


class Turning(enum.Enum):
    """Its value is itself, in a container."""

    NOW = 1

    @property
    def value(self) -> Any:
        return [self]


class Name(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self


class Ratio(float):
    pass


class Moment(datetime):
    pass


class Span(timedelta):
    pass


class OwnZone(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=1)


@dataclasses.dataclass
class Plain:
    x: int


class Model:
    def model_dump(self) -> dict[str, int]:
        return {"x": 1}


class Anything:
    pass


class Index:
    """Stands for an int, and equals nothing."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024

REFUSED = [
    (Plain(1), r"value is of type .*Plain, which cannot be stored; store dataclasses.asdict\("),
    (object(), "value is of type object, which cannot be stored; values are None, bool, .*: conv"),
    (1j, "complex, which cannot be stored"),
    (len, "builtin_function_or_method, which cannot be stored"),
    (int, "type, which cannot be stored"),
    (NotImplemented, "which cannot be stored"),
    (timezone.utc, "datetime.timezone, which cannot be stored"),
    (MOMENT.replace(tzinfo=OwnZone()), "value has a time zone of type .*OwnZone"),
    ([{"a": (1, {2: time(1, tzinfo=OwnZone())})}], r"value\[0\]\['a'\]\[1\]\[2\] has a time"),
    ([1, [2, {"users": [Plain(1)]}]], r"value\[1\]\[1\]\['users'\]\[0\] is of type .*Plain"),
    ({"a": {Level.LOW: 1}}, r"value\['a'\] key <Level.LOW: 1> is of type .*Level"),
    ({"a": {Name("x")}}, r"value\['a'\] member 'x' is of type .*Name"),
    ((1, frozenset([(2, Name("y"))])), r"value\[1\] member \(2, 'y'\)\[1\] is of type .*Name"),
    ({Index(1): "a", 1: "b"}, "value key .*Index object .* is of type .*Index, which cannot"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=name)
def test_a_refused_value_is_named_with_its_key_its_place_and_a_way_out(
    cache: Cache, value: Any, message: str
) -> None:
    key = ("k", 1)
    cache[key] = "old"
    version = cache.get_entry(key).version
    for operation in (
        lambda: cache.set(key, value),
        lambda: cache.add(key, value),
        lambda: cache.replace(key, value),
        lambda: cache.cas(key, value, version),
        lambda: cache.__setitem__(key, value),
        lambda: cache.set_many({"fine": 1, key: value}),
        lambda: cache.update({key: value}),
    ):
        with pytest.raises(ValueTypeError, match=rf"^key \('k', 1\): (?=value).*?{message}"):
            operation()
    assert dict(cache) == {key: "old"}
    assert cache.get_entry(key).version == version


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("x" * 60_000, r"'x{20,}\.\.\.x+'"),
        (b"x" * 60_000, r"b'x{20,}\.\.\.x+'"),
        (("x" * 60_000, 1), r"\('x{20,}\.\.\.x+\.\.\."),
        (1 << 6000, "<int of 6001 bits>"),
    ],
    ids=lambda argument: type(argument).__name__,
)
def test_a_long_key_is_named_in_short(cache: Cache, key: Any, shown: str) -> None:
    for store in (cache.set, cache.setdefault, lambda key, value: cache.set_many({key: value})):
        with pytest.raises(ValueTypeError, match=rf"^key {shown}: value is of type object"):
            store(key, object())


# What is refused, the way out that the message names, and how it comes back by that.
WAYS_OUT = [
    (Level.LOW, r"store its .value, and make .* with Level\(\.\.\.\)", lambda v: v.value, Level),
    (Season.SPRING, "store its .value, and make .* with Season", lambda v: v.value, Season),
    (Corner.LEFT, r"its .name, .* Corner\[\.\.\.\]", lambda v: v.name, lambda name: Corner[name]),
    (Turning.NOW, "its .name, .* Turning", lambda v: v.name, lambda name: Turning[name]),
    (Name("x"), r"Name, a subclass of str, .*store str.__str__\(\.\.\.\)", str.__str__, Name),
    (Ratio(1.5), r"Ratio, a subclass of float.*store float\(\.\.\.\) of it", float, Ratio),
    (Point(1, 2), r"a subclass of tuple.*store tuple\(\.\.\.\)", tuple, lambda v: Point(*v)),
    (
        Moment(2026, 1, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
        r"subclass of datetime\.datetime.*store its isoformat\(\), .*datetime\.fromisoformat\(\)",
        lambda v: v.isoformat(),
        Moment.fromisoformat,
    ),
    (
        Span(days=1, microseconds=1),
        r"store its total_seconds\(\), .*timedelta\(seconds=\.\.\.\)",
        lambda v: v.total_seconds(),
        lambda seconds: Span(seconds=seconds),
    ),
    (
        collections.OrderedDict(a=1),
        r"subclass of dict.*store dict\(\.\.\.\)",
        dict,
        collections.OrderedDict,
    ),
    (collections.Counter("aab"), r"subclass of dict.*store dict\(", dict, collections.Counter),
    (collections.deque([1]), r"store list\(\.\.\.\)", list, collections.deque),
    (range(3), r"store list\(\.\.\.\)", list, lambda v: range(len(v))),
    ({"a": 1}.keys(), r"store list\(\.\.\.\)", list, lambda v: dict.fromkeys(v).keys()),
    (MappingProxyType({"a": 1}), r"store dict\(\.\.\.\)", dict, MappingProxyType),
    (memoryview(b"x"), r"store bytes\(\.\.\.\) of it", bytes, memoryview),
    (
        array.array("d", [1.5]),
        r"store its tolist\(\)",
        lambda v: v.tolist(),
        lambda v: array.array("d", v),
    ),
    (Path("a/b"), r"store os.fspath\(\.\.\.\) of it", os.fspath, Path),
    (Plain(1), r"store dataclasses.asdict\(", dataclasses.asdict, lambda v: Plain(**v)),
]


@pytest.mark.parametrize(("value", "advice", "way_out", "back"), WAYS_OUT, ids=name)
def test_the_way_out_that_a_refusal_names_works(
    cache: Cache, value: Any, advice: str, way_out: Any, back: Any
) -> None:
    for stored in (value, [value]):
        with pytest.raises(ValueTypeError, match=advice):
            cache["k"] = stored
    cache["k"] = way_out(value)
    assert back(cache["k"]) == value


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Model(), r"store its model_dump\(\)"),
        (iter([1]), r"list_iterator, .*store list\(\.\.\.\) of it"),
        ((n for n in "a"), r"generator, .*store list\(\.\.\.\) of it"),
        (Anything(), "convert it to one of these"),
    ],
)
def test_other_refusals_name_a_way_out(cache: Cache, value: Any, advice: str) -> None:
    with pytest.raises(ValueTypeError, match=advice):
        cache["k"] = value


def test_frozen_time_is_refused_with_the_library_that_keeps_the_types(cache: Cache) -> None:
    with freezegun.freeze_time("2026-01-02"):
        for moment in (datetime_module.datetime.now(), datetime_module.date.today()):
            with pytest.raises(ValueTypeError, match=r"freezegun.api.Fake.*use time-machine"):
                cache["k"] = moment
    with time_machine.travel(MOMENT):
        now = datetime_module.datetime.now()
        cache["k"] = now
        assert cache["k"] == now


def test_an_object_with_index_is_stored_as_its_int(cache: Cache) -> None:
    cache["n"] = Index(5)
    assert cache.incr("n", Index(2)) == 7
    assert cache.incr("new", default=Index(-1)) == 0
    cache.set_many({"a": Index(1), "b": [Index(2**70)], "c": {"x": Index(0)}})
    cache.set("k", "v", ttl=Index(60))
    assert cache.get_many(list("nabc")) == {"n": 7, "a": 1, "b": [2**70], "c": {"x": 0}}
    assert cache.incr("a") == 2
    assert type(cache["b"][0]) is int
    assert cache.get_entry("k").expiry is not None


def test_nesting_is_limited(cache: Cache) -> None:
    def nested(depth: int) -> list[Any]:
        value: list[Any] = []
        for _ in range(depth - 1):
            value = [value]
        return value

    cache["k"] = nested(64)
    assert cache["k"] == nested(64)
    for depth in (65, 100_000):
        with pytest.raises(ValueTypeError, match="is nested more than 64 containers deep"):
            cache["k"] = nested(depth)
    assert cache["k"] == nested(64)


def test_what_contains_itself_is_refused(cache: Cache) -> None:
    circle: list[Any] = [1]
    circle.append({"again": circle})
    wide: list[Any] = []
    wide.extend([wide] * 50)
    knot: dict[str, Any] = {}
    knot["x"] = ([knot],)
    for value, name in ((circle, "list|dict"), (wide, "list"), (knot, "dict|tuple|list")):
        with pytest.raises(ValueTypeError, match=f"is a ({name}) that contains itself"):
            cache["k"] = value
    assert "k" not in cache


def test_a_value_that_explodes_is_refused_early(cache: Cache) -> None:
    value: list[Any] = ["laugh"]
    for _ in range(60):
        value = [value] * 10
    with pytest.raises(ValueTooLarge, match="the limit of this cache is"):
        cache["k"] = value


class TestLength:
    @pytest.mark.parametrize("length", [0, 1, 7, 8, 15, 16, 249, 250, 251, 4095, 4096, 4097])
    @pytest.mark.parametrize("make", [lambda n: b"\xa5" * n, lambda n: "x" * n, lambda n: [0] * n])
    def test_edges(self, cache: Cache, length: int, make: Any) -> None:
        cache["k"] = make(length)
        assert cache["k"] == make(length)

    @pytest.mark.one_machine
    def test_longer_than_many_segments(self, opened: Any, path: str) -> None:
        cache = opened(path, size="64 MiB")
        for length in (65_535, 131_072, 131_073, 262_144, 1_000_001, 5_000_000):
            value = (b"%08d" % length) * (length // 8 + 1)
            cache[length] = value
            assert cache[length] == value
            cache["list"] = [value, length]
            assert cache["list"] == [value, length]

    @pytest.mark.parametrize("make", [bytes, lambda n: "x" * n, lambda n: [b"x" * n], bytearray])
    def test_larger_than_the_cache_can_hold(self, cache: Cache, make: Any) -> None:
        cache["k"] = "old"
        version = cache.get_entry("k").version
        value = make(5 << 20)
        for operation in (
            lambda: cache.set("k", value),
            lambda: cache.add("free", value),
            lambda: cache.replace("k", value),
            lambda: cache.cas("k", value, version),
        ):
            with pytest.raises(ValueTooLarge, match=r"^key '.*resize the cache, or store less"):
                operation()
        assert dict(cache) == {"k": "old"}
