"""A SQLite table with a write-ahead log that is never synced."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from lab.hosts.python.contract import Limits, Store

VERSION = sqlite3.sqlite_version

_GET = "select value from entry where key = ?"
_SET = "replace into entry values (?, ?)"
_DELETE = "delete from entry where key = ?"
_CLEAR = "delete from entry"
_WAIT_SECONDS = 60.0


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the database in `folder`, and create it if it does not exist."""
    path = Path(folder, "cache.sqlite")
    database = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
    execute = database.execute
    execute("pragma journal_mode = wal")
    execute("pragma synchronous = off")
    (page_bytes,) = execute("pragma page_size").fetchone()
    if limits.bytes:
        execute(f"pragma max_page_count = {limits.bytes // page_bytes}")
    execute("create table if not exists entry (key text primary key, value blob) without rowid")

    def get(key: str) -> object:
        row = execute(_GET, (key,)).fetchone()
        return row[0] if row else None

    def set_(key: str, value: bytes) -> object:
        try:
            execute(_SET, (key, value))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                return False
            raise
        return True

    def delete(key: str) -> object:
        return execute(_DELETE, (key,)).rowcount == 1

    def clear() -> None:
        execute(_CLEAR)

    return Store(get=get, set=set_, delete=delete, close=database.close, clear=clear)
