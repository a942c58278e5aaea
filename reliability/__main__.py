"""The command line: `python -m reliability run`, `list`, `document`.

Owns the options of the commands. Must not judge.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lab.peers import PeerMissingError
from reliability import catalogue, document, progress, record, runner
from reliability.peers import comparing, tables
from reliability.peers.systems import PEERS
from reliability.peers.trial import FAMILIES
from rig import kept
from rig.kept import PageError, RecordError
from rig.sources import ROOT
from rig.terminal import open_console


@click.group()
def main() -> None:
    """Try to break Tuckbox's promises, and keep the records."""


_catalogue = click.option(
    "--catalogue",
    "families_file",
    default=catalogue.FAMILIES,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the families from this file.",
)


_records = click.option(
    "--records",
    "kept_in",
    default=record.KEPT,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the kept records.",
)


@main.command()
@_catalogue
@click.option("--lane", type=click.Choice(catalogue.LANES), required=True)
@click.option("--only", multiple=True, metavar="ID", help="Only this family. Repeatable.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the records to this folder.  [default: target/reliability/LANE]",
)
@click.option("--resume", is_flag=True, help="Skip families with a good record of these sources.")
def run(
    families_file: Path,
    lane: catalogue.LaneName,
    only: tuple[str, ...],
    out: Path | None,
    resume: bool,
) -> None:
    """Run the families of a lane and write a record of each.

    The short lane stops at the first failure, the nightly lane does not. The exit status is 1
    unless every family is good.
    """
    families = _families(families_file, only)
    folder = out or ROOT / "target" / "reliability" / lane
    console = open_console()
    try:
        with progress.Progress(console, families) as listener:
            outcome = runner.run(
                families, lane, folder, resume=resume, fail_fast=lane == "short", listener=listener
            )
    except (runner.BuildError, RecordError) as error:
        raise click.ClickException(str(error)) from error
    console.print(progress.table(outcome))
    # Again, because the end of a log is what is read first.
    for one in outcome.records:
        if one.failures:
            console.print(f"{one.family}: failed")
            progress.show_failures(console, one)
    sys.exit(0 if outcome.is_good else 1)


@main.command("list")
@_catalogue
def list_(families_file: Path) -> None:
    """List the families and what is missing from them. Exit status 1 if anything is."""
    families = _families(families_file)
    console = open_console()
    console.print(progress.listing(families))
    incomplete = catalogue.incomplete(families)
    for sentence in incomplete:
        console.print(sentence, highlight=False)
    sys.exit(1 if incomplete else 0)


@main.command("document")
@_catalogue
@_records
@click.option(
    "--page",
    default=document.PAGE,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The page to update.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail if the page is out of date.")
def document_(families_file: Path, kept_in: Path, page: Path, check: bool) -> None:
    """Write the figures of the records into docs/explanation/reliability.md."""
    families = _families(families_file)
    text = page.read_text("utf-8")
    try:
        new = document.generate(text, families, kept_in)
    except (PageError, RecordError) as error:
        raise click.ClickException(str(error)) from error
    if check and new != text:
        raise click.ClickException(
            f"{page.name} is out of date; run python -m reliability document"
        )
    if not check:
        page.write_text(new, "utf-8")


@main.command("peers")
@click.option("--peer", "names", multiple=True, type=click.Choice(list(PEERS)), help="Only this.")
@click.option("--only", multiple=True, type=click.Choice(list(FAMILIES)), help="Only this family.")
@click.option("--seed", type=int, help="The seed of all random choices.")
@click.option(
    "--out",
    default=comparing.PATH,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the record to this file; with --peer or --only nothing is written.",
)
def peers_(names: tuple[str, ...], only: tuple[str, ...], seed: int | None, out: Path) -> None:
    """Run short forms of five families on Tuckbox, DiskCache, LMDB and Django's FileBasedCache."""
    console = open_console()
    try:
        made = comparing.compare(
            names or list(PEERS),
            only or list(FAMILIES),
            seed,
            lambda family, peer: console.print(f"{family}  {PEERS[peer].name}", highlight=False),
        )
    except (comparing.TrialError, PeerMissingError) as error:
        raise click.ClickException(str(error)) from error
    for table in tables.tables(made):
        console.print(table)
    if not names and not only:
        kept.write(out, made)


def _families(path: Path, only: tuple[str, ...] = ()) -> list[catalogue.Family]:
    try:
        return catalogue.choose(catalogue.load(path), only)
    except catalogue.CatalogueError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main(prog_name="python -m reliability")
