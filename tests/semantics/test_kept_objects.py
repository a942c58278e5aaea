"""Objects that a handle keeps in its process: ``local``."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import threading
import weakref
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Callable
from uuid import UUID

import pytest

from tuckbox import Cache, _engine, connect, memory, register
from tuckbox.errors import CacheClosed, InvalidArgument, InvalidSize

if TYPE_CHECKING:
    from collections.abc import Iterator

BUDGET = 100_000

IMMUTABLE = (
    "text", "\u00fcber", "", b"bytes", 10**20, 300, -5, 2.5, True, None, (1, "two", (3.0, b"4")),
    frozenset({1, 2.5}), date(2026, 11, 24), datetime(2026, 11, 24, tzinfo=timezone.utc),
    timedelta(1), Decimal("1.5"), UUID(int=7),
)  # fmt: skip
MUTABLE: tuple[Any, ...] = (
    {"a": 1, "b": (2, 3)}, {"a": {"b": {"c": [1, {2, 3}]}}}, [1, [2, [3]]], [], {}, {1, 2},
    bytearray(b"bytes"), ([1], {"a": [2]}, "text"), {"deep": ([[{"x": bytearray(b"y")}]],)},
)  # fmt: skip


@pytest.fixture
def pair(path: str) -> Iterator[tuple[Cache, Cache]]:
    """A handle that keeps objects, and another one of the same file."""
    with Cache(path, size="4 MiB", local=BUDGET) as kept, Cache(path) as other:
        yield kept, other
        assert kept.check().is_sound


@pytest.mark.parametrize("value", IMMUTABLE, ids=repr)
def test_an_immutable_value_is_the_same_object(pair: tuple[Cache, Cache], value: object) -> None:
    kept, other = pair
    other.set("key", value)
    first = kept.get("key")
    assert first == value
    assert type(first) is type(value)
    assert kept.get("key") is first
    assert kept["key"] is first
    assert kept.stats().local_entries == 1


@pytest.mark.parametrize("value", MUTABLE, ids=repr)
def test_a_mutable_value_is_a_new_object_each_time(
    pair: tuple[Cache, Cache], value: object
) -> None:
    kept, other = pair
    other.set("key", value)
    for _ in range(3):
        found = kept.get("key")
        assert found == value
        assert type(found) is type(value)
        assert kept.stats().local_entries == 1
        _change(found)
    assert other.get("key") == value


def _change(value: Any) -> None:
    """Change everything in a value that can be changed."""
    if isinstance(value, dict):
        for item in value.values():
            _change(item)
        value["changed"] = True
    elif isinstance(value, (list, tuple)):
        for item in value:
            _change(item)
        if isinstance(value, list):
            value.append("changed")
    elif isinstance(value, set):
        value.add("changed")
    elif isinstance(value, bytearray):
        value.extend(b"changed")


def test_the_leaves_of_a_container_are_shared(pair: tuple[Cache, Cache]) -> None:
    kept, other = pair
    other.set("key", {"text": "a text", "list": ["another", ("third",)]})
    one, two = kept["key"], kept["key"]
    assert one["text"] is two["text"]
    assert one["list"] is not two["list"]
    assert one["list"][0] is two["list"][0]


def _touch_in_the_past(cache: Cache) -> None:
    cache.touch("key", 0)


def _evict(cache: Cache) -> None:
    cache.evict(tag="tag")


def _evict_softly(cache: Cache) -> None:
    cache.evict(tag="tag", soft=True)


def _replace(cache: Cache) -> None:
    assert cache.path
    os.unlink(cache.path)
    Cache(cache.path, size="4 MiB").set("key", "of the new file")


CHANGES: dict[str, tuple[Callable[[Cache], object], object]] = {
    "same size": (lambda cache: cache.set("key", 2222, 100, tags=["tag"]), 2222),
    "another size": (lambda cache: cache.set("key", "a longer one"), "a longer one"),
    "incr": (lambda cache: cache.incr("key"), 1112),
    "decr": (lambda cache: cache.decr("key"), 1110),
    "delete": (lambda cache: cache.delete("key"), None),
    "pop": (lambda cache: cache.pop("key"), None),
    "clear": (Cache.clear, None),
    "touch": (_touch_in_the_past, None),
    "cas": (lambda cache: cache.cas("key", 5, cache.get_entry("key").version), 5),  # type: ignore[union-attr]
    "replace": (lambda cache: cache.replace("key", 6), 6),
    "set_many": (lambda cache: cache.set_many({"key": 7}), 7),
    "evict": (_evict, None),
    "evict softly": (_evict_softly, None),
    "clear, set again": (lambda cache: (cache.clear(), cache.set("key", 8)), 8),
    "resize": (lambda cache: (cache.resize("5 MiB"), cache.set("key", 9)), 9),
    "file replaced": (_replace, None),
}


@pytest.mark.parametrize("ttl", [None, 1000])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_by_another_handle_is_seen_at_once(
    pair: tuple[Cache, Cache], change: str, ttl: int | None
) -> None:
    kept, other = pair
    other.set("key", 1111, ttl, tags=["tag"])
    assert [kept.get("key") for _ in range(3)] == [1111] * 3
    make, wanted = CHANGES[change]
    make(other)
    if change == "file replaced":
        assert kept.get("no such key") is None
        wanted = "of the new file" if kept.get("key") != 1111 else 1111
    assert kept.get("key") == wanted
    assert kept.get("key") == wanted


def test_a_touch_that_moves_the_end_is_seen(path: str) -> None:
    clock = _engine.ManualClock()
    kept = Cache.__new__(Cache)
    _engine.Core.__init__(kept, path, size_bytes=4 << 20, clock=clock, local_bytes=BUDGET)
    for tags in ([], ["tag"]):
        kept.set("key", "value", 10, tags=tags)
        first = kept.get("key")
        clock.advance(9)
        assert kept.get("key") is first
        kept.touch("key", 10)
        clock.advance(9)
        assert kept.get("key") == "value"
        kept.touch("key", None)
        clock.advance(1000)
        assert kept.get("key") == "value"
        assert kept.get("key") == "value"
        kept.touch("key", 5)
        assert kept.get("key") == "value"
        clock.advance(6)
        assert kept.get("key") is None
    kept.set("stale", "value", 10, stale=100)
    assert kept.get("stale") is kept.get("stale")
    clock.advance(11)
    assert kept.get("stale") is None
    assert kept.get_entry("stale", stale=True) is not None
    kept.close()


def test_namespaces_keep_objects_of_their_own(pair: tuple[Cache, Cache]) -> None:
    kept, other = pair
    blog, shop, inner = kept.namespace("blog"), kept.namespace("shop"), other.namespace("blog")
    for number, cache in enumerate((kept, blog, shop, blog.namespace("inner"))):
        cache.set("key", f"value {number}")
    places = (kept, blog, shop, blog.namespace("inner"))
    first = [cache.get("key") for cache in places]
    assert first == [f"value {number}" for number in range(4)]
    assert all(cache.get("key") is value for cache, value in zip(places, first))
    # Another object for the same namespace has the same objects.
    assert kept.namespace("blog").get("key") is first[1]
    inner.clear()
    found = [cache.get("key") for cache in places]
    assert found == ["value 0", None, "value 2", None]
    inner.set("key", "again")
    assert blog.get("key") == "again"
    assert blog.get("key") == "again"


@pytest.mark.parametrize("tags", [1, 5, 32])
def test_each_tag_of_an_entry_makes_it_missing(pair: tuple[Cache, Cache], tags: int) -> None:
    kept, other = pair
    names = [f"tag {number}" for number in range(tags)]
    for name in names:
        other.set("key", "value", tags=names)
        first = kept.get("key")
        assert kept.get("key") is first
        other.evict(tag="another tag")
        # Not always the same object: the new row can be in one of the places that are watched.
        assert kept.get("key") == "value"
        other.evict(tag=name)
        assert kept.get("key") is None


def test_kinds_of_keys(pair: tuple[Cache, Cache]) -> None:
    kept, other = pair
    keys: tuple[Any, ...] = ("1", b"1", 1, 2**70, "\u00fc", "\ud800", (1, "a"), "key")
    for key in keys:
        other.set(key, f"of {key!r}")
    for _ in range(3):
        assert [kept.get(key) for key in keys] == [f"of {key!r}" for key in keys]
    assert kept.get(True) == kept.get(1.0) == "of 1"
    fresh = "".join(["k", "ey"])
    assert kept.get(fresh) is kept.get("key")
    with pytest.raises(TypeError):
        kept.get([])  # type: ignore[call-overload]
    assert kept.get("missing", 5) == 5


class Point:
    """A type that a program registers."""

    def __init__(self, x: int) -> None:
        self.x = x


def test_objects_that_code_of_the_program_makes_are_not_kept(path: str) -> None:
    made = []

    def point(state: int) -> Point:
        made.append(state)
        return Point(state)

    register(Point, name="point", encode=lambda point: point.x, decode=point)
    with Cache(path, size="4 MiB", local=BUDGET) as cache:
        for value in (Point(1), [Point(1)], {"a": (Point(1),)}):
            cache.set("key", value)
            made.clear()
            assert cache.get("key") is not cache.get("key")
            assert made == [1, 1]
            assert not cache.stats().local_entries


def test_pickles_are_not_kept(path: str) -> None:
    shared: list[Any] = []
    with Cache(path, size="4 MiB", local=BUDGET, pickle="private") as cache:
        cache.set("key", Point(1))
        assert cache["key"] is not cache["key"]
        cache.set("alias", [shared, shared, Point(2)])
        found = cache["alias"]
        assert found[0] is found[1]
        assert cache["alias"][0] is not found[0]
        assert not cache.stats().local_entries


def test_objects_take_no_more_than_the_budget(path: str) -> None:
    with Cache(path, size="16 MiB", local="50 kB") as cache:
        for number in range(2000):
            cache.set(number, b"x" * 100)
            assert cache.get(number) == b"x" * 100
            assert cache.get(0) == b"x" * 100
        stats = cache.stats()
        assert 100 < stats.local_entries < 500
        assert 25_000 < stats.local_bytes <= 50_000
        # The hand passes what is asked for.
        assert cache.get(0) is cache.get(0)
        cache.set("large", b"x" * 20_000)
        assert cache.get("large") is not cache.get("large")
        assert cache.stats().local_entries <= stats.local_entries
        cache.clear()
        assert cache.get(0) is None


def test_kept_objects_end_with_their_handle(path: str) -> None:
    cache = Cache(path, size="4 MiB", local=BUDGET)
    cache.set("key", frozenset({1}))
    gone = weakref.ref(cache["key"])
    assert gone() is not None
    del cache
    gc.collect()
    assert gone() is None


def test_hits_are_counted_and_protect_from_eviction(path: str) -> None:
    with Cache(path, size="1 MiB", local=BUDGET) as kept:
        kept.set("hot", "value")
        for _ in range(10):
            kept.get("hot")
        assert kept.stats().hits == 10
        for number in range(20_000):
            kept.set(number, b"x" * 100)
            kept.get("hot")
        assert kept.stats().evictions > 5000
        assert kept.get("hot") == "value"
        assert kept.stats().misses == 0


def test_a_closed_handle_returns_nothing(path: str) -> None:
    cache = Cache(path, size="4 MiB", local=BUDGET)
    space = cache.namespace("space")
    for place in (cache, space):
        place.set("key", "value")
        assert place.get("key") == place.get("key") == "value"
    cache.close()
    for place in (cache, space):
        with pytest.raises(CacheClosed):
            place.get("key")


def test_a_read_only_handle_keeps_objects(path: str) -> None:
    with Cache(path, size="4 MiB") as writer:
        writer.set("key", "value", 100)
        with Cache(path, read_only=True, local=BUDGET) as reader:
            assert reader.get("key") is reader.get("key")
            writer.set("key", "other")
            assert reader.get("key") == "other"


def test_a_child_has_its_own(pair: tuple[Cache, Cache]) -> None:
    kept, other = pair
    other.set("key", "value")
    first = kept.get("key")
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0 if kept.get("key") == "changed" == kept.get("key") else 1)
    os.close(reader)
    assert kept.get("key") is first
    other.set("key", "changed")
    os.close(writer)
    assert os.wait()[1] == 0
    assert kept.get("key") == "changed"


def test_threads_share_them(pair: tuple[Cache, Cache]) -> None:
    kept, other = pair
    other.set_many({number: {"n": [number]} for number in range(300)})
    failures = []

    def read() -> None:
        for turn in range(20):
            for number in range(300):
                found = kept.get(number)
                if found["n"] not in ([number], [-number]):
                    failures.append(found)
                found["n"].append("changed")
            if turn == 10:
                other.set_many({number: {"n": [-number]} for number in range(0, 300, 7)})

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_weak_reference_may_use_the_cache_when_its_object_is_dropped(
    pair: tuple[Cache, Cache],
) -> None:
    kept, other = pair
    other.set("key", frozenset({1}))
    other.set("other", "value")
    found = []
    watched = weakref.ref(kept["key"], lambda _: found.append(kept.get("other")))
    other.set("key", "changed")
    assert kept.get("key") == "changed"
    assert watched() is None
    assert found == ["value"]
    assert kept.get("key") is kept.get("key")


def test_a_handle_that_is_pickled_keeps_objects(pair: tuple[Cache, Cache]) -> None:
    kept, other = pair
    other.set("key", "value")
    for again in (pickle.loads(pickle.dumps(kept)), copy.copy(kept)):
        assert again.get("key") is again.get("key")
        assert not other.stats().local_entries
        again.close()


def test_the_argument_is_a_size(path: str) -> None:
    for wrong, message in (
        (0, "local must be between 1 and"),
        ("many", "local 'many' is not a size"),
        ([], "local must be a number or a str"),
    ):
        with pytest.raises(InvalidSize, match=message):
            Cache(path, local=wrong)  # type: ignore[arg-type]
    assert not os.path.exists(path)


def test_a_place_has_it_in_its_url(path: str) -> None:
    with connect(f"shared://{path}?size=4MiB&local=100kB") as cache:
        cache.set("key", "value")
        assert cache.get("key") is cache.get("key")
        assert cache.stats().local_entries == 1
    for url in ("memory:pages?local=1MB", "null://?local=1MB"):
        with pytest.raises(InvalidArgument, match="local"):
            connect(url)


def test_a_cache_in_memory_takes_the_argument_and_needs_none() -> None:
    with memory.Cache(local="1 MB") as cache:
        cache.set("key", "value")
        assert cache.get("key") is cache.get("key")
        assert not cache.stats().local_entries
