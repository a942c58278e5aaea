"""The stripped programs: they do only the named part of a get or a set.

Owns how they are built and loaded; `src/lib.rs` has what they do. Must not know the goals.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol

from benches import building
from rig.sources import ROOT

_FOLDER = Path(__file__).resolve().parent
_TARGET = ROOT / "target" / "benches" / "limits"


class Reader(Protocol):
    """A stripped get: it hashes the key, finds its slot and copies the value."""

    def get(self, key: str, default: object = None) -> bytes | None:
        """Return a copy of the value."""

    def get_by_the_clock(self, key: str, default: object = None) -> bytes | None:
        """Return a copy of the value, and read the clock."""

    def get_verified(self, key: str, default: object = None) -> bytes | None:
        """Return a copy of the value, and compute its checksum."""

    def get_many(self, keys: list[str]) -> dict[str, bytes]:
        """Return copies of the values of keys, all of which must be present."""


class Verifier(Protocol):
    """A stripped get that also compares the key, and verifies the checksum of its record."""

    def get(self, key: str, default: object = None) -> bytes | None:
        """Return a copy of the value."""


class Writer(Protocol):
    """A stripped set: it hashes the key, finds its slot, takes a lock and copies the value."""

    def set(self, key: str, value: bytes, ttl: object = None) -> None:
        """Overwrite the value with one of the same size."""

    def set_verified(self, key: str, value: bytes, ttl: object = None) -> None:
        """Overwrite the value, and compute its checksum."""

    def get(self, key: str) -> bytes:
        """Return a copy of the value."""


class Holder(Protocol):
    """A stripped get of a kept object: it loads a word of the key's slot, and one of its record."""

    def get(self, key: str, default: object = None) -> bytes | None:
        """Return the object of a key, which must be the same object."""


class Keeper(Protocol):
    """A stripped set of many keys: it also compares keys, and writes records with checksums."""

    def set_many(self, entries: dict[str, bytes]) -> None:
        """Overwrite the values with others of the same size, under one lock."""

    def get(self, key: str) -> bytes:
        """Return a copy of the value, and verify the record's checksum."""


def reader(entries: Mapping[str, bytes]) -> Reader:
    """Return a stripped get of these entries. Raises BuildError."""
    made: Reader = _module().Reader(dict(entries))
    return made


def verifier(entries: Mapping[str, bytes]) -> Verifier:
    """Return a stripped get of these entries, from records. Raises BuildError."""
    made: Verifier = _module().Verifier(dict(entries))
    return made


def writer(entries: Mapping[str, bytes]) -> Writer:
    """Return a stripped set that overwrites these entries. Raises BuildError."""
    made: Writer = _module().Writer(dict(entries))
    return made


def holder(entries: Mapping[str, bytes]) -> Holder:
    """Return a stripped get of kept objects. Raises BuildError."""
    made: Holder = _module().Holder(dict(entries))
    return made


def keeper(entries: Mapping[str, bytes]) -> Keeper:
    """Return a stripped set of many keys that overwrites these entries. Raises BuildError."""
    made: Keeper = _module().Keeper(dict(entries))
    return made


def read_clock(count: int) -> None:
    """Read the clock `count` times, and do nothing else. Raises BuildError."""
    _module().read_clock(count)


def build() -> Path:
    """Build the extension unless it is up to date, and return its path. Raises BuildError."""
    return building.build(_FOLDER, _TARGET) / "lib_limits.so"


@cache
def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_limits", build())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
