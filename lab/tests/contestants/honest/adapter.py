"""A SQLite table without a limit: it keeps everything. It also prints to standard output."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path

from lab.hosts.python.contract import Limits, Store, Value


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the database in `folder`."""
    print("an adapter may print: this must not disturb the protocol")
    database = sqlite3.connect(Path(folder, "honest.db"), timeout=60, isolation_level=None)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = off")
    database.execute("create table if not exists entry (key text primary key, value blob)")

    def get(key: str) -> object:
        row = database.execute("select value from entry where key = ?", (key,)).fetchone()
        return pickle.loads(row[0]) if row else None

    def set_(key: str, value: Value) -> object:
        stored = pickle.dumps(value)
        return database.execute("replace into entry values (?, ?)", (key, stored)).rowcount == 1

    def delete(key: str) -> object:
        return database.execute("delete from entry where key = ?", (key,)).rowcount == 1

    def clear() -> object:
        return database.execute("delete from entry")

    return Store(get=get, set=set_, delete=delete, close=database.close, clear=clear)
