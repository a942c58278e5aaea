"""`Database`: a directory that DiskCache 5.6.3 opens, written without DiskCache.

Owns DiskCache's schema, its file of SQLite and its files of values. Must not know where the rows
come from.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from typing import Any, Final, NamedTuple, Optional

from tuckbox.compat.diskcache.directories import same_content
from tuckbox.compat.diskcache.disk import make_directory

__all__ = ["DATABASE", "INDEXED_FIELDS", "Database", "Row", "sqlite_objection"]

DATABASE: Final = "cache.db"
INDEXED_FIELDS: Final[dict[str, Optional[str]]] = {
    "none": None,
    "least-recently-stored": "store_time",
    "least-recently-used": "access_time",
    "least-frequently-used": "access_count",
}
"""By eviction policy of DiskCache, the column of its index."""

_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1
_SPREAD: Final = 8
"""Numbers of rows in the table for one number of a `Row`: a crash can leave two rows with one."""
_BATCH_ROWS: Final = 50_000
_BATCH_BYTES: Final = 2**28
_SEEN_BATCH: Final = 1000
_COPIED_BYTES: Final = 2**20
_CACHE_KIB: Final = 2**16
_CLOCK_S: Final = 1.0
"""How much an expiry may differ: plain Tuckbox files do not have it by the wall clock."""

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS Settings ( key TEXT NOT NULL UNIQUE, value)",
    "CREATE TABLE IF NOT EXISTS Cache ("
    " rowid INTEGER PRIMARY KEY,"
    " key BLOB,"
    " raw INTEGER,"
    " store_time REAL,"
    " expire_time REAL,"
    " access_time REAL,"
    " access_count INTEGER DEFAULT 0,"
    " tag BLOB,"
    " size INTEGER DEFAULT 0,"
    " mode INTEGER DEFAULT 0,"
    " filename TEXT,"
    " value BLOB)",
)
_KEYS: Final = "CREATE UNIQUE INDEX IF NOT EXISTS Cache_key_raw ON Cache(key, raw)"
_TRIGGERS: Final = (
    "CREATE TRIGGER IF NOT EXISTS Settings_count_insert"
    " AFTER INSERT ON Cache FOR EACH ROW BEGIN"
    " UPDATE Settings SET value = value + 1"
    ' WHERE key = "count"; END',
    "CREATE TRIGGER IF NOT EXISTS Settings_count_delete"
    " AFTER DELETE ON Cache FOR EACH ROW BEGIN"
    " UPDATE Settings SET value = value - 1"
    ' WHERE key = "count"; END',
    "CREATE TRIGGER IF NOT EXISTS Settings_size_insert"
    " AFTER INSERT ON Cache FOR EACH ROW BEGIN"
    " UPDATE Settings SET value = value + NEW.size"
    ' WHERE key = "size"; END',
    "CREATE TRIGGER IF NOT EXISTS Settings_size_update"
    " AFTER UPDATE ON Cache FOR EACH ROW BEGIN"
    " UPDATE Settings"
    " SET value = value + NEW.size - OLD.size"
    ' WHERE key = "size"; END',
    "CREATE TRIGGER IF NOT EXISTS Settings_size_delete"
    " AFTER DELETE ON Cache FOR EACH ROW BEGIN"
    " UPDATE Settings SET value = value - OLD.size"
    ' WHERE key = "size"; END',
)
_SEEN: Final = "CREATE TEMP TABLE Seen (number INTEGER PRIMARY KEY)"
_IS_STRAY: Final = "rowid NOT IN (SELECT number FROM Seen)"
_COLUMNS: Final = (
    "key, raw, store_time, expire_time, access_time, access_count, tag, size, mode, filename, value"
)


class Row(NamedTuple):
    """A row of DiskCache's table, and where the content of its file is."""

    number: int
    """The place in the order of insertion."""
    key: Any
    raw: int
    stored: Optional[float]
    expires: Optional[float]
    accessed: Optional[float]
    reads: int
    tag: Any
    size: int
    mode: int
    filename: Optional[str]
    value: Any
    path: Optional[str] = None
    """The file to copy, if there is one."""
    content: Optional[bytes] = None
    """What is written to the file, if there is one without ``path``."""


def sqlite_objection(value: Any) -> Optional[str]:
    """Return why SQLite cannot hold a value as it is, or None."""
    kind = type(value)
    if value is None or kind is bytes or (kind is int and _INT_MIN <= value <= _INT_MAX):
        return None
    if kind is float and value == value:  # noqa: PLR0124 - SQLite stores NaN as NULL.
        return None
    if kind is str:
        with contextlib.suppress(UnicodeEncodeError):
            value.encode("utf-8")
            return None
    return f"{kind.__name__} that SQLite cannot hold"


class Database:
    """One cache of DiskCache, while it is written. Its indexes and triggers come last.

    Example:
        >>> database = Database("/var/cache/app.exporting/data", resumed=False)
        >>> database.put(Row(1, "key", 1, 0.0, None, 0.0, 0, None, 0, 1, None, "value"))
        >>> database.finish({"eviction_policy": "none", "tag_index": 0})
        >>> database.close()
    """

    def __init__(self, directory: str, *, resumed: bool) -> None:
        """Create what is missing.

        Args:
            directory: The directory. A new one has mode 0700.
            resumed: Whether there may be rows already.
        """
        self.directory = directory
        self._pending_rows = self._pending_bytes = self._last = 0
        self._seen: list[tuple[int]] = []
        make_directory(directory)
        path = os.path.join(directory, DATABASE)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._database = sqlite3.connect(path, isolation_level=None)
        # As DiskCache's. A kill or a power cut loses the last batch, and never tears one.
        for pragma in ("auto_vacuum = 1", "main.journal_mode = wal", "synchronous = 1"):
            self._sql(f"PRAGMA {pragma}")
        self._sql(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # Nothing is ever rolled back in the temporary table.
        self._sql("PRAGMA temp.journal_mode = off")
        for statement in (*_TABLES, _SEEN):
            self._sql(statement)
        self._indexed = resumed
        if resumed:
            self._index_keys()

    def _sql(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        return self._database.execute(statement, parameters).fetchall()

    def _index_keys(self) -> None:
        try:
            self._sql(_KEYS)
        except sqlite3.IntegrityError:
            # A key that was deleted and stored again meanwhile can come twice.
            self._sql(
                "DELETE FROM Cache WHERE rowid NOT IN"
                " (SELECT MAX(rowid) FROM Cache GROUP BY key, raw)"
            )
            self._sql(_KEYS)

    def has(self, row: Row) -> bool:
        """Return whether there is a row with the same fields, and a file with the same bytes."""
        stored = self._find(row)
        return stored is not None and self._is_same(stored, row)

    def _find(self, row: Row) -> Optional[Row]:
        found = self._sql(
            f"SELECT rowid, {_COLUMNS} FROM Cache WHERE key = ? AND raw = ?",  # noqa: S608
            (row.key, row.raw),
        )
        return Row(*found[0]) if found else None

    def _is_same(self, stored: Row, row: Row) -> bool:
        self._see(stored.number)
        if stored.expires is not None and row.expires is not None:
            if abs(stored.expires - row.expires) > _CLOCK_S:
                return False
            stored = stored._replace(expires=row.expires)
        if stored[1:-2] != row[1:-2] or type(stored.key) is not type(row.key):
            return False
        if (type(stored.tag), type(stored.value)) != (type(row.tag), type(row.value)):
            return False
        return row.filename is None or self._has_file(row)

    def _has_file(self, row: Row) -> bool:
        path = self._path(row)
        if row.path is not None:
            return same_content(row.path, path)
        try:
            with open(path, "rb") as file:
                return file.read() == row.content
        except OSError:
            return False

    def _path(self, row: Row) -> str:
        return os.path.join(self.directory, str(row.filename))

    def put(self, row: Row) -> bool:
        """Write a row, and its file. If the database is resumed, only what is not there.

        Returns:
            Whether it was written.

        Raises:
            FileNotFoundError: The file to copy is missing.
        """
        stored = self._find(row) if self._indexed else None
        if stored is not None and self._is_same(stored, row):
            return False
        if row.filename is not None:
            self._write_file(row)
        if not self._pending_rows:
            self._sql("BEGIN IMMEDIATE")
        if stored is not None:
            self._sql("DELETE FROM Cache WHERE rowid = ?", (stored.number,))
        number = row.number * _SPREAD
        if not self._indexed:
            # Rows come in order.
            number = self._last = max(number, self._last + 1)
        while not self._insert(number, row):
            number += 1
        self._pending_rows += 1
        self._pending_bytes += row.size
        if self._pending_rows >= _BATCH_ROWS or self._pending_bytes >= _BATCH_BYTES:
            self.commit()
        return True

    def _insert(self, number: int, row: Row) -> bool:
        try:
            self._sql(
                f"INSERT INTO Cache(rowid, {_COLUMNS}) VALUES (?{', ?' * 11})",  # noqa: S608
                (number, *row[1:-2]),
            )
        except sqlite3.IntegrityError:
            return False
        if self._indexed:
            self._see(number)
        return True

    def _see(self, number: int) -> None:
        self._seen.append((number,))
        if len(self._seen) == _SEEN_BATCH:
            self._note_seen()

    def _note_seen(self) -> None:
        self._database.executemany("INSERT OR IGNORE INTO Seen VALUES (?)", self._seen)
        self._seen.clear()

    def _write_file(self, row: Row) -> None:
        path = self._path(row)
        if row.path is None:
            with _create(path) as writer:
                writer.write(row.content or b"")
            return
        with open(row.path, "rb", buffering=0) as reader, _create(path) as writer:
            while part := reader.read(_COPIED_BYTES):
                writer.write(part)

    def commit(self) -> None:
        """Make what was put last."""
        if self._pending_rows:
            self._sql("COMMIT")
        self._pending_rows = self._pending_bytes = 0

    def remove_strays(self) -> None:
        """Remove the rows that were there before and were not put or found since."""
        self._note_seen()
        self._sql(f"DELETE FROM Cache WHERE {_IS_STRAY}")  # noqa: S608
        self._sql("DELETE FROM Seen")

    def count_strays(self) -> int:
        """Return how many rows were not found since `remove_strays`, and have not expired."""
        self._note_seen()
        [[count]] = self._sql(
            f"SELECT COUNT(*) FROM Cache WHERE {_IS_STRAY}"  # noqa: S608
            " AND (expire_time IS NULL OR expire_time > ?)",
            (time.time(),),
        )
        return int(count)

    def remove_unknown_files(self, others: set[str]) -> None:
        """Remove files that no row names: of rows that were replaced or lost by a kill.

        Args:
            others: Directories of other caches, which are not looked at.
        """
        self._sql("CREATE INDEX Unfinished ON Cache(filename) WHERE filename IS NOT NULL")
        for folder, names, files in os.walk(self.directory):
            names[:] = [name for name in names if os.path.join(folder, name) not in others]
            for name in files:
                path = os.path.join(folder, name)
                filename = os.path.relpath(path, self.directory)
                if filename.startswith(DATABASE) or self._sql(
                    "SELECT 1 FROM Cache WHERE filename = ?", (filename,)
                ):
                    continue
                os.remove(path)
                with contextlib.suppress(OSError):
                    os.removedirs(folder)
        self._sql("DROP INDEX Unfinished")

    def finish(self, settings: dict[str, Any]) -> None:
        """Write the settings, and create indexes and triggers.

        Args:
            settings: All but ``count`` and ``size``, which are counted.

        Raises:
            sqlite3.DatabaseError: The file is damaged.
        """
        self.commit()
        self._sql("BEGIN IMMEDIATE")
        self._index_keys()
        self._indexed = True
        self._sql("CREATE INDEX IF NOT EXISTS Cache_expire_time ON Cache (expire_time)")
        field = INDEXED_FIELDS[settings["eviction_policy"]]
        if field is not None:
            self._sql(f"CREATE INDEX IF NOT EXISTS Cache_{field} ON Cache ({field})")
        if settings["tag_index"]:
            self._sql("CREATE INDEX IF NOT EXISTS Cache_tag_rowid ON Cache(tag, rowid)")
        for statement in _TRIGGERS:
            self._sql(statement)
        [[count, size]] = self._sql("SELECT COUNT(*), COALESCE(SUM(size), 0) FROM Cache")
        for name, value in {**settings, "count": count, "size": size}.items():
            self._sql("INSERT OR REPLACE INTO Settings VALUES (?, ?)", (name, value))
        self._sql("COMMIT")
        [[verdict]] = self._sql("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)

    def close(self) -> None:
        """Close the file. What was not committed is lost."""
        self._database.close()


def _create(path: str) -> Any:
    make_directory(os.path.dirname(path))
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))
