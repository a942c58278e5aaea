"""Entries that must stay: pinned ones, and all in a cache that does not evict."""

from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, Any, Callable

import pytest

from tuckbox.errors import CacheFull, InvalidArgument, SizeMismatchWarning

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory")

FLOOD = 6_000
VALUE = "x" * 200


@pytest.fixture
def cache(opened: Callable[..., Cache], path: str) -> Cache:
    """A small cache that evicts."""
    return opened(path, size="512 KiB")


@pytest.fixture
def full(opened: Callable[..., Cache], path: str) -> Cache:
    """A full cache that does not evict."""
    cache = opened(path, size="512 KiB", evict=False)
    cache["count"] = 1
    fill(cache)
    return cache


def fill(cache: Any, **terms: Any) -> int:
    """Store entries until one is refused. Return how many were stored."""
    for number in range(FLOOD):
        try:
            cache.set(("filler", number), VALUE, **terms)
        except CacheFull:
            return number
    raise AssertionError("nothing was refused")


def flood(cache: Any) -> None:
    """Store more than fits."""
    for number in range(FLOOD):
        cache.set(("flood", number), VALUE)


def ways(cache: Any) -> dict[str, Callable[[], object]]:
    """Each way to pin an entry, by its key."""
    for key in ("replace", "cas"):
        cache[key] = 0
    version = cache.get_entry("cas").version
    return {
        "set": lambda: cache.set("set", 1, pinned=True),
        "add": lambda: cache.add("add", 1, pinned=True),
        "replace": lambda: cache.replace("replace", 1, pinned=True),
        "cas": lambda: cache.cas("cas", 1, version, pinned=True),
        "set_many": lambda: cache.set_many({"set_many": 1}, pinned=True),
    }


def test_a_pinned_entry_is_not_evicted(cache: Cache) -> None:
    for key, pin in ways(cache).items():
        pin()
        assert cache.get_entry(key).pinned, key  # type: ignore[union-attr]
    flood(cache)
    assert {key: cache.get(key) for key in ways_of()} == dict.fromkeys(ways_of(), 1)
    assert cache.stats().evictions > 0
    assert cache.check().is_sound


def ways_of() -> tuple[str, ...]:
    return ("set", "add", "replace", "cas", "set_many")


def test_it_is_pinned_in_a_namespace_too(cache: Cache) -> None:
    blog = cache.namespace("blog")
    blog.set("post", "Hello", pinned=True)
    assert blog.get_entry("post").pinned  # type: ignore[union-attr]
    flood(cache)
    assert blog["post"] == "Hello"


def test_the_asynchronous_operations_pin(cache: Cache) -> None:
    async def pin() -> None:
        await cache.aset("set", 1, pinned=True)
        await cache.aadd("add", 1, pinned=True)
        await cache.areplace("add", 2, pinned=True)
        entry = await cache.aget_entry("add")
        await cache.acas("add", 3, entry.version, pinned=True)  # type: ignore[union-attr]
        await cache.aset_many({"many": 1}, pinned=True)

    asyncio.run(pin())
    flood(cache)
    assert [cache.get(key) for key in ("set", "add", "many")] == [1, 3, 1]


def test_incr_and_touch_keep_the_pin_and_set_ends_it(cache: Cache) -> None:
    cache.set("count", 1, pinned=True)
    cache.incr("count")
    cache.touch("count", ttl=1000)
    assert cache.get_entry("count")[:1] + cache.get_entry("count")[6:] == (2, True)  # type: ignore[index]
    cache.set("count", 3)
    assert not cache.get_entry("count").pinned  # type: ignore[union-attr]


def test_what_else_ends_an_entry_ends_a_pinned_one(cache: Cache) -> None:
    cache.set("expired", 1, ttl=0, pinned=True)
    cache.set("evicted", 1, tags=["users"], pinned=True)
    cache.set("deleted", 1, pinned=True)
    cache.set("cleared", 1, pinned=True)
    cache.evict(tag="users")
    assert cache.delete("deleted")
    assert [*cache] == ["cleared"]
    cache.clear()
    assert not cache


def test_pinned_entries_that_fill_the_cache_refuse_others(cache: Cache) -> None:
    count = fill(cache, pinned=True)
    with pytest.raises(CacheFull, match="all of its entries are pinned; nothing was changed"):
        cache.set("more", VALUE, pinned=True)
    assert all(cache.get(("filler", number)) == VALUE for number in range(count))
    assert cache.delete(("filler", 0))
    cache.set("more", VALUE, pinned=True)


def test_a_full_cache_that_does_not_evict_refuses(full: Cache) -> None:
    kept = dict(full.items())
    for refused in (
        lambda: full.set("more", VALUE),
        lambda: full.add("more", VALUE),
        lambda: full.set(("filler", 1), VALUE * 200),
        lambda: full.replace(("filler", 1), VALUE * 200),
        lambda: full.set_many({"more": VALUE}),
        lambda: full.incr("other" * 40),
    ):
        with pytest.raises(CacheFull, match="it evicts no entries; nothing was changed: delete"):
            refused()
    assert dict(full.items()) == kept
    assert (full.stats().evictions, full.evicts) == (0, False)
    assert full.incr("count") == 2
    full.set(("filler", 1), VALUE[::-1])
    assert full.check().is_sound


def test_deletes_make_room(full: Cache) -> None:
    refused = 0
    for number in range(500):
        assert full.delete(("filler", number))
        try:
            full.set(("change", number), VALUE)
        except CacheFull:
            # The index has taken a segment more.
            refused += 1
    assert refused <= 5
    for key in list(full):
        assert full.delete(key)
    assert fill(full) > 1000


def test_expired_and_evicted_entries_make_room(opened: Callable[..., Cache], path: str) -> None:
    for terms in ({"ttl": 1000}, {"tags": ["users"]}):
        cache = opened(path, size="512 KiB", evict=False)
        cache.clear()
        count = fill(cache, **terms)
        if "tags" in terms:
            cache.evict(tag="users")
        else:
            assert all(cache.touch(key, ttl=0) for key in list(cache))
        assert fill(cache) > count / 2
        cache.close()


def test_a_cleared_namespace_makes_room(opened: Callable[..., Cache], path: str) -> None:
    cache = opened(path, size="512 KiB", evict=False)
    blog = cache.namespace("blog")
    count = fill(blog)
    blog.clear()
    assert fill(cache) > count / 2


def test_a_namespace_that_is_cleared_after_refusals_makes_room(
    opened: Callable[..., Cache], path: str
) -> None:
    """A refusal searches for room only if there may be some, and then finds it."""
    cache = opened(path, size="512 KiB", evict=False)
    blog = cache.namespace("blog")
    blog.namespace("posts").set("first", VALUE)
    count = fill(blog)
    for number in range(100):
        with pytest.raises(CacheFull):
            blog.set(("more", number), VALUE)
    blog.clear()
    assert fill(cache) > count / 2


def test_a_touch_needs_no_room(full: Cache) -> None:
    for key in list(full):
        assert full.touch(key, ttl=1000)
    assert all(full.ttl(key) > 900 for key in list(full))  # type: ignore[operator]
    # Nor does a value of the same length with another ttl.
    full.set(("filler", 1), VALUE)
    full.set(("filler", 1), VALUE, ttl=5)


def test_max_entries_refuses_too(opened: Callable[..., Cache], path: str) -> None:
    cache = opened(path, size="512 KiB", max_entries=3, evict=False)
    cache.set_many({1: 1, 2: 2, 3: 3})
    with pytest.raises(CacheFull, match="and 3 entries"):
        cache.set(4, 4)
    cache.set(3, "three")
    assert cache.delete(1)
    cache.set(4, 4)
    assert sorted(cache) == [2, 3, 4]


def test_the_file_keeps_the_setting(full: Cache, opened: Callable[..., Cache], path: str) -> None:
    assert not opened(path).evicts
    with pytest.warns(SizeMismatchWarning, match="keeps evict False, not True"):
        assert not opened(path, evict=True).evicts
    assert not pickle.loads(pickle.dumps(full)).evicts


def test_a_smaller_size_without_room_for_them_is_refused(full: Cache) -> None:
    kept = dict(full.items())
    with pytest.raises(CacheFull, match=r"within 262,?144 bytes"):
        full.resize("256 KiB")
    assert dict(full.items()) == kept
    full.resize("1 MiB")
    assert dict(full.items()) == kept
    assert not full.evicts
    full.set("more", VALUE)


@pytest.mark.parametrize("pinned", [1, None, "yes"])
def test_pinned_is_true_or_false(cache: Cache, pinned: Any) -> None:
    with pytest.raises(InvalidArgument, match="pinned must be True or False, not"):
        cache.set("key", 1, pinned=pinned)


def test_evict_is_true_or_false(cache: Cache) -> None:
    with pytest.raises(InvalidArgument, match="evict must be True, False or None, not int"):
        type(cache)(evict=0)  # type: ignore[arg-type]
