"""The driver of memcached, on servers that are started here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable

import pytest
from drivers.faults import FaultTests, Reach
from drivers.servers import Server

from tuckbox.drivers.memcached import Memcached
from tuckbox.testing.drivers import DriverTests

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server("memcached", tmp_path_factory.mktemp("memcached")) as server:
        yield server


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server("memcached", tmp_path_factory.mktemp("second")) as server:
        yield server


def _emptied(port: int) -> str:
    import pymemcache

    client = pymemcache.Client(("127.0.0.1", port))
    client.flush_all(noreply=False)
    client.close()
    return f"127.0.0.1:{port}"


@contextmanager
def _opening(*ports: int) -> Iterator[Callable[[], Memcached]]:
    drivers: list[Memcached] = []
    servers = [_emptied(port) for port in ports]

    def open_driver() -> Memcached:
        drivers.append(Memcached(*servers))
        return drivers[-1]

    yield open_driver
    for driver in drivers:
        driver.close()


class TestMemcached(DriverTests):
    @pytest.fixture
    def opened(self, server: Server) -> Iterator[Callable[[], Memcached]]:
        with _opening(server.port) as opened:
            yield opened


class TestTwoServers(DriverTests):
    @pytest.fixture
    def opened(self, server: Server, second: Server) -> Iterator[Callable[[], Memcached]]:
        with _opening(server.port, second.port) as opened:
            yield opened


class TestFaults(FaultTests):
    @pytest.fixture
    def reach(self) -> Iterator[Reach]:
        drivers: list[Memcached] = []

        def reach(port: int, timeout_s: float) -> Memcached:
            drivers.append(Memcached(f"127.0.0.1:{port}", timeout_s=timeout_s))
            return drivers[-1]

        yield reach
        for driver in drivers:
            driver.close()
