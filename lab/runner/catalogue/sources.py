"""Systems that the lab builds from source. Owns the fields of `sources/*/source.toml`."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import msgspec

from lab.runner.catalogue.definition import LAB, Definition, read, unknown

Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Url = Annotated[str, msgspec.Meta(pattern="^(https://.+)?$")]


class Archive(Definition, frozen=True):
    """An archive of the source. Without a `url`, only a copy on this machine can be used."""

    name: str
    sha256: Sha256
    url: Url = ""


class Source(Definition, frozen=True):
    """A system in one version; sources/README.md explains every field."""

    title: str
    version: str
    licence: str
    archives: Annotated[list[Archive], msgspec.Meta(min_length=1)]
    commands: Annotated[list[list[str]], msgspec.Meta(min_length=1)]
    apt: list[str] = []
    name: str = ""


@cache
def sources() -> dict[str, Source]:
    """Return every source by the name of its folder. Raises CatalogueError."""
    return {
        path.parent.name: msgspec.structs.replace(read(path, Source), name=path.parent.name)
        for path in sorted((LAB / "sources").glob("*/source.toml"))
    }


def source(name: str) -> Source:
    """Return the source called `name`. Raises CatalogueError."""
    known = sources()
    if name not in known:
        raise unknown("source", name, known)
    return known[name]
