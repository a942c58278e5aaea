"""The tests that every driver passes, against the real place.

Subclass `DriverTests`, and give it a fixture ``opened`` that opens drivers on one empty place::

    class TestRedis(DriverTests):
        @pytest.fixture
        def opened(self, server):
            drivers = []

            def open_driver():
                drivers.append(Redis(server.url))
                return drivers[-1]

            yield open_driver
            for driver in drivers:
                driver.close()

Nothing here knows a place: what a place cannot do, its `Capabilities` say.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Callable, Optional

import pytest

from tuckbox.drivers.contract import KEY_BYTES_MAX, Driver, Found
from tuckbox.errors import CacheClosed, Unsupported, ValueTooLarge

__all__ = ["DriverTests", "is_gone"]

_TTL_S = 2.0
_ALL_BYTES = bytes(range(256))

KEYS = {
    "one byte": b"k",
    "zero": b"\x00",
    "text": "ключ".encode(),
    "spaces": b" a b ",
    "lines": b"a\r\nset b 0 0 1\r\n",
    "every byte": _ALL_BYTES,
    "patterns": b"*?[a-z]%_\\",
    "10 KB": b"k" * 10_000,
    "longest": b"\xff" * KEY_BYTES_MAX,
}
VALUES = {
    "empty": b"",
    "zero": b"\x00",
    "lines": b"END\r\nVALUE x 0 1\r\n",
    "every byte": _ALL_BYTES * 3,
    "1 MB": _ALL_BYTES * 3900,
}


def is_gone(driver: Driver, key: bytes, ttl_s: float) -> bool:
    """Return whether a value with this ttl, stored just now, is missing when it must be."""
    time.sleep(ttl_s + driver.capabilities.ttl_tolerance_s + 0.05)
    return driver.get(key) is None


def _in_threads(count: int, work: Callable[[int], object]) -> list[object]:
    """Run a function in several threads at once; return the results, or raise the first error."""
    results: list[object] = [None] * count
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            barrier.wait(30)
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)  # Raised below, in the test's own thread.

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
    return results


class DriverTests:
    """See the module."""

    @pytest.fixture
    def driver(self, opened: Callable[[], Driver]) -> Driver:
        """A driver on an empty place."""
        return opened()

    # --- One key -------------------------------------------------------------------------------

    def test_it_has_every_operation(self, driver: Driver) -> None:
        assert isinstance(driver, Driver)
        assert isinstance(driver.title, str)
        assert driver.title
        driver.ping()

    @pytest.mark.parametrize("name", KEYS)
    def test_any_key_finds_its_own_value(self, driver: Driver, name: str) -> None:
        key = KEYS[name]
        others = [key[:-1] + bytes([key[-1] ^ 1]), key[:-1] or b"other"]
        assert driver.get(key) is None
        driver.set(key, b"own", None)
        for number, other in enumerate(others):
            driver.set(other, b"%d" % number, None)
        assert _value(driver, key) == b"own"
        assert [_value(driver, other) for other in others] == [b"0", b"1"]
        assert driver.delete(key) is True
        assert driver.get(key) is None
        assert [_value(driver, other) for other in others] == [b"0", b"1"]

    @pytest.mark.parametrize("name", VALUES)
    def test_any_value_comes_back(self, driver: Driver, name: str) -> None:
        value = VALUES[name]
        limit = driver.capabilities.value_bytes_max
        if limit is not None and len(value) > limit:
            value = value[:limit]
        driver.set(b"k", value, None)
        found = driver.get(b"k")
        assert found is not None
        assert (found.value, type(found.value)) == (value, bytes)
        assert driver.get_many([b"k"])[b"k"].value == value

    def test_a_value_over_the_limit_is_refused_and_changes_nothing(self, driver: Driver) -> None:
        limit = driver.capabilities.value_bytes_max
        if limit is None:
            return
        driver.set(b"k", b"old", None)
        for store in (driver.set, driver.add):
            with pytest.raises(ValueTooLarge):
                store(b"k", b"x" * (limit + 1), None)
        with pytest.raises(ValueTooLarge):
            driver.set_many([(b"k", b"x" * (limit + 1), None)])
        assert _value(driver, b"k") == b"old"
        driver.set(b"k", b"x" * limit, None)
        assert driver.get(b"k") is not None

    def test_set_replaces_and_delete_deletes(self, driver: Driver) -> None:
        driver.set(b"k", b"long before", None)
        driver.set(b"k", b"new", None)
        assert _value(driver, b"k") == b"new"
        assert [driver.delete(b"k"), driver.delete(b"k"), driver.get(b"k")] == [True, False, None]

    def test_add_stores_only_where_nothing_is(self, driver: Driver) -> None:
        assert [driver.add(b"k", b"1", None), driver.add(b"k", b"2", None)] == [True, False]
        assert _value(driver, b"k") == b"1"
        driver.delete(b"k")
        assert driver.add(b"k", b"3", None) is True

    # --- Versions ------------------------------------------------------------------------------

    def test_swap_replaces_what_was_seen_and_nothing_else(self, driver: Driver) -> None:
        driver.set(b"k", b"1", None)
        first = _found(driver, b"k")
        assert driver.swap(b"k", b"2", None, first.version) is True
        assert driver.swap(b"k", b"3", None, first.version) is False
        second = _found(driver, b"k")
        assert second.value == b"2"
        driver.set(b"k", b"2", None)  # The same bytes, but stored again.
        assert driver.swap(b"k", b"4", None, second.version) is False
        third = driver.get_many([b"k"])[b"k"]
        driver.delete(b"k")
        assert driver.swap(b"k", b"5", None, third.version) is False
        assert driver.get(b"k") is None
        driver.add(b"k", b"2", None)
        assert driver.swap(b"k", b"6", None, third.version) is False

    def test_delete_of_a_version_leaves_others(self, driver: Driver) -> None:
        driver.set(b"k", b"1", None)
        old = _found(driver, b"k").version
        driver.set(b"k", b"2", None)
        assert driver.delete(b"k", old) is False
        assert driver.delete(b"k", _found(driver, b"k").version) is True
        assert driver.delete(b"k", old) is False

    def test_of_several_that_add_one_does(self, driver: Driver) -> None:
        for attempt in range(5):
            key = b"race %d" % attempt
            added = _in_threads(
                8,
                lambda number, key=key: driver.add(key, b"%d" % number, None),  # type: ignore[misc]
            )
            assert added.count(True) == 1
            assert _value(driver, key) == b"%d" % added.index(True)

    def test_no_swap_is_lost(self, driver: Driver) -> None:
        driver.set(b"count", b"0", None)

        def count(_number: int) -> None:
            done = 0
            while done < 20:
                found = _found(driver, b"count")
                more = b"%d" % (int(found.value) + 1)
                done += driver.swap(b"count", more, None, found.version)

        _in_threads(4, count)
        assert _value(driver, b"count") == b"80"

    # --- Time ----------------------------------------------------------------------------------

    def test_a_value_is_missing_after_its_ttl(self, driver: Driver) -> None:
        driver.set(b"set", b"1", _TTL_S)
        driver.add(b"add", b"1", _TTL_S)
        driver.set(b"swap", b"1", None)
        version = _found(driver, b"swap").version
        driver.swap(b"swap", b"2", _TTL_S, version)
        driver.set_many([(b"many", b"1", _TTL_S), (b"long", b"1", 3600), (b"ever", b"1", None)])
        driver.set(b"touched", b"1", None)
        driver.touch(b"touched", _TTL_S)
        driver.set(b"longer", b"1", _TTL_S)
        driver.touch(b"longer", 3600)
        short = [b"set", b"add", b"swap", b"many", b"touched"]
        assert is_gone(driver, b"set", _TTL_S)
        assert set(driver.get_many([*short, b"long", b"ever", b"longer"])) == {
            b"long", b"ever", b"longer"
        }  # fmt: skip
        assert [driver.touch(key, None) for key in short] == [False] * 5
        assert driver.add(b"add", b"2", None) is True

    def test_a_version_ends_with_its_ttl(self, driver: Driver) -> None:
        driver.set(b"k", b"1", _TTL_S)
        version = _found(driver, b"k").version
        assert is_gone(driver, b"k", _TTL_S)
        assert driver.swap(b"k", b"2", None, version) is False

    def test_touch_can_take_the_ttl_away(self, driver: Driver) -> None:
        driver.set(b"k", b"1", _TTL_S)
        assert [driver.touch(b"k", None), driver.touch(b"k", None)] == [True, True]
        driver.set(b"other", b"1", _TTL_S)
        assert is_gone(driver, b"other", _TTL_S)
        assert _value(driver, b"k") == b"1"
        assert driver.touch(b"missing", 60) is False

    def test_the_ttl_is_told_and_never_longer(self, driver: Driver) -> None:
        driver.set(b"k", b"1", 60)
        driver.set(b"ever", b"1", None)
        told = [_found(driver, b"k").ttl_s, driver.get_many([b"k"])[b"k"].ttl_s]
        if driver.capabilities.tells_ttl:
            assert all(ttl_s is not None and 0 < ttl_s <= 60 for ttl_s in told)
        else:
            assert told == [None, None]
        assert _found(driver, b"ever").ttl_s is None

    # --- Several keys --------------------------------------------------------------------------

    def test_many_keys_at_once(self, driver: Driver) -> None:
        items = [(b"key %d" % number, b"%d" % number, None) for number in range(300)]
        driver.set_many(items)
        keys = [b"key %d" % number for number in range(0, 600, 2)]
        found = driver.get_many(keys)
        assert {key: one.value for key, one in found.items()} == {
            b"key %d" % number: b"%d" % number for number in range(0, 300, 2)
        }
        assert driver.delete_many(keys) == 150
        assert driver.get_many(keys) == {}
        assert len(driver.get_many([key for key, _, _ in items])) == 150

    def test_no_keys_at_once(self, driver: Driver) -> None:
        driver.set_many([])
        assert (driver.get_many([]), driver.delete_many([])) == ({}, 0)

    def test_one_key_several_times(self, driver: Driver) -> None:
        driver.set_many([(b"k", b"1", None), (b"k", b"2", None)])
        assert {key: one.value for key, one in driver.get_many([b"k", b"k"]).items()} == {
            b"k": b"2"
        }
        assert driver.delete_many([b"k", b"k"]) == 1

    @pytest.mark.parametrize("prefix", [b"", b"a:", b"*", b"a[b", b"%_", b"\\", b"\x00\xff", b" "])
    def test_a_prefix_is_taken_as_it_is(self, driver: Driver, prefix: bytes) -> None:
        keys = {
            b"a:1",
            b"a:2",
            b"ab",
            b"b",
            b"*",
            b"a[b]c",
            b"%_%",
            b"\\\\",
            b"\x00\xff\x00",
            b"  ",
        }
        driver.set_many([(key, b"v", None) for key in keys])
        wanted = {key for key in keys if key.startswith(prefix)}
        if not driver.capabilities.scans:
            with pytest.raises(Unsupported):
                list(driver.scan(prefix))
            with pytest.raises(Unsupported):
                driver.clear(prefix)
            return
        listed = list(driver.scan(prefix))
        assert (set(listed), len(listed)) == (wanted, len(wanted))
        driver.clear(prefix)
        assert set(driver.get_many(sorted(keys))) == keys - wanted

    def test_a_scan_of_many_keys_is_whole(self, driver: Driver) -> None:
        if not driver.capabilities.scans:
            return
        wanted = {b"scan:%d" % number for number in range(2500)}
        driver.set_many([(key, b"v", None) for key in [*wanted, b"other"]])
        assert set(driver.scan(b"scan:")) == wanted
        driver.clear(b"scan:")
        assert list(driver.scan(b"")) == [b"other"]

    # --- Threads, processes, handles -----------------------------------------------------------

    def test_threads_get_their_own_answers(self, driver: Driver) -> None:
        def work(number: int) -> None:
            key = b"thread %d" % number
            for step in range(50):
                value = b"%d:%d" % (number, step) * (step % 7 * 100 + 1)
                driver.set(key, value, None)
                assert _value(driver, key) == value
                assert driver.get_many([key, b"missing"])[key].value == value

        _in_threads(8, work)

    def test_a_second_handle_sees_the_first_ones_values(
        self, driver: Driver, opened: Callable[[], Driver]
    ) -> None:
        if not driver.capabilities.between_processes:
            return
        other = opened()
        driver.set(b"k", b"1", None)
        assert _value(other, b"k") == b"1"
        assert other.swap(b"k", b"2", None, _found(driver, b"k").version) is True
        assert _value(driver, b"k") == b"2"
        other.delete(b"k")
        assert driver.get(b"k") is None

    def test_parent_and_child_do_not_mix_their_answers(self, driver: Driver) -> None:
        if not driver.capabilities.between_processes or not hasattr(os, "fork"):
            return
        driver.set(b"before", b"1", None)

        def work(name: bytes) -> None:
            for step in range(100):
                value = b"%b:%d" % (name, step)
                driver.set(name, value, None)
                assert _value(driver, name) == value

        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(b"child")
                code = 0
            finally:
                os._exit(code)
        work(b"parent")
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert _value(driver, b"before") == b"1"
        assert _value(driver, b"child") == b"child:99"

    def test_a_closed_driver_says_so(self, driver: Driver) -> None:
        driver.set(b"k", b"1", None)
        driver.close()
        driver.close()
        with pytest.raises(CacheClosed):
            driver.get(b"k")
        with pytest.raises(CacheClosed):
            driver.set(b"k", b"1", None)


def _found(driver: Driver, key: bytes) -> Found:
    found = driver.get(key)
    assert found is not None
    return found


def _value(driver: Driver, key: bytes) -> Optional[bytes]:
    found = driver.get(key)
    return None if found is None else found.value
