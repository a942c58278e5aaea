"""The command line: `python -m benches run`, `list`, `document`.

Owns the options of the commands and what the terminal shows. Must not judge.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import click
from rich.console import Console

from benches import apart, counts, document, record, terminal
from benches.places import ROOT, NoPlaceError, file_systems
from benches.record import RowRecord
from benches.row import Row
from benches.rows import ROWS, UnknownRowError, choose
from lab.runner.machine import Disturbances, machine
from reliability.machine import sources

_ROUNDS = 11
_ROUNDS_QUICK = 5


@click.group()
def main() -> None:
    """Measure what Tuckbox costs beside its peers."""


# The record of a quick run is not one to make the page of.
_QUICK_RECORD = ROOT / "target" / "benches" / "performance.json"


@main.command()
@click.option("--only", default="", metavar="ID,ID ...", help="Only these rows.")
@click.option("--rounds", type=click.IntRange(min=1), help="So many rounds instead of 11.")
@click.option("--quick", is_flag=True, help="Less data, 5 rounds: minutes. Not to be quoted.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the record.  [default: docs/performance.json; of a quick run "
    "target/benches/performance.json]",
)
def run(only: str, rounds: int | None, quick: bool, out: Path | None) -> None:
    """Measure the rows and keep what came out; rows that are not measured keep their record.

    The exit status is 1 when a row could not be measured. Whether goals are met does not change it.
    """
    console = terminal.console()
    path = out or (_QUICK_RECORD if quick else record.PATH)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        rows = choose([one for one in only.split(",") if one])
        kept = record.read(path)
        files = file_systems()
    except (UnknownRowError, record.RecordError, NoPlaceError) as error:
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
        # Kept at once: an interrupt loses the row that runs and nothing else.
        kept = record.with_row(kept, measured, order)
        record.write(path, kept)
        terminal.show_row(console, measured)
    terminal.show_verdicts(console, [kept.rows[row.id] for row in rows if row.id in kept.rows])
    if failed:
        terminal.say(console, f"Not measured: {', '.join(failed)}", style="red")
    sys.exit(1 if failed else 0)


def _measure(
    console: Console, row: Row, rounds: int, quick: bool, files: dict[str, str]
) -> RowRecord:
    sheet, tried, began = machine(), sources(ROOT, record.RESULTS), monotonic()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    disturbances = Disturbances()
    with terminal.progress(console, row) as told:
        measured = apart.measure(row.id, rounds, quick, told)
    return RowRecord(
        id=row.id,
        title=row.title,
        goal_text=row.goal_text,
        figures=measured.figures,
        not_measured=measured.not_measured,
        rounds=rounds,
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
    """List the rows and their goals."""
    console = terminal.console()
    for row in ROWS:
        terminal.say(console, f"{row.id:>12}  {row.title}: {row.goal_text}")


@main.command("document")
@click.option(
    "--record",
    "kept_in",
    default=record.PATH,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the record.",
    show_default="docs/performance.json",
)
@click.option(
    "--check", is_flag=True, help="Only say, by the exit status, whether it is up to date."
)
def document_(kept_in: Path, check: bool) -> None:
    """Write the figures of the record into docs/performance.md, and draw its pictures."""
    try:
        made = document.make(document.PAGE.read_text("utf-8"), record.read(kept_in), counts.read())
    except (document.DocumentError, record.RecordError, counts.CountsError) as error:
        raise click.ClickException(str(error)) from error
    if not check:
        document.write(made)
        return
    stale = document.stale(made)
    if stale:
        raise click.ClickException(
            f"{', '.join(stale)}: not what the record says: python -m benches document"
        )
