"""One maker at a time, and no value whose making began before a delete. See `tuckbox.contract`."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox.contract import BUSY, FOUND, LEASE
from tuckbox.errors import CacheClosed, ValueTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")


def lease(cache: Any, key: Any = "k", *, force: bool = False) -> Any:
    state, _, token = cache._begin(key, force)
    assert state == LEASE
    return token


def finish(cache: Any, token: Any, value: object = "made", **terms: Any) -> bool:
    ttl, stale, tags = terms.get("ttl"), terms.get("stale"), terms.get("tags", ())
    return cache._finish(token, "k", value, ttl, stale, tags, terms.get("made_s"))


def test_a_fresh_entry_needs_no_lease(cache: Cache) -> None:
    cache["k"] = 1
    state, entry, token = cache._begin("k", False)
    assert (state, entry.value, token) == (FOUND, 1, None)


def test_one_caller_makes_and_the_others_are_told(cache: Cache) -> None:
    token = lease(cache)
    assert cache._begin("k", False) == (BUSY, None, None)
    assert cache._begin("k", True) == (BUSY, None, None)
    cache._abandon(lease(cache, "other"))
    assert finish(cache, token, [1], ttl=60, tags=["b", "a"], made_s=0.5) is True
    entry = cache.get_entry("k")
    assert (entry.value, entry.tags, entry.made_s) == ([1], ("a", "b"), 0.5)
    assert cache._begin("k", False)[0] == FOUND


def test_force_makes_a_fresh_entry_again(cache: Cache) -> None:
    cache["k"] = "old"
    state, entry, token = cache._begin("k", True)
    assert (state, entry.value, entry.stale) == (LEASE, "old", False)
    assert cache._begin("k", True)[:2] == (BUSY, entry)
    assert cache._begin("k", False)[0] == FOUND
    assert finish(cache, token)
    assert cache["k"] == "made"


def test_a_stale_entry_comes_with_the_lease_and_to_those_that_wait(
    timed: Cache, clock: _engine.ManualClock
) -> None:
    timed.set("k", "old", ttl=10, stale=60)
    clock.advance(20)
    state, entry, token = timed._begin("k", False)
    assert (state, entry.value, entry.stale) == (LEASE, "old", True)
    state, entry, _ = timed._begin("k", False)
    assert (state, entry.value, entry.stale) == (BUSY, "old", True)
    assert finish(timed, token)
    assert timed["k"] == "made"


def test_an_expired_entry_is_no_reason_to_refuse(timed: Cache, clock: _engine.ManualClock) -> None:
    timed.set("k", "old", ttl=10)
    clock.advance(20)
    state, entry, token = timed._begin("k", False)
    assert (state, entry) == (LEASE, None)
    assert finish(timed, token)


REFUSING: dict[str, Callable[[Any], object]] = {
    "delete": lambda cache: cache.delete("k"),
    "delete of a missing key": lambda cache: (cache.delete("k"), cache.delete("k")),
    "delete_many": lambda cache: cache.delete_many(["k"]),
    "pop": lambda cache: cache.pop("k", None),
    "del": lambda cache: (cache.set("k", 1), cache.__delitem__("k")),
    "clear": lambda cache: cache.clear(),
    "set": lambda cache: cache.set("k", "other"),
    "set and expiry": lambda cache: cache.set("k", "other", ttl=0),
    "incr": lambda cache: (cache.set("k", 1), cache.incr("k")),
    "delete and set": lambda cache: (cache.delete("k"), cache.set("k", "old")),
    "evict": lambda cache: cache.evict(tag="t"),
}
HARMLESS: dict[str, Callable[[Any], object]] = {
    "nothing": lambda cache: None,
    "other keys": lambda cache: (cache.set("o", 1), cache.delete("o"), cache.delete_many(["p"])),
    "other tags": lambda cache: cache.evict(tag="u"),
    "touch": lambda cache: cache.touch("k", 100),
    "reads": lambda cache: (cache.get("k"), list(cache), cache._begin("k", False)),
    "wrong version": lambda cache: cache.delete("k", 12345),
    "eras": lambda cache: cache._advance_era("blog"),
    "expire": lambda cache: cache.expire(),
}


@pytest.mark.parametrize("between", REFUSING)
@pytest.mark.parametrize("old", [None, "old"])
def test_what_happened_meanwhile_refuses_the_value(
    cache: Cache, between: str, old: str | None
) -> None:
    if old:
        cache["k"] = old
    token = lease(cache, force=True)
    REFUSING[between](cache)
    left = cache.get_entry("k")
    assert finish(cache, token, tags=["t"]) is False
    assert cache.get_entry("k") == left
    assert cache._wait_made("k", 0) is True


@pytest.mark.parametrize("between", HARMLESS)
@pytest.mark.parametrize("old", [None, "old"])
def test_other_events_do_not(cache: Cache, between: str, old: str | None) -> None:
    if old:
        cache["k"] = old
    cache.set("known", 1, tags=["t"])  # A store may refuse a tag that it has never seen.
    token = lease(cache, force=True)
    HARMLESS[between](cache)
    assert finish(cache, token, tags=["t"]) is True
    assert cache["k"] == "made"


def test_an_eviction_before_the_making_does_not_refuse(cache: Cache) -> None:
    cache.evict(tag="t")
    assert finish(cache, lease(cache), tags=["t"]) is True
    assert cache["k"] == "made"


def test_a_soft_eviction_meanwhile_makes_the_value_stale(cache: Cache) -> None:
    cache.set("known", 1, tags=["t"])  # A store may refuse a tag that it has never seen.
    token = lease(cache)
    cache.evict(tag="t", soft=True)
    assert finish(cache, token, tags=["t"]) is True
    assert "k" not in cache
    assert cache.get_entry("k", stale=True).value == "made"


def test_a_value_is_as_old_as_its_making(cache: Cache) -> None:
    cache.set("known", 1, tags=["t"])  # A store may refuse a tag that it has never seen.
    """A plain set has the age of the set; a made value that of its beginning."""
    token = lease(cache)
    cache.evict(tag="other")
    assert finish(cache, token, tags=["t"])
    cache.evict(tag="t")
    assert "k" not in cache


def test_a_lease_ends_when_its_value_is_refused(cache: Cache) -> None:
    with pytest.raises(ValueTypeError):
        finish(cache, lease(cache), object())
    with pytest.raises(ValueError, match="ttl"):
        finish(cache, lease(cache), ttl="soon")
    assert finish(cache, lease(cache))


def test_a_token_works_once(cache: Cache) -> None:
    token = lease(cache)
    cache._abandon(token)
    cache._abandon(token)
    assert finish(cache, token) is False
    assert "k" not in cache
    second = lease(cache)
    cache._abandon(token)
    assert cache._begin("k", False)[0] == BUSY
    assert finish(cache, token) is False
    assert cache._begin("k", False)[0] == BUSY
    assert finish(cache, second) is True


def test_closing_the_handle_ends_its_leases(opened: Callable[..., Any], path: str) -> None:
    one, other = opened(path), opened(path)
    token, kept = lease(one), lease(other, "kept")
    one.close()
    assert other._wait_made("k", 0) is True
    assert other._wait_made("kept", 0) is False
    with pytest.raises(CacheClosed):
        finish(one, token)
    one._abandon(token)
    other._abandon(kept)
    assert "k" not in other


class TestWaiting:
    def test_without_a_lease_there_is_nothing_to_wait_for(self, cache: Cache) -> None:
        assert cache._wait_made("k", 0) is True
        assert cache._wait_made("k", math.inf) is True

    def test_ends_when_the_time_is_over(self, cache: Cache) -> None:
        token = lease(cache)
        assert cache._wait_made("k", 0.01) is False
        assert cache._wait_made("k", -1) is False
        cache._abandon(token)

    @pytest.mark.parametrize("end", ["finish", "abandon", "refused"])
    def test_ends_when_the_lease_does(self, cache: Cache, end: str) -> None:
        token = lease(cache)
        results: list[bool] = []
        waiters = [
            threading.Thread(target=lambda: results.append(cache._wait_made("k", math.inf)))
            for _ in range(8)
        ]
        for waiter in waiters:
            waiter.start()
        time.sleep(0.05)
        assert not results
        if end == "refused":
            cache.clear()
        if end == "abandon":
            cache._abandon(token)
        else:
            finish(cache, token)
        for waiter in waiters:
            waiter.join()
        assert results == [True] * 8

    def test_a_signal_handler_may_end_it(self, cache: Cache) -> None:
        import signal

        class Enough(Exception):
            pass

        def handler(number: int, frame: object) -> None:
            raise Enough

        token = lease(cache)
        old = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Enough):
                cache._wait_made("k", math.inf)
        finally:
            signal.signal(signal.SIGALRM, old)
        assert finish(cache, token)


def test_of_many_threads_one_makes_it(cache: Cache) -> None:
    made: list[int] = []
    barrier = threading.Barrier(16)

    def load() -> None:
        barrier.wait()
        while True:
            state, entry, token = cache._begin("k", False)
            if state == FOUND:
                assert entry.value == "made"
                return
            if state == LEASE:
                time.sleep(0.02)
                made.append(1)
                assert finish(cache, token)
                return
            cache._wait_made("k", 10)

    threads = [threading.Thread(target=load) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_no_stale_store_is_accepted_and_no_other_is_refused(cache: Cache) -> None:
    """Makers whose key is deleted, or not, while another thread deletes other keys."""
    stop = threading.Event()

    def others() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            cache.set(("other", number % 100), number)
            cache.delete(("other", number % 50))

    beside = threading.Thread(target=others)
    beside.start()
    try:
        for turn in range(1000):
            token = lease(cache)
            is_deleted = turn % 3 == 0
            if is_deleted:
                thread = threading.Thread(target=cache.delete, args=("k",))
                thread.start()
                thread.join()
            assert finish(cache, token, turn) is not is_deleted
            assert cache.get("k") == (None if is_deleted else turn)
            cache.delete("k")
    finally:
        stop.set()
        beside.join()
