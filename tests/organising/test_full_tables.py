"""Ten thousand tags, and more namespaces than a cache can know each of: too many entries become
missing, never too few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tuckbox.memory import store as memory_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuckbox import Cache

RUNS_ON = ("shared", "memory", "remote")

TAGS = [f"tag-{number}" for number in range(10_000)]


@pytest.fixture
def small(
    opened: Callable[..., Cache], path: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> Cache:
    """A cache with rows for a few hundred tags, and fewer namespaces."""
    if store == "memory":
        monkeypatch.setattr(memory_store, "_ROWS_MAX", 100)
    return opened(path, size="8 MiB")


@pytest.mark.parametrize("soft", [False, True])
def test_each_of_ten_thousand_tags_is_evicted(small: Cache, soft: bool) -> None:
    small["plain"] = 1
    for tag in TAGS:
        small.set(tag, 1, tags=[tag, "all"])
        small.evict(tag=tag, soft=soft)
        assert tag not in small
        # What is stored after an eviction is not affected by it.
        small.set(tag, 2, tags=[tag])
        assert small[tag] == 2
    assert small["plain"] == 1
    # Full tables forget nothing: each of these evictions has its effect.
    for number in range(0, len(TAGS), 100):
        some = TAGS[number : number + 100]
        for tag in some:
            small.set(tag, 3, tags=[tag])
        for tag in some[::2]:
            small.evict(tag=tag, soft=soft)
        assert not [tag for tag in some[::2] if tag in small]
    assert small["plain"] == 1


@pytest.mark.one_machine
def test_full_tables_make_more_entries_missing(small: Cache) -> None:
    for tag in TAGS:
        small.evict(tag=tag)
    small.set_many(dict.fromkeys(range(1000), "x"))
    for tag in TAGS[:1000]:
        small.set(tag, 1, tags=[tag])
    for tag in TAGS[5000:6000]:
        small.evict(tag=tag)
    left = [tag for tag in TAGS[:1000] if tag in small]
    assert len(left) < 1000
    assert len(small.get_many(range(1000))) == 1000


def test_with_few_evicted_tags_no_other_is_affected(opened: Callable[..., Cache]) -> None:
    """Only tags that were evicted take room: entries may have any number of others."""
    cache = opened(size="64 MiB")
    for tag in TAGS:
        cache.set(tag, 1, tags=[tag])
    for tag in TAGS[:20]:
        cache.evict(tag=tag)
    assert [tag for tag in TAGS if tag not in cache] == TAGS[:20]


def test_each_of_too_many_namespaces_is_cleared(small: Cache) -> None:
    parts = [small.namespace(f"part-{number}") for number in range(1000)]
    small["k"] = 1
    for part in parts:
        part["k"] = 1
        part.clear()
        assert "k" not in part
        part["k"] = 2
        assert part["k"] == 2
    for part in parts:
        part["k"] = 3
        part.clear()
        assert "k" not in part
    assert [list(part) for part in parts[::100]] == [[]] * 10
    assert small["k"] == 1


def test_leases_are_refused_in_full_tables(small: Cache) -> None:
    for tag in TAGS[:3000]:
        small.evict(tag=tag)
    for tag in TAGS[::500]:
        _, _, token = small._begin("k", False)
        small.evict(tag=tag)
        assert small._finish(token, "k", "old", None, None, [tag], None) is False
        assert "k" not in small


def hidden(cache: Any) -> None:
    cache.set("a", 1, tags=["evicted", "other"])
    cache.set("b", 1, tags=["soft"], ttl=1000, stale=1000)
    cache.set("c", 1, tags=["kept"], ttl=1000, stale=1000)
    cache.namespace("cleared")["k"] = 1
    cache.namespace("kept").namespace("inner").set("k", 1, tags=["kept"])
    cache.namespace("kept").namespace("cleared")["k"] = 1
    cache.evict(tag="evicted")
    cache.evict(tag="soft", soft=True)
    cache.namespace("cleared").clear()
    cache.namespace("kept").namespace("cleared").clear()


@pytest.mark.one_machine
@pytest.mark.parametrize("size", ["1 MiB", "16 MiB"])
def test_a_resize_keeps_what_is_missing_and_what_is_there(small: Cache, size: str) -> None:
    hidden(small)
    other = small.namespace("kept")
    small.resize(size)
    assert [key for key in "abc" if key in small] == ["c"]
    assert small.get_entry("a", stale=True) is None
    assert small.get_entry("c").tags == ("kept",)
    assert list(small.scan(tag="kept")) == ["c"]
    assert list(other.namespace("inner").scan(tag="kept")) == ["k"]
    assert list(small.namespace("cleared")) == list(other.namespace("cleared")) == []
    small.evict(tag="kept")
    other.namespace("inner")["new"] = 1
    assert "c" not in small
    assert list(other.namespace("inner")) == ["new"]
    other.clear()
    assert list(other.namespace("inner")) == []


@pytest.mark.one_machine
def test_a_resize_with_full_tables_brings_nothing_back(small: Cache) -> None:
    parts = [small.namespace(f"part-{number}") for number in range(300)]
    for number, part in enumerate(parts):
        part.set("k", number)
        part.clear()
        small.set(number, 1, tags=[TAGS[number]])
    for tag in TAGS[:1000]:
        small.evict(tag=tag)
    small["k"] = 1
    for size in ("2 MiB", "16 MiB", "1 MiB"):
        small.resize(size)
        assert not [part for part in parts if "k" in part]
        assert small.get_many(range(300)) == {}
        assert small["k"] == 1
    for part in parts[:50]:
        part["k"] = 2
        assert part["k"] == 2
        part.clear()
        assert "k" not in part
