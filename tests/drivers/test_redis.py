"""The driver of Redis and Valkey, on servers that are started here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import pytest
from drivers.faults import FaultTests, Reach
from drivers.servers import Server

from tuckbox.drivers.redis import Redis
from tuckbox.testing.drivers import DriverTests

if TYPE_CHECKING:
    from collections.abc import Iterator

# The server's own limit, lowered so that a test can reach it.
LIMIT = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("redis")
    with Server("redis", folder, ("--proto-max-bulk-len", str(LIMIT), "--save", "")) as server:
        yield server


@pytest.fixture
def opened(server: Server, options: dict[str, Any]) -> Iterator[Callable[[], Redis]]:
    drivers: list[Redis] = []

    def open_driver() -> Redis:
        drivers.append(Redis("127.0.0.1", server.port, value_bytes_max=LIMIT - 8, **options))
        return drivers[-1]

    open_driver().clear(b"")
    yield open_driver
    for driver in drivers:
        driver.close()


class TestRedis(DriverTests):
    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return {}


class TestWithTtl(DriverTests):
    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return {"tells_ttl": True}


class TestFaults(FaultTests):
    @pytest.fixture
    def reach(self) -> Iterator[Reach]:
        drivers: list[Redis] = []

        def reach(port: int, timeout_s: float) -> Redis:
            drivers.append(Redis("127.0.0.1", port, timeout_s=timeout_s))
            return drivers[-1]

        yield reach
        for driver in drivers:
            driver.close()
