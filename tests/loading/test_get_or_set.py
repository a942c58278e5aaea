"""`get_or_set`: one maker at a time, stale values, limits, and makers that misbehave."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Callable

import pytest

from loading.conftest import Crew, Maker, until
from tuckbox import Result, loads
from tuckbox.errors import (
    CacheReadOnly,
    InvalidArgument,
    InvalidTag,
    InvalidTTL,
    KeyTypeError,
    LoadRecursion,
    LoadTimeout,
    TuckboxError,
    ValueTooLarge,
    ValueTypeError,
)
from tuckbox.results import Entry

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "remote")


class Broken(Exception):
    """What a maker raises."""


def test_a_value_is_made_once_and_then_read(timed: Cache) -> None:
    make = Maker([1, 2])
    assert timed.get_or_set("k", make, 60) == [1, 2]
    assert timed.get_or_set("k", make, 60) == [1, 2]
    assert make.calls == 1


def test_none_is_a_value_that_is_kept(timed: Cache) -> None:
    make = Maker(None)
    assert timed.get_or_set("nobody", make, ttl=5) is None
    assert timed.get_or_set("nobody", make, ttl=5) is None
    assert make.calls == 1


def test_a_value_is_made_again_after_its_ttl(timed: Cache, clock: _engine.ManualClock) -> None:
    make = Maker("first", "second")
    assert timed.get_or_set("k", make, ttl=60) == "first"
    clock.advance(61)
    assert timed.get_or_set("k", make, ttl=60) == "second"


@pytest.mark.parametrize("timeout", [None, 30, float("inf")])
def test_of_twenty_callers_one_makes_and_all_get_its_value(
    timed: Cache, crew: Crew, timeout: float | None
) -> None:
    make = Maker("made", "made twice", held=True)
    crew.start(lambda: timed.get_or_set("k", make, timeout=timeout), 20)
    assert make.began.wait(30)
    make.opened.set()
    assert crew.join().results == ["made"] * 20
    assert make.calls == 1


def test_two_keys_are_made_at_the_same_time(timed: Cache, crew: Crew) -> None:
    both = threading.Barrier(2, timeout=30)
    for key in "ab":
        crew.start(lambda key=key: timed.get_or_set(key, lambda: both.wait() is not None))
    assert crew.join().results == [True, True]


# --- stale values --------------------------------------------------------------------------------


def test_a_stale_value_is_served_while_one_caller_makes(
    timed: Cache, crew: Crew, clock: _engine.ManualClock
) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60, stale=60)
    clock.advance(61)
    make = Maker("new", held=True)
    crew.start(lambda: timed.get_or_set("k", make, ttl=60, stale=60))
    assert make.began.wait(30)
    assert [timed.get_or_set("k", make, ttl=60, stale=60) for _ in range(5)] == ["old"] * 5
    make.opened.set()
    assert crew.join().results == ["new"]
    assert timed.get("k") == "new"
    assert make.calls == 1


def test_a_stale_value_is_served_when_the_maker_raises_and_the_log_says_so(
    timed: Cache, clock: _engine.ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60, stale=60)
    clock.advance(61)
    assert timed.get_or_set("k", Maker(Broken("no database"))) == "old"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "'k' raised an error: served its stale value" in record.getMessage()
    assert "no database" in caplog.text
    assert timed.get("k") is None
    assert timed.get_or_set("k", Maker("new")) == "new"


def test_a_softly_evicted_value_is_served_when_the_maker_raises(timed: Cache) -> None:
    timed.get_or_set("k", lambda: "old", tags=["users"])
    timed.evict(tag="users", soft=True)
    assert timed.get("k") is None
    assert timed.get_or_set("k", Maker(Broken("no database"))) == "old"
    assert timed.get_or_set("k", Maker("new")) == "new"


def test_a_maker_may_read_the_stale_value(timed: Cache, clock: _engine.ManualClock) -> None:
    """To ask a server whether that is still good."""
    timed.get_or_set("k", lambda: "old", ttl=60, stale=60)
    clock.advance(61)
    assert timed.get_or_set("k", lambda: timed.get_entry("k", stale=True).value, ttl=60) == "old"
    assert timed.get("k") == "old"


def test_a_value_is_not_served_after_its_stale_time(
    timed: Cache, clock: _engine.ManualClock
) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60, stale=60)
    clock.advance(121)
    with pytest.raises(Broken):
        timed.get_or_set("k", Maker(Broken()))


def test_with_background_nobody_waits_for_a_stale_value(
    timed: Cache, clock: _engine.ManualClock
) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60, stale=60)
    clock.advance(61)
    make = Maker("new", held=True)
    assert timed.get_or_set("k", make, ttl=60, stale=60, background=True) == "old"
    assert make.began.wait(30)
    make.opened.set()
    until(lambda: timed.get("k") == "new")


def test_with_background_a_missing_value_is_made_at_once(timed: Cache) -> None:
    assert timed.get_or_set("k", Maker("new"), background=True) == "new"


# --- limits --------------------------------------------------------------------------------------


def test_a_maker_that_takes_too_long_continues_and_its_result_is_stored(timed: Cache) -> None:
    make = Maker("late", held=True)
    with pytest.raises(LoadTimeout, match=r"key 'k' was not made within timeout=0.02 seconds"):
        timed.get_or_set("k", make, ttl=60, timeout=0.02)
    assert timed.get("k") is None
    make.opened.set()
    until(lambda: timed.get("k") == "late")
    assert make.calls == 1


def test_a_caller_past_its_timeout_gets_the_stale_value(
    timed: Cache, clock: _engine.ManualClock
) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60, stale=60)
    clock.advance(61)
    make = Maker("late", held=True)
    assert timed.get_or_set("k", make, ttl=60, timeout=0.02) == "old"
    make.opened.set()
    until(lambda: timed.get("k") == "late")


def test_a_waiter_waits_no_longer_than_its_timeout(timed: Cache, crew: Crew) -> None:
    make = Maker(held=True)
    crew.start(lambda: timed.get_or_set("k", make))
    assert make.began.wait(30)
    for timeout in (0, 0.02):
        with pytest.raises(LoadTimeout):
            timed.get_or_set("k", Maker("other"), timeout=timeout)
    make.opened.set()
    assert crew.join().results == ["made"]


def test_load_timeout_is_a_timeout_error() -> None:
    assert issubclass(LoadTimeout, TimeoutError)
    assert issubclass(LoadTimeout, TuckboxError)


def test_an_error_of_a_maker_that_nobody_waits_for_is_in_the_log(
    timed: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    make = Maker(Broken("too late"), held=True)
    with pytest.raises(LoadTimeout):
        timed.get_or_set("k", make, timeout=0.02)
    make.opened.set()
    until(lambda: "too late" in caplog.text)
    assert "background maker of key 'k'" in caplog.text
    assert timed.get_or_set("k", Maker("next")) == "next"


def test_a_maker_in_a_thread_sees_the_callers_context(timed: Cache) -> None:
    request = contextvars.ContextVar("request", default="none")
    request.set("number 7")
    assert timed.get_or_set("k", request.get, timeout=30) == "number 7"


def test_a_maker_without_a_limit_runs_in_the_callers_thread(timed: Cache) -> None:
    assert timed.get_or_set("k", threading.get_ident) == threading.get_ident()


@pytest.mark.parametrize("timeout", [None, 30])
def test_what_a_maker_raises_reaches_the_caller_that_made(
    timed: Cache, timeout: float | None
) -> None:
    with pytest.raises(Broken, match="why"):
        timed.get_or_set("k", Maker(Broken("why")), timeout=timeout)
    assert timed.get_or_set("k", Maker("next"), timeout=timeout) == "next"


# --- early refresh -------------------------------------------------------------------------------


def entry(expiry: float | None, made_s: float | None) -> Entry:
    return Entry("value", expiry, 1, (), False, made_s)


def test_early_refresh_follows_its_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """P(due) with `t` seconds left is exp(-t / (made_s * early)): XFetch of Vattani et al."""
    monkeypatch.setattr(loads.time, "time", lambda: 1000.0)
    monkeypatch.setattr(loads.random, "random", random.Random(1).random)
    for left_s, made_s, early, wanted in [(1, 1, 1, 0.368), (2, 1, 1, 0.135), (2, 1, 2, 0.368)]:
        one = entry(1000.0 + left_s, made_s)
        due = sum(loads.is_due(one, early) for _ in range(20_000)) / 20_000
        assert due == pytest.approx(wanted, abs=0.02)


def test_early_refresh_is_off_where_it_cannot_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads.time, "time", lambda: 1000.0)
    assert not loads.is_due(entry(None, 5), 1e9)
    assert not loads.is_due(entry(1001, None), 1e9)
    assert not loads.is_due(entry(1001, 5), 0)
    assert loads.is_due(entry(999, 5), 0)


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every value be due for an early refresh."""
    monkeypatch.setattr("tuckbox.loading.is_due", lambda entry, early: True)


def test_an_early_refresh_has_one_maker_and_the_others_keep_the_value(
    timed: Cache, crew: Crew, due: None
) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60)
    make = Maker("new", held=True)
    crew.start(lambda: timed.get_or_set("k", make, ttl=60, early=1))
    assert make.began.wait(30)
    assert timed.get_or_set("k", make, ttl=60, early=1) == "old"
    make.opened.set()
    assert crew.join().results == ["new"]
    assert timed.get("k") == "new"
    assert make.calls == 1


def test_an_early_refresh_that_fails_keeps_the_value(
    timed: Cache, due: None, caplog: pytest.LogCaptureFixture
) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60)
    assert timed.get_or_set("k", Maker(Broken("early")), early=1) == "old"
    assert timed.get("k") == "old"
    assert "served its old value" in caplog.text


def test_a_value_that_is_not_due_is_only_read(
    timed: Cache, clock: _engine.ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads.time, "time", clock.now)
    timed.get_or_set("k", lambda: "old", ttl=60)
    assert timed.get_or_set("k", Maker("new"), early=1e-9) == "old"


# --- results -------------------------------------------------------------------------------------


def test_a_result_sets_ttl_and_tags(timed: Cache, clock: _engine.ManualClock) -> None:
    made = Result("v", ttl=5, stale=10, tags=["b", "a"])
    assert timed.get_or_set("k", lambda: made, ttl=60, tags=["c"]) == "v"
    found = timed.get_entry("k")
    assert found.value == "v"
    assert found.tags == ("a", "b")
    assert found.expiry == pytest.approx(clock.now() + 5, abs=1e-3)
    clock.advance(6)
    assert timed.get_entry("k", stale=True).stale
    clock.advance(10)
    assert timed.get_entry("k", stale=True) is None


def test_what_a_result_does_not_say_the_call_says(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.get_or_set("k", lambda: Result("v"), ttl=60, tags=["c"])
    found = timed.get_entry("k")
    assert found.tags == ("c",)
    assert found.expiry == pytest.approx(clock.now() + 60, abs=1e-3)
    timed.get_or_set("without end", lambda: Result("v", ttl=None), ttl=60)
    assert timed.get_entry("without end").expiry is None


def test_a_result_may_say_that_it_is_not_stored(timed: Cache) -> None:
    assert timed.get_or_set("k", lambda: Result("once", store=False)) == "once"
    assert timed.get("k") is None
    assert timed.get_or_set("k", lambda: "kept") == "kept"


def test_a_result_shows_what_was_given() -> None:
    assert repr(Result(1)) == "Result(1)"
    assert repr(Result(1, ttl=None, tags=["a"], store=False)) == (
        "Result(1, ttl=None, tags=['a'], store=False)"
    )


def test_ttl_may_be_a_function_of_the_value(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.get_or_set("k", lambda: 7, ttl=lambda value: value * 2)
    assert timed.get_entry("k").expiry == pytest.approx(clock.now() + 14, abs=1e-3)


def test_the_time_that_making_took_is_stored(timed: Cache) -> None:
    timed.get_or_set("k", lambda: "v", ttl=60)
    assert 0 <= timed.get_entry("k").made_s < 30


# --- per call ------------------------------------------------------------------------------------


def test_force_makes_anew_and_replaces(timed: Cache) -> None:
    timed.set("k", "old")
    assert timed.get_or_set("k", Maker("new"), force=True) == "new"
    assert timed.get("k") == "new"


def test_force_serves_no_stale_value(timed: Cache, clock: _engine.ManualClock, crew: Crew) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60, stale=60)
    clock.advance(61)
    with pytest.raises(Broken):
        timed.get_or_set("k", Maker(Broken()), force=True)
    make = Maker("other", held=True)
    crew.start(lambda: timed.get_or_set("k", make, ttl=60))
    assert make.began.wait(30)
    with pytest.raises(LoadTimeout):
        timed.get_or_set("k", Maker("forced"), force=True, timeout=0.02)
    make.opened.set()
    crew.join()


def test_force_waits_for_another_maker_and_then_makes(timed: Cache, crew: Crew) -> None:
    first = Maker("first", held=True)
    crew.start(lambda: timed.get_or_set("k", first))
    assert first.began.wait(30)
    second = Maker("second")
    crew.start(lambda: timed.get_or_set("k", second, force=True))
    first.opened.set()
    assert sorted(crew.join().results) == ["first", "second"]
    assert timed.get("k") == "second"


def test_only_cached_values_are_served_on_demand(timed: Cache, clock: _engine.ManualClock) -> None:
    make = Maker(Broken())
    assert timed.get_or_set("k", make, cached_only=True) is None
    assert timed.get_or_set("k", make, cached_only=True, default="none") == "none"
    timed.set("k", "old", 60, stale=60)
    assert timed.get_or_set("k", make, cached_only=True) == "old"
    clock.advance(61)
    assert timed.get_or_set("k", make, cached_only=True) == "old"
    clock.advance(60)
    assert timed.get_or_set("k", make, cached_only=True) is None
    assert make.calls == 0


def test_a_value_in_place_of_a_maker_is_an_error(timed: Cache) -> None:
    given: Any = {"visits": 42}
    message = "a function must make the value, not dict; pass `lambda: ...`"
    with pytest.raises(InvalidArgument, match=message):
        timed.get_or_set("k", given)
    with pytest.raises(InvalidArgument, match=message):
        timed.get_or_set_many(["k"], given)
    with pytest.raises(InvalidArgument, match=message):
        asyncio.run(timed.aget_or_set("k", given))
    assert timed.get_entry("k") is None


def test_a_read_only_handle_serves_what_is_there(opened: Callable[..., Cache], path: str) -> None:
    opened(path).set("k", "there")
    make = Maker()
    with opened(path, read_only=True) as reader:
        number = reader.memoize(name="number")(make)
        assert reader.get_or_set("k", make) == reader.get_or_set("k", make, early=1) == "there"
        assert reader.get_or_set_many(["k"], make) == {"k": "there"}
        assert reader.get_or_set("none", make, cached_only=True) is number.peek() is None
        for call in (
            lambda: reader.get_or_set("none", make),
            lambda: reader.get_or_set("k", make, force=True),
            lambda: reader.get_or_set_many(["k", "none"], make),
            number,
        ):
            with pytest.raises(CacheReadOnly):
                call()
    assert make.calls == 0


# --- what happens meanwhile ----------------------------------------------------------------------


def test_a_value_made_before_a_delete_is_returned_but_not_stored(timed: Cache) -> None:
    def make() -> str:
        timed.delete("k")
        return "read before the delete"

    assert timed.get_or_set("k", make) == "read before the delete"
    assert timed.get("k") is None


def test_a_value_made_before_its_tag_was_evicted_is_not_stored(timed: Cache) -> None:
    def make() -> str:
        timed.evict(tag="users")
        return "old"

    assert timed.get_or_set("k", make, tags=["users"]) == "old"
    assert timed.get("k") is None


def test_a_value_that_was_set_meanwhile_is_kept(timed: Cache) -> None:
    def make() -> str:
        timed.set("k", "set by another")
        return "made"

    assert timed.get_or_set("k", make) == "made"
    assert timed.get("k") == "set by another"


# --- makers that misbehave -----------------------------------------------------------------------


def test_when_a_maker_raises_a_waiter_makes(timed: Cache, crew: Crew) -> None:
    make = Maker(Broken(), "second", held=True)
    crew.start(lambda: timed.get_or_set("k", make), 3)
    assert make.began.wait(30)
    make.opened.set()
    crew.join()
    assert [type(error) for error in crew.errors] == [Broken]
    assert crew.results == ["second", "second"]
    assert make.calls == 2


@pytest.mark.parametrize("timeout", [None, 30])
def test_a_maker_that_asks_for_its_own_key_gets_an_error(
    timed: Cache, timeout: float | None
) -> None:
    def make() -> Any:
        return timed.get_or_set("k", make, timeout=timeout)

    with pytest.raises(LoadRecursion, match="the maker of key 'k' asked for the same key"):
        timed.get_or_set("k", make, timeout=timeout)
    assert timed.get_or_set("k", Maker("next")) == "next"


def test_makers_that_ask_for_each_other_get_an_error(timed: Cache) -> None:
    def make_a() -> Any:
        return timed.get_or_set("b", make_b)

    def make_b() -> Any:
        return timed.get_or_set("a", make_a)

    with pytest.raises(LoadRecursion):
        timed.get_or_set("a", make_a)
    assert timed.get_or_set_many(["a", "b"], lambda keys: dict.fromkeys(keys, 1)) == {
        "a": 1,
        "b": 1,
    }


def test_a_maker_may_use_other_keys(timed: Cache) -> None:
    def fibonacci(number: int) -> int:
        if number < 2:
            return number
        return sum(
            timed.get_or_set(("fibonacci", below), lambda below=below: fibonacci(below))
            for below in (number - 1, number - 2)
        )

    assert fibonacci(30) == 832040


def test_a_task_that_outlives_its_maker_may_ask_for_the_key(timed: Cache) -> None:
    contexts = []

    def make() -> str:
        contexts.append(contextvars.copy_context())
        return "made"

    timed.get_or_set("k", make)
    timed.delete("k")
    assert contexts[0].run(timed.get_or_set, "k", Maker("again")) == "again"


def test_a_pool_of_threads_may_make(timed: Cache) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda number: timed.get_or_set(number % 5, Maker(number % 5)), range(99))
        )
    assert found == [number % 5 for number in range(99)]


@pytest.mark.parametrize("timeout", [None, 30])
def test_a_result_that_cannot_be_stored_is_an_error_and_frees_the_key(
    timed: Cache, clock: _engine.ManualClock, timeout: float | None
) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60, stale=60)
    clock.advance(61)
    with pytest.raises(ValueTypeError, match="object"):
        timed.get_or_set("k", object, timeout=timeout)
    assert timed.get_or_set("k", Maker("next"), timeout=timeout) == "next"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_maker_that_is_interrupted_frees_the_key_and_serves_nothing_stale(
    timed: Cache, clock: _engine.ManualClock, error: type[BaseException]
) -> None:
    timed.get_or_set("k", lambda: "old", ttl=60, stale=60)
    clock.advance(61)
    with pytest.raises(error):
        timed.get_or_set("k", Maker(error()))
    assert timed.get_or_set("k", Maker("next")) == "next"


def test_ctrl_c_ends_a_wait(timed: Cache, crew: Crew) -> None:
    make = Maker(held=True)
    crew.start(lambda: timed.get_or_set("k", make))
    assert make.began.wait(30)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        timed.get_or_set("k", Maker("other"))
    timer.join()
    make.opened.set()
    assert crew.join().results == ["made"]


def test_ctrl_c_leaves_a_maker_in_a_thread_to_finish(timed: Cache) -> None:
    make = Maker("late", held=True)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        timed.get_or_set("k", make, timeout=30)
    timer.join()
    make.opened.set()
    until(lambda: timed.get("k") == "late")


@pytest.mark.parametrize("timeout", [None, 30])
def test_a_maker_that_forks_stores_once_in_the_parent(timed: Cache, timeout: float | None) -> None:
    reads, writes = os.pipe()

    def make() -> str:
        child = os.fork()
        if child == 0:
            return "the child's"
        os.waitpid(child, 0)
        return "the parent's"

    value = None
    pid = os.getpid()
    try:
        value = timed.get_or_set("k", make, timeout=timeout)
    finally:
        if os.getpid() != pid:
            os.write(writes, repr(value).encode())
            os._exit(0)
    os.close(writes)
    assert value == "the parent's"
    if timeout is None:  # A child of a thread ends with the thread.
        assert os.read(reads, 99) == b'"the child\'s"'
    os.close(reads)
    assert timed.get("k") == "the parent's"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"timeout": -1}, "timeout must be at least 0, not -1"),
        ({"timeout": float("nan")}, "timeout must be at least 0, not nan"),
        ({"timeout": "soon"}, "timeout must be a number or None, not str"),
        ({"timeout": True}, "timeout must be a number or None, not bool"),
        ({"early": -0.5}, "early must be at least 0"),
        ({"early": "yes"}, "early must be a number or None, not str"),
    ],
)
def test_a_wrong_option_is_an_error_before_anything_is_made(
    timed: Cache, arguments: dict[str, Any], message: str
) -> None:
    make = Maker()
    with pytest.raises(InvalidArgument, match=message):
        timed.get_or_set("k", make, **arguments)
    assert make.calls == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"ttl": "soon"}, InvalidTTL),
        ({"stale": "soon"}, InvalidTTL),
        ({"tags": "users"}, InvalidTag),
        ({"tags": 7}, InvalidTag),
        ({"tags": [7]}, InvalidTag),
    ],
)
def test_what_the_store_refuses_is_an_error_before_anything_is_made(
    timed: Cache, arguments: dict[str, Any], error: type[Exception]
) -> None:
    make = Maker()
    with pytest.raises(error):
        timed.get_or_set("k", make, **arguments)
    with pytest.raises(error):
        timed.get_or_set_many(["k"], make, **arguments)
    assert make.calls == 0


@pytest.mark.parametrize(
    ("made", "ttl", "error"),
    [
        (Result("v", ttl="soon"), 60, InvalidTTL),
        (Result("v", stale="soon"), 60, InvalidTTL),
        (Result("v", tags="users"), 60, InvalidTag),
        ("v", lambda value: "soon", InvalidTTL),
        ("v", lambda value: 1 / 0, ZeroDivisionError),
        (Result("x" * (8 << 20)), 60, ValueTooLarge),
    ],
    ids=["made ttl", "stale", "tags", "ttl", "ttl raises", "size"],
)
def test_a_wrong_result_is_an_error_and_frees_the_key(
    timed: Cache, made: Any, ttl: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        timed.get_or_set("k", lambda: made, ttl)
    assert timed.get_or_set("k", Maker("next")) == "next"


def test_tags_may_be_an_iterator(timed: Cache) -> None:
    timed.get_or_set("k", Maker(), tags=iter(["b", "a"]))
    assert timed.get_entry("k").tags == ("a", "b")


def test_a_parameter_of_another_cache_is_explained(timed: Cache) -> None:
    make = Maker()
    with pytest.raises(TypeError, match=r"get_or_set\(\) .* 'expire'; it is called 'ttl'"):
        timed.get_or_set("k", make, expire=60)
    with pytest.raises(TypeError, match=r"get_or_set_many\(\) .* 'expire'; it is called 'ttl'"):
        timed.get_or_set_many(["k"], make, expire=60)
    with pytest.raises(TypeError, match=r"memoize\(\) .* 'expire'; it is called 'ttl'"):
        timed.memoize(expire=60)
    assert make.calls == 0
    assert "others" not in str(inspect.signature(timed.get_or_set))


def test_a_wrong_key_is_an_error_before_anything_is_made(timed: Cache) -> None:
    make = Maker()
    with pytest.raises(KeyTypeError):
        timed.get_or_set(None, make)
    assert make.calls == 0


ENDINGS = {
    "a maker that hangs": "threading.Event().wait()",
    "makers that store": "[cache.get_or_set((n, m), lambda: m, timeout=1) for m in range(10**6)]",
}


@pytest.mark.one_machine
@pytest.mark.parametrize("work", ENDINGS.values(), ids=ENDINGS)
def test_a_process_ends_without_waiting_for_its_makers(timed: Cache, work: str) -> None:
    kind = f"{type(timed).__module__}"
    program = (
        "import threading, tuckbox.errors\n"
        f"from {kind} import Cache\n"
        "cache = Cache()\n"
        f"def make(n): {work}\n"
        "for n in range(4):\n"
        "    try: cache.get_or_set(n, lambda: make(n), timeout=0.05)\n"
        "    except tuckbox.errors.LoadTimeout: pass\n"
        "print('the end')"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "the end\n"), done.stderr


def test_a_child_of_a_maker_does_not_use_its_parents_lease(timed: Cache) -> None:
    load = loads.Load(timed, "k", loads.Options())
    load.begin()
    kept = load._token  # The lease would end with it.
    load._pid -= 1
    assert load.finish("the child's", 0.1) == "the child's"
    assert "k" not in timed
    assert not timed._wait_made("k", 0)
    timed._abandon(kept)
