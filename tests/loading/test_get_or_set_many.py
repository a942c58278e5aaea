"""`get_or_set_many`: one call makes what is missing, and each key has one maker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loading.conftest import Crew, Maker, until
from tuckbox import Result
from tuckbox.errors import (
    InvalidResult,
    KeyTypeError,
    LoadRecursion,
    LoadTimeout,
    ValueTypeError,
)

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")


class Bulk(Maker):
    """A maker of several keys that notes what it was asked for."""

    def __init__(self, value: Any = "made", *, held: bool = False) -> None:
        super().__init__(value, held=held)
        self.asked: list[Any] = []

    def __call__(self, keys: list[Any]) -> dict[Any, Any]:  # type: ignore[override]
        self.asked.append(keys)
        return dict.fromkeys(keys, super().__call__())


def test_what_is_missing_is_made_by_one_call(timed: Cache) -> None:
    timed.set("b", "there")
    make = Bulk()
    found = timed.get_or_set_many(["a", "b", "c"], make, 60)
    assert list(found.items()) == [("a", "made"), ("b", "there"), ("c", "made")]
    assert make.asked == [["a", "c"]]
    assert timed.get_or_set_many(["c", "a"], make) == {"c": "made", "a": "made"}
    assert make.calls == 1


def test_a_key_that_is_given_twice_is_made_once(timed: Cache) -> None:
    make = Bulk()
    assert timed.get_or_set_many(iter(["a", "a", 1, True]), make) == {"a": "made", 1: "made"}
    assert make.asked == [["a", 1]]


def test_a_key_that_is_given_twice_and_has_no_value_is_asked_for_once(timed: Cache) -> None:
    asked: list[list[str]] = []
    assert timed.get_or_set_many(["a", "a"], lambda keys: asked.append(keys) or {}) == {}  # type: ignore[func-returns-value]
    assert asked == [["a"]]


def test_without_keys_nothing_is_made(timed: Cache) -> None:
    assert timed.get_or_set_many([], Maker()) == {}


def test_a_key_that_the_maker_leaves_out_has_no_value(timed: Cache) -> None:
    assert timed.get_or_set_many(["a", "b"], lambda keys: {"a": None}) == {"a": None}
    assert timed.get_or_set_many(["a", "b"], Bulk("b")) == {"a": None, "b": "b"}


def test_callers_of_overlapping_keys_share_the_work(timed: Cache, crew: Crew) -> None:
    first = Bulk("first", held=True)
    second = Bulk("second")
    crew.start(lambda: timed.get_or_set_many(["a", "b"], first))
    assert first.began.wait(30)
    crew.start(lambda: timed.get_or_set_many(["b", "c"], second))
    assert second.began.wait(30)
    first.opened.set()
    crew.join()
    assert crew.errors == []
    assert second.asked == [["c"]]
    assert {"b": "first", "c": "second"} in crew.results


def test_two_callers_in_opposite_order_do_not_wait_for_each_other(timed: Cache, crew: Crew) -> None:
    keys = list(range(40))
    for turn in range(10):
        for order in (keys, keys[::-1], keys[::2] + keys[1::2]):
            wanted = [(turn, key) for key in order]
            crew.start(lambda wanted=wanted: timed.get_or_set_many(wanted, Bulk()))
    assert crew.join().errors == []
    assert [len(found) for found in crew.results] == [40] * 30


def test_a_result_sets_ttl_and_tags_of_its_key(timed: Cache, clock: _engine.ManualClock) -> None:
    found = timed.get_or_set_many(
        ["a", "b"], lambda keys: {"a": Result(1, ttl=5, tags=["x"]), "b": 2}, 60, tags=["y"]
    )
    assert found == {"a": 1, "b": 2}
    assert [timed.get_entry(key).tags for key in "ab"] == [("x",), ("y",)]
    clock.advance(6)
    assert timed.get_many(["a", "b"]) == {"b": 2}


def test_stale_values_are_served_when_the_maker_raises(
    timed: Cache, clock: _engine.ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    timed.set_many({"a": 1, "b": 2}, 60, stale=60)
    timed.set("c", 3)
    clock.advance(61)
    assert timed.get_or_set_many(list("abc"), Bulk(OSError("down"))) == {"a": 1, "b": 2, "c": 3}
    assert "the maker of 2 keys raised an error: served their stale values" in caplog.text
    with pytest.raises(OSError, match="down"):
        timed.get_or_set_many(list("abcd"), Bulk(OSError("down")))
    with pytest.raises(OSError, match="down"):
        timed.get_or_set_many(list("ab"), Bulk(OSError("down")), force=True)


def test_stale_values_are_served_while_another_makes(
    timed: Cache, clock: _engine.ManualClock, crew: Crew
) -> None:
    timed.set_many({"a": 1, "b": 2}, 60, stale=60)
    clock.advance(61)
    make = Maker("new", held=True)
    crew.start(lambda: timed.get_or_set("a", make))
    assert make.began.wait(30)
    assert timed.get_or_set_many(["a", "b"], Bulk(5)) == {"a": 1, "b": 5}
    make.opened.set()


def test_past_the_timeout_the_bulk_maker_continues(timed: Cache) -> None:
    make = Bulk("late", held=True)
    with pytest.raises(LoadTimeout, match="key 'a' was not made within"):
        timed.get_or_set_many(["a", "b"], make, timeout=0.02)
    make.opened.set()
    until(lambda: timed.get_many(["a", "b"]) == {"a": "late", "b": "late"})


def test_past_the_timeout_stale_values_are_served(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set_many({"a": 1, "b": 2}, 60, stale=60)
    clock.advance(61)
    make = Bulk("late", held=True)
    assert timed.get_or_set_many(["a", "b"], make, timeout=0.02) == {"a": 1, "b": 2}
    make.opened.set()
    until(lambda: timed.get("b") == "late")


def test_a_waiter_of_several_keys_waits_no_longer_than_its_timeout(
    timed: Cache, crew: Crew
) -> None:
    make = Maker(held=True)
    crew.start(lambda: timed.get_or_set("b", make))
    assert make.began.wait(30)
    with pytest.raises(LoadTimeout):
        timed.get_or_set_many(["a", "b"], Bulk(), timeout=0.02)
    assert timed.get("a") == "made"
    make.opened.set()


def test_force_makes_all_of_them(timed: Cache) -> None:
    timed.set("a", 1)
    assert timed.get_or_set_many(["a", "b"], Bulk(2), force=True) == {"a": 2, "b": 2}


def test_only_cached_values_of_several_keys(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("a", 1, 60, stale=60)
    clock.advance(61)
    make = Bulk()
    assert timed.get_or_set_many(["a", "b"], make, cached_only=True) == {"a": 1}
    assert make.calls == 0


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        ([1, 2], InvalidResult, "make_many must return a dict of keys to values, not list"),
        ({"a": 1, "other": 2}, InvalidResult, "returned a value for 'other', which is none of"),
        ({"a": object()}, ValueTypeError, "object"),
    ],
)
def test_a_wrong_result_is_an_error_and_frees_the_keys(
    timed: Cache, made: Any, error: type[Exception], message: str, timeout: float | None
) -> None:
    with pytest.raises(error, match=message):
        timed.get_or_set_many(["a", "b"], lambda keys: made, timeout=timeout)
    assert timed.get_or_set_many(["a", "b"], Bulk(), force=True) == {"a": "made", "b": "made"}


def test_a_bulk_maker_that_asks_for_its_own_keys_gets_an_error(timed: Cache) -> None:
    def make(keys: list[str]) -> dict[str, Any]:
        return {"b": timed.get_or_set("b", Maker())}

    with pytest.raises(LoadRecursion):
        timed.get_or_set_many(["a", "b"], make)
    with pytest.raises(LoadRecursion):
        timed.get_or_set("b", lambda: timed.get_or_set_many(["a", "b"], Bulk()))
    assert timed.get_or_set_many(["a", "b"], Bulk()) == {"a": "made", "b": "made"}


@pytest.mark.parametrize("keys", ["ab", b"ab", [None]])
def test_wrong_keys_are_an_error_before_anything_is_made(timed: Cache, keys: Any) -> None:
    make = Bulk()
    with pytest.raises(KeyTypeError):
        timed.get_or_set_many(keys, make)
    assert make.calls == 0


def test_an_interrupted_start_frees_the_keys(timed: Cache) -> None:
    with pytest.raises(KeyTypeError):
        timed.get_or_set_many(["a", None], Bulk())
    assert timed.get_or_set("a", Maker("free"), timeout=30) == "free"
