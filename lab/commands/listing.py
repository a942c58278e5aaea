"""`lab list`: what there is to run."""

from __future__ import annotations

from pathlib import Path

import click
from rich import box
from rich.table import Table

from lab.commands import options
from lab.runner import catalogue
from lab.runner.catalogue import CatalogueError, Contestant, PhasesSuite, Suite


@click.command("list")
@options.contestants_folder
def list_(folder: Path) -> None:
    """List suites and contestants."""
    try:
        suites, contestants = catalogue.suites(), catalogue.contestants(folder)
    except CatalogueError as error:
        raise click.ClickException(str(error)) from error
    console = options.console()
    console.print(_suites(list(suites.values()), list(contestants.values())))
    console.print(_contestants(list(contestants.values())))


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
