"""The command line: `python -m benches.scale measure`, `replay`, `document`.

Owns the commands and their options. Must not compute.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from benches.hit_ratio import find_traces
from benches.scale import fleet, page, record, server
from benches.scale.costs import Assumptions
from benches.scale.record import Fleet, Record, Run
from rig import kept
from rig.kept import PageError, RecordError
from rig.machine import Disturbances, machine
from rig.sources import ROOT, sources

_ROUNDS = 7


@click.group()
def main() -> None:
    """Compute what near tiers cost the far one, and write docs/explanation/scale.md."""


def _read() -> Record:
    try:
        return kept.read(record.PATH, Record) or Record()
    except RecordError as error:
        raise click.ClickException(str(error)) from error


@main.command("measure")
@click.option("--rounds", type=click.IntRange(min=1), default=_ROUNDS, show_default=True)
def measure_(rounds: int) -> None:
    """Measure a Redis server and a process that listens to it; a minute."""
    sheet, tried, disturbances = machine(), sources(record.RESULTS), Disturbances()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    measured = server.measure(rounds, click.echo)
    run = Run(date, tried, sheet, disturbances.until_now())
    kept.write(record.PATH, msgspec.structs.replace(_read(), measured=measured, run=run))


@main.command("replay")
@click.option("--traces", type=click.Path(path_type=Path), help="The directory of the traces.")
@click.option(
    "--program",
    type=click.Path(exists=True, path_type=Path),
    default=ROOT / "target" / "dist" / "examples" / "replay",
    help="The engine's example `replay`, built.",
)
def replay_(traces: Path | None, program: Path) -> None:
    """Replay the traces on the engine, divided over machines; minutes."""
    folder = find_traces(traces)
    fleets: list[Fleet] = []
    for trace in fleet.TRACES:
        click.echo(trace)
        fleets += fleet.replay(program, folder, trace)
    kept.write(record.PATH, msgspec.structs.replace(_read(), fleets=fleets))


# What only the replayed cases have. The others take any number.
_REPLAYED = {"trace": click.Choice(list(fleet.TRACES)), "percent": click.Choice(fleet.PERCENTS)}


def _option(field: dataclasses.Field[object]) -> click.Option:
    name = f"--{field.name.replace('_', '-')}"
    kind = _REPLAYED.get(field.name)
    return click.Option([name], type=kind, default=field.default, show_default=True)


@main.command("document", params=list(map(_option, dataclasses.fields(Assumptions))))
@click.option("--check", is_flag=True, help="Write nothing; fail if the page is out of date.")
@click.option("--show", is_flag=True, help="Write the parts to the terminal, not to the page.")
def document_(check: bool, show: bool, **assumed: object) -> None:
    """Write the tables into docs/explanation/scale.md, from the record and the assumptions."""
    found, assumptions = _read(), Assumptions(**assumed)  # type: ignore[arg-type]
    if show:
        click.echo("\n\n".join(page.parts(found, assumptions).values()))
        return
    try:
        text = page.PAGE.read_text("utf-8")
        made = page.make(text, found, assumptions)
    except PageError as error:
        raise click.ClickException(str(error)) from error
    if not check:
        page.PAGE.write_text(made, "utf-8")
    elif made != text:
        raise click.ClickException("out of date: scale.md; run python -m benches.scale document")


if __name__ == "__main__":
    main(prog_name="python -m benches.scale")
