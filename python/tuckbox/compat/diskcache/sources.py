"""What is exported to DiskCache: caches of the drop-in, or a plain Tuckbox file, as rows.

Reads with handles that can neither write nor unpickle. Keys and values of the drop-in become rows
as they are stored; those of a plain file as DiskCache's `Disk` would store them. Must not know
where the rows go.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import pickle
import sqlite3
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from typing import Any, Final, NamedTuple, Optional, Union

from tuckbox import Cache as File
from tuckbox import Entry as Found
from tuckbox.compat.diskcache.database import DATABASE, INDEXED_FIELDS, Row, sqlite_objection
from tuckbox.compat.diskcache.directories import caches_in, file_objection
from tuckbox.compat.diskcache.disk import MODE_BINARY, MODE_PICKLE, MODE_RAW, MODE_TEXT, Disk
from tuckbox.compat.diskcache.entries import (
    ACCESSED,
    COUNT,
    EXPIRE,
    FILE_NAME,
    LOCK_NAME,
    MODE,
    NUMBER,
    SHORT,
    SIZE,
    STORED,
    Entries,
    Entry,
    lengthen,
)
from tuckbox.compat.diskcache.settings import DEFAULT_SETTINGS
from tuckbox.compat.diskcache.signatures import SIGNED
from tuckbox.errors import CacheLost, EntryCorrupt, EntryRefused, TuckboxError

__all__ = ["ExportFailed", "Part", "Source", "open_sources"]

_EXPIRED: Final = "expired"
_UNKNOWN: Final = "stored in an unknown way"
_OBJECT: Final = "objects, which this command does not decode"
_TAGGED: Final = "with several tags: DiskCache has one"
_STALE: Final = "stale"
_UNREADABLE: Final = "deleted meanwhile, or damaged"
_SCANS_MAX: Final = 10
_LOCK_S: Final = 5.0
_LONG: Final = len(lengthen((None, 0, 0.0)))
_HASH_MASK: Final = 0xFFFFFFFF
_NUMBER_MAX: Final = 2**59
_TIMES: Final = frozenset({float, int, type(None)})
_HITS: Final = ("hits", "misses")
_ORDER_KIB: Final = 2**14
_PROTOCOL: Final = int(DEFAULT_SETTINGS["disk_pickle_protocol"])
_FILE_BYTES: Final = int(DEFAULT_SETTINGS["disk_min_file_size"])
_DISK: Final = Disk("", _FILE_BYTES, _PROTOCOL)


class ExportFailed(TuckboxError):  # noqa: N818 - As the others in `tuckbox.errors`.
    """A cache cannot be exported. The message says why, and what to do."""


class _Order:
    """The keys of a file in the order of insertion, in a temporary file of SQLite.

    So the memory does not grow with the number of entries.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = off",
            f"PRAGMA cache_size = -{_ORDER_KIB}",
            "CREATE TABLE Places (number INTEGER, place BLOB)",
            "BEGIN",
        ):
            self._database.execute(statement)

    def fill(self, places: Iterator[tuple[int, Any]]) -> None:
        """Replace the keys."""
        self._database.execute("DELETE FROM Places")
        self._database.executemany(
            "INSERT INTO Places VALUES (?, ?)",
            ((number, marshal.dumps(place)) for number, place in places),
        )

    def __len__(self) -> int:
        [[count]] = self._database.execute("SELECT COUNT(*) FROM Places").fetchall()
        return int(count)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        for number, place in self._database.execute(
            "SELECT number, place FROM Places ORDER BY number"
        ):
            yield number, marshal.loads(place)  # noqa: S302 - Written by `fill`.

    def close(self) -> None:
        self._database.close()


class Part:
    """A Tuckbox file, and how its entries become rows."""

    not_listed_because: str
    """Why the file has entries that an iteration does not list."""

    def __init__(self, path: str, directory: str) -> None:
        self.directory = directory
        # Refuses a file that other users can change. This handle cannot unpickle.
        self.file = File(path, read_only=True)
        self.order = _Order()
        self.not_listed = 0
        self.now = time.time()

    def scan(self, visited: Callable[[], object]) -> None:
        """Fill `order`, and count the entries that the file does not list.

        Args:
            visited: Called for each entry.
        """
        for left in reversed(range(_SCANS_MAX)):
            self.not_listed = len(self.file)
            try:
                self.order.fill(_told(self.places(), visited))
            except CacheLost:
                # A resize ends an iteration.
                if not left:
                    raise
            else:
                break

    def _listed(self) -> Iterator[Any]:
        for place in self.file:
            self.not_listed -= 1
            yield place

    def places(self) -> Iterator[tuple[int, Any]]:
        """Yield the number in the order of insertion and the key in the file of each entry."""
        raise NotImplementedError

    def row(self, number: int, place: Any) -> Union[Row, str]:
        """Return the row of an entry, or why it is left out."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Return the settings for DiskCache."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the files."""
        self.file.close()
        self.order.close()


class Source(NamedTuple):
    """A cache to export."""

    path: str
    place: str
    """Its directory, from that of the source."""
    parts: list[Part]
    """What each becomes a database."""
    is_sharded: bool
    """Whether the parts are the shards of a `FanoutCache`."""

    def folders(self, target: str) -> list[str]:
        """Return the directory of each part in the target."""
        if not self.is_sharded:
            return [target]
        return [os.path.join(target, f"{number:03}") for number in range(len(self.parts))]

    def shard_of(self, number: int, row: Row) -> int:
        """Return which shard of DiskCache has a row of a part.

        The drop-in has one shard for ``1`` and ``1.0``, and DiskCache has two.
        """
        if type(row.key) is float and row.key.is_integer():
            return (zlib.adler32(struct.pack("!d", row.key)) & _HASH_MASK) % len(self.parts)
        return number


class _DropIn(Part):
    """A directory of the drop-in."""

    not_listed_because = _UNREADABLE

    def __init__(self, directory: str) -> None:
        super().__init__(os.path.join(directory, FILE_NAME), directory)
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        stored = self.file.get(("settings",))
        if not isinstance(stored, dict):
            raise ExportFailed(f"{self.directory} has a {FILE_NAME} without the drop-in's settings")
        if SIGNED in stored:
            raise ExportFailed(
                f"{self.directory} is used with a secret. DiskCache cannot read its pickles, which "
                "are signed, so it is not exported"
            )
        lock = os.path.join(self.directory, LOCK_NAME)
        if _has_dead_transaction(lock):
            raise ExportFailed(
                f"a program died in a transaction on {self.directory}; undo it: open the directory "
                "with tuckbox.compat.diskcache.Cache, and close it"
            )

    def places(self) -> Iterator[tuple[int, Any]]:
        for place in self._listed():
            if type(place) is tuple and type(place[0]) is str:
                continue
            entry = self._entry(place)
            yield (0 if isinstance(entry, str) else entry[NUMBER]), place

    def _entry(self, place: Any) -> Union[Entry, str]:
        """Return the entry of a key of the file, or why it is left out."""
        try:
            entry = self.file.get(place)
        except EntryRefused:
            return _OBJECT
        except EntryCorrupt:
            return _UNREADABLE
        if entry is None:
            return _UNREADABLE
        return entry if _is_entry(entry) else _UNKNOWN

    def row(self, number: int, place: Any) -> Union[Row, str]:
        entry = self._entry(place)
        if isinstance(entry, str):
            return entry
        key = _key_of(place, entry)
        if key is None:
            return _UNKNOWN
        value, _, stored, expires, tag, mode, filename, size, accessed, count, _ = lengthen(entry)
        if expires is not None and expires <= self.now:
            return _EXPIRED
        if mode == MODE_RAW and _needs_pickle(value):
            mode, value = MODE_PICKLE, pickle.dumps(value, _PROTOCOL)
        for name, field in (("key", key[0]), ("tag", tag), ("value", value)):
            objection = sqlite_objection(field)
            if objection is not None:
                return f"{name} is a {objection}"
        path = None
        if filename is not None:
            objection = self._file_objection(filename, size)
            if objection is not None:
                return objection
            path, value = os.path.join(self.directory, filename), None
        return Row(
            number, *key, stored, expires, accessed, count, tag, size, mode, filename, value, path
        )

    def _file_objection(self, filename: Any, size: int) -> Optional[str]:
        if type(filename) is not str or sqlite_objection(filename) or "\0" in filename:
            return _UNKNOWN
        normal = os.path.normpath(filename)
        if normal != filename or os.path.isabs(filename) or filename.startswith((".", DATABASE)):
            return "value is outside of the directory"
        return file_objection(os.path.join(self.directory, filename), self.directory, size)

    def settings(self) -> dict[str, Any]:
        own: Any = self.file.get(("settings",))
        stored = {
            name: value
            for name, value in own.items()
            if type(name) is str and sqlite_objection(value) is None
        }
        found = {**DEFAULT_SETTINGS, **stored}
        if found["eviction_policy"] not in INDEXED_FIELDS:
            # A policy that the program defines.
            found["eviction_policy"] = DEFAULT_SETTINGS["eviction_policy"]
        return {**found, **{name: int(self.file.get((name,)) or 0) for name in _HITS}}


class _Plain(Part):
    """A file of `tuckbox.Cache`, whose values become what DiskCache's `Disk` makes of them."""

    not_listed_because = "in namespaces, locks or queues; expired; or damaged"

    def __init__(self, path: str) -> None:
        super().__init__(path, os.path.dirname(path))
        if ("settings",) in self.file and ("state",) in self.file:
            self.close()
            raise ExportFailed(f"{path} is of the drop-in; give its directory {self.directory}")

    def places(self) -> Iterator[tuple[int, Any]]:
        return enumerate(self._listed(), 1)

    def row(self, number: int, place: Any) -> Union[Row, str]:
        entry = self._entry(place)
        if isinstance(entry, str):
            return entry
        key, raw = _DISK.put(place)
        try:
            mode, value, content = _encode(entry.value)
        except Exception:  # Pickling an object of a registered type can raise anything.
            return _OBJECT
        for name, field in (("key", key), ("value", value)):
            objection = sqlite_objection(field)
            if objection is not None:
                return f"{name} is a {objection}"
        filename = None
        if content is not None:
            # The same name in each run, so that a continued export replaces what it finds.
            digest = sha256(repr((key, raw)).encode()).hexdigest()
            filename = f"{digest[:2]}/{digest[2:4]}/{digest[4:32]}.val"
        return Row(
            number, key, int(raw), 0.0, entry.expiry, 0.0, 0, entry.tags[0] if entry.tags else None,
            len(content or b""), mode, filename, value, None, content,
        )  # fmt: skip

    def _entry(self, place: Any) -> Union[Found, str]:
        try:
            found = self.file.get_entry(place)
        except EntryRefused:
            return _OBJECT
        except EntryCorrupt:
            return _UNREADABLE
        if found is None:
            return _UNREADABLE
        if found.stale:
            return _STALE
        return found if found.tags == found.tags[:1] else _TAGGED

    def settings(self) -> dict[str, Any]:
        size_limit = max(int(DEFAULT_SETTINGS["size_limit"]), self.file.size)
        return {**DEFAULT_SETTINGS, "size_limit": size_limit, **dict.fromkeys(_HITS, 0)}


def open_sources(source: str, stack: ExitStack) -> Iterator[Source]:
    """Yield the caches of a directory, or a file. ``stack`` closes them."""

    def opened(part: Part) -> Part:
        stack.callback(part.close)
        return part

    if os.path.isfile(source):
        yield Source(source, ".", [opened(_Plain(source))], is_sharded=False)
        return
    caches = list(caches_in(source, FILE_NAME))
    if not caches:
        raise ExportFailed(
            f"no {FILE_NAME} in {source}: it is neither a directory of tuckbox.compat.diskcache "
            "nor a file of Tuckbox"
        )
    for folder, shards in caches:
        parts: list[Part] = [opened(_DropIn(shard)) for shard in shards]
        yield Source(folder, os.path.relpath(folder, source), parts, is_sharded=shards != [folder])


def _told(
    places: Iterator[tuple[int, Any]], visited: Callable[[], object]
) -> Iterator[tuple[int, Any]]:
    for place in places:
        visited()
        yield place


def _has_dead_transaction(lock: str) -> bool:
    """Return whether a journal was left by a process that died."""
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        deadline_s = time.monotonic() + _LOCK_S
        while os.fstat(fd).st_size:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    return False
                time.sleep(0.01)
            else:
                return os.fstat(fd).st_size > 0
        return False
    finally:
        os.close(fd)


def _is_entry(entry: Any) -> bool:
    """Return whether something has the form of an entry, apart from its key, tag and value."""
    if type(entry) is not tuple or len(entry) not in {SHORT, _LONG}:
        return False
    if not (_is_number(entry[NUMBER]) and type(entry[STORED]) in _TIMES):
        return False
    return len(entry) == SHORT or (
        _is_number(entry[SIZE])
        and _is_number(entry[COUNT])
        and type(entry[EXPIRE]) in _TIMES
        and type(entry[ACCESSED]) in _TIMES
        and type(entry[MODE]) is int
        and MODE_RAW <= entry[MODE] <= MODE_PICKLE
    )


def _is_number(field: Any) -> bool:
    return type(field) is int and 0 <= field < _NUMBER_MAX


def _key_of(place: Any, entry: Entry) -> Optional[tuple[Any, int]]:
    """Return the key of an entry as DiskCache stores it, or None if it is not that of its place."""
    try:
        key, raw = Entries.key_of(place, entry)
        found, _ = Entries.place(key, raw)
    except (TypeError, ValueError, IndexError):
        return None
    return (key, int(raw)) if found == place else None


def _needs_pickle(value: Any) -> bool:
    """Return whether DiskCache could not hold a number: sums of `incr`, and NaN, which is NULL."""
    return type(value) in {int, float} and sqlite_objection(value) is not None


def _encode(value: Any) -> tuple[int, Any, Optional[bytes]]:
    """Return how DiskCache stores a value: the mode; the value, or None; what its file has."""
    kind = type(value)
    if kind in {int, float} and not _needs_pickle(value):
        return MODE_RAW, value, None
    if kind in {str, bytes}:
        if len(value) < _FILE_BYTES or sqlite_objection(value):
            return MODE_RAW, value, None
        if kind is str:
            return MODE_TEXT, None, value.encode("utf-8")
        return MODE_BINARY, None, value
    pickled = pickle.dumps(value, _PROTOCOL)
    if len(pickled) < _FILE_BYTES:
        return MODE_PICKLE, pickled, None
    return MODE_PICKLE, None, pickled
