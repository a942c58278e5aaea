"""The driver of Redis and Valkey, on servers that are started here."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

import pytest
import redis
from lab.runner.install.archives import FOLDER_VARIABLE

from drivers.certificates import certificate
from drivers.faults import LineFaultTests, Reach, answering
from drivers.servers import Server, is_installed
from tuckbox.drivers.redis import VALUE_BYTES_MAX, Redis
from tuckbox.errors import (
    CacheClosed,
    ClientMissing,
    InvalidArgument,
    Refused,
    Unreachable,
    ValueTooLarge,
)
from tuckbox.testing.drivers import DriverTests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "127.0.0.1"
# The server's own limit, lowered so that a test can reach it.
LIMIT = 1 << 20
# Debian 12 has no Valkey: it is tested where the lab can build it.
CAN_BUILD = os.environ.get("CI") == "true" and bool(os.environ.get(FOLDER_VARIABLE))
PROGRAMS = ["redis"] + ["valkey"] * (is_installed("valkey") or CAN_BUILD)


@pytest.fixture(scope="module", params=PROGRAMS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("redis")
    options = (
        "--proto-max-bulk-len",
        str(LIMIT),
        "--save",
        "",
        "--enable-protected-configs",
        "yes",
    )
    with Server(request.param, folder, options) as server:
        yield server


@contextmanager
def opening(**options: Any) -> Iterator[Callable[..., Redis]]:
    drivers: list[Redis] = []

    def open_driver(**more: Any) -> Redis:
        drivers.append(Redis(HOST, **{**options, **more}))
        return drivers[-1]

    yield open_driver
    for driver in drivers:
        driver.close()


@pytest.fixture
def opened(server: Server, options: dict[str, Any]) -> Iterator[Callable[..., Redis]]:
    with opening(port=server.port, value_bytes_max=LIMIT - 8, **options) as open_driver:
        open_driver().clear(b"")
        yield open_driver


@pytest.fixture
def options() -> dict[str, Any]:
    return {}


@pytest.fixture
def raw(server: Server) -> Iterator[redis.Redis]:
    """The server, as an operator reaches it."""
    with redis.Redis(HOST, server.port, protocol=2) as client:
        yield client


class TestRedis(DriverTests):
    pass


class TestWithTtl(DriverTests):
    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return {"tells_ttl": True}


class TestFaults(LineFaultTests):
    @pytest.fixture
    def reach(self) -> Iterator[Reach]:
        with opening() as open_driver:
            yield lambda port, timeout_s: open_driver(port=port, timeout_s=timeout_s)


class TestFaultsWithTtl(LineFaultTests):
    @pytest.fixture
    def reach(self) -> Iterator[Reach]:
        with opening(tells_ttl=True) as open_driver:
            yield lambda port, timeout_s: open_driver(port=port, timeout_s=timeout_s)


# --- What is stored ----------------------------------------------------------------------------


def test_a_value_is_a_string_behind_eight_bytes(opened: Any, raw: redis.Redis) -> None:
    opened().set(b"k", b"value", 100.0004)
    assert raw.get(b"k")[8:] == b"value"
    assert 99_000 < raw.pttl(b"k") <= 100_000


@pytest.mark.parametrize(("ttl_s", "least_ms", "most_ms"), [
    (1e-9, 0, 1), (0.0019, 0, 1), (1e300, 1 << 52, 1 << 53), (float("inf"), 1 << 52, 1 << 53),
])  # fmt: skip
def test_extreme_ttls(
    opened: Any, raw: redis.Redis, ttl_s: float, least_ms: int, most_ms: int
) -> None:
    driver = opened()
    driver.set(b"ever", b"1", None)
    version = driver.get(b"ever").version
    for store in (
        lambda: driver.set(b"k", b"v", ttl_s),
        lambda: driver.add(b"new", b"v", ttl_s),
        lambda: driver.swap(b"ever", b"v", ttl_s, version),
    ):
        store()
    for key in (b"k", b"new", b"ever"):
        left = raw.pttl(key)
        assert left == -2 or least_ms <= left <= most_ms


def test_values_of_other_programs_are_missing(opened: Any, raw: redis.Redis) -> None:
    raw.set("short", "1234567")
    raw.rpush("list", "a")
    driver, telling = opened(), opened(tells_ttl=True)
    for one in (driver, telling):
        assert one.get_many([b"short", b"list"]) == {}
    with pytest.raises(Refused, match=r"WRONGTYPE.*give a database that no other program uses"):
        driver.swap(b"list", b"v", None, b"12345678")
    driver.set(b"list", b"v", None)
    assert driver.get(b"list").value == b"v"


def test_a_server_that_forgot_the_scripts_gets_them_again(opened: Any, raw: redis.Redis) -> None:
    driver = opened(tells_ttl=True)
    for value in (b"1", b"2"):
        raw.script_flush()
        driver.set(b"k", value, None)
        raw.script_flush()
        version = driver.get(b"k").version
        raw.script_flush()
        assert driver.swap(b"k", value * 2, None, version)
        assert driver.get(b"k").value == value * 2
        raw.script_flush()
        assert driver.delete(b"k", driver.get(b"k").version)


def test_a_scan_that_repeats_keys_tells_each_once(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = opened()
    pages = [[b"a", b"b", b"a"], [], [b"b", b"c"]]
    monkeypatch.setattr(driver, "_pages", lambda _: iter(pages))
    assert list(driver.scan(b"")) == [b"a", b"b", b"c"]


def test_a_server_that_takes_less_than_the_driver_refuses(opened: Any) -> None:
    driver = opened(value_bytes_max=VALUE_BYTES_MAX)
    driver.set(b"k", b"old", None)
    # The server closes the connection: before it has read everything, or after its answer, and then
    # sometimes not before the next command.
    for _ in range(50):
        with pytest.raises((Refused, Unreachable)):
            driver.set(b"k", b"x" * LIMIT, None)
        assert driver.get(b"k").value == b"old"
    with pytest.raises(ValueTooLarge, match="store it in parts"):
        opened(value_bytes_max=10).set(b"k", b"x" * 11, None)


# --- Servers that refuse -----------------------------------------------------------------------


@pytest.fixture
def refusals(opened: Any) -> Callable[[str], None]:
    """Checks that what stores is refused with an advice, and what reads works."""
    driver = opened()
    driver.set(b"k", b"old", None)
    version = driver.get(b"k").version

    def refuses(match: str) -> None:
        for store in (
            lambda: driver.set(b"k", b"new", None),
            lambda: driver.set_many([(b"k", b"new", None), (b"l", b"new", None)]),
            lambda: driver.add(b"l", b"new", 5),
            lambda: driver.swap(b"k", b"new", None, version),
        ):
            with pytest.raises(Refused, match=match):
                store()
        assert driver.get_many([b"k", b"l"])[b"k"].value == b"old"

    return refuses


def test_a_full_server_refuses(refusals: Any, raw: redis.Redis) -> None:
    raw.config_set("maxmemory", 1)
    try:
        refusals("refuses: .*maxmemory.*; raise its maxmemory, or")
    finally:
        raw.config_set("maxmemory", 0)


def test_a_replica_refuses(refusals: Any, raw: redis.Redis) -> None:
    raw.execute_command("REPLICAOF", HOST, 1)
    try:
        refusals("read only replica.*; give the address of the primary")
    finally:
        raw.execute_command("REPLICAOF", "NO", "ONE")


def test_a_server_that_cannot_save_refuses(refusals: Any, raw: redis.Redis, tmp_path: Path) -> None:
    before = raw.config_get("dir")["dir"]
    folder = tmp_path / "removed"
    folder.mkdir()
    raw.config_set("dir", str(folder))
    shutil.rmtree(folder)
    raw.config_set("save", "3600 1000000")
    try:
        raw.bgsave()
        give_up = time.monotonic() + 30
        while raw.info("persistence")["rdb_last_bgsave_status"] != "err":
            assert time.monotonic() < give_up
            time.sleep(0.01)
        refusals("MISCONF.*; the server cannot save: free its disk")
    finally:
        raw.config_set("save", "")
        raw.config_set("dir", before)


def test_a_server_that_still_loads_refuses() -> None:
    loading = b"-LOADING Redis is loading the dataset in memory\r\n" * 9
    with answering(loading) as port, opening(port=port) as open_driver:
        driver = open_driver()
        with pytest.raises(Refused, match="try again when the server has loaded"):
            driver.get(b"k")


def test_credentials(server: Server, raw: redis.Redis) -> None:
    raw.execute_command("ACL", "SETUSER", "reader", "on", ">s3cret", "~*", "+@read", "+@connection")
    raw.config_set("requirepass", "s3cret")
    url = f"{HOST}:{server.port}"
    try:
        for login, match in (
            ("", "uthentication required.*; give the user and password"),
            (":wr0ng@", "; give the user and password"),
            ("reader:wr0ng@", "; give the user and password"),
        ):
            driver = Redis.from_url(f"redis://{login}{url}")
            with pytest.raises(Refused, match=match) as caught:
                driver.get(b"k")
            assert "wr0ng" not in str(caught.value)
            driver.close()
        for login in (":s3cret@", "reader:s3cret@", "default:%733cret@"):
            driver = Redis.from_url(f"redis://{login}{url}")
            assert driver.get(b"missing") is None
            assert "s3cret" not in driver.title + repr(driver)
            driver.close()
        driver = Redis.from_url(f"redis://reader:s3cret@{url}")
        with pytest.raises(Refused, match="let its ACL allow"):
            driver.set(b"k", b"v", None)
        driver.close()
    finally:
        raw.config_set("requirepass", "")


# --- Ways to reach a server --------------------------------------------------------------------


def test_a_socket(tmp_path: Path) -> None:
    with Server("redis", tmp_path, at_socket=True) as server:
        driver = Redis.from_url(f"unix://{server.path}?database=3")
        other = Redis(path=server.path)
        driver.set(b"k", b"v", None)
        assert (driver.get(b"k").value, other.get(b"k")) == (b"v", None)
        server.kill()
        with pytest.raises(Unreachable, match=f"redis at {server.path} does not answer"):
            driver.get(b"k")
        driver.close()
        other.close()


def test_tls(tmp_path: Path) -> None:
    paths = certificate(tmp_path)
    options = ("--tls-cert-file", paths[0], "--tls-key-file", paths[1], "--tls-auth-clients", "no")
    with Server("redis", tmp_path, options) as server:
        with redis.Redis(HOST, server.port, protocol=2) as raw:
            raw.config_set("port", 0)
            raw.config_set("tls-port", server.port)
        driver = Redis.from_url(f"rediss://{HOST}:{server.port}?tls_ca_file={paths[0]}")
        driver.set(b"k", b"v", None)
        assert driver.get(b"k").value == b"v"
        driver.close()
        for url in (f"rediss://{HOST}:{server.port}", f"redis://{HOST}:{server.port}"):
            driver = Redis.from_url(url)
            with pytest.raises(Unreachable):
                driver.get(b"k")
            driver.close()


@pytest.mark.parametrize(("url", "message"), [
    ("http://:s3cret@h", "the scheme 'http' is not known here"),
    ("redis://:s3cret@h?databases=1", "unknown option 'databases'; use one of: database, "),
    ("redis://:s3cret@h?database=one", "option 'database' has a wrong value 'one'"),
    ("redis://:s3cret@h?tells_ttl=maybe", "option 'tells_ttl' has a wrong value 'maybe'"),
    ("redis://:s3cret@h:port", "'h:port' has a wrong port; give host:port, such as host:6379"),
    ("redis://:s3cret@h:70000", "wrong port"),
    ("redis://:s3cret@a,b", "the URL has several hosts; give one, or use redis+sentinel://"),
    ("redis+cluster://:s3cret@a,b/1", "a cluster has only database 0"),
    ("redis+sentinel://:s3cret@a,b", "the sentinels need the name of the service"),
    ("redis+sentinel://:s3cret@a,b/pages/one", "the URL's database 'one' is not a number"),
    ("redis+tunnel://:s3cret@a,b", "the scheme 'redis+tunnel' is not known here"),
    ("redis://:s3cret@h/one", "the URL's database 'one' is not a number"),
    ("redis://:s3cret@[h", "the URL of the server is wrong"),
])  # fmt: skip
def test_a_wrong_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Redis.from_url(url)
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_ready_client_is_used_and_remains_open(server: Server, raw: redis.Redis) -> None:
    driver = Redis(client=raw)
    assert driver.title == f"redis at {HOST}:{server.port}"
    connection = raw.client_id()
    driver.set(b"k", b"v", None)
    driver.close()
    with pytest.raises(CacheClosed):
        driver.get(b"k")
    assert raw.get(b"k")[8:] == b"v"
    assert raw.client_id() == connection


@pytest.mark.parametrize("client", [redis.Redis(decode_responses=True), object()])
def test_a_client_that_cannot_be_used_is_refused(client: object) -> None:
    with pytest.raises(InvalidArgument, match=r"give a redis\.Redis with decode_responses=False"):
        Redis(client=client)


def test_a_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ClientMissing, match=r'pip install "tuckbox\[redis\]"'):
        Redis()
