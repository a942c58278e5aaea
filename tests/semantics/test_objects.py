"""Values that are not plain: registered types, pickles, codecs, compression; what is refused."""

from __future__ import annotations

import asyncio
import collections
import copy
import dataclasses
import enum
import json
import multiprocessing
import os
import pathlib
import pickle
import sys
import time
from typing import Any, Callable, NamedTuple

import numpy as np
import pytest

from processes import workers
from tuckbox import Cache, _engine, compression, memory, register, registry
from tuckbox.contract import LEASE
from tuckbox.errors import (
    EntryCorrupt,
    EntryRefused,
    InvalidArgument,
    ValueTooLarge,
    ValueTypeError,
)
from tuckbox.memory import codec
from tuckbox.objects import Objects

RUNS_ON = ("shared", "memory", "namespace")

Opened = Callable[..., Cache]
SECRET = "a secret for tests"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: Any = 0

    def __post_init__(self) -> None:
        assert not hasattr(Point, "is_reading"), "reading runs __post_init__"


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: int
    right: Any = None


class Basket:
    """What only pickle can store."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return type(other) is Basket and other.items == self.items

    __hash__ = None  # type: ignore[assignment]


class Evil:
    """Its pickle makes a directory where it is read."""

    def __init__(self, mark: pathlib.Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


class Json:
    name = "json"

    def encode(self, value: Any) -> bytes:
        return json.dumps(value).encode()

    def decode(self, content: bytes) -> Any:
        return json.loads(content)


class Labelled:
    """A codec for baskets that leaves plain values to the cache."""

    name = "labelled"

    def encode(self, value: Any) -> Any:
        return repr(value.items).encode() if type(value) is Basket else NotImplemented

    def decode(self, content: bytes) -> Any:
        return Basket(*eval(content))


def stored(cache: Any, value: Any) -> tuple[int, bytes]:
    """The tag and the bytes of a value under the key "key"."""
    if isinstance(cache, memory.Cache):
        kept, _ = cache._encoded(cache._described(), "key", b"key", value)
        return codec._item(kept)
    return _engine._encoded(cache, value)


MODES: dict[str, tuple[dict[str, Any], Any]] = {
    "registered": ({}, Point(1, [Point(2)])),
    "signed": ({"pickle": "signed", "secret": SECRET}, Basket(1, Point(2))),
    "private": ({"pickle": "private"}, Basket(1)),
    "codec": ({"codec": Json()}, {"a": [1, None]}),
    "choosy codec": ({"codec": Labelled()}, Basket(1)),
    "compressed": ({"compress": 100}, "x" * 1000),
    "signed and compressed": (
        {"pickle": "signed", "secret": SECRET, "compress": 100},
        Basket("x" * 1000),
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_operation_takes_and_returns_objects(opened: Opened, path: str, mode: str) -> None:
    register(Point)
    options, value = MODES[mode]
    cache = opened(path, **options)
    cache["item"] = value
    cache.set("set", value, ttl=60)
    assert cache.add("add", value)
    assert not cache.add("add", value)
    assert cache.replace("set", value)
    assert cache.cas("set", value, cache.get_entry("set").version)
    cache.set_many({"many": value, ("key", 7): value, "int": 1})
    cache.update({"update": value})
    assert cache.setdefault("default", value) == value
    keys = {"item", "set", "add", "many", ("key", 7), "update", "default"}
    other = opened(path, **options)
    for key in keys:
        for found in (other[key], other.get(key), other.get_entry(key).value):
            assert found == value
            assert type(found) is type(value)
    assert other.get_many([*keys, "int"]) == {**dict.fromkeys(keys, value), "int": 1}
    assert {key for key, found in other.items() if found == value} == keys
    assert sum(found == value for found in other.values()) == len(keys)
    assert dict(other) == {**dict.fromkeys(keys, value), "int": 1}
    assert other.setdefault("set", None) == value
    assert other.get_and_touch("set", 60) == value
    assert other.incr("int") == 2
    assert other.pop("item") == value
    while other:
        key, found = other.popitem()
        assert found == (2 if key == "int" else value)


@pytest.mark.parametrize("mode", MODES)
def test_loading_takes_and_returns_objects(opened: Opened, path: str, mode: str) -> None:
    register(Point)
    options, value = MODES[mode]
    cache, other = opened(path, **options), opened(path, **options)
    calls: list[str] = []

    def make() -> Any:
        calls.append("made")
        return value

    for one in (cache, other):
        assert one.get_or_set("one", make, ttl=60, stale=60) == value
        many = one.get_or_set_many(["a", "b"], lambda keys: dict.fromkeys(keys, make()))
        assert many == {"a": value, "b": value}
        made = one.memoize(name="made")(make)
        assert made() == made.peek() == value
    assert len(calls) == 3
    assert made.refresh() == value
    state, entry, token = cache._begin("one", True)
    cache._abandon(token)
    assert (state, entry.value) == (LEASE, value)
    assert other["one"] == value


@pytest.mark.parametrize("mode", MODES)
def test_event_loops_take_and_return_objects(opened: Opened, path: str, mode: str) -> None:
    register(Point)
    options, value = MODES[mode]
    cache = opened(path, **options)

    async def operate() -> None:
        await cache.aset("set", value)
        assert await cache.aadd("add", value)
        assert await cache.areplace("set", value)
        await cache.aset_many({"many": value})
        assert await cache.aget("set") == value
        assert (await cache.aget_entry("set")).value == value
        assert await cache.aget_many(["add", "many"]) == {"add": value, "many": value}
        assert await cache.aget_or_set("made", lambda: value) == value
        assert await cache.asetdefault("made", None) == value
        assert await cache.apop("made") == value

    asyncio.run(operate())
    assert cache["many"] == value


@pytest.mark.parametrize("mode", MODES)
def test_namespaces_take_and_return_objects(opened: Opened, path: str, mode: str) -> None:
    register(Point)
    options, value = MODES[mode]
    cache, other = opened(path, **options), opened(path, **options)
    outer, inner = cache.namespace("outer"), cache.namespace("outer").namespace("inner")
    for one in (cache, outer, inner):
        one.set("key", value, tags=["tag"])
        one["other"] = value
    for one in (other, other.namespace("outer"), other.namespace("outer").namespace("inner")):
        assert one["key"] == value
        assert dict(one.items()) == {"key": value, "other": value}
        assert list(one.scan(tag="tag")) == ["key"]
        assert one.popitem()[1] == value
    outer.clear()
    assert "key" not in inner
    inner["key"] = value
    assert other.namespace("outer").namespace("inner")["key"] == value


def registered_values() -> list[Any]:
    attrs = pytest.importorskip("attrs")
    msgspec = pytest.importorskip("msgspec")

    @attrs.frozen
    class Attrs:
        a: int
        _b: int = attrs.field(factory=int)

    class Struct(msgspec.Struct):
        a: int
        b: int = 3

    for kind in (Point, Colour, Right, Pair, pathlib.Path, np.ndarray, np.generic, Attrs, Struct):
        register(kind)
    values = [Point(1, {"k": Point(2)}), Colour.BLUE, Right.READ | Right.WRITE, Pair(1, Pair(2))]
    values += [pathlib.Path("/a/\udcff"), Attrs(1, 2), Struct(1), {Colour.RED: (Pair(3),)}]
    return [*values, {Point(1)}, frozenset([Pair(1)])]


def test_registered_types_come_back(cache: Cache) -> None:
    for value in registered_values():
        cache["key"] = value
        assert cache["key"] == value
        assert type(cache["key"]) is type(value)


def test_models_come_back(cache: Cache) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):
        a: int
        b: tuple[int, ...] = ()
        _hidden: int = pydantic.PrivateAttr(default=3)
        model_config = pydantic.ConfigDict(extra="allow")

    register(Model)
    value = Model(a=1, other="more")
    value._hidden = 4
    cache["key"] = [value]
    (found,) = cache["key"]
    assert found == value
    assert found.model_fields_set == {"a", "other"}
    assert found._hidden == 4


ARRAYS = [
    np.arange(10.0),
    np.zeros((0, 3)),
    np.array(5),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.arange(10)[::2],
    np.array(["a", "bcd"]),
    np.array(["2020-01-01"], "M8[D]"),
    np.array([(1, 2.0)], dtype=[("a", ">i4"), ("b", "f8")]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_come_back_and_can_be_changed(cache: Cache, array: Any) -> None:
    register(np.ndarray)
    cache["key"] = array
    found = cache["key"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.flags.f_contiguous == array.flags.f_contiguous or array.ndim < 2
    assert (found == array).all()
    found[...] = found


def test_an_array_is_a_view_of_what_was_read(cache: Cache) -> None:
    """So a read copies the elements once."""
    register(np.ndarray)
    cache["key"] = np.arange(1000.0)
    assert type(cache["key"].base) is bytearray


SCALARS = [np.float64(1.5), np.int8(3), np.str_("x"), np.str_(""), np.bytes_(b""), np.bool_(True)]
SCALARS += [np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.complex64(1j)]


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_scalars_keep_their_type_if_it_is_registered(cache: Cache, scalar: Any) -> None:
    register(np.generic)
    cache["key"] = [scalar]
    assert cache["key"] == [scalar]
    assert type(cache["key"][0]) is type(scalar)


def test_arrays_of_objects_are_refused(cache: Cache) -> None:
    register(np.ndarray)
    with pytest.raises(ValueTypeError, match=r"key 'key': value\[0\]: an array with dtype object"):
        cache["key"] = [np.array([object()])]


@pytest.mark.shared_file
def test_a_forged_array_is_an_unreadable_entry(cache: Cache) -> None:
    register(np.ndarray)
    cache["key"] = np.zeros(1)
    tag, content = _engine._encoded(cache, np.zeros(1))
    for forged in (b"|O8", b"<f4", b"<f9"):
        _engine._plant(cache, b"key", tag, content.replace(b"<f8", forged))
        with pytest.raises(EntryCorrupt, match=r"numpy\.ndarray"):
            cache.get("key")


def registered_frame() -> Any:
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    for kind in (pd.DataFrame, pd.Series, pa.Table, pa.RecordBatch):
        register(kind)
    moments = pd.to_datetime(["2020-01-01", "2021-01-01"])
    return pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": moments}, index=[5, 6])


def test_tables_come_back(cache: Cache) -> None:
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    frame = registered_frame()
    cache["frame"] = frame
    pd.testing.assert_frame_equal(cache["frame"], frame)
    found = cache["frame"]
    found.iloc[0, 0] = 9
    for name in (None, "name", ("a", 1)):
        cache["series"] = pd.Series([1, 2], name=name)
        pd.testing.assert_series_equal(cache["series"], pd.Series([1, 2], name=name))
    for table in (pa.table({"a": [1, 2]}), pa.record_batch({"a": [1, None]})):
        cache["table"] = table
        assert cache["table"].equals(table)
    with pytest.raises(ValueTypeError, match="Arrow cannot hold"):
        cache["frame"] = pd.DataFrame({"a": [object()]})


@pytest.mark.shared_file
def test_a_damaged_table_is_a_table_or_an_unreadable_entry(cache: Cache) -> None:
    tag, content = _engine._encoded(cache, registered_frame())
    for place in range(0, len(content), 7):
        forged = bytearray(content)
        forged[place] ^= 0xFF
        _engine._plant(cache, b"frame", tag, bytes(forged))
        try:
            cache.get("frame")
        except EntryCorrupt:
            continue


def test_own_functions_and_a_stable_name(cache: Cache) -> None:
    assert register(
        complex, name="z", encode=lambda z: (z.real, z.imag), decode=lambda z: complex(*z)
    )
    cache["key"] = [1 + 2j]
    assert cache["key"] == [1 + 2j]
    assert b"\x01z" in stored(cache, 1 + 2j)[1]


def test_fields_may_be_added_and_removed(cache: Cache) -> None:
    register(dataclasses.make_dataclass("Old", [("a", int), ("b", int)]), name="record")
    (old,) = (kind for kind in registry.by_type if kind.__name__ == "Old")
    cache["key"] = old(1, 2)
    fields = [
        ("c", int, dataclasses.field(default=7)),
        ("d", list, dataclasses.field(default_factory=list)),
    ]
    new = dataclasses.make_dataclass("Old", [("a", int), *fields])
    register(new, name="record")
    assert cache["key"] == new(1, 7, [])
    register(dataclasses.make_dataclass("Old", [("a", int), ("e", int)]), name="record")
    with pytest.raises(EntryRefused, match=r"without the field 'e'.*default"):
        cache.get("key")


def dataclass_of(**fields: Any) -> Any:
    given = [
        (name, Any) if value is ... else (name, Any, dataclasses.field(default=value))
        for name, value in fields.items()
    ]
    return dataclasses.make_dataclass("Record", given)


def named_tuple_of(**fields: Any) -> Any:
    defaults = [value for value in fields.values() if value is not ...]
    return collections.namedtuple("Record", fields, defaults=defaults)


def attrs_of(**fields: Any) -> Any:
    attrs = pytest.importorskip("attrs")
    return attrs.make_class(
        "Record",
        {
            name: attrs.field(**({} if value is ... else {"default": value}))
            for name, value in fields.items()
        },
    )


def struct_of(**fields: Any) -> Any:
    msgspec = pytest.importorskip("msgspec")
    return msgspec.defstruct(
        "Record",
        [(name, Any) if value is ... else (name, Any, value) for name, value in fields.items()],
        module=__name__,
    )


def model_of(**fields: Any) -> Any:
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("Record", **{name: (Any, value) for name, value in fields.items()})


@pytest.mark.parametrize("kind", [dataclass_of, named_tuple_of, attrs_of, struct_of, model_of])
def test_fields_change_in_every_kind_of_class(cache: Cache, kind: Any) -> None:
    old, wider, narrower = kind(a=..., b=...), kind(a=..., b=..., c=7), kind(b=...)
    register(old, name="record")
    cache["key"] = old(a=1, b=2)
    registry.by_name.clear()
    register(wider, name="record")
    assert cache["key"] == wider(a=1, b=2, c=7)
    registry.by_name.clear()
    register(narrower, name="record")
    assert cache["key"] == narrower(b=2)
    registry.by_name.clear()
    register(kind(a=..., b=..., needed=...), name="record")
    with pytest.raises(EntryCorrupt, match="key 'key': .*needed"):
        cache.get("key")


def test_a_member_that_an_enum_no_longer_has(cache: Cache) -> None:
    register(enum.Enum("Colour", {"RED": 1, "BLUE": 2}), name="colour")
    cache["key"] = next(kind for kind in registry.by_type if kind.__name__ == "Colour").BLUE
    registry.by_name.clear()
    register(enum.Enum("Colour", {"RED": 1}), name="colour")
    with pytest.raises(EntryRefused, match=r"key 'key': .*no member 'BLUE'"):
        cache.get("key")


def test_reading_runs_no_post_init(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    register(Point)
    cache["key"] = Point(1)
    monkeypatch.setattr(Point, "is_reading", True, raising=False)
    assert cache["key"].x == 1


def test_what_is_not_registered_says_what_to_register(opened: Opened, path: str) -> None:
    cache = opened(path)
    with pytest.raises(ValueTypeError, match=r"value\[0\].*Point.*tuckbox\.register"):
        cache["key"] = [Point(1)]
    register(Point, name="shop.Point")
    cache["key"] = [Point(1)]
    registry.by_name.clear()
    reads = (lambda: cache["key"], lambda: list(cache.values()), lambda: cache.get_many(["key"]))
    for read in reads:
        with pytest.raises(EntryRefused, match=r"key 'key': .*'shop\.Point'.*tuckbox\.register"):
            read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((int,), "plain type"),
        ((Point(1),), "needs a class"),
        ((Basket,), "encode="),
        ((type("Words", (dict,), {}),), "encode="),
    ],
)
def test_wrong_registrations(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        register(*arguments)


def test_a_name_is_taken_once() -> None:
    register(Point, name="name")
    register(Point, name="name")
    with pytest.raises(InvalidArgument, match="Point, which is registered"):
        register(Pair, name="name")
    with pytest.raises(InvalidArgument, match="both encode and decode"):
        register(Basket, encode=repr)


def test_an_error_of_a_decoding_function_is_an_unreadable_entry(cache: Cache) -> None:
    register(Basket, encode=lambda basket: basket.items, decode=lambda items: items["no index"])
    cache["key"] = Basket(1)
    with pytest.raises(EntryCorrupt, match=r"key 'key': .*Basket cannot be decoded.*TypeError"):
        cache.get("key")


# Pickles.


def test_pickled_values_keep_their_exact_type(opened: Opened, path: str) -> None:
    for options in ({"pickle": "private"}, {"pickle": "signed", "secret": SECRET}):
        cache = opened(path, **options)
        looped: list[Any] = [1]
        looped.append(looped)
        cache["looped"] = looped
        assert cache["looped"][1] is not None
        for value in (np.int64(5), Colour.RED, Pair(1), [np.float64(1)], Basket):
            cache["key"] = value
            assert cache["key"] == value
            assert type(cache["key"]) is type(value)
        cache["plain"] = {"a": (1, "b")}
        assert opened(path)["plain"] == {"a": (1, "b")}


def test_a_registered_type_comes_before_pickle(opened: Opened, path: str) -> None:
    register(Point)
    cache, plain = opened(path, pickle="signed", secret=SECRET), opened(path)
    for value in (Point(1), [Point(1)], {Point(1): (Point(2), "x")}):
        cache["key"] = value
        assert plain["key"] == value
    # One object that only pickle can store, and all of it is pickled.
    cache["key"] = [Point(1), Basket(1)]
    assert cache["key"] == [Point(1), Basket(1)]
    with pytest.raises(EntryRefused, match=r"key 'key': .*pickle=\"never\".*pickle=\"signed\""):
        plain.get("key")


def test_what_cannot_be_pickled_changes_nothing(opened: Opened, path: str) -> None:
    cache = opened(path, pickle="private")
    cache["key"] = "old"
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        cache["key"] = [lambda: 1]
    assert cache["key"] == "old"


@pytest.mark.parametrize(
    "options", [{"codec": Json()}, {"pickle": "private"}], ids=["codec", "pickle"]
)
def test_an_unreadable_entry_leaves_no_lease(
    opened: Opened, path: str, options: dict[str, Any]
) -> None:
    opened(path, **options)["key"] = [1] if "codec" in options else Basket(1)
    cache = opened(path)
    with pytest.raises(EntryRefused, match="key 'key'"):
        cache.get_or_set("key", lambda: "made")
    with pytest.raises(EntryRefused, match="key 'key'"):
        cache._begin("key", True)
    assert cache._wait_made("key", 0)
    assert cache.delete("key")
    assert cache.get_or_set("key", lambda: "made") == "made"


@pytest.fixture
def mark(tmp_path: pathlib.Path) -> pathlib.Path:
    """What is there as soon as an evil pickle was read."""
    return tmp_path / "mark"


def test_the_pickle_of_these_tests_is_evil(opened: Opened, path: str, mark: pathlib.Path) -> None:
    cache = opened(path, pickle="signed", secret=SECRET)
    cache["key"] = Evil(mark)
    assert cache.get("key") is None
    assert mark.exists()


def reads(cache: Cache, key: str) -> list[Callable[[], Any]]:
    return [
        lambda: cache[key],
        lambda: cache.get(key),
        lambda: cache.get_entry(key),
        lambda: cache.get_many([key]),
        lambda: list(cache.values()),
        lambda: list(cache.items()),
        lambda: cache.setdefault(key),
        lambda: cache.pop(key),
    ]


@pytest.mark.shared_file
@pytest.mark.parametrize("mode", ["never", "signed", "private"])
def test_forged_entries_run_no_code(
    opened: Opened, path: str, mark: pathlib.Path, mode: str
) -> None:
    options = MODES[mode][0] if mode != "never" else {}
    cache = opened(path, **options)
    evil = pickle.dumps(Evil(mark))
    stranger = opened(path, pickle="signed", secret="another secret")
    tag, signed = _engine._encoded(stranger, Evil(mark))
    forged = [(tag, signed), (tag, bytes(32) + evil), (tag, evil), (tag, b"")]
    forged += [(22, evil)] if mode != "private" else []
    forged += [(code, evil) for code in (21, 24, 25)]
    forged += [(21, bytes([8]) + b"os.mkdir" + _engine._encoded(cache, [str(mark)])[1])]
    forged += [(24, b"\x06pickle" + evil)]
    for code, content in forged:
        for read in range(len(reads(cache, "key"))):
            cache.clear()
            _engine._plant(cache, b"key", code, content)
            with pytest.raises(EntryCorrupt, match="key 'key'"):
                reads(cache, "key")[read]()
            assert not mark.exists()


@pytest.mark.shared_file
def test_a_signature_is_good_for_one_entry_of_one_cache(
    opened: Opened, path: str, tmp_path: pathlib.Path
) -> None:
    cache = opened(path, pickle="signed", secret=SECRET)
    tag, content = _engine._encoded(cache, Basket(1))
    _engine._plant(cache, b"key", tag, content)
    assert cache["key"] == Basket(1)
    _engine._plant(cache, b"key2", tag, content)
    with pytest.raises(EntryRefused, match="not signed for this entry"):
        cache.get("key2")
    for place in range(8 * len(content)):
        forged = bytearray(content)
        forged[place // 8] ^= 1 << place % 8
        _engine._plant(cache, b"key", tag, bytes(forged))
        with pytest.raises(EntryRefused):
            cache.get("key")
    other = opened(tmp_path / "other.tuck", pickle="signed", secret=SECRET)
    _engine._plant(other, b"key", tag, content)
    with pytest.raises(EntryRefused):
        other.get("key")


class Raw(NamedTuple):
    """The code and the bytes of an entry."""

    code: int
    content: bytes


class Bytes(Objects):
    """Returns the bytes of entries, and stores any."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.takes = 2

    def encode(self, value: Any, key: bytes, cache_id: bytes) -> Any:
        return tuple(value)

    def decode(self, code: int, content: bytes, key: bytes, cache_id: bytes) -> Raw:
        return Raw(code, content)


class Attacker(Cache):
    """Can write to the file, and has no secret."""

    _objects_class = Bytes


@pytest.mark.shared_file
def test_signed_objects_cannot_be_swapped(
    opened: Opened, path: str, tmp_path: pathlib.Path
) -> None:
    """Between keys, namespaces, eras and caches."""
    options = {"pickle": "signed", "secret": SECRET}
    paths = [path, str(tmp_path / "other.tuck")]
    parts: list[tuple[str, ...]] = [(), ("n",), ("n", "m"), ("m",), ("n", "m", "n")]

    def all_places(caches: list[Cache]) -> list[tuple[Cache, Any]]:
        spaces = []
        for cache in caches:
            for names in parts:
                space = cache
                for name in names:
                    space = space.namespace(name)
                spaces.append(space)
        return [(space, key) for space in spaces for key in ("key", b"key", ("key",), "key2")]

    places = all_places([opened(one, **options) for one in paths])
    attackers = [Attacker(one) for one in paths]
    raw_places = all_places(attackers)
    for number, (space, key) in enumerate(places):
        space[key] = Basket(number)
    genuine = [space[key] for space, key in raw_places]
    assert {raw.code for raw in genuine} == {23}
    refused = 0
    for number, (space, key) in enumerate(places):
        raw_space, raw_key = raw_places[number]
        for other, raw in enumerate(genuine):
            raw_space[raw_key] = raw
            if other == number:
                assert space[key] == Basket(number)
                continue
            with pytest.raises(EntryRefused, match="not signed for this entry"):
                space.get(key)
            refused += 1
    assert refused == len(places) * (len(places) - 1)
    space, raw_space = places[4][0], raw_places[4][0]
    space.clear()
    raw_space["key"] = genuine[4]
    with pytest.raises(EntryRefused):
        space.get("key")
    for attacker in attackers:
        attacker.close()


@pytest.mark.shared_file
def test_nothing_named_in_the_file_is_imported(
    opened: Opened, path: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostile_module.py").write_text("Thing = encode = decode = dict\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    cache, attacker = opened(path, codec=Json()), Attacker(path)
    names = [b"hostile_module", b"hostile_module.Thing", b"hostile_module:Thing"]
    for name in names:
        state = bytes([len(name)]) + name
        pickled = b"chostile_module\nThing\n)R."
        for code in (21, 22, 23, 24, 25):
            for content in (state + b"\xc0", state, pickled):
                attacker["key"] = Raw(code, content)
                with pytest.raises(EntryCorrupt):
                    cache.get("key")
    attacker.close()
    assert set(sys.modules) == before


@pytest.mark.shared_file
def test_a_file_replaced_during_a_write_gets_readable_entries(opened: Opened, path: str) -> None:
    cache = opened(path, pickle="signed", secret=SECRET)
    for write in (
        lambda: cache.set("key", Basket(1)),
        lambda: cache.add("key", Basket(1)),
        lambda: cache.set_many({"key": Basket(1)}),
    ):
        os.remove(path)
        time.sleep(1.1)  # Writes look for their file once in a second.
        write()
        assert cache["key"] == Basket(1)


def test_secrets_rotate(opened: Opened, path: str) -> None:
    secrets = ["old"]
    cache = opened(path, pickle="signed", secret=lambda: secrets)
    cache["key"] = Basket(1)
    secrets.insert(0, b"new")
    assert cache["key"] == Basket(1)
    cache["other"] = Basket(2)
    assert opened(path, pickle="signed", secret="new")["other"] == Basket(2)
    secrets.pop()
    with pytest.raises(EntryRefused):
        cache.get("key")


@pytest.mark.parametrize(
    "options",
    [
        {"pickle": "always"},
        {"pickle": "signed"},
        {"secret": SECRET},
        {"pickle": "signed", "secret": ""},
        {"pickle": "signed", "secret": []},
        {"pickle": "signed", "secret": [1]},
        {"pickle": "signed", "secret": 5},
        {"pickle": "private", "codec": Json()},
        {"pickle": "private", "group": os.getgid()},
        {"codec": json},
        {"codec": 5},
        {"codec": [Json(), Json()]},
        {"compress": "much"},
        {"compress": 100, "compressor": "zip"},
    ],
)
def test_wrong_options_create_no_cache(path: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as shared:
        Cache(path, **options)
    assert not os.path.exists(path)
    with pytest.raises(InvalidArgument) as in_memory:
        memory.Cache("wrong-options", **options)
    assert "wrong-options" not in memory.cache._named
    if "group" not in options:
        assert str(in_memory.value) == str(shared.value)


@pytest.mark.shared_file
def test_a_private_pickle_needs_a_private_file(opened: Opened, path: str) -> None:
    opened(path).close()
    for mode in (0o620, 0o602):
        os.chmod(path, mode)
        with pytest.raises(OSError, match="lets"):
            Cache(path, pickle="private")
    os.chmod(path, 0o644)
    opened(path, pickle="private", read_only=True).close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_private_pickle_needs_a_file_of_this_user(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    Cache(folder / "a.tuck").close()
    for place in (folder / "a.tuck", folder):
        os.chown(place, 61001, 61001)
    Cache(folder / "a.tuck", read_only=True).close()
    with pytest.raises(OSError, match="belongs to user 61001"):
        Cache(folder / "a.tuck", read_only=True, pickle="private")


# Handles.


@pytest.mark.shared_file
def test_a_handle_goes_to_child_processes_with_its_secret(opened: Opened, path: str) -> None:
    cache = opened(path, pickle="signed", secret=SECRET)
    cache["key"] = range(3)
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=workers.answer_with_an_object, args=(cache,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert cache["reply"] == range(5)


def secret_of_tests() -> str:
    return SECRET


def test_a_secret_is_not_shown(opened: Opened, path: str) -> None:
    cache = opened(path, pickle="signed", secret=SECRET)
    assert SECRET not in repr((cache, cache._objects, vars(cache._objects)))
    with pytest.raises(TypeError, match="contains the secret"):
        pickle.dumps(cache)
    cache["key"] = Basket(1)
    for same in (copy.copy(cache), copy.deepcopy(cache)):
        assert same["key"] == Basket(1)
        same.close()
    by_function = opened(path, pickle="signed", secret=secret_of_tests)
    pickled = pickle.dumps(by_function)
    assert SECRET.encode() not in pickled
    with pickle.loads(pickled) as same:
        assert same["key"] == Basket(1)


# Codecs.


def test_an_unknown_codec_says_so(opened: Opened, path: str) -> None:
    opened(path, codec=Json())["key"] = [1]
    for options, known in (({}, "none"), ({"codec": Labelled()}, "'labelled'")):
        with pytest.raises(EntryRefused, match=f"key 'key': .*codec 'json'.*has {known}"):
            opened(path, **options).get("key")
    assert opened(path, codec=[Labelled(), Json()])["key"] == [1]


def test_a_codec_gets_all_but_ints_and_registered_types(opened: Opened, path: str) -> None:
    register(Point)
    cache, plain = opened(path, codec=Json()), opened(path)
    for value in ("", "text", [1], None, True, 2**70):
        cache["key"] = value
        assert cache["key"] == value
        with pytest.raises(EntryRefused):
            plain.get("key")
    for value in (7, Point(1)):
        cache["key"] = value
        assert plain["key"] == value
    with pytest.raises(TypeError, match="not JSON serializable"):
        cache["key"] = b"bytes"
    assert cache["key"] == Point(1)


@pytest.mark.shared_file
def test_a_codec_that_fails_to_decode_is_an_unreadable_entry(opened: Opened, path: str) -> None:
    cache = opened(path, codec=Json())
    _engine._plant(cache, b"key", 24, b"\x04json{")
    with pytest.raises(EntryCorrupt, match="codec 'json' cannot decode it"):
        cache.get("key")


# Compression.


@pytest.mark.parametrize("compressor", ["zstd", "lz4"])
def test_compressed_values_are_smaller_and_readable_everywhere(
    opened: Opened, path: str, compressor: Any
) -> None:
    cache = opened(path, compress="1 kB", compressor=compressor)
    value = {"rows": [{"name": "a name", "number": number % 7} for number in range(2000)]}
    assert len(stored(cache, value)[1]) < len(stored(opened(path), value)[1]) / 4
    for one in (
        value,
        "x" * 5000,
        "\udcff" * 5000,
        b"y" * 5000,
        os.urandom(5000),
        "short",
        2**9999,
    ):
        cache["key"] = one
        assert opened(path)["key"] == one
        assert type(cache["key"]) is type(one)
    with pytest.raises(ValueTooLarge):
        cache["key"] = bytes(cache.size)


@pytest.mark.shared_file
@pytest.mark.parametrize("library", ["backports.zstd", "zstandard", "lz4"])
def test_a_decompression_bomb_is_refused(
    opened: Opened, path: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("lz4.block" if library == "lz4" else library)
    if library == "zstandard":
        monkeypatch.setattr(compression, "_library", lambda _: compression._zstandard(module))
    elif library == "backports.zstd":
        monkeypatch.setattr(compression, "_library", lambda _: compression._zstd(module))
    cache, number = opened(path), 2 if library == "lz4" else 1
    raw = bytes(1 << 28)
    bomb = module.compress(raw, store_size=False) if library == "lz4" else module.compress(raw)
    claims = {b"\x80\x80\x80\x80\x01": EntryRefused, b"\xff" * 9 + b"\x01": EntryRefused}
    claims |= {b"\x0a": EntryCorrupt, b"\x80\x80\x01": EntryCorrupt, b"": EntryCorrupt}
    for claim, error in claims.items():
        _engine._plant(cache, b"key", 25, bytes([number, 0]) + claim + bomb)
        with pytest.raises(error, match="key 'key'"):
            cache.get("key")
    nested = bytes([number, 25]) + b"\x0a" + module.compress(bytes(10))
    for content in (nested, bytes([9, 0, 1, 0]), bytes([number]), b""):
        _engine._plant(cache, b"key", 25, content)
        with pytest.raises(EntryCorrupt):
            cache.get("key")


def test_an_extension_alone_decodes_no_objects(path: str) -> None:
    register(Point)
    with Cache(path) as cache:
        cache["key"] = Point(1)
        core = _engine.Core(path)
        with pytest.raises(EntryCorrupt, match="no plain value"):
            core.get("key")
        core.close()
