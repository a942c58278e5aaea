"""Changing a part of an entry: keep_ttl, get_and_touch, ttl, and delete with a version."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox.errors import InvalidArgument, InvalidTag, InvalidTTL, InvalidVersion

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")


def version(cache: Any, key: str = "k") -> int:
    return cache.get_entry(key).version  # type: ignore[no-any-return]


STORING: dict[str, Any] = {
    "set": lambda cache, value, **terms: cache.set("k", value, **terms),
    "replace": lambda cache, value, **terms: cache.replace("k", value, **terms),
    "cas": lambda cache, value, **terms: cache.cas("k", value, version(cache), **terms),
}


@pytest.mark.parametrize("store_it", STORING)
class TestKeepTtl:
    def test_keeps_the_end_of_the_present_entry(
        self, timed: Cache, clock: _engine.ManualClock, store_it: str
    ) -> None:
        timed.set("k", "old", ttl=10)
        expiry = timed.get_entry("k").expiry
        clock.advance(4)
        STORING[store_it](timed, "new", ttl=100, keep_ttl=True)
        assert timed["k"] == "new"
        assert timed.get_entry("k").expiry == expiry
        assert timed.ttl("k") == pytest.approx(6)
        clock.advance(6)
        assert "k" not in timed

    @pytest.mark.parametrize("length", [1, 100, 5000, 300_000])
    def test_for_values_of_any_length(
        self, timed: Cache, clock: _engine.ManualClock, store_it: str, length: int
    ) -> None:
        timed.set("k", "old", ttl=10)
        STORING[store_it](timed, b"x" * length, keep_ttl=True)
        assert timed["k"] == b"x" * length
        assert timed.ttl("k") == pytest.approx(10)

    def test_keeps_never_expiring(self, timed: Cache, store_it: str) -> None:
        timed.set("k", "old")
        STORING[store_it](timed, "new", ttl=10, keep_ttl=True)
        assert timed.ttl("k") == math.inf

    def test_changes_tags_and_stale(
        self, timed: Cache, clock: _engine.ManualClock, store_it: str
    ) -> None:
        timed.set("k", "old", ttl=10, tags=["old"], stale=1000)
        STORING[store_it](timed, "new", keep_ttl=True, tags=["new"], stale=5)
        timed.evict(tag="old")
        assert timed.get_entry("k").tags == ("new",)
        assert timed.ttl("k") == pytest.approx(10)
        clock.advance(14)
        assert timed.get_entry("k", stale=True).stale
        clock.advance(1)
        assert timed.get_entry("k", stale=True) is None

    @pytest.mark.parametrize("keep_ttl", [1, "yes", None])
    def test_must_be_a_bool(self, cache: Cache, store_it: str, keep_ttl: Any) -> None:
        cache["k"] = "old"
        with pytest.raises(InvalidArgument, match="keep_ttl must be True or False, not"):
            STORING[store_it](cache, "new", keep_ttl=keep_ttl)
        assert cache["k"] == "old"


@pytest.mark.parametrize("how", ["missing", "expired", "stale", "evicted"])
def test_keep_ttl_gives_a_new_entry_the_ttl(
    timed: Cache, clock: _engine.ManualClock, how: str
) -> None:
    if how != "missing":
        timed.set("k", "old", ttl=10, tags=["t"], stale=1000 if how == "stale" else None)
    if how == "evicted":
        timed.evict(tag="t")
    else:
        clock.advance(10)
    timed.set("k", "new", ttl=50, keep_ttl=True)
    assert timed.ttl("k") == pytest.approx(50)
    assert timed.get_entry("k").tags == ()


class TestGetAndTouch:
    def test_returns_the_value_and_sets_the_ttl(
        self, timed: Cache, clock: _engine.ManualClock
    ) -> None:
        timed.set("k", {"a": [1]}, ttl=10)
        clock.advance(9)
        before = version(timed)
        assert timed.get_and_touch("k", ttl="20s") == {"a": [1]}
        assert version(timed) == before
        clock.advance(19)
        assert timed.get_and_touch("k") == {"a": [1]}
        assert timed.ttl("k") == math.inf

    @pytest.mark.parametrize("length", [1, 5000, 300_000])
    def test_of_values_of_any_length(self, cache: Cache, length: int) -> None:
        cache["k"] = b"x" * length
        assert cache.get_and_touch("k", 60) == b"x" * length
        assert 59 < (cache.ttl("k") or 0) <= 60

    @pytest.mark.parametrize("how", ["missing", "expired", "stale", "evicted", "soft"])
    def test_of_what_is_not_fresh_is_the_default(
        self, timed: Cache, clock: _engine.ManualClock, how: str
    ) -> None:
        if how != "missing":
            timed.set("k", "old", ttl=10, tags=["t"], stale=1000 if how == "stale" else None)
        if how in {"evicted", "soft"}:
            timed.evict(tag="t", soft=how == "soft")
        else:
            clock.advance(10)
        assert timed.get_and_touch("k", 60) is None
        assert timed.get_and_touch("k", 60, "none") == "none"
        assert timed.get_and_touch("k", ttl=60, default=7) == 7
        assert "k" not in timed

    def test_keeps_tags_and_stale(self, timed: Cache, clock: _engine.ManualClock) -> None:
        timed.set("k", 1, ttl=10, tags=["t"], stale=5)
        assert timed.get_and_touch("k", 20) == 1
        clock.advance(24)
        entry = timed.get_entry("k", stale=True)
        assert (entry.stale, entry.tags) == (True, ("t",))
        timed.evict(tag="t")
        assert timed.get_entry("k", stale=True) is None

    def test_of_a_ttl_that_is_over_expires_the_entry(self, cache: Cache) -> None:
        cache["k"] = 1
        assert cache.get_and_touch("k", 0) == 1
        assert "k" not in cache

    def test_refuses_a_bad_ttl_and_changes_nothing(self, cache: Cache) -> None:
        cache.set("k", 1, ttl=1000)
        with pytest.raises(InvalidTTL):
            cache.get_and_touch("k", "soon")
        assert (cache.ttl("k") or 0) > 900


class TestTtl:
    def test_tells_how_long_an_entry_is_fresh(
        self, timed: Cache, clock: _engine.ManualClock
    ) -> None:
        timed.set("k", 1, ttl=10, stale=100)
        timed["never"] = 1
        clock.advance(2.5)
        assert timed.ttl("k") == pytest.approx(7.5)
        assert timed.ttl("never") == math.inf
        assert timed.ttl("missing") is None
        clock.advance(7.5)
        assert timed.ttl("k") is None

    def test_of_an_evicted_entry_is_none(self, cache: Cache) -> None:
        cache.set("k", 1, ttl=10, tags=["t"])
        cache.evict(tag="t", soft=True)
        assert cache.ttl("k") is None

    def test_of_large_values(self, cache: Cache) -> None:
        cache.set("k", b"x" * 300_000, ttl=60)
        assert 59 < (cache.ttl("k") or 0) <= 60

    def test_looks_up_as_get_does(self, cache: Cache) -> None:
        cache.set(1, "x", ttl=60)
        assert cache.ttl(1.0) is not None  # type: ignore[arg-type]
        assert cache.ttl(None) is None  # type: ignore[arg-type]


class TestCompareAndDelete:
    def test_deletes_only_the_given_version(self, cache: Cache) -> None:
        cache.set("k", 1, tags=["t"])
        old = version(cache)
        cache.set("k", 2, tags=["t"])
        assert cache.delete("k", old) is False
        assert cache.delete("k", version=version(cache)) is True
        assert cache.delete("k", old) is False

    def test_of_what_is_not_fresh_is_false(self, cache: Cache) -> None:
        cache.set("k", 1, tags=["t"])
        old = version(cache)
        cache.evict(tag="t", soft=True)
        assert cache.delete("k", old) is False
        assert cache.get_entry("k", stale=True).value == 1

    @pytest.mark.parametrize("wrong", [-1, 2**64, "1", 1.5, True])
    def test_refuses_what_is_no_version(self, cache: Cache, wrong: Any) -> None:
        cache["k"] = 1
        with pytest.raises(InvalidVersion):
            cache.delete("k", wrong)
        assert cache["k"] == 1

    def test_of_several_threads_one_deletes(self, cache: Cache) -> None:
        """As with a lock: whoever has the version takes the entry, and nobody takes a later one."""
        deleted: list[bool] = []
        for turn in range(100):
            cache["k"] = turn
            given = version(cache)
            barrier = threading.Barrier(3)

            def delete(given: int = given, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                deleted.append(cache.delete("k", given))

            threads = [threading.Thread(target=delete) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert deleted.count(True) == 100


WRONG_TAGS: list[Any] = [
    None, "t", b"t", 7, [7], [None], [b"t"], [""], ["x" * 256], ["\ud800"], {"t": 1, 2: 3},
    [str(n) for n in range(33)],
]  # fmt: skip


@pytest.mark.parametrize("tags", WRONG_TAGS)
def test_wrong_tags_are_refused_wherever_they_are_given(cache: Cache, tags: Any) -> None:
    cache["k"] = "old"
    given = version(cache)
    memoized = cache.memoize(name="function", tags=lambda: tags)(lambda: 1)
    for operation in (
        lambda: cache.set("k", 1, tags=tags),
        lambda: cache.add("other", 1, tags=tags),
        lambda: cache.replace("k", 1, tags=tags),
        lambda: cache.cas("k", 1, given, tags=tags),
        lambda: cache.set_many({"k": 1}, tags=tags),
        lambda: cache.get_or_set("other", int, tags=tags),
        lambda: cache.get_or_set_many(["other"], dict.fromkeys, tags=tags),
        lambda: cache.memoize(name="len", tags=tags)(len)(""),
        memoized,
    ):
        with pytest.raises(InvalidTag, match="tag"):
            operation()
    assert dict(cache) == {"k": "old"}
    assert version(cache) == given


@pytest.mark.parametrize("tag", [None, 7, b"t", ["t"], "", "x" * 256, "\ud800"])
def test_a_wrong_tag_is_refused(cache: Cache, tag: Any) -> None:
    for operation in (lambda: cache.evict(tag=tag), lambda: cache._iter_tagged(tag)):
        with pytest.raises(InvalidTag, match="tag"):
            operation()
    with pytest.raises(TypeError):
        cache.evict("t")  # type: ignore[call-arg]


def test_an_error_of_the_tags_is_raised_as_it_is(cache: Cache) -> None:
    def tags() -> Any:
        yield "t"
        raise TypeError("of my own")

    with pytest.raises(TypeError, match="of my own"):
        cache.set("k", 1, tags=tags())
    assert "k" not in cache
