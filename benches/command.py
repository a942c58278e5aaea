"""The command line: `python -m benches run`, `list`, `document`.

Owns the commands and their options. Must not judge.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import click
from rich.console import Console

from benches import apart, counts, document, record, terminal
from benches.places import NoPlaceError, file_systems
from benches.record import Run
from benches.row import Row
from benches.rows import ROWS, UnknownRowError, choose
from rig import kept
from rig.kept import PageError, RecordError
from rig.machine import Disturbances, machine
from rig.sources import ROOT, sources
from rig.terminal import open_console

_ROUNDS = 11
_ROUNDS_QUICK = 5


@click.group()
def main() -> None:
    """Measure Tuckbox and its peers, and write docs/explanation/performance.md."""


# The record of quick runs, which the page does not show.
_QUICK_RECORD = ROOT / "target" / "benches" / "performance.json"


@main.command()
@click.option("--only", default="", metavar="ID,ID ...", help="Measure only these rows.")
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    help=f"Rounds to take; a row whose rounds are long takes at most 6.  [default: {_ROUNDS}]",
)
@click.option("--quick", is_flag=True, help="Less data and 5 rounds, in minutes. Do not quote it.")
@click.option(
    "--replace",
    is_flag=True,
    help="Drop the earlier runs of each measured row. Use it for new code or another machine. "
    "Without it, a run is added.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the record.  [default: docs/explanation/performance.json; with --quick "
    "target/benches/performance.json]",
)
def run(only: str, rounds: int | None, quick: bool, replace: bool, out: Path | None) -> None:
    """Measure rows and add a run of each to the record.

    The exit status is 1 if a row could not be measured. Goals do not affect it.
    """
    console = open_console()
    path = out or (_QUICK_RECORD if quick else record.PATH)
    try:
        rows = choose([one for one in only.split(",") if one])
        runs = record.read(path)
        files = file_systems()
    except (UnknownRowError, RecordError, NoPlaceError) as error:
        raise click.ClickException(str(error)) from error
    count = rounds or (_ROUNDS_QUICK if quick else _ROUNDS)
    order = [row.id for row in ROWS]
    failed = []
    apart.leave_on_signals()
    for row in rows:
        try:
            measured = _measure(console, row, count, quick, files)
        except apart.RowError as error:
            failed.append(row.id)
            terminal.say(console, f"{row.id} could not be measured: {error}", style="red")
            continue
        # Write after each row: an interrupt then loses only the running one.
        runs = record.with_run(runs, row.id, measured, order, replace=replace)
        kept.write(path, runs)
        terminal.show_row(console, row, runs.rows[row.id])
    terminal.show_verdicts(
        console, [(row, runs.rows[row.id]) for row in rows if row.id in runs.rows]
    )
    mixed = [row.id for row in rows if record.is_mixed(runs.rows.get(row.id, []))]
    if mixed:
        terminal.say(
            console,
            f"{', '.join(mixed)}: the runs are of different sources or machines. --replace keeps "
            "only the new run.",
            style="yellow",
        )
    if failed:
        terminal.say(console, f"Not measured: {', '.join(failed)}", style="red")
    sys.exit(1 if failed else 0)


def _measure(console: Console, row: Row, rounds: int, quick: bool, files: dict[str, str]) -> Run:
    sheet, tried, began = machine(), sources(record.RESULTS), monotonic()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    disturbances = Disturbances()
    with terminal.progress(console, row) as progress:
        measured = apart.measure(row.id, rounds, quick, progress)
    return Run(
        figures=measured.figures,
        not_measured=measured.not_measured,
        is_quick=quick,
        date=date,
        seconds=round(monotonic() - began, 1),
        sources=tried,
        machine=sheet,
        files=files,
        disturbance=disturbances.until_now(),
    )


@main.command("list")
def list_() -> None:
    """List the rows."""
    console = open_console()
    for row in ROWS:
        more = f": {row.text}" if row.text else ""
        terminal.say(console, f"{row.id:>12}  {row.title}{more}")


@main.command("document")
@click.option(
    "--record",
    "kept_in",
    default=record.PATH,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the record.",
    show_default="docs/explanation/performance.json",
)
@click.option(
    "--check", is_flag=True, help="Write nothing; fail if the page or a chart is out of date."
)
def document_(kept_in: Path, check: bool) -> None:
    """Write the figures of the record into docs/explanation/performance.md, and draw its charts."""
    try:
        made = document.make(document.PAGE.read_text("utf-8"), record.read(kept_in), counts.read())
    except (PageError, RecordError) as error:
        raise click.ClickException(str(error)) from error
    if not check:
        document.write(made)
        return
    stale = document.stale(made)
    if stale:
        raise click.ClickException(
            f"out of date: {', '.join(stale)}; run python -m benches document"
        )
