"""`lab report`: writes the report of a run again from its records."""

from __future__ import annotations

from pathlib import Path

import click

from lab.commands import options
from lab.report import export
from lab.report.html import write as write_page
from lab.runner.rates import ImpossibleRateError
from lab.runner.records import RecordsError, files


@click.command()
@click.argument(
    "path",
    metavar="[RECORDS]",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@options.records_folder
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page to this file and the CSV next to it. Default: next to the records.",
)
def report(path: Path | None, kept_in: Path, output: Path | None) -> None:
    """Write the page and the CSV of a file of records; by default, of the newest one."""
    if path is None:
        path = next(iter(files(kept_in)), None)
        if path is None:
            raise click.UsageError(f"no records in {kept_in}; to make some, run: python -m lab run")
    page = output or path.with_suffix(".html")
    try:
        write_page(path, page)
        export.write(path, page.with_suffix(".csv"))
    except (RecordsError, ImpossibleRateError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Report: {page} and {page.with_suffix('.csv').name}")
