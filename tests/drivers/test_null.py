"""The driver that stores nothing: which part of the contract it keeps."""

from __future__ import annotations

import pytest

from tuckbox.drivers.contract import Driver
from tuckbox.drivers.null import Null
from tuckbox.errors import CacheClosed, InvalidArgument
from tuckbox.testing.drivers import KEYS, DriverTests


class TestNull:
    """The contract's tests that need no value to be kept."""

    @pytest.fixture
    def driver(self) -> Null:
        return Null()

    test_operations = DriverTests.test_it_has_every_operation
    test_limit = DriverTests.test_a_value_over_the_limit_is_refused_and_changes_nothing
    test_no_keys = DriverTests.test_no_keys_at_once
    test_closed = DriverTests.test_a_closed_driver_says_so


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_everything_is_a_miss(key):
    driver = Null()
    assert isinstance(driver, Driver)
    driver.set(key, b"v", None)
    driver.set_many([(key, b"v", 60)])
    assert driver.get(key) is None
    assert driver.get_many([key]) == {}
    assert driver.swap(key, b"v", None, 1) is False
    assert [driver.delete(key), driver.delete_many([key]), driver.touch(key, 1)] == [
        False,
        0,
        False,
    ]
    assert list(driver.scan(b"")) == []
    driver.clear(b"")


def test_each_of_several_adds_succeeds():
    driver = Null()
    assert [driver.add(b"k", b"1", None), driver.add(b"k", b"2", None)] == [True, True]


def test_every_operation_of_a_closed_one_is_refused():
    driver = Null()
    driver.close()
    for call in (
        lambda: driver.get(b"k"), lambda: driver.get_many([]), lambda: driver.set_many([]),
        lambda: driver.set(b"k", b"", None), lambda: driver.add(b"k", b"", None),
        lambda: driver.swap(b"k", b"", None, 1), lambda: driver.delete(b"k"),
        lambda: driver.touch(b"k", 1), lambda: driver.scan(b""), lambda: driver.clear(b""),
        driver.ping,
    ):  # fmt: skip
        with pytest.raises(CacheClosed):
            call()


@pytest.mark.parametrize("url", ["null://host", "null:///path", "null://?a=1", "nul://"])
def test_another_url_is_refused(url):
    with pytest.raises(InvalidArgument, match="null://"):
        Null.from_url(url)
    assert Null.from_url("null://").get(b"k") is None
