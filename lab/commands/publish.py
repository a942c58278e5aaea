"""`lab publish`: writes the files of a run that the repository keeps.

Owns which files these are. Must not measure anything.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import click

from lab.commands import options
from lab.report import export
from lab.report.html import write as write_page
from lab.runner.catalogue import REPOSITORY
from lab.runner.rates import ImpossibleRateError
from lab.runner.records import RecordsError, files, read

FORMS = ("middle", "full")

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PICTURE_WIDTH, _PICTURE_HEIGHT = 1280, 620
_PICTURE_SECONDS_MAX = 60.0
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)


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
    default=REPOSITORY / "docs" / "lab",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write to this folder.",
)
def publish(path: Path | None, kept_in: Path, output: Path) -> None:
    """Write the page, CSV and picture of a finished run; by default, of the newest one.

    Only runs of the forms middle and full are accepted, because only their figures may be quoted.
    """
    if path is None:
        path = next(iter(files(kept_in)), None)
        if path is None:
            raise click.UsageError(
                f"no records in {kept_in}; to make some, run: python -m lab run --middle"
            )
    try:
        run = read(path)
        if run.header.settings.form not in FORMS or run.ending is None:
            state = run.header.settings.form if run.ending else "unfinished"
            raise click.ClickException(
                f"{path} must not be quoted ({state}): publish needs a finished run of the form "
                f"middle or full"
            )
        output.mkdir(parents=True, exist_ok=True)
        write_page(path, output / "index.html")
        export.write(path, output / "figures.csv")
        draw(output / "index.html", output / "answer.png")
    except (RecordsError, ImpossibleRateError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Published {path.name} in {output}")


def draw(page: Path, picture: Path) -> None:
    """Draw the first screen of a page. Raises ClickException if no browser can do it."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise click.ClickException(
            "Chromium, which draws the picture, is not installed; run: "
            "python -m lab install --tests"
        )
    size = f"--window-size={_PICTURE_WIDTH},{_PICTURE_HEIGHT}"
    with tempfile.TemporaryDirectory(prefix="lab-browser-") as profile:
        drawn = subprocess.run(
            [
                *(browser, *_FLAGS, size),
                *(f"--user-data-dir={profile}", f"--screenshot={picture.resolve()}"),
                page.resolve().as_uri(),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PICTURE_SECONDS_MAX,
            check=False,
        )
    if drawn.returncode != 0 or not picture.exists():
        last = (drawn.stderr.strip().splitlines() or ["no error message"])[-1]
        raise click.ClickException(f"{browser} could not draw the picture: {last}")
