"""Hosts: the loop of each runtime. Owns the fields of `hosts/*/host.toml`."""

from __future__ import annotations

from functools import cache

from lab.runner.catalogue.definition import LAB, Definition, read, unknown


class HostInstall(Definition, frozen=True):
    """The Debian packages that the runtime needs."""

    apt: list[str] = []


class Host(Definition, frozen=True):
    """A runtime's loop. PROTOCOL.md has the placeholders of `command`.

    `adapter` is the name of the file in a contestant's folder; empty if the contestant is built
    into a program. `multi_get` says whether the host can request several keys at once. `key_bytes`
    is the measured memory of a worker for each key, without the store.
    """

    command: list[str]
    key_bytes: int
    adapter: str = ""
    multi_get: bool = False
    install: HostInstall = HostInstall()


def hosts() -> dict[str, Host]:
    """Return every host by the name of its folder. Raises CatalogueError."""
    paths = sorted((LAB / "hosts").glob("*/host.toml"))
    return {path.parent.name: read(path, Host) for path in paths}


@cache
def host(name: str) -> Host:
    """Return the host of a runtime. Raises CatalogueError."""
    known = hosts()
    if name not in known:
        raise unknown("host", name, known)
    return known[name]
