"""The driver in MongoDB.

The server is `mongod` if it is on the PATH. Debian has none; then it is mongo-java-server, which
speaks the same protocol and is not MongoDB.
"""

from __future__ import annotations

import datetime
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pymongo
import pytest

from drivers.faults import PATIENT_S, SHORT_S, FaultTests
from tuckbox.drivers.mongodb import Mongodb
from tuckbox.errors import ClientMissing, InvalidArgument, Refused, Unreachable
from tuckbox.testing.drivers import DriverTests

LIMIT = 4_000_000


@pytest.fixture(scope="module")
def server(mongodb):
    return mongodb


@pytest.fixture
def opened(server):
    drivers = []

    def open_driver(**options):
        options = {"timeout_s": PATIENT_S, "value_bytes_max": LIMIT, **options}
        drivers.append(Mongodb(f"mongodb://127.0.0.1:{server.port}", **options))
        return drivers[-1]

    open_driver().clear(b"")
    yield open_driver
    for driver in drivers:
        driver.close()


class TestMongodb(DriverTests):
    def test_no_swap_is_lost(self, opened):
        """Threads swap at the same time but do not read.

        mongo-java-server sends documents while it changes them, so a reader can get the value of
        one write and the version of another.
        """
        driver = opened()
        driver.set(b"count", b"0", None)
        for step in range(20):
            version = driver.get(b"count").version
            with ThreadPoolExecutor(4) as threads:
                swaps = threads.map(
                    driver.swap, *zip(*[(b"count", b"%d" % n, None, version) for n in range(4)])
                )
                assert list(swaps).count(True) == 1, step


class TestFaults(FaultTests):
    """PyMongo tries again until the time is over, so no limit here is long, and cuts are few."""

    has_handshake = True
    cuts = 8

    @pytest.fixture
    def reach(self, monkeypatch):
        drivers = []
        # PyMongo looks at a server that it lost every half second, which is in the time limit.
        monkeypatch.setattr("pymongo.common.MIN_HEARTBEAT_INTERVAL", 0.02)

        def reach(port, timeout_s):
            limit_s = 0.5 if timeout_s == SHORT_S else 4.0
            drivers.append(Mongodb(f"mongodb://127.0.0.1:{port}", timeout_s=limit_s))
            return drivers[-1]

        yield reach
        for driver in drivers:
            driver.close()


# --- Documents ----------------------------------------------------------------------------------


@pytest.fixture
def documents(server):
    with pymongo.MongoClient("127.0.0.1", server.port) as client:
        yield client["tuckbox"]["entries"]


def test_the_server_removes_what_has_ended(opened, documents):
    opened().set(b"k", b"v", 60)
    indexes = documents.index_information().values()
    assert [one["key"] for one in indexes if one.get("expireAfterSeconds") == 0] == [[("ends", 1)]]
    left = documents.find_one({"_id": "k"})["ends"] - datetime.datetime.now(
        datetime.timezone.utc
    ).replace(tzinfo=None)
    assert 0 < left.total_seconds() < 60


def test_the_key_of_a_shared_place_is_compared(opened, documents):
    driver = opened()
    key = b"x" * 600
    driver.set(key, b"v", None)
    assert driver.get(key).value == b"v"
    documents.update_one({"key": key}, {"$set": {"key": b"x" * 601}})
    assert driver.get(key) is None
    assert driver.get_many([key]) == {}


def test_a_clock_of_this_machine_does_not_matter(opened, monkeypatch):
    driver = opened()
    driver.set(b"k", b"v", 60)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 50 < driver.get(b"k").ttl_s <= 60


def test_the_uncertainty_of_the_clock_counts_against_the_value(opened):
    driver = opened()
    driver.ping()
    clock = driver._clock
    driver._clock = clock._replace(sent_s=clock.sent_s - 5.0)
    driver.set(b"k", b"v", 8)
    assert driver.get(b"k").ttl_s < 3.1
    driver.set(b"k", b"v", 4)
    assert driver.get(b"k") is None
    assert driver.add(b"k", b"w", None) is True


# --- URLs ---------------------------------------------------------------------------------------


def test_a_url_has_options_of_the_driver_and_of_the_client(server):
    driver = Mongodb.from_url(
        f"mongodb://127.0.0.1:{server.port}/app?collection=other&timeout_s=20&appname=tests"
    )
    driver.set(b"k", b"v", None)
    assert driver.get(b"k").value == b"v"
    assert driver.title.endswith("app.other")
    driver.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host", "mongodb://", "mongodb://a:secret@host/?colour=red",
        "mongodb://a:secret@host:no", "mongodb://a:secret@host/?timeout_s=soon",
        "mongodb://a:secret@host/?tls=perhaps",
    ],
)  # fmt: skip
def test_a_wrong_url_is_refused_without_its_password(url):
    with pytest.raises(InvalidArgument) as raised:
        Mongodb.from_url(url)
    assert "secret" not in str(raised.value)


def test_a_missing_client_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(ClientMissing, match=r'pip install "tuckbox\[mongodb\]"'):
        Mongodb("mongodb://host")


def test_what_the_server_refuses_is_refused(server):
    driver = Mongodb(f"mongodb://a:secret@127.0.0.1:{server.port}", timeout_s=PATIENT_S)
    with pytest.raises((Refused, Unreachable)) as raised:
        driver.get(b"k")
    assert "secret" not in str(raised.value)
    driver.close()


def test_a_client_that_is_given_remains_open(server):
    with pymongo.MongoClient("127.0.0.1", server.port) as client:
        driver = Mongodb(client, collection="given")
        driver.set(b"k", b"v", None)
        driver.close()
        assert client["tuckbox"]["given"].find_one({"_id": "k"})["value"] == b"v"
