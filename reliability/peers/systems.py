"""The compared systems, driven by the lab's adapters.

Owns what else a trial must know of a system: its files, its limit, and how somebody who can write
to its files plants a pickle. Must not judge.
"""

from __future__ import annotations

import importlib
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.hosts.python.contract import Store
from lab.peers import opener, title_of

_SIZE_BYTES = 64 * 2**20
_CACHE = "cache.tuck"


class RefusedError(Exception):
    """A store refused a set."""


@dataclass(frozen=True)
class Peer:
    """A system.

    `row` is its name in the lab, `setup` says how it is opened, and `pattern` finds the data files
    in its folder. `evictions` returns its own count of evictions, and `built_on` the version of
    the library it uses.
    """

    name: str
    row: str
    setup: str
    pattern: str
    open: Callable[[Path], Store]
    plant: Callable[[Path, str, bytes], None]
    evictions: Callable[[Path], int] = lambda _folder: 0
    built_on: Callable[[], str] = lambda: ""

    @property
    def version(self) -> str:
        """The installed version, with that of the library it uses."""
        return title_of(self.row).rpartition(" ")[2] + self.built_on()

    def files(self, folder: Path) -> list[Path]:
        """Return its data files."""
        return sorted(folder.rglob(self.pattern))


def _by_lab(
    row: str, entries_max: int = 0, bytes_max: int = _SIZE_BYTES, **settings: str
) -> Callable[[Path], Store]:
    """Return a function that opens a system, and imports its adapter when it is first called."""

    def opened(folder: Path) -> Store:
        limited = opener(row, entries_max=entries_max, bytes_max=bytes_max, settings=settings)
        store = limited(folder)

        def set_(key: str, value: bytes) -> None:
            if store.set(key, value) is False:
                raise RefusedError(f"{row} refused to store {key}")

        return replace(store, set=set_)

    return opened


def _module(name: str) -> Any:  # noqa: ANN401 (they have no types)
    return importlib.import_module(name)


_tuckbox = _by_lab("tuckbox")
_diskcache = _by_lab("diskcache")
_lmdb = _by_lab("lmdb", sync="yes")
_filebased = _by_lab("django_filebased", entries_max=100_000, timeout="none")


def _evicted_by_tuckbox(folder: Path) -> int:
    with _module("tuckbox").Cache(folder / _CACHE, read_only=True) as cache:
        return int(cache.stats().evictions)


def _stored(open_: Callable[[Path], Store], folder: Path, key: str, value: bytes) -> None:
    store = open_(folder)
    store.set(key, value)
    store.close()


def _plant_in_tuckbox(folder: Path, key: str, pickle: bytes) -> None:
    """Plant it twice: as a value, and over the bytes of another value in the file."""
    _stored(_tuckbox, folder, key, pickle)
    mark = b"these bytes are replaced" * 20
    _stored(_tuckbox, folder, f"{key}:raw", mark)
    path = folder / _CACHE
    place = path.read_bytes().index(mark)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(pickle)


def _plant_in_diskcache(folder: Path, key: str, pickle: bytes) -> None:
    _stored(_diskcache, folder, key, b"replaced")
    mode = _module("diskcache.core").MODE_PICKLE
    connection = sqlite3.connect(folder / "cache.db")
    with connection:
        connection.execute(
            "UPDATE Cache SET value = ?, mode = ?, filename = NULL WHERE key = ?",
            (pickle, mode, key),
        )
    connection.close()


def _plant_in_lmdb(folder: Path, key: str, pickle: bytes) -> None:
    """Plant it as a value: LMDB stores only bytes."""
    _stored(_lmdb, folder, key, pickle)


def _plant_in_filebased(folder: Path, key: str, pickle: bytes) -> None:
    _stored(_filebased, folder, key, b"replaced")
    (path,) = folder.glob("*.djcache")
    never = b"N."  # The pickle of None: it does not expire.
    path.write_bytes(never + zlib.compress(pickle))


def _lmdb_library() -> str:
    return f" (LMDB {'.'.join(map(str, _module('lmdb').version()))})"


PEERS: Mapping[str, Peer] = {
    "tuckbox": Peer(
        "Tuckbox",
        "tuckbox",
        "Cache(path, size=64 MiB)",
        _CACHE,
        _tuckbox,
        _plant_in_tuckbox,
        evictions=_evicted_by_tuckbox,
    ),
    "diskcache": Peer(
        "DiskCache",
        "diskcache",
        "Cache(folder, size_limit=64 MiB): SQLite in WAL mode, waits 60 s for a lock",
        "cache.db",
        _diskcache,
        _plant_in_diskcache,
        built_on=lambda: f" (SQLite {sqlite3.sqlite_version})",
    ),
    "lmdb": Peer(
        "LMDB",
        "lmdb",
        "open(folder, map_size=64 MiB), a transaction for each operation, reader_check() when "
        "opened, as its manual asks",
        "data.mdb",
        _lmdb,
        _plant_in_lmdb,
        built_on=_lmdb_library,
    ),
    "filebased": Peer(
        "Django FileBasedCache",
        "django_filebased",
        "MAX_ENTRIES 100,000, no timeout",
        "*.djcache",
        _filebased,
        _plant_in_filebased,
    ),
}
