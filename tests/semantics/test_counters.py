"""incr and decr."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tuckbox.errors import IntegerOverflow, InvalidTTL, NotAnInteger

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def test_incr_adds_and_returns_the_sum(cache: Cache) -> None:
    cache.set("n", 40)
    assert cache.incr("n") == 41
    assert cache.incr("n", 5) == 46
    assert cache.incr("n", delta=-6) == 40
    assert cache.decr("n") == 39
    assert cache.decr("n", 9) == 30
    assert cache.get("n") == 30


def test_a_missing_counter_starts_at_zero(cache: Cache) -> None:
    assert cache.incr("visits") == 1
    assert cache.incr("visits") == 2
    assert cache.decr("stock", 3) == -3
    assert cache.get_many(["visits", "stock"]) == {"visits": 2, "stock": -3}


def test_a_missing_counter_is_a_key_error_or_starts_from_the_default(cache: Cache) -> None:
    with pytest.raises(KeyError) as caught:
        cache.incr("n", default=None)
    assert caught.value.args == ("n",)
    assert "n" not in cache
    assert cache.incr("n", 2, default=10) == 12
    assert cache.incr("n", 2, default=10) == 14
    assert cache.decr("m", default=0) == -1


def test_default_gets_the_ttl_and_an_existing_entry_keeps_its_own(
    timed: Cache, clock: _engine.ManualClock
) -> None:
    timed.incr("n", default=0, ttl=10)
    clock.advance(6)
    assert timed.incr("n", default=100, ttl=10) == 2
    clock.advance(6)
    assert "n" not in timed
    assert timed.incr("n", default=100) == 101


def test_an_expired_counter_is_missing(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("n", 5, ttl=1)
    clock.advance(2)
    with pytest.raises(KeyError):
        timed.incr("n", default=None)
    assert timed.incr("n") == 1


@pytest.mark.parametrize("value", ["5", b"5", 5.0, None, True, [5], 2**63, -(2**63) - 1], ids=repr)
def test_what_is_no_integer_of_64_bits_is_refused(cache: Cache, value: object) -> None:
    cache.set("n", value)
    with pytest.raises(NotAnInteger, match=r"^key 'n': .*64-bit integer"):
        cache.incr("n")
    assert cache.get("n") == value
    assert type(cache.get("n")) is type(value)


@pytest.mark.parametrize(
    ("value", "delta"), [(INT_MAX, 1), (INT_MIN, -1), (1, INT_MAX), (-2, INT_MIN)]
)
def test_overflow_is_refused_and_changes_nothing(cache: Cache, value: int, delta: int) -> None:
    cache.set("n", value)
    with pytest.raises(IntegerOverflow, match=r"^key 'n': .*64-bit"):
        cache.incr("n", delta)
    assert cache.get("n") == value


def test_the_ends_of_the_range_can_be_reached(cache: Cache) -> None:
    cache.set("n", INT_MAX - 1)
    assert cache.incr("n") == INT_MAX
    cache.set("n", INT_MIN + 1)
    assert cache.decr("n") == INT_MIN


@pytest.mark.parametrize("delta", [1.0, "1", None, True, b"1"], ids=repr)
def test_delta_and_default_must_be_ints(cache: Cache, delta: object) -> None:
    cache.set("n", 1)
    with pytest.raises(NotAnInteger, match="delta must be an int"):
        cache.incr("n", delta)
    assert cache.get("n") == 1
    if delta is not None:
        with pytest.raises(NotAnInteger, match="default must be an int"):
            cache.incr("m", default=delta)
        assert "m" not in cache


def test_delta_out_of_range_is_an_overflow(cache: Cache) -> None:
    cache.set("n", 1)
    for call in (
        lambda: cache.incr("n", 2**63),
        lambda: cache.decr("n", INT_MIN),
        lambda: cache.incr("m", default=2**63),
    ):
        with pytest.raises(IntegerOverflow, match="64-bit"):
            call()
    assert cache.get("n") == 1
    assert "m" not in cache


def test_a_bad_ttl_changes_nothing(cache: Cache) -> None:
    cache.set("n", 1)
    with pytest.raises(InvalidTTL):
        cache.incr("n", ttl="soon")
    assert cache.get("n") == 1
