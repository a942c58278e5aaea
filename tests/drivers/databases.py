"""PostgreSQL and MariaDB, as tests start them, and the URLs of databases."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psycopg
import pymysql

from drivers.servers import Server

if TYPE_CHECKING:
    from pathlib import Path

PATIENT_S = 30.0


class Postgresql(Server):
    """It accepts connections before it serves them, and if it is killed it leaves shared memory."""

    def start(self) -> None:
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

    def __exit__(self, *_: object) -> None:
        self.resume()
        self._process.send_signal(signal.SIGQUIT)  # An end at once, but an orderly one.
        self._process.wait(PATIENT_S)


def make_database(server: Server) -> None:
    """Make the database of the tests in MariaDB."""
    with pymysql.connect(host="127.0.0.1", port=server.port, user="root") as connection:
        connection.cursor().execute("CREATE DATABASE app")


def url_of(server_or_path: Server | Path, port: int | None = None) -> str:
    """The URL of a database."""
    if not isinstance(server_or_path, Server):
        return f"sqlite:///{server_or_path}"
    port = port or server_or_path.port
    if not isinstance(server_or_path, Postgresql):
        return f"mysql://root@127.0.0.1:{port}/app"
    return f"postgresql://root@127.0.0.1:{port}/postgres"
