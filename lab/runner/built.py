"""The lab's builds from source: where they are, or why they are missing.

Owns the folder `built`. Must not build or start anything.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from lab.runner.catalogue import LAB, Contestant, Server, Source, server_of, source

FOLDER = LAB / "built"

_MARKER = "built.json"


class _Built(msgspec.Struct, frozen=True):
    """The marker that a finished build leaves in its folder."""

    recipe: str
    archive: str


def prefix(one: Source) -> Path:
    """Return the folder that a build installs into; it may not exist."""
    return FOLDER / f"{one.name}-{one.version}"


def archive_of(one: Source) -> str:
    """Return the name of the archive that was built; empty without a finished build.

    An interrupted build, or a build of another recipe, does not count.
    """
    try:
        built = msgspec.json.decode((prefix(one) / _MARKER).read_bytes(), type=_Built)
    except (FileNotFoundError, msgspec.MsgspecError):
        return ""
    return built.archive if built.recipe == _recipe(one) else ""


def finish(one: Source, archive: str) -> None:
    """Mark the build of `archive` as finished."""
    (prefix(one) / _MARKER).write_bytes(msgspec.json.encode(_Built(_recipe(one), archive)))


def note_absence(one: Source, reason: str) -> None:
    """Keep the reason why there is no archive to build; an empty reason removes it."""
    path = _absence(one)
    if reason:
        path.write_text(reason, "utf-8")
    else:
        path.unlink(missing_ok=True)


def words(name: str) -> dict[str, str]:
    """Return the placeholder `prefix` for the build of the source `name`."""
    return {"prefix": str(prefix(source(name)))} if name else {}


def program(server: Server) -> str:
    """Return the path of a server's program in a finished build; empty without one."""
    if server.install.build and archive_of(source(server.install.build)):
        path = prefix(source(server.install.build)) / "bin" / server.program
        return str(path) if path.exists() else ""
    return ""


def version_of(version: str, name: str) -> str:
    """Return a version with the archive it was built from, if the lab built it from `name`."""
    archive = archive_of(source(name)) if name else ""
    return f"{version}, built from {archive}" if archive else version


def why_absent(one: Contestant) -> str:
    """Return why a contestant or its server cannot be installed here; empty if it can."""
    return _why_absent(one.install.absent, one.install.build) or (
        why_server_absent(server_of(one)) if one.server else ""
    )


def why_server_absent(server: Server) -> str:
    """Return why a server cannot be installed here; empty if it can."""
    return _why_absent(server.install.absent, server.install.build)


def _why_absent(absent: str, build: str) -> str:
    if absent or not build:
        return absent
    path = _absence(source(build))
    return path.read_text("utf-8") if path.exists() else ""


def _absence(one: Source) -> Path:
    return FOLDER / f"{prefix(one).name}.absent"


def _recipe(one: Source) -> str:
    return hashlib.sha256(msgspec.json.encode(one)).hexdigest()
