"""The base of all definitions: a TOML file without unknown fields.

Owns the reading and the error. Must not know what is defined.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import msgspec

LAB = Path(__file__).resolve().parent.parent.parent
REPOSITORY = LAB.parent

T = TypeVar("T")


class CatalogueError(Exception):
    """A definition is missing or malformed; the message says where and what."""


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a TOML file. Unknown fields are errors."""


def read(path: Path, kind: type[T]) -> T:
    """Return the definition in `path`. Raises CatalogueError."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), kind)
    except FileNotFoundError:
        raise CatalogueError(f"{path} does not exist") from None
    except (msgspec.ValidationError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path}: {error}") from error


def unknown(kind: str, name: str, known: Iterable[str]) -> CatalogueError:
    """Return the error for a name that is not in `known`, with the most similar known name."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    meant = f", did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(names) if names else "none"
    return CatalogueError(f"there is no {kind} {name!r}{meant or '.'} Known: {listed}")
