"""Copies the directories of DiskCache 4 and 5 into directories of the drop-in.

Reads SQLite and the files of values itself, without DiskCache. Writes by `Cache` and `FanoutCache`.
Keys and values are copied as they are stored, so nothing is unpickled into objects of classes.
"""

from __future__ import annotations

import io
import os
import pickle
import sqlite3
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Callable, Final, NamedTuple, Optional, Union
from urllib.parse import quote

from tuckbox.compat.diskcache.core import Cache
from tuckbox.compat.diskcache.database import DATABASE
from tuckbox.compat.diskcache.directories import (
    MISSING,
    caches_in,
    file_objection,
    same_content,
)
from tuckbox.compat.diskcache.disk import MODE_PICKLE, MODE_RAW, Disk
from tuckbox.compat.diskcache.fanout import FanoutCache
from tuckbox.compat.diskcache.settings import ENOVAL, EVICTION_POLICY, UNKNOWN
from tuckbox.errors import TuckboxError

__all__ = ["ImportFailed", "Imported", "import_diskcache"]

PICKLED: Final = "pickled with classes: --trust-pickles copies them"
TWICE: Final = "float keys that equal an int key of another shard: one key in the drop-in"
_COPIED: Final = "copied"
_PRESENT: Final = "present"
_BATCH: Final = 256
_LOCK_S: Final = 60
_CLOCK_S: Final = 1.0
"""How much the expiry of a copy may differ: DiskCache's methods take seconds from now on."""
_QUIET: Final = {"statistics": 0, "eviction_policy": "none", "cull_limit": 0}
"""Settings while entries are copied, so that the target evicts none of them."""
_SETTINGS: Final = (*_QUIET, "tag_index", "disk_min_file_size", "disk_pickle_protocol")
_COLUMNS: Final = "rowid, key, raw, expire_time, tag, size, mode, filename, value"


class ImportFailed(TuckboxError):  # noqa: N818 - As the others in `tuckbox.errors`.
    """A directory cannot be imported. The message says why, and what to do."""


class Imported(NamedTuple):
    """What `import_diskcache` did with one cache."""

    source: str
    """The directory that was read."""
    target: str
    """The directory that was written to."""
    copied: int
    """Entries that were written."""
    present: int
    """Entries that the target had already, with the same value."""
    left_out: dict[str, int]
    """By reason, how many entries were not copied."""
    different: int
    """Entries that differ after the import, because a program changed either directory."""


class _Row(NamedTuple):
    """A row of DiskCache's table, and its directory."""

    number: int
    key: Any
    raw: int
    expires: Optional[float]
    tag: Any
    size: int
    mode: int
    filename: Optional[str]
    value: Any
    directory: str

    @property
    def path(self) -> Optional[str]:
        """The file of the value, or None."""
        return None if self.filename is None else os.path.join(self.directory, self.filename)


class _Fetched(NamedTuple):
    """A value of the target as it is stored."""

    mode: int
    path: Optional[str]
    value: Any


class _Verbatim(Disk):
    """Takes rows for keys and for values, and stores what they have."""

    def __init__(
        self, directory: str, min_file_size: int = 0, pickle_protocol: int = 0, **_others: Any
    ) -> None:
        super().__init__(directory, min_file_size, pickle_protocol)

    def put(self, key: _Row) -> tuple[Any, bool]:
        return key.key, bool(key.raw)

    def store(self, value: _Row, read: bool, key: Any = UNKNOWN) -> tuple[int, int, Any, Any]:
        if value.path is None:
            return 0, value.mode, None, value.value
        with open(value.path, "rb") as file:
            size, _, filename, _ = super().store(file, read=True, key=key)
        return size, value.mode, filename, None

    def fetch(self, mode: int, filename: Optional[str], value: Any, read: bool) -> _Fetched:
        path = None if filename is None else os.path.join(self._directory, filename)
        return _Fetched(mode, path, bytes(value) if isinstance(value, memoryview) else value)


class _Plain(pickle.Unpickler):
    """Reads pickles of numbers, text, lists, dicts and the like. Imports and calls nothing."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not plain data")


def import_diskcache(
    source: Union[str, os.PathLike[str]],
    target: Union[str, os.PathLike[str]],
    *,
    trust_pickles: bool = False,
    progress: Callable[[int, int], object] = lambda _done, _all: None,
) -> list[Imported]:
    """Copy a directory of DiskCache, with all caches in it, and compare the copy.

    Copies in the order of insertion, with expiry and tags. What the target has with the same value
    is not written again, so an import that was interrupted continues. Programs may use the source
    meanwhile; none should use the target.

    Args:
        source: A directory of a `Cache`, `FanoutCache`, `Deque`, `Index` or `DjangoCache`.
        target: The directory to write to, which may exist.
        trust_pickles: Whether to copy pickles that import classes or call functions. A program
            that reads such an entry runs the code that the pickle names.
        progress: Called with how many steps are done, and how many there are: two for each entry,
            which is copied and then compared.

    Returns:
        What was done, for each cache. A `FanoutCache` is one cache.

    Raises:
        ImportFailed: There is no cache in the directory, its database is damaged, or the target is
            in the source or the source in the target.
    """
    source, target = os.path.realpath(source), os.path.realpath(target)
    if os.path.commonpath([source, target]) in {source, target}:
        raise ImportFailed(f"{target} and {source} must be separate directories")
    caches = list(caches_in(source, DATABASE))
    if not caches:
        raise ImportFailed(f"no {DATABASE} in {source}: it is not a directory of DiskCache")
    reader = _Reader(trust_pickles)
    for _, shards in caches:
        for shard in shards:
            reader.open(shard)
    try:
        done = 0

        def visited() -> None:
            nonlocal done
            done += 1
            progress(done, 2 * reader.total)

        return [
            _import(reader, folder, shards, os.path.normpath(os.path.join(target, place)), visited)
            for folder, shards in caches
            for place in [os.path.relpath(folder, source)]
        ]
    finally:
        reader.close()


class _Reader:
    """The databases of the source, opened for reading."""

    def __init__(self, trust_pickles: bool) -> None:
        self.trust_pickles = trust_pickles
        self.total = 0
        self._databases: dict[str, sqlite3.Connection] = {}

    def open(self, directory: str) -> None:
        path = os.path.join(directory, DATABASE)
        with _damage(path):
            database = sqlite3.connect(
                f"file:{quote(path)}?mode=ro", timeout=_LOCK_S, isolation_level=None, uri=True
            )
            self._databases[directory] = database
            [[verdict]] = database.execute("PRAGMA quick_check(1)").fetchall()
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            [[count]] = database.execute("SELECT COUNT(*) FROM Cache").fetchall()
            self.total += count

    def close(self) -> None:
        for database in self._databases.values():
            database.close()

    def settings(self, directory: str) -> dict[str, Any]:
        with _damage(os.path.join(directory, DATABASE)):
            return dict(self._databases[directory].execute("SELECT key, value FROM Settings"))

    def _has_number(self, directory: str, number: float) -> bool:
        with _damage(os.path.join(directory, DATABASE)):
            rows = self._databases[directory].execute(
                "SELECT 1 FROM Cache WHERE key = ? AND raw = 1", (number,)
            )
            return rows.fetchone() is not None

    def rows(self, directory: str) -> Iterator[_Row]:
        """Yield the entries in the order of insertion.

        Each batch is read at once, so that no lock is held while entries are written.
        """
        database, last = self._databases[directory], -(2**63)
        while True:
            with _damage(os.path.join(directory, DATABASE)):
                batch = database.execute(
                    f"SELECT {_COLUMNS} FROM Cache WHERE rowid > ? ORDER BY rowid LIMIT ?",  # noqa: S608
                    (last, _BATCH),
                ).fetchall()
            if not batch:
                return
            yield from (_Row._make((*columns, directory)) for columns in batch)
            last = batch[-1][0]

    def objection(self, row: _Row, shards: list[str]) -> Optional[str]:
        """Return why a row is not copied, or None."""
        if row.raw and isinstance(row.key, float) and row.key.is_integer():
            others = [shard for shard in shards if shard != row.directory]
            if any(self._has_number(shard, row.key) for shard in others):
                return TWICE
        if row.expires is not None and row.expires <= time.time():
            return "expired"
        if row.mode not in range(MODE_RAW, MODE_PICKLE + 1) or row.key is None:
            return "stored in an unknown way"
        objection = None if row.path is None else file_objection(row.path, row.directory, row.size)
        if objection is not None:
            return objection
        if self.trust_pickles:
            return None
        pickled = [] if row.raw else [row.key]
        if row.mode == MODE_PICKLE:
            pickled.append(row.value if row.path is None else Path(row.path).read_bytes())
        return None if all(map(_is_plain, pickled)) else PICKLED


@contextmanager
def _damage(path: str) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ImportFailed(
            f"{path} cannot be read: {error}. Close programs that lock it; if it is damaged, "
            f'save what can be read: sqlite3 {path} ".recover" | sqlite3 new.db'
        ) from error


def _is_plain(pickled: bytes) -> bool:
    try:
        _Plain(io.BytesIO(pickled)).load()
    except Exception:  # A pickle can raise anything.
        return False
    return True


def _import(
    reader: _Reader, source: str, shards: list[str], target: str, visited: Callable[[], object]
) -> Imported:
    """Copy a cache, and compare the copy."""
    stored = reader.settings(shards[0])
    settings = {name: stored[name] for name in _SETTINGS if name in stored}
    settings["size_limit"] = sum(reader.settings(shard)["size_limit"] for shard in shards)
    if settings["eviction_policy"] not in EVICTION_POLICY:
        del settings["eviction_policy"]  # A policy that the program defines, in SQL.
    during = {**settings, **_QUIET}
    cache: Union[Cache, FanoutCache]
    if shards == [source]:
        cache = Cache(target, disk=_Verbatim, **during)
    else:
        cache = FanoutCache(target, len(shards), _LOCK_S, _Verbatim, **during)
    outcomes: Counter[str] = Counter()
    different = 0
    with closing(cache):
        for shard in shards:
            # Eight bytes for each entry, and in order.
            there = array("q")
            for row in reader.rows(shard):
                visited()
                outcome = reader.objection(row, shards) or _copy(cache, row)
                outcomes[outcome] += 1
                if outcome in {_COPIED, _PRESENT}:
                    there.append(row.number)
            different += len(there)
            for row in reader.rows(shard):
                visited()
                place = bisect_left(there, row.number)
                if there[place : place + 1] == array("q", [row.number]):
                    different -= _has(cache, row)
        for name in _QUIET.keys() & settings.keys():
            cache.reset(name, settings[name])
    copied, present = outcomes.pop(_COPIED, 0), outcomes.pop(_PRESENT, 0)
    return Imported(source, target, copied, present, dict(outcomes), different)


def _copy(cache: Union[Cache, FanoutCache], row: _Row) -> str:
    """Write an entry if it is not there. Return what was done, or why it is left out."""
    if _has(cache, row):
        return _PRESENT
    expire = None if row.expires is None else row.expires - time.time()
    try:
        cache.set(row, row, expire, tag=row.tag, retry=True)
    except FileNotFoundError:
        return MISSING
    return _COPIED


def _has(cache: Union[Cache, FanoutCache], row: _Row) -> bool:
    """Tell whether the target has an entry with this key, value, expiry and tag."""
    found, expires, tag = cache.get(row, ENOVAL, expire_time=True, tag=True, retry=True)
    if found is ENOVAL:
        # What has expired since it was copied.
        return row.expires is not None and row.expires <= time.time() + _CLOCK_S
    same_expiry = (expires is None) is (row.expires is None)
    if expires is not None and row.expires is not None:
        same_expiry = abs(expires - row.expires) <= _CLOCK_S
    if not same_expiry or (found.mode, type(tag), tag) != (row.mode, type(row.tag), row.tag):
        return False
    if row.path is None or found.path is None:
        same = type(found.value) is type(row.value) and found.value == row.value
        return same and found.path is row.path
    return same_content(row.path, found.path)
