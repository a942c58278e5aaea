"""`lab compare`: compares two files of records row by row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
from rich import box
from rich.table import Table
from rich.text import Text

from lab.report.comparison import Compared, Verdict, compare, differences
from lab.report.units import rate
from lab.runner.rates import ImpossibleRateError
from lab.runner.records import RecordsError, read
from rig.terminal import open_console

_STYLES: dict[Verdict, str] = {"faster": "green", "slower": "red", "undecided": "dim"}


@click.command("compare")
@click.argument("first", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("second", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Also show undecided rows.")
def compare_(first: Path, second: Path, *, everything: bool) -> None:
    """Compare the rates of two files of records: SECOND divided by FIRST.

    A row is faster or slower if the interval of its ratio lies entirely above or below 1. Rows
    with fewer than six rounds are undecided. Hit ratios of replays are not compared.
    """
    try:
        runs = read(first), read(second)
        found = compare(*runs)
    except (RecordsError, ImpossibleRateError, OSError) as error:
        raise click.ClickException(str(error)) from error
    console = open_console()
    for sentence in differences(*runs):
        console.print(Text(f"Warning: {sentence}", style="yellow"))
    if not found:
        raise click.ClickException(
            "the runs have no rates in common; hit ratios of replays are not compared"
        )
    shown = [one for one in found if everything or one.verdict != "undecided"]
    if shown:
        console.print(_table(shown))
    counts = Counter(one.verdict for one in found)
    console.print(
        f"{len(found)} rows: {counts['faster']} faster, {counts['slower']} slower, "
        f"{counts['undecided']} undecided.",
        highlight=False,
    )


def _table(found: list[Compared]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for heading in ("Suite", "Variant", "Contestant"):
        table.add_column(heading, overflow="fold")
    for heading in ("First", "Second", "Ratio", "Interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Verdict")
    for one in found:
        table.add_row(
            f"{one.suite}/{one.part}, {one.phase}",
            one.variant,
            f"{one.contestant}, {one.placement}",
            rate(one.first.median),
            rate(one.second.median),
            f"{one.ratio:.2f}",
            _interval(one),
            Text(one.verdict, style=_STYLES[one.verdict]),
        )
    return table


def _interval(one: Compared) -> str:
    if one.low is None or one.high is None or one.coverage is None:
        return ""
    return f"{one.low:.2f} to {one.high:.2f} ({one.coverage:.0%})"
