"""get_many, set_many and delete_many."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from tuckbox.errors import InvalidTTL, KeyTooLong, KeyTypeError, ValueTooLarge, ValueTypeError

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")


def test_get_many_returns_those_that_are_there(cache: Cache) -> None:
    cache.set_many({"a": 1, "b": None, 3: [3]})
    assert cache.get_many(["a", "missing", "b", 3]) == {"a": 1, "b": None, 3: [3]}
    assert cache.get_many([]) == {}
    assert cache.get_many(key for key in ("b", "a")) == {"b": None, "a": 1}


def test_get_many_gives_back_the_keys_it_was_given(cache: Cache) -> None:
    cache["k"] = 1
    key = "".join(["k"])
    (found,) = cache.get_many([key])
    assert found is key


def test_set_many_takes_any_mapping(cache: Cache) -> None:
    cache.set_many(MappingProxyType({"a": 1}))
    cache.set_many({})
    assert dict(cache) == {"a": 1}


def test_set_many_gives_all_the_ttl(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set_many({"a": 1, "b": 2}, ttl=5)
    clock.advance(6)
    assert timed.get_many(["a", "b"]) == {}


def test_delete_many_counts_those_that_were_there(cache: Cache) -> None:
    cache.set_many({"a": 1, "b": 2, "c": 3})
    assert cache.delete_many(["a", "missing", "c", "a"]) == 2
    assert list(cache) == ["b"]
    assert cache.delete_many([]) == 0


@pytest.mark.whole_cache
def test_nothing_is_stored_when_one_entry_is_refused_and_its_key_is_named(cache: Cache) -> None:
    cache["a"] = "before"
    refused = [
        (KeyTypeError, {"a": 1, 1.5: 2}, "key 1.5: float cannot be a key"),
        (KeyTooLong, {"a": 1, "x" * 65_537: 2}, r"key 'xxx.*\.\.\..*: key is 65537 bytes long"),
        (ValueTypeError, {"a": 1, "b": object()}, "key 'b': value is of type object"),
        (
            ValueTypeError,
            {"a": 1, "b": [{"c": object()}]},
            r"key 'b': value\[0\]\['c'\] is of type",
        ),
        (ValueTooLarge, {"a": 1, "b": b"x" * (8 << 20)}, "key 'b': value is 8388608 bytes long"),
        (ValueTooLarge, {"a": 1, "b": ["x" * (8 << 20)]}, "key 'b': value is too long"),
    ]
    for error, mapping, message in refused:
        with pytest.raises(error, match=f"^{message}"):
            cache.set_many(mapping)
    with pytest.raises(InvalidTTL):
        cache.set_many({"a": 1}, ttl="soon")
    assert dict(cache) == {"a": "before"}


def test_nothing_is_deleted_when_one_key_is_refused(cache: Cache) -> None:
    cache["a"] = 1
    for error, key in ((KeyTypeError, []), (KeyTooLong, "x" * 65_537)):
        with pytest.raises(error):
            cache.delete_many(["a", key])
    assert "a" in cache


@pytest.mark.parametrize("operation", ["get_many", "delete_many"])
@pytest.mark.parametrize("keys", ["abc", b"abc"])
def test_one_key_in_place_of_many_is_a_mistake(cache: Cache, operation: str, keys: object) -> None:
    cache.set_many({"a": 1, "b": 2})
    with pytest.raises(KeyTypeError, match="keys must be an iterable of keys, not"):
        getattr(cache, operation)(keys)
    assert len(cache) == 2


def test_set_many_wants_a_mapping(cache: Cache) -> None:
    with pytest.raises(TypeError, match="mapping of keys to values, not list"):
        cache.set_many([("a", 1)])


def test_a_mapping_that_fails_stores_nothing(cache: Cache) -> None:
    class Failing(dict[str, int]):
        def items(self):  # type: ignore[override]
            yield "a", 1
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        cache.set_many(Failing(a=1))
    assert len(cache) == 0
