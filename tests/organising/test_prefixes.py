"""Entries by their tag or by how their keys begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tuckbox.errors import CacheClosed, InvalidArgument, InvalidTag

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")

KEYS: list[Any] = [
    "", "user", "user:1", "user:10", "user:2", "post:1", b"", b"user:1", b"u", 1, -7, (),
    ("user",), ("user", 1), ("user", 1, "name"), ("user", "1"), (("user", 1), 2), ("userx", 1),
]  # fmt: skip
PREFIXES: list[Any] = ["", "user", "user:", "user:1", "none", b"", b"u", b"x", (), ("user",),
                       ("user", 1), (("user", 1),), ("use",), ("user", True)]  # fmt: skip


def begins(key: Any, prefix: Any) -> bool:
    if isinstance(prefix, tuple):
        return isinstance(key, tuple) and key[: len(prefix)] == prefix
    return isinstance(key, type(prefix)) and key[: len(prefix)] == prefix


@pytest.mark.parametrize("prefix", PREFIXES, ids=repr)
def test_scan_finds_the_keys_that_begin_with_it(cache: Cache, prefix: Any) -> None:
    cache.set_many(dict.fromkeys(KEYS, 0))
    found = list(cache.scan(prefix=prefix))
    assert len(found) == len(set(found))
    assert set(found) == {key for key in KEYS if begins(key, prefix)}


@pytest.mark.parametrize("prefix", PREFIXES, ids=repr)
def test_delete_prefix_deletes_these_and_no_others(cache: Cache, prefix: Any) -> None:
    cache.set_many(dict.fromkeys(KEYS, 0))
    expected = {key for key in KEYS if begins(key, prefix)}
    assert cache.delete_prefix(prefix) == len(expected)
    assert set(cache) == set(KEYS) - expected
    assert cache.delete_prefix(prefix) == 0


def test_without_arguments_scan_yields_every_key(cache: Cache) -> None:
    cache.set_many(dict.fromkeys(KEYS, 0))
    assert set(cache.scan()) == set(KEYS)


def test_tag_and_prefix_hold_together(cache: Cache) -> None:
    cache.set_many({"user:1": 1, "user:2": 2}, tags=["a"])
    cache.set_many({"user:3": 1, "post:1": 2}, tags=["b", "a"])
    cache.set("user:4", 1)
    assert sorted(cache.scan(tag="a")) == ["post:1", "user:1", "user:2", "user:3"]
    assert sorted(cache.scan(tag="a", prefix="user:")) == ["user:1", "user:2", "user:3"]
    assert list(cache.scan(tag="b", prefix="user:")) == ["user:3"]
    assert list(cache.scan(tag="none")) == []


def test_only_fresh_entries_are_found(timed: Cache, clock: _engine.ManualClock) -> None:
    for key, tag in (("evicted", "x"), ("soft", "y"), ("fresh", "z")):
        timed.set(key, 1, tags=["t", tag])
    timed.set("expired", 1, ttl=5, tags=["t"])
    timed.set("stale", 1, ttl=5, stale=100, tags=["t"])
    timed.evict(tag="x")
    timed.evict(tag="y", soft=True)
    clock.advance(5)
    assert list(timed.scan(tag="t")) == ["fresh"]
    assert list(timed.scan(prefix="")) == ["fresh"]
    assert timed.delete_prefix("") == 1


def test_a_key_present_all_the_time_comes_exactly_once(cache: Cache) -> None:
    cache.set_many({("kept", n): n for n in range(500)}, tags=["t"])
    found = []
    for number, key in enumerate(cache.scan(tag="t", prefix=("kept",))):
        found.append(key)
        cache.set(("new", number), "x" * 100, tags=["t"])
        cache.delete(("new", number - 5))
    assert len(found) == 500
    assert set(found) == {("kept", n) for n in range(500)}


def test_entries_may_be_deleted_while_they_are_found(cache: Cache) -> None:
    cache.set_many({n: n for n in range(300)}, tags=["t"])
    assert sum(cache.delete(key) for key in cache.scan(tag="t")) == 300
    assert len(cache) == 0


@pytest.mark.parametrize("prefix", [None, 1, ["user"], {"a"}, 1.5])
def test_another_type_is_refused(cache: Cache, prefix: Any) -> None:
    cache["user:1"] = 1
    with pytest.raises(InvalidArgument, match="prefix must be a str, bytes or a tuple, not"):
        cache.delete_prefix(prefix)
    if prefix is not None:
        with pytest.raises(InvalidArgument, match="prefix must be"):
            cache.scan(prefix=prefix)
    with pytest.raises(InvalidTag):
        cache.scan(tag=prefix or 7)
    assert cache["user:1"] == 1


def test_a_closed_cache_is_not_scanned(cache: Cache) -> None:
    keys = cache.scan(prefix="")
    cache.close()
    for operation in (lambda: next(keys), lambda: cache.scan(tag="t"), cache.scan):
        with pytest.raises(CacheClosed):
            operation()
