"""Contestants: the systems that are compared. Owns the fields of `contestants/*/contestant.toml`.

A file defines one row of the tables or, with forms, one row per form. In this package, a contestant
is a row: `folder` or `folder:form`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from lab.protocol import ValueKind
from lab.runner.catalogue.definition import LAB, CatalogueError, Definition, read, unknown
from lab.runner.catalogue.hosts import Host, hosts
from lab.runner.catalogue.servers import Server, servers
from lab.runner.catalogue.sources import source
from lab.runner.catalogue.suites import (
    Part,
    PhasesSuite,
    Suite,
    Variant,
    suites,
)

Transport = Literal["tcp", "socket"]
Sizing = Literal["limited", "stock"]
Mount = Literal["", "tmpfs", "ramfs"]
SharedBy = Literal["process", "fork", "machine", "network"]
# How the bytes of a store are measured: the blocks of all files in its folder, or the growth of the
# client's or the server's memory.
Weighed = Literal["file", "client", "server"]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
# Nothing limits the age of a copy. Not infinity, which JSON cannot spell.
NoBound = Literal["no bound"]


class Install(Definition, frozen=True):
    """How a contestant is installed; contestants/README.md explains every field."""

    apt: list[str] = []
    extension: str = ""
    pip: list[str] = []
    maven: list[str] = []
    cargo: bool = False
    build: str = ""
    distribution: str = ""
    program: str = ""
    absent: str = ""


class Contestant(Definition, frozen=True):
    """One row. `name` is the folder's name, followed by `:` and the form's name if it has forms.

    `excused` names known defects that the contestant's README explains. They are counted and shown,
    but do not make the run a failure. A wrong value is never excused. `multi_get` says how the
    contestant requests several values at once; without it, they are requested one by one.
    `max_stale_s` is how old a value may be after another machine has changed it: 0 if every get
    asks the server.
    """

    title: str
    what: str
    host: str
    shared_by: SharedBy
    survives_restart: bool
    evicts: bool
    counts: list[Literal["entries", "bytes"]]
    cannot: list[str]
    suites: list[str]
    expires: bool = False
    stores: bool = True
    values: list[ValueKind] = msgspec.field(default_factory=lambda: ["binary"])
    block: int = 256
    multi_get: str = ""
    max_stale_s: Seconds | NoBound = 0.0
    excused: list[Literal["stale", "lost"]] = []
    arguments: list[str] = []
    server: str = ""
    transport: Transport = "tcp"
    sizing: Sizing = "limited"
    mount: Mount = ""
    weighed: Weighed | UnsetType = UNSET
    settings: dict[str, str] = {}
    install: Install = Install()
    name: str = ""
    folder: str = ""

    @property
    def is_shared(self) -> bool:
        """Whether all workers of a cell share one store. They are never forks of each other."""
        return self.shared_by in ("machine", "network")

    @property
    def is_peer(self) -> bool:
        """Whether it is another project's cache: neither Tuckbox nor a host without one."""
        return self.stores and not self.install.distribution.startswith("tuckbox")

    @property
    def weighed_by(self) -> Weighed:
        """How its bytes are measured: as the file says, else by the place of its data."""
        if self.weighed is not UNSET:
            return self.weighed
        if self.server:
            return "server"
        return "file" if self.shared_by == "machine" else "client"

    @property
    def stale_for_s(self) -> float:
        """`max_stale_s` as a number: infinity without a bound."""
        return math.inf if self.max_stale_s == "no bound" else self.max_stale_s

    def takes_part(self, suite: str, part: Part) -> bool:
        """Return whether it has a row in a part of the suite called `suite`."""
        if part.only and self.name not in part.only:
            return False
        named = suite in self.suites or f"{suite}/{part.name}" in self.suites
        return named and (part.stock or self.sizing == "limited")

    def takes(self, variant: Variant) -> bool:
        """Return whether it can store the values of a variant."""
        return variant.value in self.values


class ContestantForm(Definition, frozen=True):
    """One of several rows from one adapter. Its fields replace the contestant's."""

    name: str
    title: str | UnsetType = UNSET
    what: str | UnsetType = UNSET
    shared_by: SharedBy | UnsetType = UNSET
    survives_restart: bool | UnsetType = UNSET
    evicts: bool | UnsetType = UNSET
    suites: list[str] | UnsetType = UNSET
    values: list[ValueKind] | UnsetType = UNSET
    counts: list[Literal["entries", "bytes"]] | UnsetType = UNSET
    cannot: list[str] | UnsetType = UNSET
    expires: bool | UnsetType = UNSET
    max_stale_s: Seconds | NoBound | UnsetType = UNSET
    block: int | UnsetType = UNSET
    arguments: list[str] | UnsetType = UNSET
    server: str | UnsetType = UNSET
    transport: Transport | UnsetType = UNSET
    sizing: Sizing | UnsetType = UNSET
    mount: Mount | UnsetType = UNSET
    weighed: Weighed | UnsetType = UNSET
    settings: dict[str, str] = {}


class _File(Contestant, frozen=True):
    """A file: the contestant and its forms."""

    forms: list[ContestantForm] = []


def contestants(folder: Path = LAB / "contestants") -> dict[str, Contestant]:
    """Return every row that `folder` defines by its name, ordered by host and name, nulls last.

    The servers are in the folder `servers` next to it. Raises CatalogueError for a malformed file,
    and for an unknown suite, part, server, host or source.
    """
    known = _Known(suites(), hosts(), servers(folder.parent / "servers"))
    found: list[Contestant] = []
    for path in sorted(folder.glob("*/contestant.toml")):
        for row in _rows(path):
            known.check(path, row)
            found.append(row)
    found.sort(key=lambda row: (not row.stores, row.host, row.name))
    return {row.name: row for row in found}


@cache
def _servers(folder: str) -> dict[str, Server]:
    return servers(Path(folder).parent.parent / "servers")


def server_of(contestant: Contestant) -> Server:
    """Return the server of a contestant that has one."""
    return _servers(contestant.folder)[contestant.server]


def _rows(path: Path) -> list[Contestant]:
    file = read(path, _File)
    fields = {
        name: getattr(file, name)
        for name in Contestant.__struct_fields__
        if name not in ("name", "folder")
    }
    plain = Contestant(**fields, name=path.parent.name, folder=str(path.parent))
    if not file.forms:
        return [plain]
    names = [form.name for form in file.forms]
    if len(set(names)) < len(names):
        raise CatalogueError(f"{path}: two forms have the same name")
    return [_formed(plain, form) for form in file.forms]


def _formed(plain: Contestant, form: ContestantForm) -> Contestant:
    replaced = {
        name: getattr(form, name)
        for name in form.__struct_fields__
        if name not in ("name", "settings") and getattr(form, name) is not UNSET
    }
    return msgspec.structs.replace(
        plain,
        **replaced,
        name=f"{plain.name}:{form.name}",
        settings=plain.settings | form.settings,
    )


class _Known(msgspec.Struct, frozen=True):
    """Everything that a contestant may refer to."""

    suites: Mapping[str, Suite]
    hosts: Mapping[str, Host]
    servers: Mapping[str, Server]

    def check(self, path: Path, row: Contestant) -> None:
        """Raise CatalogueError if `row` refers to something unknown."""
        try:
            if row.host not in self.hosts:
                raise unknown("host", row.host, self.hosts)
            for name in row.suites:
                self._check_suite(name)
            self._check_host(row)
            if row.install.build:
                source(row.install.build)
            if row.server or row.weighed == "server":
                self._check_server(row)
            self._check_facts(row)
        except CatalogueError as error:
            raise CatalogueError(f"{path}: {error}") from error

    def _check_suite(self, name: str) -> None:
        suite_name, _, part = name.partition("/")
        suite = self.suites.get(suite_name)
        if suite is None:
            raise unknown("suite", suite_name, self.suites)
        parts = [one.name for one in suite.parts] if isinstance(suite, PhasesSuite) else []
        if part and part not in parts:
            raise unknown(f"part of {suite_name}", part, parts)

    def _check_host(self, row: Contestant) -> None:
        if self.hosts[row.host].multi_get:
            return
        for suite in self.suites.values():
            for part in suite.parts if isinstance(suite, PhasesSuite) else ():
                if part.batch_max > 1 and row.takes_part(suite.name, part):
                    raise CatalogueError(
                        f"{suite.name}/{part.name} requests several keys at once, which the host "
                        f"{row.host} cannot do: list the other parts, such as {suite.name}/main"
                    )

    def _check_facts(self, row: Contestant) -> None:
        if row.evicts and not row.counts:
            raise CatalogueError(f"{row.name}: evicts is true, but counts is empty")
        reach = "network" if row.server and row.transport == "tcp" else "machine"
        if (row.server or row.shared_by == "network") and row.shared_by != reach:
            how = f"a server reached by {row.transport}" if row.server else "no server"
            raise CatalogueError(f"{row.name}: shared_by = {row.shared_by!r} is wrong with {how}")
        if row.stale_for_s and row.shared_by != "network":
            raise CatalogueError(f"{row.name}: max_stale_s needs shared_by = 'network'")

    def _check_server(self, row: Contestant) -> None:
        server = self.servers.get(row.server)
        if server is None:
            raise unknown("server", row.server, self.servers)
        if server.install.build:
            source(server.install.build)
        if getattr(server, row.transport) is None:
            raise CatalogueError(f"server {row.server!r} cannot be reached by {row.transport}")
