"""Servers that contestants use. Owns the fields of `servers/*/server.toml`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from lab.runner.catalogue.definition import LAB, Definition, read


class ServerInstall(Definition, frozen=True):
    """How a server is installed: Debian packages, jars, a build from source; or why it cannot."""

    apt: list[str] = []
    maven: list[str] = []
    build: str = ""
    absent: str = ""


class Server(Definition, frozen=True):
    """A server; servers/README.md explains every field. None means not supported."""

    title: str
    program: str
    command: list[str]
    version: list[str] = []
    prepare: list[list[str]] = []
    tcp: list[str] | None = None
    socket: list[str] | None = None
    limited: list[str] | None = None
    stock: list[str] | None = None
    root: list[str] = []
    ready_seconds_max: float = 10.0
    settings: dict[str, str] = {}
    install: ServerInstall = ServerInstall()
    folder: str = ""

    @property
    def name(self) -> str:
        """The folder's name."""
        return Path(self.folder).name


def servers(folder: Path = LAB / "servers") -> dict[str, Server]:
    """Return every server that has a folder in `folder`, by name. Raises CatalogueError."""
    return {
        path.parent.name: msgspec.structs.replace(read(path, Server), folder=str(path.parent))
        for path in sorted(folder.glob("*/server.toml"))
    }
