"""The driver in SQL databases, on servers that are started here."""

from __future__ import annotations

import itertools
import os
import sqlite3
import sys
import time

import pytest
import sqlalchemy

from drivers.databases import url_of
from drivers.faults import FaultTests
from tuckbox.drivers.sql import Sql
from tuckbox.errors import ClientMissing, InvalidArgument, Refused, Unreachable
from tuckbox.testing.drivers import DriverTests

LIMIT = 2_000_000
PATIENT_S = 30.0


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
    has_handshake = True
    cuts = 32

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


# --- Rows ---------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def where(request, tmp_path):
    """Each kind of database."""
    return (
        tmp_path / "cache.db"
        if request.param == "sqlite"
        else request.getfixturevalue(request.param)
    )


def rows_of(driver) -> int:
    with driver._engine.connect() as connection:
        return connection.execute(sqlalchemy.text("SELECT count(*) FROM tuckbox")).scalar_one()


def test_what_has_ended_is_removed_by_later_writes(opened):
    driver = opened()
    driver._writes = itertools.count(1)
    driver.set_many([(b"ended %d" % number, b"v", 0.001) for number in range(50)])
    driver.set(b"ever", b"v", None)
    driver.set(b"long", b"v", 3600)
    time.sleep(0.01)
    assert rows_of(driver) == 52
    driver._writes = itertools.count(998)
    driver.set(b"ever", b"w", None)
    driver.set(b"ever", b"x", None)
    assert rows_of(driver) == 52
    driver.set(b"ever", b"y", None)
    assert rows_of(driver) == 2
    assert driver.get(b"long").value == b"v"


def test_a_sweep_that_fails_is_no_failed_write(opened, monkeypatch):
    driver = opened()
    driver.ping()
    monkeypatch.setitem(driver._statements, "ended", sqlalchemy.text("SELECT nothing FROM nowhere"))
    driver.set(b"k", b"v", None)
    assert driver.get(b"k").value == b"v"


def test_the_key_of_a_shared_place_is_compared(opened):
    driver = opened()
    key = b"x" * 600
    driver.set(key, b"v", None)
    assert driver.get(key).value == b"v"
    with driver._engine.connect() as connection:
        change = sqlalchemy.update(driver._table).values(name=b"x" * 601)
        connection.execute(change)
    assert driver.get(key) is None


def test_a_table_that_was_dropped_is_created_again(opened):
    driver = opened()
    driver.set(b"k", b"v", None)
    with driver._engine.connect() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE tuckbox"))
    with pytest.raises(Unreachable):
        driver.get(b"k")
    assert driver.get(b"k") is None
    driver.set(b"k", b"v", None)
    assert driver.get(b"k").value == b"v"


def test_several_processes_create_the_table(where, opened):
    opened()
    with opened()._engine.connect() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE tuckbox"))
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                Sql(url_of(where), timeout_s=PATIENT_S).set(b"%d" % number, b"v", None)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert len(opened().get_many([b"%d" % number for number in range(4)])) == 4


def test_an_engine_that_is_given_remains_open(where):
    own = Sql(url_of(where), timeout_s=PATIENT_S)
    engine = own._engine
    driver = Sql(engine, table="another")
    driver.clear(b"")
    driver.set(b"k", b"v", None)
    driver.close()
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT count(*) FROM another")).scalar_one() == 1
    own.close()


# --- URLs and refusals --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("oracle://a:secret@host/db", "postgresql://host/database"),
        ("a:secret@host", "postgresql://host/database"),
        ("sqlite://", "sqlite:////path"),
        ("sqlite:///:memory:", "sqlite:////path"),
        ("postgresql://a:secret@host/db?timeout_s=soon", "'timeout_s'"),
        ("mysql://a:secret@host/db?table=a&table=b", "'table'"),
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url, says):
    with pytest.raises(InvalidArgument, match=says) as raised:
        Sql.from_url(url)
    assert "secret" not in str(raised.value)


def test_options_are_those_of_the_driver_or_of_the_client(where):
    mark = "&" if "?" in url_of(where) else "?"
    driver = Sql.from_url(f"{url_of(where)}{mark}table=other&timeout_s=30")
    driver.set(b"k", b"v", None)
    assert driver._table.name == "other"
    driver.close()
    with pytest.raises(InvalidArgument, match="colour"):
        Sql.from_url(f"{url_of(where)}{mark}colour=red").get(b"k")


@pytest.mark.parametrize("library", ["sqlalchemy", "psycopg", "pymysql"])
def test_a_missing_client_is_named(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    url = "mysql://host/db" if library == "pymysql" else "postgresql://host/db"
    with pytest.raises(ClientMissing, match=r'pip install "tuckbox\['):
        Sql(url)


def test_a_wrong_login_or_database_is_refused(mariadb, postgresql):
    for url in (
        f"mysql://nobody:secret@127.0.0.1:{mariadb.port}/app",
        f"mysql://root@127.0.0.1:{mariadb.port}/missing",
        f"postgresql://nobody:secret@127.0.0.1:{postgresql.port}/postgres",
        f"postgresql://root@127.0.0.1:{postgresql.port}/missing",
    ):
        driver = Sql(url, timeout_s=PATIENT_S)
        with pytest.raises(Refused) as raised:
            driver.get(b"k")
        assert "secret" not in str(raised.value) + driver.title
        driver.close()


def test_a_file_that_cannot_be_opened_or_is_no_database(tmp_path):
    driver = Sql(f"sqlite:///{tmp_path}/missing/cache.db")
    with pytest.raises(Refused, match="unable to open"):
        driver.get(b"k")
    (tmp_path / "text.db").write_text("This is no database. " * 500)
    other = Sql(f"sqlite:///{tmp_path}/text.db")
    with pytest.raises(Unreachable, match="not a database"):
        other.get(b"k")
    driver.close()
    other.close()


def test_a_locked_file_costs_the_time_limit(tmp_path):
    driver = Sql(f"sqlite:///{tmp_path}/cache.db", timeout_s=0.2)
    driver.set(b"k", b"v", None)
    holder = sqlite3.connect(tmp_path / "cache.db")
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unreachable, match="locked"):
        driver.set(b"k", b"w", None)
    assert driver.get(b"k").value == b"v"
    holder.close()
    driver.set(b"k", b"w", None)
    driver.close()


def test_an_error_tells_no_value(opened, monkeypatch):
    driver = opened()
    driver.ping()
    monkeypatch.setitem(driver._statements, "set many", driver._statements["get"])
    with pytest.raises(Unreachable) as raised:
        driver.set_many([(b"k", b"a secret value", None)])
    assert "a secret value" not in str(raised.value)
