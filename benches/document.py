"""Keeps docs/performance.md and its pictures what the record says.

Owns the generated part of the page, between two marks. Must not measure, nor touch the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benches import curves, words
from benches.counts import Counts
from benches.places import ROOT
from benches.record import Record, RowRecord
from benches.row import Figure, Verdict
from benches.rows import ROWS

PAGE = ROOT / "docs" / "performance.md"

BEGIN = "<!-- figures: written by `python -m benches document` from docs/performance.json -->"
END = "<!-- end of the figures -->"

_SAID: dict[Verdict, str] = {
    "met": "met",
    "limit shown": "limit shown",
    "not met": "**not met**",
    "told": "",
}
# Above this share of the machine's time that others had, a row says that it was disturbed.
_DISTURBED_SHARE = 0.05


class DocumentError(Exception):
    """The page cannot be written; the message says why."""


@dataclass(frozen=True)
class Document:
    """The page, and its pictures by the names of their files beside it."""

    page: str
    pictures: dict[str, str]


def make(page: str, record: Record, counts: Counts | None = None) -> Document:
    """Return the page with the figures of the record, and the pictures. Raises DocumentError.

    `counts` are the instructions that are kept, None for none.
    """
    before, found, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise DocumentError(f"{PAGE.name} must have the lines {BEGIN} and {END}")
    rows = list(record.rows.values())
    parts = [
        _summary(record),
        *(_section(row) for row in rows),
        _instructions(counts) if counts else "",
        _not_reached(record),
        _not_measured(rows),
        _sheets(rows),
    ]
    text = f"{before}{BEGIN}\n\n" + "\n\n".join(filter(None, parts)) + f"\n\n{END}{after}"
    pictures = {_picture(row): curves.draw(row) for row in rows if curves.has_curves(row)}
    return Document(text, pictures)


def write(made: Document, page: Path = PAGE) -> None:
    """Write the page and its pictures."""
    page.write_text(made.page, "utf-8")
    for name, text in made.pictures.items():
        (page.parent / name).write_text(text, "utf-8")


def stale(made: Document, page: Path = PAGE) -> list[str]:
    """Return the names of the files that are not what was made."""
    wanted = {page.name: made.page, **made.pictures}
    return [name for name, text in wanted.items() if _text(page.parent / name) != text]


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""


def _picture(row: RowRecord) -> str:
    return f"performance-{row.id.lower().replace(' ', '-')}.svg"


def _summary(record: Record) -> str:
    lines = [
        "## The goals",
        "",
        "| | what | goal | |",
        "|:--|:--|:--|:--|",
    ]
    for row in ROWS:
        kept = record.rows.get(row.id)
        said = _SAID[kept.verdict] if kept else "no record"
        lines.append(f"| {row.id} | {row.title} | {_cell(row.goal_text)} | {said} |")
    return "\n".join(lines)


def _section(row: RowRecord) -> str:
    lines = [
        f"## {row.id} {row.title}",
        "",
        *([f"Goal: {row.goal_text}.", ""] if row.goal_text else []),
        "| | Tuckbox | beside | | value | rounds | goal | |",
        "|:--|--:|:--|--:|--:|:--|:--|:--|",
        *(_line(figure) for figure in row.figures),
        *_limits(row.figures),
        *_remarks(row),
    ]
    if curves.has_curves(row):
        lines += ["", f"![{row.title}]({_picture(row)})"]
    return "\n".join(lines)


def _line(figure: Figure) -> str:
    cells = (
        words.name(figure),
        words.amount(figure.ours, figure.unit),
        figure.peer,
        words.amount(figure.theirs, figure.unit),
        words.value(figure),
        words.spread(figure),
        words.bound(figure.goal, figure),
        _SAID[figure.verdict],
    )
    return f"| {' | '.join(map(_cell, cells))} |"


def _limits(figures: Iterable[Figure]) -> list[str]:
    said = []
    for figure in figures:
        if figure.limit_value is not None:
            value = f"{words.number(figure.limit_value)}{words.suffix(figure)}"
            cost = words.amount(figure.limit, figure.unit)
            said.append(f"- {words.full_name(figure)}: {figure.limited_by} takes {cost}, {value}")
    return (
        ["", "What stripped programs take that do a part of it alone:", "", *said] if said else []
    )


def _remarks(row: RowRecord) -> list[str]:
    changed = " with changes" if row.sources.changes else ""
    said = f"{row.rounds} rounds, {row.seconds:.0f} s, {row.sources.commit}{changed}, "
    said += row.date[:10]
    if row.is_quick:
        said += "; **the quick form: not to be quoted**"
    others = row.disturbance.others + row.disturbance.stolen
    if others > _DISTURBED_SHARE:
        said += f"; **disturbed**: others had {others:.0%} of the machine's time"
    return ["", f"{said}."]


def _instructions(counts: Counts) -> str:
    lines = [
        "## Instructions",
        "",
        "What an operation of 36 + 160 bytes executes, the loop of Python or Rust included, as "
        "callgrind counts it. Times are noise where other programs run, these are not: "
        f"`make instructions` counts again and says what has changed. {counts.valgrind}, "
        f"Python {counts.python}, {counts.rustc.partition(' (')[0]}.",
        "",
        "| operation | instructions |",
        "|:--|--:|",
        *(f"| {name} | {count:,.0f} |" for name, count in counts.instructions.items()),
    ]
    return "\n".join(lines)


def _not_reached(record: Record) -> str:
    """Return what is missed, and what nobody knows, in the order of the page."""
    found = []
    for row in ROWS:
        kept = record.rows.get(row.id)
        if kept is None:
            found.append(f"- {row.id}: no record")
            continue
        found += [
            f"- {row.id}, {words.full_name(figure)}: {words.value(figure)} where "
            f"{words.bound(figure.goal, figure)} is wanted ({_SAID[figure.verdict].strip('*')})"
            for figure in kept.figures
            if figure.verdict in {"not met", "limit shown"}
        ]
    return "\n".join(["## Not reached", "", *(found or ["Nothing: every goal above is met."])])


def _not_measured(rows: Sequence[RowRecord]) -> str:
    found = [f"- {row.id}: {phrase}" for row in rows for phrase in row.not_measured]
    return "\n".join(["## Not measured", "", *found]) if found else ""


def _sheets(rows: Sequence[RowRecord]) -> str:
    sheets = dict.fromkeys(
        f"{row.machine.cpu}, {row.machine.cores} cores, "
        f"{row.machine.memory_bytes / 2**30:.0f} GiB, {row.machine.kernel}, "
        f"{row.machine.system}, {row.machine.python}; "
        + ", ".join(f"{name} on {kind}" for name, kind in row.files.items())
        for row in rows
    )
    return "\n".join(["## Measured on", "", *(f"- {sheet}." for sheet in sheets)]) if sheets else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
