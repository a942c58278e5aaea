"""The systems that are compared, each in its documented setup, behind the same four verbs.

Owns what is particular to a system: how it is opened, which files are its own, and how somebody who
may write its files plants a pickle. Must not judge.
"""

from __future__ import annotations

import importlib
import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

SIZE_BYTES = 64 * 2**20
_CACHE = "cache.tuck"


@dataclass(frozen=True)
class Store:
    """An open cache. `get` returns None for a miss; all raise what the system raises.

    `evictions` returns how many entries it says it removed to make room.
    """

    get: Callable[[str], object]
    set: Callable[[str, bytes], object]
    delete: Callable[[str], object]
    close: Callable[[], object]
    evictions: Callable[[], int] = lambda: 0


@dataclass(frozen=True)
class Peer:
    """A system. `package` is what pip calls it, `pattern` finds its data files in its folder."""

    name: str
    package: str
    module: str
    settings: str
    pattern: str
    open: Callable[[Path], Store]
    plant: Callable[[Path, str, bytes], None]

    def load(self) -> None:
        """Import it, so that processes that are forked need not."""
        _module(self.module)

    @property
    def version(self) -> str:
        """The version that is installed, with that of what it is built on."""
        if self.name == "DiskCache":
            return f"{version(self.package)} (SQLite {sqlite3.sqlite_version})"
        if self.name == "LMDB":
            library = ".".join(map(str, _module("lmdb").version()))
            return f"{version(self.package)} (LMDB {library})"
        return version(self.package)

    def files(self, folder: Path) -> list[Path]:
        """Return its data files."""
        return sorted(folder.rglob(self.pattern))


def _module(name: str) -> Any:  # noqa: ANN401 (they have no types)
    return importlib.import_module(name)


def _tuckbox(folder: Path) -> Store:
    cache = _module("tuckbox").Cache(folder / _CACHE, size=SIZE_BYTES)
    return Store(
        cache.get,
        cache.set,
        cache.delete,
        cache.close,
        evictions=lambda: int(cache.stats().evictions),
    )


def _plant_bytes(open_: Callable[[Path], Store]) -> Callable[[Path, str, bytes], None]:
    """Plant as a value, which is the nearest thing to a pickle where values are bytes."""

    def plant(folder: Path, key: str, pickle: bytes) -> None:
        store = open_(folder)
        store.set(key, pickle)
        store.close()

    return plant


def _plant_in_tuckbox(folder: Path, key: str, pickle: bytes) -> None:
    """Plant it twice: as a value, and over the bytes of another value in the file."""
    _plant_bytes(_tuckbox)(folder, key, pickle)
    mark = b"these bytes are replaced" * 20
    store = _tuckbox(folder)
    store.set(f"{key}:raw", mark)
    store.close()
    path = folder / _CACHE
    data = path.read_bytes()
    place = data.index(mark)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(pickle)


def _diskcache(folder: Path) -> Store:
    cache = _module("diskcache").Cache(str(folder), size_limit=SIZE_BYTES)
    return Store(cache.get, cache.set, cache.delete, cache.close)


def _plant_in_diskcache(folder: Path, key: str, pickle: bytes) -> None:
    _diskcache(folder).set(key, b"replaced")
    mode = _module("diskcache.core").MODE_PICKLE
    connection = sqlite3.connect(folder / "cache.db")
    with connection:
        connection.execute(
            "UPDATE Cache SET value = ?, mode = ?, filename = NULL WHERE key = ?",
            (pickle, mode, key),
        )
    connection.close()


def _lmdb(folder: Path) -> Store:
    environment = _module("lmdb").open(str(folder), map_size=SIZE_BYTES)
    environment.reader_check()

    def get(key: str) -> object:
        with environment.begin() as transaction:
            return transaction.get(key.encode())

    def set_(key: str, value: bytes) -> object:
        with environment.begin(write=True) as transaction:
            return transaction.put(key.encode(), value)

    def delete(key: str) -> object:
        with environment.begin(write=True) as transaction:
            return transaction.delete(key.encode())

    return Store(get, set_, delete, environment.close)


def _django(folder: Path) -> Any:  # noqa: ANN401 (Django has no types)
    backend = "django.core.cache.backends.filebased.FileBasedCache"
    options = {"MAX_ENTRIES": 100_000}
    configuration = {"BACKEND": backend, "LOCATION": str(folder), "OPTIONS": options}
    return _module("django.core.cache").CacheHandler({"default": configuration})["default"]


def _filebased(folder: Path) -> Store:
    cache = _django(folder)
    return Store(
        cache.get, lambda key, value: cache.set(key, value, None), cache.delete, cache.close
    )


def _plant_in_filebased(folder: Path, key: str, pickle: bytes) -> None:
    cache = _django(folder)
    cache.set(key, b"replaced", None)
    path = Path(cache._key_to_file(key))  # noqa: SLF001 (it is where an attacker would look)
    never = b"N."  # The pickle of None: it does not expire.
    path.write_bytes(never + zlib.compress(pickle))


PEERS = {
    "tuckbox": Peer(
        "Tuckbox",
        "tuckbox",
        "tuckbox",
        "Cache(path, size=64 MiB)",
        _CACHE,
        _tuckbox,
        _plant_in_tuckbox,
    ),
    "diskcache": Peer(
        "DiskCache",
        "diskcache",
        "diskcache",
        "Cache(folder, size_limit=64 MiB): SQLite in WAL mode, waits 60 s for a lock",
        "cache.db",
        _diskcache,
        _plant_in_diskcache,
    ),
    "lmdb": Peer(
        "LMDB",
        "lmdb",
        "lmdb",
        "open(folder, map_size=64 MiB), a transaction for each operation, reader_check() when "
        "opened, as its manual asks",
        "data.mdb",
        _lmdb,
        _plant_bytes(_lmdb),
    ),
    "filebased": Peer(
        "Django FileBasedCache",
        "django",
        "django.core.cache.backends.filebased",
        "MAX_ENTRIES 100,000, no timeout",
        "*.djcache",
        _filebased,
        _plant_in_filebased,
    ),
}
