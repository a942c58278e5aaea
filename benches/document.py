"""Writes the figures of the record into docs/explanation/performance.md, its table and charts.

Owns the generated parts of the page, each between two marks, and the files. Must not measure, nor
change the rest of the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benches import curves, figures, summary
from benches.appendix import appendix
from benches.counts import Counts
from benches.record import Record
from benches.results import results_of
from benches.rows import ROWS
from rig.kept import with_part
from rig.sources import ROOT

PAGE = ROOT / "docs" / "explanation" / "performance.md"

#: All figures of all runs, in the folder of the page.
TABLE = "performance.csv"

#: The generated parts, in the order of the page.
PARTS = ("overview", "growth", "sets", "charts", "appendix")


@dataclass(frozen=True)
class Document:
    """The page, and other files of its folder by name: the table of all figures, and the charts."""

    page: str
    files: dict[str, str]


def begin(part: str) -> str:
    """Return the mark before a generated part."""
    return f"<!-- {part}: written by `python -m benches document` from performance.json -->"


def end(part: str) -> str:
    """Return the mark after a generated part."""
    return f"<!-- end of {part} -->"


def make(page: str, record: Record, counts: Counts | None = None) -> Document:
    """Return the page with the figures of the record, the table and charts. Raises PageError.

    `counts` are the kept instruction counts, None without any.
    """
    drawn: dict[str, tuple[str, str]] = {}
    for row in ROWS:
        results = results_of(run.figures for run in record.rows.get(row.id, []))
        if curves.has_curves(results):
            drawn[row.id] = (_picture(row.id), curves.draw(row.title, results))
    texts = {
        "overview": summary.overview_table(record),
        "growth": summary.growth_table(record),
        "sets": summary.sets_table(record),
        "charts": summary.charts([(row_id, name) for row_id, (name, _) in drawn.items()]),
        "appendix": appendix(record, counts),
    }
    for part in PARTS:
        page = with_part(page, begin(part), end(part), texts[part])
    return Document(page, {TABLE: figures.table(record), **dict(drawn.values())})


def write(made: Document, page: Path = PAGE) -> None:
    """Write the page and the other files of its folder."""
    page.write_text(made.page, "utf-8")
    for name, text in made.files.items():
        (page.parent / name).write_text(text, "utf-8")


def stale(made: Document, page: Path = PAGE) -> list[str]:
    """Return the names of the files that differ from what was made."""
    wanted = {page.name: made.page, **made.files}
    return [name for name, text in wanted.items() if _text(page.parent / name) != text]


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""


def _picture(row_id: str) -> str:
    return f"performance-{row_id.lower().replace(' ', '-')}.svg"
