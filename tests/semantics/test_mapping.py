"""The mapping protocol."""

from __future__ import annotations

import sys
import threading
from collections.abc import Hashable, ItemsView, KeysView, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING

import pytest

from tuckbox import _engine
from tuckbox.errors import CacheClosed, CacheReadOnly, EntryCorrupt, KeyTypeError, ValueTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuckbox import Cache

RUNS_ON = ("shared", "memory", "namespace", "remote")


def test_brackets(cache: Cache) -> None:
    cache["k"] = 1
    assert cache["k"] == 1
    del cache["k"]
    with pytest.raises(KeyError) as caught:
        cache["k"]
    assert caught.value.args == ("k",)
    with pytest.raises(KeyError):
        del cache["k"]


def test_contains_and_len(cache: Cache) -> None:
    assert "k" not in cache
    assert len(cache) == 0
    cache["k"] = None
    assert "k" in cache
    assert len(cache) == 1


def test_iteration_gives_every_key_once_as_it_was(cache: Cache) -> None:
    keys = {"text", "", "ü", b"bytes", b"", 0, -1, 2**70, (), ("a", (1, b"c")), "\ud800"}
    for number, key in enumerate(sorted(keys, key=repr)):
        cache[key] = number
    found = list(cache)
    assert len(found) == len(keys)
    assert set(found) == keys
    assert {type(key) for key in found} == {str, bytes, int, tuple}
    assert all(cache[key] is not None for key in found)


def test_keys_values_and_items_agree(cache: Cache) -> None:
    expected = {f"key {number}": [number] for number in range(5000)}
    cache.set_many(expected)
    assert sorted(cache.keys()) == sorted(expected)
    assert sorted(cache.values()) == sorted(expected.values())
    assert dict(cache.items()) == expected
    assert dict(cache) == expected


def test_iteration_passes_over_expired_entries(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("gone", 1, ttl=1)
    timed.set("here", 2, ttl=10)
    clock.advance(5)
    assert list(timed.items()) == [("here", 2)]


def test_the_cache_may_change_while_it_is_walked(cache: Cache) -> None:
    cache.set_many({number: number for number in range(1000)})
    seen = []
    for key in cache:
        seen.append(key)
        del cache[key]
        cache[f"new {key}"] = key
    assert set(range(1000)) <= set(seen)
    assert len(seen) == len(set(seen))


def test_two_walks_do_not_disturb_each_other(cache: Cache) -> None:
    cache.set_many({number: number for number in range(20)})
    assert len([1 for _ in cache for _ in cache]) == 400


def test_a_walk_keeps_the_cache_open_in_memory(cache: Cache) -> None:
    cache["k"] = 1
    walk = iter(cache)
    assert iter(walk) is walk
    assert next(walk) == "k"
    with pytest.raises(StopIteration):
        next(walk)
    with pytest.raises(StopIteration):
        next(walk)


@pytest.mark.whole_cache
def test_clear_removes_everything_and_counts(cache: Cache) -> None:
    cache.set_many({number: "x" * number for number in range(300)})
    assert cache.clear() == 300
    assert len(cache) == 0
    assert list(cache) == []
    assert cache.clear() == 0
    cache["k"] = 1
    assert cache["k"] == 1


def test_a_cache_is_a_mutable_mapping(cache: Cache) -> None:
    assert isinstance(cache, MutableMapping)
    assert isinstance(cache, Mapping)
    assert issubclass(type(cache), MutableMapping)
    for name in vars(MutableMapping):
        if not name.startswith("_"):
            assert callable(getattr(cache, name)), name


def test_handles_are_hashable_and_compare_by_identity(
    opened: Callable[..., Cache], cache: Cache, path: str
) -> None:
    same_file = opened(path)
    cache["k"] = same_file["other"] = 1
    assert isinstance(cache, Hashable)
    same = cache
    assert cache == same
    assert cache != same_file
    assert cache != dict(cache)
    assert len({cache, same_file, cache}) == 2


def test_a_cache_has_no_order_to_reverse(cache: Cache) -> None:
    cache.set_many({number: number for number in range(7)})
    for thing in (cache, cache.keys(), cache.values(), cache.items()):
        with pytest.raises(TypeError, match="not reversible"):
            reversed(thing)


def test_keys_values_and_items_are_views(cache: Cache) -> None:
    keys, values, items = cache.keys(), cache.values(), cache.items()
    assert isinstance(keys, KeysView)
    assert isinstance(values, ValuesView)
    assert isinstance(items, ItemsView)
    assert (len(keys), len(values), len(items)) == (0, 0, 0)
    cache.update({"a": 1, "b": [2], "c": None})
    assert (len(keys), len(values), len(items)) == (3, 3, 3)
    assert sorted(keys) == sorted(keys) == ["a", "b", "c"]
    assert "a" in keys
    assert "d" not in keys
    assert None not in keys
    assert [2] in values
    assert 3 not in values
    assert ("b", [2]) in items
    assert ("b", [3]) not in items
    assert ("d", None) not in items
    assert keys & {"a", "d"} == {"a"}
    assert keys - {"a"} == {"b", "c"}
    assert keys == {"a", "b", "c"}
    assert keys.isdisjoint(["d"])
    assert repr(keys) == f"Keys({cache!r})"


def test_a_view_reads_an_entry_once_though_others_delete_it(cache: Cache) -> None:
    cache.set_many({number: number for number in range(1000)})
    seen = []
    for key, value in cache.items():
        assert key == value
        seen.append(key)
        cache.clear()
    assert seen


def test_a_closed_cache_has_no_views(cache: Cache) -> None:
    keys = cache.keys()
    cache.close()
    for operation in (lambda: list(keys), cache.keys, cache.values, cache.items, cache.popitem):
        with pytest.raises(CacheClosed):
            operation()


def test_match_takes_a_cache_for_a_mapping(cache: Cache) -> None:
    flags = type(cache).__flags__
    assert bool(flags & 1 << 6) is bool(dict.__flags__ & 1 << 6)


class TestUpdate:
    def test_takes_a_mapping_pairs_and_names(
        self, opened: Callable[..., Cache], cache: Cache, tmp_path: object
    ) -> None:
        cache.update({"a": 1, ("b", 2): 2})
        cache.update([("c", 3), ("d", 4)], a=10)
        cache.update(key=5, other=6)
        cache.update()
        expected = {"a": 10, ("b", 2): 2, "c": 3, "d": 4, "key": 5, "other": 6}
        assert dict(cache) == expected
        copy = opened(f"{tmp_path}/copy.tuck", size="4 MiB")
        copy.update(cache)
        assert dict(copy) == expected

    def test_stores_nothing_if_one_value_is_refused(self, cache: Cache) -> None:
        with pytest.raises(ValueTypeError, match=r"^key 'b': value is of type object"):
            cache.update({"a": 1}, b=object())
        for not_pairs in (["a"], 5):
            with pytest.raises((TypeError, ValueError)):
                cache.update(not_pairs, b=1)
        assert len(cache) == 0


class TestSetdefault:
    def test_returns_the_value_or_stores_the_default(self, cache: Cache) -> None:
        assert cache.setdefault("k", [1]) == [1]
        assert cache.setdefault("k", [2]) == [1]
        assert cache.setdefault("none") is None
        assert cache.setdefault("none", 1) is None
        assert dict(cache) == {"k": [1], "none": None}

    def test_gives_the_default_its_ttl(self, timed: Cache, clock: _engine.ManualClock) -> None:
        assert timed.setdefault("k", 1, ttl="10s") == 1
        clock.advance(6)
        assert timed.setdefault("k", 2, ttl="10s") == 1
        clock.advance(6)
        assert timed.setdefault("k", 3) == 3

    def test_refuses_what_cannot_be_stored(self, cache: Cache) -> None:
        with pytest.raises(ValueTypeError):
            cache.setdefault("k", object())
        with pytest.raises(KeyTypeError):
            cache.setdefault(None, 1)
        assert len(cache) == 0

    def test_of_many_threads_and_handles_one_wins(
        self, opened: Callable[..., Cache], cache: Cache, path: str
    ) -> None:
        handles = [cache, opened(path), opened(path), opened(path)]
        got: list[list[int]] = [[] for _ in handles]
        barrier = threading.Barrier(len(handles))

        def run(number: int) -> None:
            barrier.wait()
            got[number] = [handles[number].setdefault(key, number) for key in range(2000)]

        threads = [threading.Thread(target=run, args=(n,)) for n in range(len(handles))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got[0] == got[1] == got[2] == got[3] == [cache[key] for key in range(2000)]


class TestPopitem:
    def test_takes_entries_until_there_are_none(self, cache: Cache) -> None:
        entries = {number: [str(number)] for number in range(3000)}
        cache.set_many(entries)
        assert dict(cache.popitem() for _ in entries) == entries
        assert len(cache) == 0
        with pytest.raises(KeyError, match="the cache has no entries"):
            cache.popitem()

    def test_finds_what_was_stored_behind_it(self, cache: Cache) -> None:
        for number in range(500):
            cache.set_many({("a", number): 1, ("b", number): 1})
            cache.popitem()
        assert len({cache.popitem() for _ in range(500)}) == 500
        assert len(cache) == 0

    def test_passes_over_expired_entries(self, timed: Cache, clock: _engine.ManualClock) -> None:
        timed.set("gone", 1, ttl=1)
        timed.set("here", 2)
        clock.advance(5)
        assert timed.popitem() == ("here", 2)
        with pytest.raises(KeyError):
            timed.popitem()

    def test_gives_each_entry_to_one_caller(
        self, opened: Callable[..., Cache], cache: Cache, path: str
    ) -> None:
        cache.set_many({number: number for number in range(3000)})
        # Two handles, each in two threads.
        handles = [cache, cache, *[opened(path)] * 2]
        got: list[list[object]] = [[] for _ in handles]
        together = threading.Barrier(len(handles))

        def run(number: int) -> None:
            together.wait()
            while True:
                try:
                    got[number].append(handles[number].popitem())
                except KeyError:
                    return

        threads = [threading.Thread(target=run, args=(n,)) for n in range(len(handles))]
        interval_s = sys.getswitchinterval()
        # The threads take turns within the few milliseconds that this takes.
        sys.setswitchinterval(1e-5)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval_s)
        assert sorted(pair for pairs in got for pair in pairs) == [
            (number, number) for number in range(3000)
        ]

    @pytest.mark.shared_file
    @pytest.mark.skipif(not hasattr(_engine, "_plant"), reason="wheels have no functions for tests")
    def test_deletes_an_entry_that_cannot_be_decoded(self, cache: Cache) -> None:
        _engine._plant(cache, b"\xff?", 4, b"\x02")
        with pytest.raises(EntryCorrupt):
            cache.popitem()
        assert len(cache) == 0

    def test_is_a_write(self, opened: Callable[..., Cache], cache: Cache, path: str) -> None:
        cache["k"] = 1
        reader = opened(path, read_only=True)
        with pytest.raises(CacheReadOnly):
            reader.popitem()
        reader.close()
        assert cache["k"] == 1
