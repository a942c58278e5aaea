"""The floors under gets and sets: programs that do only the named part of the work.

Owns how they are built and loaded; what they do is in `src/lib.rs`. Must not know the goals.
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
    """The floor under a get: a key is hashed, a place found, and its bytes are copied."""

    def get(self, key: str, default: object = None) -> bytes | None:
        """Return a copy of the value."""

    def get_by_the_clock(self, key: str, default: object = None) -> bytes | None:
        """Return a copy of the value, and read the clock."""

    def get_verified(self, key: str, default: object = None) -> bytes | None:
        """Return a copy of the value, and compute its checksum."""

    def get_many(self, keys: list[str]) -> dict[str, bytes]:
        """Return copies of the values of keys that are all there."""


class Writer(Protocol):
    """The floor under a set: a key is hashed, a place found, a lock taken, bytes are copied in."""

    def set(self, key: str, value: bytes, ttl: object = None) -> None:
        """Overwrite the value by one of the same size."""

    def set_verified(self, key: str, value: bytes, ttl: object = None) -> None:
        """Overwrite the value, and compute its checksum."""

    def get(self, key: str) -> bytes:
        """Return a copy of the value."""


class Keeper(Protocol):
    """The floor under many sets at once: as a writer, but each record is compared and summed up."""

    def set_many(self, entries: dict[str, bytes]) -> None:
        """Overwrite the values by some of the same size, under one lock."""

    def get(self, key: str) -> bytes:
        """Return a copy of the value, whose record is what its sum says."""


def reader(entries: Mapping[str, bytes]) -> Reader:
    """Return the floor under a get of these entries. Raises BuildError."""
    made: Reader = _module().Reader(dict(entries))
    return made


def writer(entries: Mapping[str, bytes]) -> Writer:
    """Return the floor under a set that overwrites these entries. Raises BuildError."""
    made: Writer = _module().Writer(dict(entries))
    return made


def keeper(entries: Mapping[str, bytes]) -> Keeper:
    """Return the floor under many sets that overwrite these entries. Raises BuildError."""
    made: Keeper = _module().Keeper(dict(entries))
    return made


def build() -> Path:
    """Build the extension, unless it is up to date; return where it is. Raises BuildError."""
    return building.build(_FOLDER, _TARGET) / "lib_limits.so"


@cache
def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_limits", build())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
