"""What Django's operations do here that Django's own tests leave open."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from attackers import Attacker
from tuckbox.errors import InvalidTTL, ValueTooLarge
from tuckbox.integrations.django import TuckboxCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuckbox import Cache

    Opened = Callable[..., TuckboxCache]

SMALL = {"size": "64 KiB"}


def ttl_of(raw: Cache, key: str) -> float | None:
    with Attacker(raw.path) as reader:
        entry = reader.get_entry(f":1:{key}")
    assert entry is not None
    return None if entry.expiry is None else entry.expiry - time.time()


@pytest.mark.parametrize(
    ("timeout", "ttl"),
    [(None, None), (60, 60), (2.5, 2.5), (True, 1), (10**9, 1e9), (float("inf"), None)],
)
def test_a_timeout_is_how_long_an_entry_lives(
    backend: TuckboxCache, raw: Cache, timeout: Any, ttl: float | None
) -> None:
    backend.set("set", 1, timeout)
    backend.add("add", 1, timeout)
    backend.set_many({"many": 1}, timeout)
    backend.set("touch", 1, 30)
    assert backend.touch("touch", timeout)
    for key in ("set", "add", "many", "touch"):
        assert ttl_of(raw, key) == (None if ttl is None else pytest.approx(ttl, abs=0.9))


@pytest.mark.parametrize(("default", "ttl"), [(None, None), (7200, 7200), ("60", 60)])
def test_the_default_timeout_is_that_of_the_settings(
    opened: Opened, raw: Cache, default: Any, ttl: float | None
) -> None:
    opened(TIMEOUT=default).set("key", "value")
    assert ttl_of(raw, "key") == (None if ttl is None else pytest.approx(ttl, abs=0.9))


@pytest.mark.parametrize("timeout", [0, -1, -0.5, False, -(10**9), float("-inf")])
def test_without_time_left_an_entry_goes(backend: TuckboxCache, raw: Cache, timeout: Any) -> None:
    backend.set_many({"set": 1, "touch": 1, "many": 1, "add": 1})
    backend.set("set", 2, timeout)
    assert backend.touch("touch", timeout)
    assert not backend.touch("touch", timeout)
    assert backend.set_many({"many": 2, "more": 2}, timeout) == []
    assert not backend.add("add", 2, timeout)
    assert backend.add("absent", 2, timeout)
    assert dict(raw.items()) == {":1:add": 1}


def test_a_default_timeout_of_zero_stores_nothing(opened: Opened, raw: Cache) -> None:
    backend = opened(TIMEOUT=0)
    backend.set("key", "value")
    assert len(raw) == 0


@pytest.mark.parametrize(
    ("timeout", "error"), [("60", TypeError), (float("nan"), InvalidTTL), (10**400, OverflowError)]
)
def test_what_is_no_timeout_is_refused(
    backend: TuckboxCache, timeout: Any, error: type[Exception]
) -> None:
    backend.set("key", "old")
    with pytest.raises(error):
        backend.set("key", "new", timeout)
    assert backend.get("key") == "old"


@pytest.mark.parametrize(
    "default", [None, "default", bytearray(b"\0default"), bytearray(b"\1default"), bytearray()]
)
def test_a_default_comes_back_as_it_is(backend: TuckboxCache, default: Any) -> None:
    assert backend.get("key", default) is default
    backend.set("key", None)
    assert backend.get("key", default) is None


def test_get_many_names_keys_as_the_caller_does(backend: TuckboxCache) -> None:
    backend.set_many({1: "one", "two": {3}, "none": None})
    found = backend.get_many(key for key in (1, "1", "two", "none", "missing"))
    assert found == {1: "one", "1": "one", "two": {3}, "none": None}
    assert list(found) == [1, "1", "two", "none"]
    backend.delete_many(iter(["1", "none"]))
    assert backend.get_many([1, "none", "two"]) == {"two": {3}}


@pytest.mark.parametrize(
    ("value", "delta", "total"),
    [
        (1, 2, 3),
        (1.5, 2, 3.5),
        (1, 0.5, 1.5),
        (True, 1, 2),
        (1, True, 2),
        (2**63 - 1, 1, 2**63),
        (-(2**63), -1, -(2**63) - 1),
        (2**80, -(2**80), 0),
        ("a", "b", "ab"),
        ([1], [2], [1, 2]),
        (bytearray(b"a"), b"b", bytearray(b"ab")),
        (Exception, 1, TypeError),
        ("1", 1, TypeError),
        (None, 1, TypeError),
    ],
)
def test_whatever_can_be_added_to_can_be_incremented(
    backend: TuckboxCache, raw: Cache, value: Any, delta: Any, total: Any
) -> None:
    backend.set("key", value, 1000)
    if total is TypeError:
        with pytest.raises(TypeError):
            backend.incr("key", delta)
        assert backend.get("key") == value
    else:
        assert backend.incr("key", delta) == total
        assert backend.get("key") == total
        assert type(backend.get("key")) is type(total)
    assert ttl_of(raw, "key") == pytest.approx(1000, abs=5)


@pytest.mark.parametrize("step", [1, 0.5])
def test_no_sum_of_many_threads_is_lost(backend: TuckboxCache, step: float) -> None:
    backend.set("sum", 0 * step, None)

    def add() -> None:
        for _ in range(500):
            backend.incr("sum", step)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert backend.get("sum") == 2000 * step


def test_what_is_missing_or_expired_cannot_be_incremented(backend: TuckboxCache) -> None:
    backend.set("key", 1.5, 0.01)
    time.sleep(0.02)
    for key in ("key", "missing"):
        for change in (backend.incr, backend.decr):
            with pytest.raises(ValueError, match=f"Key '{key}' not found"):
                change(key, 0.5)


def test_a_value_that_is_too_large_is_refused_and_the_old_one_stays(opened: Opened) -> None:
    backend = opened(OPTIONS={**SMALL, "on_error": "raise"})
    backend.set("key", "old")
    for value in ("v" * 10**6, {"v": "v" * 10**6}, bytearray(10**6), object()):
        with pytest.raises(ValueTooLarge):
            backend.set("key", [value] * 10**5 if type(value) is object else value)
        with pytest.raises(ValueTooLarge):
            backend.add("other", "v" * 10**6)
    assert backend.get_many(["key", "other"]) == {"key": "old"}


@pytest.mark.parametrize("small", ["small", bytearray(b"small"), ValueError])
def test_set_many_names_the_keys_of_values_that_are_too_large(
    opened: Opened, caplog: pytest.LogCaptureFixture, small: Any
) -> None:
    backend = opened(OPTIONS=SMALL)
    backend.set_many({"a": "old", "b": "old", 3: "old"})
    large = {"a": "v" * 10**6, "b": small, 3: ["v" * 10**6], "d": small}
    assert backend.set_many(large) == ["a", 3]
    assert backend.get_many([*large, "3"]) == {"b": small, "d": small}
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def test_nothing_is_stored_if_a_key_is_refused(opened: Opened) -> None:
    class Strict(TuckboxCache):
        def validate_key(self, key: Any) -> None:
            if key == ":1:b":
                raise ValueError(key)

    backend = opened(kind=Strict)
    with pytest.raises(ValueError, match=":1:b"):
        backend.set_many({"a": 1, "b": 2})
    assert backend.get("a") is None


def test_clear_takes_everything(opened: Opened, backend: TuckboxCache) -> None:
    backend.set("key", "value")
    opened(KEY_PREFIX="other").set("key", "value")
    assert opened(VERSION=2).clear() is None
    assert len(backend._cache) == 0


def test_closing_after_a_request_closes_nothing(backend: TuckboxCache) -> None:
    backend.set("key", "value")
    backend.close()
    backend.close(sender=None)
    assert backend.get("key") == "value"


def test_every_operation_opens_a_closed_handle_again(backend: TuckboxCache) -> None:
    for operation, *arguments in (
        (backend.set, "key", 1),
        (backend.set, "key", object),
        (backend.set_many, {"key": 1}),
        (backend.incr, "key"),
        (backend.get, "key"),
        (backend.get_many, ["key"]),
        (backend.has_key, "key"),
        (backend.touch, "key"),
        (backend.add, "key", 1),
        (backend.delete, "key"),
        (backend.delete_many, ["key"]),
        (backend.clear,),
    ):
        backend._opened().close()
        operation(*arguments)
        assert not backend._cache.closed, operation
