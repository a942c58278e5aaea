"""`lab install`: installs what contestants, servers and hosts need.

Owns which contestant needs what. The installer owns how to get it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from lab.commands import options
from lab.runner import catalogue
from lab.runner.catalogue import (
    CatalogueError,
    Contestant,
    PhasesSuite,
    host,
    server_of,
    source,
)
from lab.runner.install import Needs, Step
from lab.runner.install import install as carry_out
from lab.runner.plan import Choice
from rig.terminal import open_console

EXIT_FAILED = 1
BROWSER = frozenset({"chromium", "chromium-driver"})


@click.command()
@click.argument("suites", nargs=-1, metavar="[SUITE[/PART]]...")
@options.contestants_folder
@options.contestant_names
@click.option("--tests", is_flag=True, help="Also install the browser and all servers.")
def install(suites: tuple[str, ...], folder: Path, names: tuple[str, ...], tests: bool) -> None:
    """Install what the contestants of the named suites need; by default, of all suites.

    The exit status is 1 if something could not be installed.
    """
    console = open_console()
    try:
        contestants = options.choose_contestants(catalogue.contestants(folder), names)
        chosen, parts = options.choose_suites(suites, "full")
        options.check_choice(chosen, parts)
        choice = Choice("full", contestants, parts)
        rows = {
            one.name: one
            for suite in chosen
            for part in (choice.parts_of(suite) if isinstance(suite, PhasesSuite) else [None])
            for one in choice.rows(suite, part)
        }
        wanted = needs(rows.values())
        if tests:
            wanted = replace(wanted, apt=wanted.apt | BROWSER | _of_servers())
    except CatalogueError as error:
        raise click.ClickException(str(error)) from error
    failed = False
    for step in carry_out(wanted):
        _show(console, step)
        failed |= step.failed
    sys.exit(EXIT_FAILED if failed else 0)


def _of_servers() -> set[str]:
    return {package for server in catalogue.servers().values() for package in server.install.apt}


def needs(rows: Iterable[Contestant]) -> Needs:
    """Return what `rows`, their hosts and their servers need to run."""
    apt: set[str] = set()
    extensions: set[str] = set()
    pip: set[str] = set()
    maven: dict[str, frozenset[str]] = {}
    cargo = False
    build: set[str] = set()
    for row in rows:
        apt.update(row.install.apt, host(row.host).install.apt)
        extensions.update({row.install.extension} - {""})
        pip.update(row.install.pip)
        cargo |= row.install.cargo
        build.add(row.install.build)
        if row.server:
            server = server_of(row)
            apt.update(server.install.apt)
            build.add(server.install.build)
            if server.install.maven or row.install.maven:
                jars = {*server.install.maven, *row.install.maven}
                maven[server.name] = maven.get(server.name, frozenset()) | jars
    build.discard("")
    for name in build:
        apt.update(source(name).apt)
    return Needs(
        frozenset(apt), frozenset(extensions), frozenset(pip), maven, cargo, frozenset(build)
    )


def _show(console: Console, step: Step) -> None:
    if step.reason:
        style = "bold red" if step.failed else "bold yellow"
        what = f"{step.what}: " if step.failed else f"{step.what}, not available: "
        console.print(Text(what, style=style), Text(step.reason), sep="")
    else:
        state = "installed" if step.new else "already installed"
        console.print(f"{step.what}: {state}", highlight=False)
