"""The driver of memcached, on servers that are started here."""

from __future__ import annotations

import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Callable

import pymemcache
import pytest

from drivers.certificates import certificate
from drivers.faults import LineFaultTests, Reach
from drivers.proxy import Proxy
from drivers.servers import Server
from tuckbox.drivers import memcached
from tuckbox.drivers.memcached import (
    FLAGS,
    VALUE_BYTES_MAX,
    Memcached,
    key_at_server,
    server_of,
)
from tuckbox.errors import ClientMissing, InvalidArgument, Refused, Unreachable, ValueTooLarge
from tuckbox.testing.drivers import DriverTests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server("memcached", tmp_path_factory.mktemp("memcached")) as server:
        yield server


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server("memcached", tmp_path_factory.mktemp("second")) as server:
        yield server


@pytest.fixture
def raw(server: Server) -> Iterator[pymemcache.Client]:
    """The first server, emptied, as other programs reach it."""
    client = pymemcache.Client((HOST, server.port), default_noreply=False)
    client.flush_all()
    yield client
    client.close()


@contextmanager
def opening(*servers: Server | Proxy, **options: Any) -> Iterator[Callable[..., Memcached]]:
    drivers: list[Memcached] = []
    names = [f"{HOST}:{server.port}" for server in servers]

    def open_driver(*others: str, **more: Any) -> Memcached:
        drivers.append(Memcached(*(others or names), **{**options, **more}))
        return drivers[-1]

    yield open_driver
    for driver in drivers:
        driver.close()


@pytest.fixture
def opened(server: Server, raw: pymemcache.Client) -> Iterator[Callable[..., Memcached]]:
    with opening(server) as open_driver:
        yield open_driver


@pytest.fixture
def driver(opened: Callable[[], Memcached]) -> Memcached:
    return opened()


class TestMemcached(DriverTests):
    pass


class TestTwoServers(DriverTests):
    @pytest.fixture
    def opened(
        self, server: Server, second: Server, raw: pymemcache.Client
    ) -> Iterator[Callable[..., Memcached]]:
        with closing(pymemcache.Client((HOST, second.port))) as client:
            client.flush_all(noreply=False)
        with opening(server, second) as open_driver:
            yield open_driver


class TestFaults(LineFaultTests):
    @pytest.fixture
    def reach(self) -> Iterator[Reach]:
        with opening() as open_driver:
            yield lambda port, timeout_s: open_driver(f"{HOST}:{port}", timeout_s=timeout_s)


# --- Keys and servers --------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "name"), [
    (b"k", b"k"),
    (b"!" * 250, b"!" * 250),
    (b"a~", b"a~"),
    (b"~", b"~RjdK2ZKwDEHGD_-IunfZIMKOTSSrsf3KSgMc4wMeQHw"),
    (b"a b", None),
    (b"k" * 251, None),
    (b"\x7f", None),
    ("ключ".encode(), None),
    (b"a\n", None),
])  # fmt: skip
def test_names_at_the_server_never_change(key: bytes, name: bytes | None) -> None:
    named = key_at_server(key)
    assert named == (name or named)
    assert (named[:1], len(named)) == (b"~", 44) or named == key
    # What a name looks like is no name of its own.
    assert named == key or key_at_server(named) not in (named, key)


def test_a_server_that_is_added_takes_its_part_and_moves_no_other_key() -> None:
    names = [b"key:%d" % number for number in range(3000)]
    three = ["a:1", "b:1", "c:1"]
    before = [server_of(name, three) for name in names]
    after = [server_of(name, [*three, "d:1"]) for name in names]
    for server in range(3):
        assert 850 < before.count(server) < 1150
    assert 600 < after.count(3) < 900
    assert all(new in (old, 3) for old, new in zip(before, after))
    # Which order the servers have does not matter.
    turned = [["c:1", "a:1", "b:1"].index(three[number]) for number in before]
    assert [server_of(name, ["c:1", "a:1", "b:1"]) for name in names] == turned


def test_a_server_that_is_down_keeps_its_keys(server: Server, second: Server) -> None:
    target = HOST, second.port
    with Proxy(target) as proxy, opening(server, proxy) as open_driver:
        driver = open_driver()
        titles = [f"{HOST}:{server.port}", f"{HOST}:{proxy.port}"]
        keys = [b"key:%d" % number for number in range(40)]
        theirs = [key for key in keys if server_of(key, titles) == 1]
        assert 0 < len(theirs) < len(keys)
        driver.set_many([(key, b"old", None) for key in keys])
        proxy.refuse()
        for key in keys:
            if key in theirs:
                with pytest.raises(Unreachable, match=titles[1]):
                    driver.set(key, b"new", None)
            else:
                driver.set(key, b"new", None)
        with pytest.raises(Unreachable, match=titles[1]):
            driver.get_many(keys)
        with pytest.raises(Unreachable, match=titles[1]):
            driver.ping()
        proxy.heal()
        assert {key: found.value for key, found in driver.get_many(keys).items()} == {
            key: b"old" if key in theirs else b"new" for key in keys
        }


def test_many_long_keys(driver: Memcached) -> None:
    keys = [b"%0250d" % number for number in range(2500)]
    driver.set_many([(key, key, None) for key in keys])
    found = driver.get_many([*keys, b"missing"])
    assert all(found[key].value == key for key in keys)
    assert len(found) == 2500
    assert driver.delete_many(keys) == 2500


# --- What is stored ----------------------------------------------------------------------------


def test_values_of_other_programs_are_missing(driver: Memcached, raw: pymemcache.Client) -> None:
    # The flags of pylibmc and python-memcached for what they have pickled, among others.
    for flags in (0, 1, 2, 16, FLAGS + 1):
        raw.set("k", b"cos\nsystem\n(S'true'\ntR.", flags=flags)
        assert driver.get(b"k") is None
        assert driver.get_many([b"k"]) == {}
    driver.set(b"k", b"own", None)
    assert driver.get(b"k").value == b"own"


@pytest.mark.parametrize("key", [b"k", b"k" * 250, b"\x00" * 60_000])
def test_the_longest_value_fits_with_any_key(driver: Memcached, key: bytes) -> None:
    value = b"x" * VALUE_BYTES_MAX
    driver.set(key, value, None)
    found = driver.get(key)
    assert found.value == value
    assert driver.swap(key, value[::-1], 3600, found.version)


def test_a_server_with_a_smaller_item_size_refuses(driver: Memcached, opened: Any) -> None:
    with pytest.raises(Refused, match=r"too large.*; give it a larger item size with -I"):
        opened(value_bytes_max=4 << 20).set(b"k", b"x" * (2 << 20), None)
    driver.set(b"k", b"old", None)
    with pytest.raises(ValueTooLarge, match="takes 1,048,064; store it in parts"):
        driver.set(b"k", b"x" * (2 << 20), None)
    assert driver.get(b"k").value == b"old"


def test_a_server_with_a_larger_item_size(tmp_path: Path) -> None:
    limit = (4 << 20) - 512
    with Server("memcached", tmp_path, ("-I", "4m")) as server, opening(server) as open_driver:
        driver = open_driver(value_bytes_max=limit)
        driver.set(b"k" * 250, b"x" * limit, None)
        assert len(driver.get(b"k" * 250).value) == limit


DAY = 24 * 3600


@pytest.mark.parametrize(("now", "ttl_s", "wanted"), [
    (1.7e9, None, 0),
    (1.7e9, 1e-9, 1),
    (1.7e9, 1.0, 1),
    (1.7e9, 1.001, 2),
    (1.7e9, 30 * DAY, 30 * DAY),
    (1.7e9, 30 * DAY + 1, 1_700_000_000 + 30 * DAY + 1),
    (1.7e9, 2**31 - 1 - 1.7e9, 2**31 - 1),
    (1.7e9, 2**31 - 1.7e9, 30 * DAY),
    (1.7e9, float("inf"), 30 * DAY),
])  # fmt: skip
def test_ttls_of_memcached(
    monkeypatch: pytest.MonkeyPatch, now: float, ttl_s: float, wanted: int
) -> None:
    monkeypatch.setattr(memcached.time, "time", lambda: now)
    assert memcached._expiry(ttl_s) == wanted


def test_the_server_takes_long_ttls(driver: Memcached) -> None:
    for number, days in enumerate((29.9, 31, 365, 1e9)):
        driver.set(b"%d" % number, b"v", days * DAY)
        assert driver.get(b"%d" % number).value == b"v"
        assert driver.touch(b"%d" % number, days * DAY)
        assert driver.get(b"%d" % number).value == b"v"


def test_what_a_delete_of_a_version_stores_is_seen_by_nobody(
    driver: Memcached, raw: pymemcache.Client
) -> None:
    driver.set(b"k", b"v", None)
    old = driver.get(b"k")
    assert driver.delete(b"k", old.version)
    assert raw.get("k") is None
    assert [driver.touch(b"k", None), driver.delete(b"k"), driver.get(b"k")] == [False, False, None]
    assert driver.swap(b"k", b"w", None, old.version) is False
    assert driver.add(b"k", b"w", None) is True


# --- Ways to reach a server --------------------------------------------------------------------


def test_credentials(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("user:s3cret\n")
    with Server("memcached", tmp_path, ("-Y", str(file))) as server:
        driver = Memcached.from_url(f"memcached://user:%733cret@{HOST}:{server.port}")
        driver.set(b"k", b"v", None)
        assert driver.get(b"k").value == b"v"
        assert "s3cret" not in driver.title + repr(driver)
        driver.close()
        for login in ("", "user:wr0ng@"):
            driver = Memcached.from_url(f"memcached://{login}{HOST}:{server.port}")
            with pytest.raises(Refused, match="; give the user and password") as caught:
                driver.get(b"k")
            assert "wr0ng" not in str(caught.value)
            driver.close()


def test_tls(tmp_path: Path) -> None:
    paths = certificate(tmp_path)
    options = ("-Z", "-o", f"ssl_chain_cert={paths[0]},ssl_key={paths[1]}")
    with Server("memcached", tmp_path, options) as server:
        url = f"memcached://{HOST}:{server.port}?tls=1"
        driver = Memcached.from_url(f"{url}&tls_ca_file={paths[0]}")
        for number in range(20):
            driver.set(b"k", b"%d" % number, None)
            assert driver.get(b"k").value == b"%d" % number
        assert len(driver._idle[0]) == 1
        driver.close()
        for wrong in (url, url.partition("?")[0]):
            driver = Memcached.from_url(wrong)
            with pytest.raises(Unreachable):
                driver.get(b"k")
            driver.close()


def test_a_socket(tmp_path: Path) -> None:
    with Server("memcached", tmp_path, at_socket=True) as server:
        driver = Memcached.from_url(f"memcached://{server.path}")
        driver.set(b"k", b"v", None)
        assert driver.get(b"k").value == b"v"
        server.kill()
        with pytest.raises(Unreachable, match=f"memcached at {server.path} does not answer"):
            driver.get(b"k")
        driver.close()


def test_every_address_of_a_name_is_tried(
    driver: Memcached, server: Server, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.set(b"k", b"v", None)

    def addresses(_host: str, port: int, *_: object) -> list[object]:
        import socket

        return [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port))
            for address in ("127.0.0.77", HOST)  # The server does not listen at the first.
        ]

    monkeypatch.setattr(memcached.socket, "getaddrinfo", addresses)
    assert opened(f"cache.example:{server.port}").get(b"k").value == b"v"


@pytest.mark.parametrize(("url", "message"), [
    ("redis://:s3cret@h", "the scheme 'redis' is not known here; memcached://user:password@host"),
    ("memcached://u:s3cret@h?time=1", "unknown option 'time'; use one of: timeout_s, "),
    ("memcached://u:s3cret@a,b:port", "'b:port' has a wrong port; give host:port"),
    ("memcached://u:s3cret@a/path", "the URL has hosts and a path"),
])  # fmt: skip
def test_a_wrong_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Memcached.from_url(url)
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_an_idle_connection_is_used_again_and_a_child_has_its_own(driver: Memcached) -> None:
    import os

    driver.ping()
    (kept,) = driver._idle[0]
    driver.ping()
    assert [*driver._idle[0]] == [kept]
    child = os.fork()
    if child == 0:
        driver.ping()
        os._exit(0 if driver._idle[0][0] is not kept else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    driver.ping()
    assert [*driver._idle[0]] == [kept]


def test_a_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymemcache", None)
    with pytest.raises(ClientMissing, match=r'pip install "tuckbox\[memcached\]"'):
        Memcached()
