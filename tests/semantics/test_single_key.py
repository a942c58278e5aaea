"""get, set, add, replace, cas, delete, pop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tuckbox import Entry
from tuckbox.errors import InvalidVersion

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory", "namespace", "remote")


class TestGet:
    def test_returns_what_was_set(self, cache: Cache) -> None:
        cache.set("k", "value")
        assert cache.get("k") == "value"

    def test_of_a_missing_key_is_none_or_the_default(self, cache: Cache) -> None:
        assert cache.get("k") is None
        assert cache.get("k", 7) == 7
        assert cache.get("k", default=7) == 7

    def test_tells_none_from_a_miss(self, cache: Cache) -> None:
        missing = object()
        cache.set("k", None)
        assert cache.get("k", missing) is None
        assert cache.get("other", missing) is missing
        assert cache.get_entry("k") is not None

    def test_takes_keywords(self, cache: Cache) -> None:
        cache.set(key="k", value=1, ttl=None)
        assert cache.get(key="k", default=2) == 1

    def test_gives_a_value_of_its_own_each_time(self, cache: Cache) -> None:
        cache.set("k", [1])
        cache.get("k").append(2)
        assert cache.get("k") == [1]


class TestGetEntry:
    def test_of_a_missing_key_is_none(self, cache: Cache) -> None:
        assert cache.get_entry("k") is None

    def test_has_value_expiry_and_version(self, cache: Cache) -> None:
        cache.set("k", "v")
        entry = cache.get_entry("k")
        assert isinstance(entry, Entry)
        assert (entry.value, entry.expiry) == ("v", None)
        assert entry.version > 0
        value, expiry, version = entry[:3]
        assert (value, expiry, version) == (entry.value, entry.expiry, entry.version)

    def test_version_is_new_with_every_change(self, cache: Cache) -> None:
        versions = set()
        for change in (
            lambda: cache.set("k", 1),
            lambda: cache.set("k", 1),
            lambda: cache.incr("k"),
            lambda: cache.replace("k", 2),
            lambda: (cache.delete("k"), cache.add("k", 1)),
            lambda: (cache.clear(), cache.set("k", 1)),
        ):
            change()
            entry = cache.get_entry("k")
            assert entry is not None
            versions.add(entry.version)
        assert len(versions) == 6

    def test_version_stays_without_a_change(self, cache: Cache) -> None:
        cache.set("k", 1)
        first = cache.get_entry("k")
        cache.get("k")
        cache.set("other", 1)
        assert cache.get_entry("k") == first


class TestSet:
    def test_returns_none(self, cache: Cache) -> None:
        assert cache.set("k", 1) is None

    def test_overwrites_with_any_type_and_length(self, cache: Cache) -> None:
        for value in ("short", 1, b"x" * 10_000, None, {"a": [1]}, "y" * 200_000, 2, ""):
            cache.set("k", value)
            assert cache.get("k") == value
        assert len(cache) == 1


class TestAdd:
    def test_stores_only_under_a_free_key(self, cache: Cache) -> None:
        assert cache.add("k", 1) is True
        assert cache.add("k", 2) is False
        assert cache.get("k") == 1
        cache.delete("k")
        assert cache.add("k", 3) is True
        assert cache.get("k") == 3


class TestReplace:
    def test_stores_only_under_a_taken_key(self, cache: Cache) -> None:
        assert cache.replace("k", 1) is False
        assert "k" not in cache
        cache.set("k", 1)
        assert cache.replace("k", "longer than before") is True
        assert cache.get("k") == "longer than before"


class TestCas:
    def test_stores_if_nothing_changed(self, cache: Cache) -> None:
        cache.set("k", "a")
        entry = cache.get_entry("k")
        assert cache.cas("k", "b", entry.version) is True
        assert cache.get("k") == "b"

    def test_stores_nothing_after_a_change(self, cache: Cache) -> None:
        cache.set("k", "a")
        entry = cache.get_entry("k")
        cache.set("k", "a")
        assert cache.cas("k", "b", entry.version) is False
        assert cache.get("k") == "a"

    def test_stores_nothing_after_a_delete_or_in_a_new_life(self, cache: Cache) -> None:
        cache.set("k", "a")
        entry = cache.get_entry("k")
        cache.delete("k")
        assert cache.cas("k", "b", entry.version) is False
        cache.set("k", "a")
        assert cache.cas("k", "b", entry.version) is False

    @pytest.mark.parametrize("version", [-1, 1.0, "1", None, True, 2**64])
    def test_refuses_what_is_no_version(self, cache: Cache, version: object) -> None:
        cache.set("k", "a")
        with pytest.raises(InvalidVersion, match="get_entry"):
            cache.cas("k", "b", version)
        assert cache.get("k") == "a"


class TestDelete:
    def test_tells_whether_there_was_one(self, cache: Cache) -> None:
        cache.set("k", 1)
        assert cache.delete("k") is True
        assert cache.delete("k") is False
        assert cache.get("k") is None
        assert len(cache) == 0


class TestPop:
    def test_returns_and_removes(self, cache: Cache) -> None:
        cache.set("k", [1, 2])
        assert cache.pop("k") == [1, 2]
        assert "k" not in cache

    def test_of_a_missing_key_is_as_for_a_dict(self, cache: Cache) -> None:
        with pytest.raises(KeyError) as caught:
            cache.pop(("a", 1))
        assert caught.value.args == (("a", 1),)
        assert cache.pop("k", None) is None
        assert cache.pop("k", default=3) == 3
