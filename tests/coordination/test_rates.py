"""Rate limits, and the decorators: what is allowed when, by a clock that the test sets."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Callable

import pytest

from coordination.conftest import child, kill
from coordination.stepping import Stepped, orders
from tuckbox.coordination import rates
from tuckbox.errors import AcquireTimeout, InvalidArgument, InvalidTTL

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory", "namespace", "remote")


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        # The entries end by the store's clock, which must not be ahead.
        self.now_ns = time.time_ns() + 3600 * 10**9

    def time_ns(self) -> int:
        return self.now_ns

    def advance(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rates, "time", clock)
    return clock


def test_so_many_at_once_and_then_one_by_one(cache: Cache, hands: Clock) -> None:
    limit = cache.rate_limit("a", 3, "1m")
    assert [bool(limit.try_acquire()) for _ in range(4)] == [True, True, True, False]
    for _ in range(3):
        permit = limit.try_acquire()
        assert permit.wait_s == pytest.approx(20)
        hands.advance(permit.wait_s - 0.001)
        assert not limit.try_acquire()
        hands.advance(0.001)
        assert limit.try_acquire()
    hands.advance(600)
    assert [bool(limit.try_acquire()) for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("count", [1, 3, 7, 1000])
def test_never_more_than_the_rate_and_the_burst(cache: Cache, hands: Clock, count: int) -> None:
    dice, period_s = random.Random(count), 10.0
    limit = cache.rate_limit("a", count, period_s)
    began_ns = hands.now_ns
    allowed: list[float] = []
    while len(allowed) < 300:
        if limit.try_acquire():
            allowed.append((hands.now_ns - began_ns) / 1e9)
        else:
            hands.advance(dice.random() * period_s / count)
    for number, at_s in enumerate(allowed):
        for later, until_s in enumerate(allowed[number:], 1):
            assert later <= count + (until_s - at_s) * count / period_s + 1e-6


def test_a_clock_that_is_set_back_stops_nobody_for_longer_than_a_period(
    cache: Cache, hands: Clock
) -> None:
    limit = cache.rate_limit("a", 2, 10)
    assert limit.try_acquire()
    hands.advance(-1000)
    assert limit.try_acquire().wait_s <= 10


def test_callers_at_the_same_time_get_one_permit_each(cache: Cache, hands: Clock) -> None:
    for number, order in enumerate(orders(3, 3)):
        limits = [cache.rate_limit(str(number), 1, 60) for _ in range(2)]
        both = [Stepped(limit._try()) for limit in limits]
        for who in order:
            both[who].step()
        assert sorted(bool(one.finish()) for one in both) == [False, True]


def test_acquire_waits_and_gives_up_at_once(cache: Cache) -> None:
    limit = cache.rate_limit("a", 1, 0.05)
    began_s = time.monotonic()
    assert all(limit.acquire() for _ in range(3))
    assert time.monotonic() - began_s >= 0.095
    slow = cache.rate_limit("b", 1, 3600)
    assert slow.acquire(timeout=0)
    assert not slow.acquire(timeout=3000)


def test_what_a_killed_process_used_is_used(between: Callable[[], Any]) -> None:
    cache = between()
    with child(lambda: between().rate_limit("a", 2, 3600).acquire()) as pid:
        kill(pid)
        limit = cache.rate_limit("a", 2, 3600)
        assert [bool(limit.try_acquire()) for _ in range(2)] == [True, False]
    cache.close()


@pytest.mark.parametrize(
    ("limit", "period", "error"),
    [
        *((0, 1, InvalidArgument), (1, 0, InvalidArgument), (1, None, InvalidArgument)),
        *((True, 1, InvalidArgument), (1, "soon", InvalidTTL)),
    ],
)
def test_wrong_limits(cache: Cache, limit: Any, period: Any, error: type[Exception]) -> None:
    parameter = "limit" if period == 1 else "period"
    with pytest.raises(error, match=f"^{parameter} must be"):
        cache.rate_limit("a", limit, period)


class TestDecorators:
    def test_throttle_waits(self, cache: Cache) -> None:
        @cache.throttle(1, 0.05, name="f")
        def double(x: int) -> int:
            """Doubles."""
            return 2 * x

        began_s = time.monotonic()
        assert [double(x) for x in range(3)] == [0, 2, 4]
        assert time.monotonic() - began_s >= 0.095
        assert double.__doc__ == "Doubles."

    def test_one_at_a_time(self, cache: Cache) -> None:
        @cache.one_at_a_time(name="f", timeout=0.01)
        def outer() -> None:
            inner()

        @cache.one_at_a_time(name="f", timeout=0.01)
        def inner() -> None:
            raise AssertionError("two at a time")

        with pytest.raises(AcquireTimeout):
            outer()
        assert cache.lock("f").acquire(0)

    def test_coroutine_functions(self, cache: Cache, run: Callable[..., Any]) -> None:
        @cache.throttle(5, 60, name="f")
        @cache.one_at_a_time(name="f")
        async def locked() -> bool:
            return cache.lock("f").locked()

        assert run(locked) is True
        assert not cache.lock("f").locked()

    def test_functions_in_functions_need_a_name(self, cache: Cache) -> None:
        for decorator in (cache.one_at_a_time(), cache.throttle(1, 1)):
            with pytest.raises(InvalidArgument, match="pass name="):
                decorator(lambda: 1)
        assert cache.throttle(1, 1)(named)() == 1


def named() -> int:
    return 1
