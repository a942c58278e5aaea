"""The driver in a dictionary, and that the contract's tests catch broken drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import pytest

from tuckbox.drivers.memory import Memory
from tuckbox.testing.drivers import DriverTests

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuckbox.drivers.contract import Found, Version


class TestMemory(DriverTests):
    @pytest.fixture
    def opened(self) -> Callable[[], Memory]:
        driver = Memory()
        return lambda: driver


class CutsKeys(Memory):
    def _keep(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        super()._keep(key[:250], value, ttl_s)


class ForgetsVersions(Memory):
    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        self.set(key, value, ttl_s)
        return True


class KeepsForLong(Memory):
    def _keep(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        super()._keep(key, value, None)


class TellsTooMuch(Memory):
    def get(self, key: bytes) -> Optional[Found]:
        found = super().get(key)
        return found and found._replace(ttl_s=None if found.ttl_s is None else found.ttl_s + 9)


BROKEN = [
    (CutsKeys, lambda tests, driver: tests.test_any_key_finds_its_own_value(driver, "10 KB")),
    (ForgetsVersions, DriverTests.test_swap_replaces_what_was_seen_and_nothing_else),
    (KeepsForLong, DriverTests.test_a_value_is_missing_after_its_ttl),
    (TellsTooMuch, DriverTests.test_the_ttl_is_told_and_never_longer),
]


@pytest.mark.parametrize(("kind", "test"), BROKEN)
def test_a_broken_driver_is_caught(kind: type[Memory], test: Callable[..., None]) -> None:
    with pytest.raises(AssertionError):
        test(DriverTests(), kind())
    test(DriverTests(), Memory())
