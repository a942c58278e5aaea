"""The driver of Redis on a real cluster: where commands go, and when a watch must end."""

from __future__ import annotations

import gc
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable

import pytest
import redis
from redis.crc import key_slot

from drivers.certificates import certificate
from drivers.clusters import ADMIN, ClusterServers, drivers_of, until, watching
from drivers.faults import interrupted_at
from drivers.proxy import LOOPBACK, Proxy
from drivers.servers import Server, reserved_port
from tuckbox.drivers import redis_cluster
from tuckbox.drivers.redis import Redis
from tuckbox.errors import DriverError, Refused, Unreachable
from tuckbox.testing.drivers import DriverTests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANY = [b"k%d" % number for number in range(300)]
THREADS = 3


@pytest.fixture
def opened(cluster: ClusterServers) -> Iterator[Callable[..., Redis]]:
    with drivers_of(cluster) as open_driver:
        yield open_driver


@pytest.fixture
def driver(opened: Callable[..., Redis]) -> Redis:
    return opened()


class TestCluster(DriverTests):
    pass


def owner(cluster: ClusterServers, key: bytes) -> Server:
    """The primary that has a key's slot."""
    for server in cluster.primaries():
        words = next(line for line in cluster.nodes(server) if "myself" in line[2])
        for slots in words[8:]:
            first, _, last = slots.partition("-")
            if not slots.startswith("[") and int(first) <= key_slot(key) <= int(last or first):
                return server
    raise AssertionError(key)


# --- Where commands go -------------------------------------------------------------------------


def test_many_keys_take_one_trip_to_each_server(
    driver: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.ping()
    trips: list[Any] = []
    exchange = redis_cluster.exchange

    def counted(work: Any) -> Any:
        trips.append([node for node, _ in work])
        return exchange(work)

    monkeypatch.setattr(redis_cluster, "exchange", counted)
    driver.set_many([(key, key, 60) for key in MANY])
    assert {key: found.value for key, found in driver.get_many(MANY).items()} == {
        key: key for key in MANY
    }
    assert driver.delete_many([*MANY, b"missing"]) == len(MANY)
    assert [len(set(nodes)) for nodes in trips] == [3, 3, 3]
    assert [len(nodes) for nodes in trips] == [3, 3, 3]


# As in `LineFaultTests`.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:Exception ignored")
def test_an_interruption_at_any_line_mixes_no_answers(
    cluster: ClusterServers, opened: Callable[..., Redis]
) -> None:
    keys = MANY[:12]
    with ExitStack() as stack:
        for server in cluster.primaries():
            proxy = stack.enter_context(Proxy((LOOPBACK, server.port)))
            proxy.delay(0.005)  # So that the rest of the answers comes after the next request.
            announce = cluster.admin(server).config_set
            announce("cluster-announce-port", proxy.port)
            stack.callback(announce, "cluster-announce-port", 0)
            until(lambda: str(proxy.port) in str(cluster.nodes(cluster.servers[0])), "told")  # noqa: B023
        driver = opened()
        driver.set_many([(key, key, None) for key in keys])
        files = inspect.getfile(Redis).removesuffix(".py")
        line = 0
        while interrupted_at(line, lambda: driver.get_many(keys), files):
            found = driver.get_many(keys[::-1])
            assert {key: one.value for key, one in found.items()} == {key: key for key in keys}
            line += 1
        assert line > 100


def test_each_value_has_its_own_ttl(opened: Callable[..., Redis]) -> None:
    driver = opened(tells_ttl=True)
    driver.set_many([(key, key, None if number % 2 else 60) for number, key in enumerate(MANY)])
    found = driver.get_many(MANY)
    assert list(found) == MANY
    for number, value in enumerate(found.values()):
        assert (value.ttl_s is None) is (number % 2 == 1)


def test_it_lists_and_clears_all_servers(driver: Redis) -> None:
    driver.set_many([(key, b"v", None) for key in [*MANY, b"other"]])
    assert sorted(driver.scan(b"k")) == sorted(MANY)
    driver.clear(b"k")
    assert list(driver.scan(b"")) == [b"other"]


def test_any_server_tells_where_the_keys_are(cluster: ClusterServers, tmp_path: Path) -> None:
    dead = f"{LOOPBACK}:{reserved_port()}"
    for address in cluster.addresses:
        with closing(Redis(cluster=[dead, address])) as driver:
            driver.set_many([(key, b"v", 60) for key in MANY])
            assert len(driver.get_many(MANY)) == len(MANY)
    with closing(Redis(cluster=[dead])) as driver, pytest.raises(Unreachable, match="not answer"):
        driver.get(b"k")


def test_a_server_that_is_in_no_cluster(tmp_path: Path) -> None:
    with (
        Server("redis", tmp_path) as server,
        closing(Redis(cluster=[f"{LOOPBACK}:{server.port}"])) as driver,
        pytest.raises(Refused, match="cluster support disabled"),
    ):
        driver.get(b"k")


def test_one_server_of_a_cluster_is_not_enough(cluster: ClusterServers) -> None:
    with (
        closing(Redis(LOOPBACK, cluster.primaries()[0].port)) as driver,
        pytest.raises(Refused, match=r"part of a cluster: use redis\+cluster://"),
    ):
        driver.set_many([(key, b"v", 60) for key in MANY])


def test_a_cluster_that_misses_a_slot_does_not_answer(
    cluster: ClusterServers, driver: Redis
) -> None:
    server, slot = owner(cluster, b"k"), key_slot(b"k")
    driver.set(b"k", b"v", None)
    cluster.admin(server).execute_command("CLUSTER", "DELSLOTS", slot)
    try:
        with pytest.raises(Unreachable):
            driver.get(b"k")
        with closing(Redis.from_url(cluster.url)) as other, pytest.raises(Unreachable):
            other.get(b"k")
    finally:
        cluster.admin(server).execute_command("CLUSTER", "ADDSLOTS", slot)
    cluster.settle()
    driver.ping()


def test_credentials_and_tls(tmp_path: Path) -> None:
    paths = certificate(tmp_path)
    options = ("--cluster-enabled", "yes", "--cluster-port", str(reserved_port()))
    options += ("--tls-cert-file", paths[0], "--tls-key-file", paths[1], "--tls-auth-clients", "no")
    options += ("--tls-port", str(tls := reserved_port()), "--requirepass", "s3cret")
    options += ("--tls-cluster", "yes", "--tls-ca-cert-file", paths[0])
    with Server("redis", tmp_path, options) as server:
        with redis.Redis(LOOPBACK, server.port, password="s3cret") as admin:
            admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            until(lambda: admin.cluster("INFO")["cluster_state"] == "ok", "it is a cluster")
        ends = f"{LOOPBACK}:{tls}?tls_ca_file={paths[0]}"
        with closing(Redis.from_url(f"rediss+cluster://:s3cret@{ends}")) as driver:
            driver.set_many([(key, key, 60) for key in MANY])
            assert len(driver.get_many(MANY)) == len(MANY)
            told: list[Any] = []
            with driver.watch(b"", told.append) as watch:
                driver.delete_many(MANY)
                watch.confirm()
            assert sorted(key for keys in told for key in keys) == sorted(MANY)
        with closing(Redis.from_url(f"rediss+cluster://:wr0ng@{ends}")) as driver:
            with pytest.raises(Refused, match="give the user and password") as caught:
                driver.get(b"k")
            assert "wr0ng" not in str(caught.value)


@pytest.fixture
def collecting_nothing() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("collecting_nothing")
def test_connections_to_a_server_that_was_given_up_are_closed(
    cluster: ClusterServers, driver: Redis
) -> None:
    server = cluster.primaries()[0]
    replica = cluster.replica_of(server)

    def connections() -> int:
        told = cluster.admin(server).client_list(_type="normal")
        return len([one for one in told if one["name"] != ADMIN])

    others = connections()
    driver.set_many([(key, key, None) for key in MANY])
    with ThreadPoolExecutor(THREADS) as pool:
        meeting = threading.Barrier(THREADS, timeout=60)

        def use(_: int) -> None:
            meeting.wait()  # So that each thread has its own connection.
            driver.get_many(MANY)
            meeting.wait()

        list(pool.map(use, range(THREADS)))
        assert connections() == others + THREADS + 1
        server.pause()
        try:
            until(lambda: cluster.is_primary(replica), "a replica is promoted")
            until(lambda: answers(driver), "the driver has heard of it")
        finally:
            server.resume()
        until(lambda: not cluster.is_primary(server), "the server has heard of it")
        cluster.settle()
        until(lambda: connections() <= others, "its connections are closed")
        # The threads still run, and use the server when it is a primary again.
        cluster.fail_over(server)
        until(lambda: not cluster.is_primary(replica), "the former primary has heard of it")
        until(lambda: answers(driver), "the driver has heard of it, too")
        list(pool.map(use, range(THREADS)))
        assert THREADS <= connections() <= others + THREADS + 1


def answers(driver: Redis) -> bool:
    with suppress(DriverError):
        return len(driver.get_many(MANY)) == len(MANY)
    return False


# --- Slots that move ---------------------------------------------------------------------------


@contextmanager
def migrating(cluster: ClusterServers, key: bytes, target: Server) -> Iterator[Server]:
    """Have a key's slot migrate. Yields the source; the slot is back in the end."""
    source, slot = owner(cluster, key), key_slot(key)
    _set_slot(cluster, target, slot, "IMPORTING", source)
    _set_slot(cluster, source, slot, "MIGRATING", target)
    try:
        yield source
    finally:
        present = owner(cluster, key)
        if present is not source:
            _set_slot(cluster, source, slot, "IMPORTING", present)
            _set_slot(cluster, present, slot, "MIGRATING", source)
            move(cluster, key, present, source)
        for server in (source, target):
            cluster.admin(server).execute_command("CLUSTER", "SETSLOT", slot, "STABLE")


def _set_slot(cluster: ClusterServers, server: Server, slot: int, what: str, other: Server) -> None:
    cluster.admin(server).execute_command("CLUSTER", "SETSLOT", slot, what, cluster.name(other))


def move(cluster: ClusterServers, key: bytes, source: Server, target: Server) -> None:
    """Move the values of a migrating slot, and end the migration."""
    slot = key_slot(key)
    names = cluster.admin(source).execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
    if names:
        cluster.admin(source).execute_command(
            "MIGRATE", LOOPBACK, target.port, "", 0, 5000, "KEYS", *names
        )
    for server in (target, source):
        _set_slot(cluster, server, slot, "NODE", target)


def other_primary(cluster: ClusterServers, key: bytes) -> Server:
    source = owner(cluster, key)
    return next(server for server in cluster.primaries() if server is not source)


def test_a_slot_that_migrates(cluster: ClusterServers, driver: Redis) -> None:
    # In one slot: one is there before, the other is stored meanwhile.
    old, new, others = b"{slot}old", b"{slot}new", MANY[:20]
    driver.set_many([(key, b"before", None) for key in (old, *others)])
    version = driver.get(old).version  # type: ignore[union-attr]
    target = other_primary(cluster, old)
    with migrating(cluster, old, target) as source:
        assert driver.get(old).value == b"before"  # type: ignore[union-attr]
        assert driver.get(new) is None
        driver.set_many([(key, b"meanwhile", None) for key in (*others, new)])
        found = driver.get_many([new, *others, old])
        assert [one.value for one in found.values()] == [b"meanwhile"] * 21 + [b"before"]
        assert driver.add(new, b"again", None) is False
        move(cluster, old, source, target)
        assert driver.swap(old, b"after", None, version)
        found = driver.get_many([new, old])
        assert [one.value for one in found.values()] == [b"meanwhile", b"after"]
        assert sorted(driver.scan(b"{slot}")) == [new, old]
        assert driver.delete_many([old, new, *others]) == 22


# --- When a watch must end ---------------------------------------------------------------------


def assert_ended(watch: Any, told: list[Any]) -> None:
    """The watch ends and clears the near tier: after that it tells nothing."""
    with pytest.raises(Unreachable, match="has other primaries now"):
        watch.confirm()
    assert told[-1] is None
    for method in (watch.confirm, lambda: watch.wait(0.1)):
        with pytest.raises(Unreachable):
            method()


def test_a_watch_hears_all_servers(driver: Redis) -> None:
    with watching(driver) as (watch, told):
        for key in MANY:
            driver.set(key, b"v", None)
        watch.confirm()
        assert sorted(key for keys in told for key in keys) == sorted(MANY)


def test_a_watch_hears_both_servers_of_a_slot_that_migrates(
    cluster: ClusterServers, driver: Redis
) -> None:
    old, new = b"{slot}old", b"{slot}new"
    driver.set(old, b"v", None)
    target = other_primary(cluster, old)
    with watching(driver) as (watch, told), migrating(cluster, old, target) as source:
        driver.set(old, b"w", None)
        driver.set(new, b"w", None)
        watch.confirm()
        assert {key for keys in told for key in keys} == {old, new}
        move(cluster, old, source, target)
        told.clear()
        driver.set(old, b"x", None)
        # The migration may raise the epoch, which ends the watch. The message is told first.
        with suppress(Unreachable):
            watch.confirm()
        assert [old] in told


def test_a_watch_ends_when_a_replica_is_promoted(cluster: ClusterServers, driver: Redis) -> None:
    driver.set(b"k", b"v", None)
    replica = cluster.replica_of(owner(cluster, b"k"))
    with watching(driver) as (watch, told):
        cluster.fail_over(replica)  # Others may not have heard of it yet.
        assert_ended(watch, told)
    driver.set(b"k", b"w", None)
    assert owner(cluster, b"k") is replica
    with watching(driver) as (watch, told):
        driver.set(b"k", b"x", None)
        watch.confirm()
        assert told == [[b"k"]]


def test_a_watch_ends_when_an_epoch_rises(cluster: ClusterServers, driver: Redis) -> None:
    with watching(driver) as (watch, told):
        for server in cluster.primaries():
            cluster.admin(server).execute_command("CLUSTER", "BUMPEPOCH")
        assert_ended(watch, told)


def test_a_watch_ends_when_a_new_server_gets_a_slot(cluster: ClusterServers, driver: Redis) -> None:
    new = cluster.new()
    driver.set(b"k", b"v", None)
    source, slot = owner(cluster, b"k"), key_slot(b"k")
    with new:
        cluster.meet(new)
        for server in cluster.servers:
            until(lambda: len(cluster.nodes(server)) == 7, "all know the new one")  # noqa: B023
        until(lambda: len(cluster.nodes(new)) == 7, "the new one knows all")
        try:
            with watching(driver) as (watch, told):
                watch.confirm()  # It has no slot yet.
                _set_slot(cluster, new, slot, "IMPORTING", source)
                _set_slot(cluster, source, slot, "MIGRATING", new)
                assert_ended(watch, told)
            with pytest.raises(Unreachable):  # As long as it is no primary by its slots.
                driver.watch(b"", told.append)
        finally:
            cluster.admin(source).execute_command("CLUSTER", "SETSLOT", slot, "STABLE")
            name = cluster.name(new)
            new.kill()
            for server in cluster.servers:
                cluster.admin(server).execute_command("CLUSTER", "FORGET", name)


def test_a_watch_ends_when_a_server_is_lost(cluster: ClusterServers, driver: Redis) -> None:
    with watching(driver) as (watch, told):
        lost = cluster.primaries()[0]
        lost.kill()
        try:
            with pytest.raises(Unreachable):
                watch.confirm()
        finally:
            lost.start()
        assert None not in told  # Copies are served until the bound.
    cluster.settle()
