"""NumPy's scalars: as keys, values, ttls and deltas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tuckbox.errors import InvalidTTL, KeyTypeError, NotAnInteger, ValueTypeError

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory")

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_work_wherever_an_int_does(cache: Cache, kind: Any) -> None:
    cache[kind(7)] = kind(40)
    assert cache[7] == cache[kind(7)] == cache.get_many([kind(7)])[7] == 40
    assert type(cache[7]) is int
    assert cache.incr(kind(7), kind(2)) == 42
    assert cache.incr("new", default=kind(1)) == 2
    cache.set(("row", kind(3)), {"id": kind(1), "all": [kind(2)]}, ttl=kind(60))
    entry = cache.get_entry(("row", 3))
    assert entry.value == {"id": 1, "all": [2]}
    assert type(entry.value["id"]) is type(entry.value["all"][0]) is int
    assert entry.expiry is not None
    assert all(type(key) in {int, tuple, str} for key in cache)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float64(0.1), 0.1),
        (np.float32(0.5), 0.5),
        (np.float16(-2), -2.0),
        (np.bool_(True), True),
        (np.bool_(False), False),
        (np.str_("text"), "text"),
        (np.str_("\ud800"), "\ud800"),
        (np.bytes_(b"bytes"), b"bytes"),
        (np.uint64(2**64 - 1), 2**64 - 1),
    ],
    ids=repr,
)
def test_scalars_are_stored_as_the_plain_objects_that_they_equal(
    cache: Cache, value: Any, plain: object
) -> None:
    cache["k"] = value
    cache.set_many({"a": value, "b": [value], "c": {"x": (value,)}, "d": {value: value}})
    expected = {"a": plain, "b": [plain], "c": {"x": (plain,)}, "d": {plain: plain}}
    assert dict(cache) == {"k": plain, **expected}
    for found in (cache["k"], cache["a"], cache["b"][0], cache["c"]["x"][0], *cache["d"]):
        assert type(found) is type(plain)


def test_text_and_bool_scalars_are_the_keys_that_they_equal(cache: Cache) -> None:
    for key, plain in ((np.str_("a"), "a"), (np.bytes_(b"a"), b"a"), (np.bool_(True), 1)):
        cache[key] = cache["row", key] = repr(plain)
        assert cache[plain] == cache.get(key) == cache["row", plain] == repr(plain)
    assert {type(key) for key in cache} == {str, bytes, int, tuple}


def test_floats_cannot_be_keys(cache: Cache) -> None:
    for key in (np.float64(1), np.float32(1)):
        with pytest.raises(KeyTypeError, match="float cannot be a key"):
            cache[key] = 1
    cache[1] = "one"
    assert cache[np.float64(1)] == cache[np.float32(1)] == "one"
    assert np.float32(1.5) not in cache


def test_ttls_may_be_floats_but_no_bools(cache: Cache) -> None:
    for ttl in (np.float64(60), np.float32(60)):
        cache.set("k", 1, ttl=ttl)
        assert cache.get_entry("k").expiry is not None
        assert cache.touch("k")
    with pytest.raises(InvalidTTL):
        cache.set("k", 2, ttl=np.bool_(True))
    assert cache["k"] == 1


@pytest.mark.parametrize("delta", [np.float64(1), np.bool_(True), np.array(1), np.array([1])])
def test_deltas_must_be_integers(cache: Cache, delta: object) -> None:
    with pytest.raises(NotAnInteger, match="delta must be an int, not numpy"):
        cache.incr("n", delta)
    assert "n" not in cache


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (np.array([1, 2]), r"store its tolist\(\)"),
        (np.array([5]), r"store its tolist\(\)"),
        (np.array(5), r"store its tolist\(\)"),
        (np.datetime64("2026-01-01"), "convert it"),
        (np.timedelta64(5, "s"), "convert it"),
        (np.complex128(1), "convert it"),
        (np.longdouble(1), "convert it"),
    ],
    ids=repr,
)
def test_arrays_and_other_scalars_are_refused(cache: Cache, value: Any, advice: str) -> None:
    for stored in (value, [value]):
        with pytest.raises(ValueTypeError, match=rf"is of type numpy.*{advice}"):
            cache["k"] = stored
    assert "k" not in cache
