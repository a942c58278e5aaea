"""What every store shows of an entry: fresh, stale, expired or invalid. See `tuckbox.contract`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox.contract import Store
from tuckbox.errors import InvalidTag, InvalidTTL, InvalidVersion

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")

MISSING_TO = {
    "get": lambda cache: cache.get("k") is None,
    "get_entry": lambda cache: cache.get_entry("k") is None,
    "get_many": lambda cache: cache.get_many(["k"]) == {},
    "in": lambda cache: "k" not in cache,
    "iteration": lambda cache: list(cache) == [] and list(cache.items()) == [],
    "replace": lambda cache: cache.replace("k", 2) is False,
    "cas": lambda cache: cache.cas("k", 2, 1) is False,
    "touch": lambda cache: cache.touch("k", 100) is False,
    "delete": lambda cache: cache.delete("k") is False,
    "pop": lambda cache: cache.pop("k", "none") == "none",
    "add": lambda cache: cache.add("k", 2) is True and cache["k"] == 2,
    "incr": lambda cache: cache.incr("k", default=10) == 11,
    "setdefault": lambda cache: cache.setdefault("k", 5) == 5,
}


def stale_by_ttl(cache: Any, clock: Any) -> None:
    cache.set("k", 1, ttl=10, stale=60)
    clock.advance(10)


def stale_by_tag(cache: Any, clock: Any) -> None:
    cache.set("k", 1, ttl=10, tags=["t"])
    cache.evict(tag="t", soft=True)


def invalid(cache: Any, clock: Any) -> None:
    cache.set("k", 1, ttl=10, tags=["a", "t"], stale=60)
    cache.evict(tag="t")


def expired(cache: Any, clock: Any) -> None:
    cache.set("k", 1, ttl=10, stale=60)
    clock.advance(70)


def test_it_has_the_operations(cache: Cache) -> None:
    assert isinstance(cache, Store)


@pytest.mark.parametrize("operation", MISSING_TO)
@pytest.mark.parametrize("make", [stale_by_ttl, stale_by_tag, invalid, expired])
def test_an_entry_that_is_not_fresh_is_missing(
    timed: Cache, clock: _engine.ManualClock, make: Any, operation: str
) -> None:
    make(timed, clock)
    assert MISSING_TO[operation](timed)


@pytest.mark.parametrize(
    ("make", "is_shown"),
    [(stale_by_ttl, True), (stale_by_tag, True), (invalid, False), (expired, False)],
)
def test_a_stale_entry_is_shown_to_those_that_ask(
    timed: Cache, clock: _engine.ManualClock, make: Any, is_shown: bool
) -> None:
    make(timed, clock)
    entry = timed.get_entry("k", stale=True)
    assert (entry is not None) is is_shown
    if entry is not None:
        assert (entry.value, entry.stale) == (1, True)


def test_an_entry_tells_its_tags_and_the_end_of_its_ttl(
    timed: Cache, clock: _engine.ManualClock
) -> None:
    timed.set("k", 1, ttl=10, stale="1h", tags=["b", "a", "b"])
    entry = timed.get_entry("k", stale=True)
    assert entry is not None
    assert entry.tags == ("a", "b")
    assert entry.expiry == pytest.approx(clock.now() + 10)
    assert (entry.stale, entry.made_s) == (False, None)


@pytest.mark.parametrize("store_it", ["set", "add", "replace", "cas", "set_many"])
def test_every_way_to_store_takes_tags_and_stale(
    timed: Cache, clock: _engine.ManualClock, store_it: str
) -> None:
    names: dict[str, Any] = {"ttl": 10, "tags": {"t"}, "stale": 20}
    if store_it not in {"add", "set"}:
        timed.set("k", 0)
    version = (timed.get_entry("k") or [0, 0, 0])[2]
    arguments: Any = {"cas": ("k", 1, version), "set_many": ({"k": 1},)}.get(store_it, ("k", 1))
    getattr(timed, store_it)(*arguments, **names)
    assert timed.get_entry("k").tags == ("t",)
    clock.advance(29)
    assert timed.get_entry("k", stale=True).value == 1
    timed.evict(tag="t")
    assert timed.get_entry("k", stale=True) is None


def test_stale_without_a_ttl_changes_nothing(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("k", 1, stale=10)
    clock.advance(10**6)
    assert timed["k"] == 1


def test_stale_may_be_without_end(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("k", 1, ttl=1, stale=math.inf)
    clock.advance(10**9)
    assert timed.get_entry("k", stale=True).stale


def test_a_plain_set_ends_tags_and_stale(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("k", 1, ttl=1, stale=10, tags=["t"])
    timed.set("k", 2, ttl=1)
    timed.evict(tag="t")
    assert timed["k"] == 2
    clock.advance(2)
    assert timed.get_entry("k", stale=True) is None


def test_touch_and_incr_keep_tags_and_stale(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("k", 1, ttl=1, stale=10, tags=["t"])
    assert timed.touch("k", 5)
    assert timed.incr("k") == 2
    clock.advance(14)
    entry = timed.get_entry("k", stale=True)
    assert (entry.value, entry.stale, entry.tags) == (2, True, ("t",))


class TestEvict:
    def test_counts_for_what_was_stored_before(self, cache: Cache) -> None:
        cache.set("a", 1, tags=["x", "y"])
        cache.set("b", 2, tags=["y"])
        cache.set("c", 3)
        cache.evict(tag="x")
        assert dict(cache) == {"b": 2, "c": 3}
        cache.set("a", 4, tags=["x"])
        assert cache["a"] == 4
        cache.evict(tag="unknown")
        assert len(dict(cache)) == 3

    def test_expire_collects_what_is_invalid_and_not_what_is_stale(self, cache: Cache) -> None:
        cache.set("a", 1, tags=["x"])
        cache.set("b", 2, tags=["y"])
        cache.evict(tag="x")
        cache.evict(tag="y", soft=True)
        assert cache.expire() == 1
        assert cache.get_entry("b", stale=True).value == 2

    def test_a_soft_one_does_not_undo_a_hard_one(self, cache: Cache) -> None:
        cache.set("a", 1, tags=["x"])
        cache.evict(tag="x")
        cache.evict(tag="x", soft=True)
        assert cache.get_entry("a", stale=True) is None

    @pytest.mark.parametrize("tag", ["", "x" * 256, "ü" * 128, None, 1, b"x", ("x",)], ids=repr)
    def test_refuses_what_is_no_tag(self, cache: Cache, tag: Any) -> None:
        cache.set("k", "old", tags=["t"])
        for operation in (
            lambda: cache.evict(tag=tag),
            lambda: cache.set("k", 1, tags=[tag]),
            lambda: cache.set_many({"k": 1}, tags=["fine", tag]),
        ):
            with pytest.raises(InvalidTag, match="tag"):
                operation()
        assert dict(cache) == {"k": "old"}

    @pytest.mark.parametrize("tags", ["tag", b"tag", None, 5, [f"{n}" for n in range(33)]])
    def test_refuses_what_is_no_list_of_tags(self, cache: Cache, tags: Any) -> None:
        with pytest.raises(InvalidTag):
            cache.set("k", 1, tags=tags)
        assert "k" not in cache


def test_a_stale_time_is_checked(cache: Cache) -> None:
    with pytest.raises(InvalidTTL):
        cache.set("k", 1, stale="soon")
    assert "k" not in cache


def test_delete_with_a_version_deletes_only_that(cache: Cache) -> None:
    cache.set("k", 1)
    version = cache.get_entry("k").version
    cache.set("k", 2)
    assert cache.delete("k", version) is False
    assert cache["k"] == 2
    assert cache.delete("k", version=cache.get_entry("k").version) is True
    assert "k" not in cache
    with pytest.raises(InvalidVersion):
        cache.delete("k", "1")


def test_eras_differ_by_name_and_never_come_back(cache: Cache) -> None:
    first = cache._era("blog")
    assert cache._era("blog") == first > 0
    eras = {first}
    other = cache._era("shop")
    for _ in range(5):
        era = cache._advance_era("blog")
        assert era not in eras
        assert cache._era("blog") == era
        eras.add(era)
    assert cache._era("shop") == other
    cache.clear()
    assert cache._era("blog") in eras
