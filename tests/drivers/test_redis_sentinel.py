"""The driver of Redis at the primary that real sentinels name."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Callable

import pytest

from drivers.certificates import certificate
from drivers.clusters import SERVICE, Secrets, SentinelServers, drivers_of, until, watching
from drivers.proxy import LOOPBACK
from drivers.servers import reserved_port
from tuckbox.drivers.redis import Redis
from tuckbox.errors import Refused, Unreachable
from tuckbox.testing.drivers import DriverTests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from drivers.servers import Server


@pytest.fixture
def opened(sentinel: SentinelServers) -> Iterator[Callable[..., Redis]]:
    with drivers_of(sentinel) as open_driver:
        yield open_driver


@pytest.fixture
def driver(opened: Callable[..., Redis]) -> Redis:
    return opened()


class TestSentinel(DriverTests):
    pass


def primary(sentinel: SentinelServers) -> Server:
    """The server that the sentinels name."""
    port = sentinel.named(sentinel.sentinels[0])
    return next(one for one in (sentinel.primary, sentinel.replica) if one.port == port)


def stores(driver: Redis, value: bytes) -> bool:
    with suppress(Unreachable):
        driver.set(b"k", value, None)
        return True
    return False


# --- Failovers ---------------------------------------------------------------------------------


def test_a_primary_that_dies_is_replaced(sentinel: SentinelServers, driver: Redis) -> None:
    told: list[Any] = []
    driver.set(b"k", b"old", None)
    dead = primary(sentinel)
    with driver.watch(b"", told.append) as watch:
        dead.kill()
        try:
            with pytest.raises(Unreachable, match=f"redis {SERVICE} by the sentinels at"):
                watch.confirm()
            with pytest.raises(Unreachable):
                driver.get(b"k")
            until(lambda: stores(driver, b"new"), "the new primary takes writes")
        finally:
            dead.start()
        assert None not in told  # Copies are served until the bound.
    assert driver.get(b"k").value == b"new"  # type: ignore[union-attr]
    with watching(driver) as (watch, told):
        driver.set(b"k", b"newer", None)
        watch.confirm()
        assert told == [[b"k"]]
    until(lambda: primary(sentinel) is not dead, "all sentinels name the new one")


def test_a_primary_that_becomes_a_replica_is_replaced(
    sentinel: SentinelServers, driver: Redis
) -> None:
    driver.set(b"k", b"v", None)
    old = primary(sentinel)
    sentinel.admin(sentinel.sentinels[0]).execute_command("SENTINEL FAILOVER", SERVICE)
    until(lambda: sentinel.admin(old).role()[0] == "slave", "it becomes a replica")
    until(lambda: stores(driver, b"w"), "the new primary takes writes")
    with closing(Redis(LOOPBACK, primary(sentinel).port)) as direct:
        assert direct.get(b"k").value == b"w"  # type: ignore[union-attr]


def test_a_replica_that_refuses_a_write_leads_to_the_sentinels(
    sentinel: SentinelServers, driver: Redis
) -> None:
    driver.set(b"k", b"v", None)
    version = driver.get(b"k").version  # type: ignore[union-attr]
    admin = sentinel.admin(primary(sentinel))
    for one in sentinel.sentinels:
        one.pause()  # They would undo this, and end the connections.
    try:
        admin.execute_command("REPLICAOF", LOOPBACK, reserved_port())
        for write in (
            lambda: driver.set(b"k", b"w", None),
            lambda: driver.swap(b"k", b"w", None, version),
        ):
            with pytest.raises(Unreachable):
                write()
    finally:
        admin.execute_command("REPLICAOF", "NO", "ONE")
        for one in sentinel.sentinels:
            one.resume()
    until(lambda: stores(driver, b"x"), "it is a primary again")


def test_a_watch_ends_when_a_sentinel_names_another_primary(
    sentinel: SentinelServers, driver: Redis
) -> None:
    """The old primary answers as before: it may be cut off from the sentinels."""
    told: list[Any] = []
    known = primary(sentinel)
    other = sentinel.replica if known is sentinel.primary else sentinel.primary
    asked = sentinel.sentinels[-1]
    last = sentinel.admin(asked)

    def name(server: Server) -> None:
        last.execute_command("SENTINEL REMOVE", SERVICE)
        last.execute_command("SENTINEL MONITOR", SERVICE, LOOPBACK, server.port, 2)

    def confirms_what_another_is_told(watch: Any) -> bool:
        name(other)
        try:
            watch.confirm()
        except Unreachable as error:
            assert "has another primary now" in str(error)
            return False
        # The others may have told it the old primary before it was asked.
        assert sentinel.named(asked) != other.port, "it names another primary"
        return True

    with driver.watch(b"", told.append) as watch:
        watch.confirm()
        try:
            assert not all(confirms_what_another_is_told(watch) for _ in range(50))
            assert told == [None]
            with pytest.raises(Unreachable):
                watch.confirm()
        finally:
            name(known)


def test_a_sentinel_that_is_down_is_not_missed(sentinel: SentinelServers, driver: Redis) -> None:
    down = sentinel.sentinels[0]
    down.kill()
    try:
        driver.set(b"k", b"v", None)
        with closing(Redis.from_url(sentinel.url)) as other:
            assert other.get(b"k").value == b"v"  # type: ignore[union-attr]
            with other.watch(b"", print) as watch:
                watch.confirm()
    finally:
        down.start()
        sentinel.hasten(down)


# --- Ways to reach it --------------------------------------------------------------------------


def test_nobody_knows_the_service(sentinel: SentinelServers) -> None:
    with (
        closing(Redis(sentinels=sentinel.addresses, service="others")) as driver,
        pytest.raises(Unreachable, match="No master found for 'others'"),
    ):
        driver.get(b"k")
    with (
        closing(Redis(sentinels=[f"{LOOPBACK}:{reserved_port()}"], service=SERVICE)) as driver,
        pytest.raises(Unreachable, match="No master found"),
    ):
        driver.get(b"k")


def test_credentials_and_tls(tmp_path: Path) -> None:
    paths = certificate(tmp_path)
    tls = ("--tls-cert-file", paths[0], "--tls-key-file", paths[1], "--tls-auth-clients", "no")
    tls += ("--tls-replication", "yes", "--tls-ca-cert-file", paths[0])
    secrets = Secrets("s3cret", "k3y", tls, paths[0])
    with SentinelServers(tmp_path / "servers", sentinels=1, secrets=secrets) as servers:
        ends = f"{servers.addresses[0]}/{SERVICE}/1?tls_ca_file={paths[0]}"
        url = f"rediss+sentinel://:s3cret@{ends}"
        with closing(Redis.from_url(f"{url}&sentinel_password=k3y")) as driver:
            driver.set(b"k", b"v", None)
            assert driver.get(b"k").value == b"v"  # type: ignore[union-attr]
            with driver.watch(b"", print) as watch:
                watch.confirm()
            assert "s3cret" not in driver.title + repr(driver)
        with closing(Redis.from_url(url)) as driver:
            with pytest.raises((Refused, Unreachable), match="uthentication") as caught:
                driver.get(b"k")
            assert "s3cret" not in str(caught.value)
