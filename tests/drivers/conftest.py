"""Servers, and tiers in front of them, each as if on its own machine."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Callable

import pytest

from drivers.clusters import ClusterServers, SentinelServers
from drivers.databases import Postgresql, make_database
from drivers.proxy import LOOPBACK, Proxy
from drivers.servers import Server, is_installed
from tuckbox import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server("redis", tmp_path_factory.mktemp("redis"), ("--save", "")) as server:
        yield server


@pytest.fixture(scope="module")
def memcached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server("memcached", tmp_path_factory.mktemp("memcached")) as server:
        yield server


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Postgresql("postgresql", tmp_path_factory.mktemp("postgresql")) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server("mariadb", tmp_path_factory.mktemp("mariadb")) as server:
        make_database(server)
        yield server


@pytest.fixture(scope="module")
def mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`mongod` if it is on the PATH. Debian has none; then it is mongo-java-server, which speaks
    the same protocol and is not MongoDB."""
    name, version = ("mongod", ()) if is_installed("mongod") else ("mongo_java_server", ("13",))
    with Server(name, tmp_path_factory.mktemp("mongodb"), version) as server:
        yield server


@pytest.fixture(scope="session")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServers]:
    with ClusterServers(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(started_cluster: ClusterServers) -> ClusterServers:
    """Six servers that form a cluster. Tests may change which ones are primaries."""
    started_cluster.settle()
    return started_cluster


@pytest.fixture(scope="session")
def sentinel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelServers]:
    """A primary, a replica and sentinels. Tests may change which one is the primary."""
    with SentinelServers(tmp_path_factory.mktemp("sentinel")) as sentinel:
        yield sentinel


@pytest.fixture
def proxy(redis: Server) -> Iterator[Proxy]:
    with Proxy((LOOPBACK, redis.port)) as proxy:
        yield proxy


@pytest.fixture
def machine(tmp_path: Path, redis: Server) -> Iterator[Callable[..., Any]]:
    """Opens tiers, each as if on its own machine."""
    opened: list[Any] = []
    numbers = itertools.count()

    def open_tiers(port: int = 0, *, near: str = "", far: str = "", **options: Any) -> Any:
        near = near or f"shared://{tmp_path}/{next(numbers)}.tuck?size=8MB"
        far = far or f"redis://{LOOPBACK}:{port or redis.port}?timeout_s=0.5"
        opened.append(connect(near, far, prefix=str(tmp_path), **options))
        return opened[-1]

    yield open_tiers
    for cache in opened:
        cache.close()
