"""`lab list`: lists the suites and contestants."""

from __future__ import annotations

from pathlib import Path

import click
from rich import box
from rich.table import Column, Table

from lab.commands import options
from lab.report.layouts.rows import shared_by
from lab.runner import catalogue
from lab.runner.catalogue import CatalogueError, Contestant, PhasesSuite, Suite
from rig.terminal import open_console


@click.command("list")
@options.contestants_folder
def list_(folder: Path) -> None:
    """List the suites, the contestants, and what each contestant can do."""
    try:
        suites, contestants = catalogue.suites(), catalogue.contestants(folder)
    except CatalogueError as error:
        raise click.ClickException(str(error)) from error
    console = open_console()
    console.print(_suites(list(suites.values()), list(contestants.values())))
    console.print(_contestants(list(contestants.values())))
    console.print(_facts([one for one in contestants.values() if one.stores]))


def _suites(suites: list[Suite], contestants: list[Contestant]) -> Table:
    table = Table("Suite", "Part", "Rows", "What", box=box.SIMPLE_HEAD, show_edge=False)
    for suite in suites:
        if isinstance(suite, PhasesSuite):
            for part in suite.parts:
                rows = sum(one.takes_part(suite.name, part) for one in contestants)
                table.add_row(suite.name, part.name, str(rows), part.title)
        else:
            rows = sum(suite.name in one.suites for one in contestants)
            table.add_row(suite.name, "", str(rows), suite.title)
    return table


def _contestants(contestants: list[Contestant]) -> Table:
    table = Table("Contestant", "What", "Host", "Server", "Suites", box=box.SIMPLE_HEAD)
    table.show_edge = False
    for one in contestants:
        table.add_row(one.name, one.title, one.host, one.server, " ".join(one.suites))
    return table


def _facts(contestants: list[Contestant]) -> Table:
    table = Table(
        Column("Contestant", no_wrap=True),
        *("Language", "Shared by", "Survives\na restart", "When full"),
        box=box.SIMPLE_HEAD,
        show_edge=False,
    )
    for one in contestants:
        survives = "yes" if one.survives_restart else "no"
        full = "evicts" if one.evicts else "refuses or grows"
        table.add_row(one.name, one.host, shared_by(one), survives, full)
    return table
