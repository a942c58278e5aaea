"""The driver in SQL databases, on servers that are started here."""

from __future__ import annotations

import time

import psycopg
import pymysql
import pytest

from drivers.faults import FaultTests
from drivers.servers import Server
from tuckbox.drivers.sql import Sql
from tuckbox.testing.drivers import DriverTests

LIMIT = 2_000_000
PATIENT_S = 30.0


class Postgresql(Server):
    """It accepts connections before it serves them."""

    def start(self):
        super().start()
        give_up = time.monotonic() + PATIENT_S
        while True:
            try:
                psycopg.connect(
                    host="127.0.0.1", port=self.port, user="root", dbname="postgres"
                ).close()
                break
            except psycopg.OperationalError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.02)


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory):
    with Postgresql("postgresql", tmp_path_factory.mktemp("postgresql")) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory):
    with Server("mariadb", tmp_path_factory.mktemp("mariadb")) as server:
        make_database(server)
        yield server


def make_database(server):
    with pymysql.connect(host="127.0.0.1", port=server.port, user="root") as connection:
        connection.cursor().execute("CREATE DATABASE app")


def url_of(server_or_path, port=None):
    if not isinstance(server_or_path, Server):
        return f"sqlite:///{server_or_path}"
    port = port or server_or_path.port
    if not isinstance(server_or_path, Postgresql):
        return f"mysql://root@127.0.0.1:{port}/app"
    return f"postgresql://root@127.0.0.1:{port}/postgres"


@pytest.fixture
def opened(where):
    drivers = []

    def open_driver(**options):
        options = {"timeout_s": PATIENT_S, "value_bytes_max": LIMIT, **options}
        drivers.append(Sql(url_of(where), **options))
        return drivers[-1]

    open_driver().clear(b"")
    yield open_driver
    for driver in drivers:
        driver.close()


class TestSqlite(DriverTests):
    @pytest.fixture
    def where(self, tmp_path):
        return tmp_path / "cache.db"


class TestPostgresql(DriverTests):
    @pytest.fixture
    def where(self, postgresql):
        return postgresql


class TestMariadb(DriverTests):
    @pytest.fixture
    def where(self, mariadb):
        return mariadb


class ServerFaults(FaultTests):
    @pytest.fixture
    def reach(self, server):
        drivers = []

        def reach(port, timeout_s):
            drivers.append(Sql(url_of(server, port), timeout_s=timeout_s))
            return drivers[-1]

        yield reach
        for driver in drivers:
            driver.close()


class TestPostgresqlFaults(ServerFaults):
    @pytest.fixture
    def server(self, postgresql):
        return postgresql


class TestMariadbFaults(ServerFaults):
    @pytest.fixture
    def server(self, mariadb):
        return mariadb
