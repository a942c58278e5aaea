"""How long entries live, by a clock that the test moves."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tuckbox.errors import InvalidTTL

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")

HOUR = 3600


@pytest.mark.parametrize(
    ("ttl", "length"),
    [
        (60, 60),
        (0.5, 0.5),
        (timedelta(minutes=2), 120),
        (timedelta(days=400, microseconds=1), 400 * 24 * HOUR + 1e-6),
        (10**9, 10**9),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 1.5 * HOUR),
        (" 1 h 30 m ", 1.5 * HOUR),
        ("1.5h", 1.5 * HOUR),
        ("0.25s", 0.25),
        ("7d", 7 * 24 * HOUR),
        ("2w1d", 15 * 24 * HOUR),
    ],
    ids=repr,
)
def test_an_entry_lives_for_its_ttl_and_no_longer(
    timed: Cache, clock: _engine.ManualClock, ttl: float | timedelta, length: float
) -> None:
    timed.set("k", 1, ttl=ttl)
    entry = timed.get_entry("k")
    assert entry.expiry == pytest.approx(clock.now() + length, abs=1e-6)
    clock.advance(length - 0.25)
    assert timed.get("k") == 1
    assert "k" in timed
    clock.advance(0.5)
    assert timed.get("k") is None
    assert timed.get_entry("k") is None
    assert "k" not in timed


@pytest.mark.parametrize(
    "ttl", [None, math.inf, 10**40, 1e300, timedelta.max, "9" * 400 + "w"], ids=str
)
def test_some_entries_never_expire(
    timed: Cache, clock: _engine.ManualClock, ttl: float | timedelta | None
) -> None:
    timed.set("k", 1, ttl=ttl)
    assert timed.get_entry("k").expiry is None
    clock.advance(100 * 365 * 24 * HOUR)
    assert timed.get("k") == 1


@pytest.mark.parametrize(
    "ttl",
    [0, 0.0, -0.0, timedelta(0), "0s", "0h0m", -1, -1e-9, -(10**30), -math.inf, timedelta.min],
    ids=str,
)
def test_a_ttl_of_zero_or_less_is_expired_at_once(
    timed: Cache, ttl: float | str | timedelta
) -> None:
    timed.set("k", "old")
    timed.set("k", "new", ttl=ttl)
    assert "k" not in timed
    assert timed.get("k") is None
    timed.set_many({"many": 1}, ttl)
    assert timed.add("added", 1, ttl) is True
    assert timed.incr("count", ttl=ttl) == 1
    timed.set("touched", 1)
    assert timed.touch("touched", ttl) is True
    assert list(timed) == []


def test_a_deadline_that_has_just_passed_stores_nothing(cache: Cache) -> None:
    deadline = time.time() - 0.001
    cache.set("k", 1, ttl=deadline - time.time())
    assert cache.get("k") is None


def test_less_than_a_microsecond_is_a_microsecond(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("k", 1, ttl=1e-12)
    assert "k" in timed
    clock.advance(2e-6)
    assert "k" not in timed


def test_set_without_ttl_ends_the_old_one(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("k", 1, ttl=5)
    timed.set("k", 2)
    clock.advance(10)
    assert timed.get("k") == 2


def test_an_expired_entry_does_not_count_as_there(timed: Cache, clock: _engine.ManualClock) -> None:
    for key in "abcdef":
        timed.set(key, 1, ttl=1)
    version = timed.get_entry("f").version
    clock.advance(2)
    assert timed.add("a", 2) is True
    assert timed.replace("b", 2) is False
    assert timed.delete("c") is False
    assert timed.pop("d", None) is None
    assert timed.touch("e", 10) is False
    assert timed.cas("f", 2, version) is False
    assert list(timed) == ["a"]


def test_touch_gives_a_new_ttl(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("k", "value", ttl=5)
    clock.advance(4)
    assert timed.touch("k", 5) is True
    clock.advance(4)
    assert timed.get("k") == "value"
    assert timed.touch("k") is True
    clock.advance(10**6)
    assert timed.get("k") == "value"
    assert timed.get_entry("k").expiry is None
    assert timed.touch("k", timedelta(seconds=1)) is True
    clock.advance(2)
    assert timed.touch("k", 5) is False


def test_touch_of_an_entry_that_never_expired(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("k", "value")
    assert timed.touch("k", 5) is True
    assert timed.get_entry("k").expiry == pytest.approx(clock.now() + 5)
    clock.advance(6)
    assert timed.get("k") is None


def test_touch_of_a_missing_key(timed: Cache) -> None:
    assert timed.touch("k", 5) is False
    assert "k" not in timed


@pytest.mark.one_machine
def test_expire_collects_what_is_over(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set_many({number: number for number in range(100)}, ttl=5)
    timed.set_many({str(number): number for number in range(50)}, ttl=50)
    assert timed.expire() == 0
    clock.advance(10)
    assert timed.expire() == 100
    assert len(timed) == 50
    assert timed.expire() == 0
    assert timed.stats().expirations >= 100


def test_the_expiry_is_in_the_time_of_the_wall_clock(cache: Cache) -> None:
    before = time.time()
    cache.set("k", 1, ttl=1000)
    entry = cache.get_entry("k")
    # The file's clock may differ from the wall clock if that was set since.
    assert entry.expiry == pytest.approx(before + 1000, abs=60)


def test_time_passes_by_itself(cache: Cache) -> None:
    cache.set("k", 1, ttl=0.02)
    while "k" in cache:  # The time limit of the test is its watchdog.
        time.sleep(0.005)
    assert cache.get("k") is None


OPERATIONS = {
    "set": lambda cache, ttl: cache.set("k", "new", ttl),
    "add": lambda cache, ttl: cache.add("free", "new", ttl),
    "replace": lambda cache, ttl: cache.replace("k", "new", ttl),
    "cas": lambda cache, ttl: cache.cas("k", "new", cache.get_entry("k").version, ttl),
    "touch": lambda cache, ttl: cache.touch("k", ttl),
    "incr": lambda cache, ttl: cache.incr("free", ttl=ttl),
    "decr": lambda cache, ttl: cache.decr("free", ttl=ttl),
    "set_many": lambda cache, ttl: cache.set_many({"k": "new"}, ttl),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("ttl", [True, b"60", Decimal(60), [60], 1j], ids=repr)
def test_what_is_no_ttl_changes_nothing(cache: Cache, operation: str, ttl: object) -> None:
    cache.set("k", "old")
    with pytest.raises(InvalidTTL, match="ttl must be"):
        OPERATIONS[operation](cache, ttl)
    assert dict(cache) == {"k": "old"}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "ttl",
    [
        "",
        " ",
        "5",
        "m",
        "5 min",
        "5M",
        "5ms",
        "1m1h",
        "1m1m",
        "-5m",
        "1,5h",
        "1.2.3s",
        "\ud800",
        "٣m",
    ],
    ids=ascii,
)
def test_text_that_is_no_duration_says_how_to_write_one(
    cache: Cache, operation: str, ttl: str
) -> None:
    cache.set("k", "old")
    with pytest.raises(
        InvalidTTL, match=r"is not a duration.*such as \"90s\" or \"1h30m\""
    ) as caught:
        OPERATIONS[operation](cache, ttl)
    assert repr(ttl) in str(caught.value)
    assert dict(cache) == {"k": "old"}


def test_nan_is_no_ttl(cache: Cache) -> None:
    with pytest.raises(InvalidTTL, match="ttl nan is not a number"):
        cache.set("k", 1, ttl=math.nan)
    assert "k" not in cache
