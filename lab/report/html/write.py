"""Writes the page. Owns its templates and their functions; must not know its content."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lab.report.html.page import page_of
from lab.runner.records import read

_HERE = Path(__file__).parent


def write(records: Path, output: Path) -> None:
    """Write the report about `records` to `output`, and replace that file.

    The report of an unfinished run has the cells measured so far. Raises RecordsError if the file
    has no records, and OSError.
    """
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        # Everything from records is text, never markup.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static"] = lambda name: _inline(_HERE / "static" / name)
    environment.globals["vendor"] = lambda name: _inline(_HERE / "vendor" / name)
    page = environment.get_template("page.html.j2").render(page=page_of(read(records)))
    output.write_text(page, "utf-8")


def _inline(path: Path) -> Markup:
    # Safe: a file of this package, without any text from records.
    return Markup(path.read_text("utf-8"))  # noqa: S704
