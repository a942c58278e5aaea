"""The page of features, `docs/features.md`, from `features.csv` next to it.

`python tests/api/features.py` writes the page. `test_features.py` checks that it was written, and
that the tests it names exist.
"""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "features.csv"
PAGE = TABLE.with_suffix(".md")

SYSTEMS = (
    "DiskCache",
    "FastMmap",
    "CHI",
    "APCu",
    "Django",
    "dogpile",
    "cashews",
    "memcached",
    "Redis",
    "CacheLib",
)
MARKS = {"yes": "●", "partly": "◐", "no": "○", "does not apply": "-"}

HEAD = """\
# Features

Which features Tuckbox and ten other systems have: ● yes, ◐ partly, ○ no, - does not apply. Each ●
of Tuckbox names the tests that show it, each ◐ and ○ the reason.

The others are DiskCache 5.6.3, Cache::FastMmap 1.63, CHI 0.61, APCu 5.1.28, Django 5.2 with its own
backends, dogpile.cache 1.5, cashews 7.5, memcached 1.6.45, Redis and Valkey 8, and CacheLib with
foyer. Their columns come from their sources and documents. The missing numbers are features of
frameworks, observability and tools.

"""


class Feature(NamedTuple):
    """A row of the table."""

    number: int
    group: str
    name: str
    tuckbox: str
    tests: tuple[str, ...]
    """Each as ``path::name`` or ``path::class::name``."""
    note: str
    systems: tuple[str, ...]
    """What each of the others has; all empty if they were not compared."""
    others: str
    """Who has it, if the systems were not compared."""


def features() -> list[Feature]:
    """Return the rows, in the order of the file."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [
            Feature(
                int(row["number"]),
                row["group"],
                row["feature"],
                row["tuckbox"],
                tuple(row["tests"].split()),
                row["note"],
                tuple(row[system] for system in SYSTEMS),
                row["others"],
            )
            for row in csv.DictReader(file)
        ]


def page(rows: list[Feature]) -> str:
    """Return the page: the counts, and a table for each group."""
    compared = [row for row in rows if not row.others]
    columns = {"Tuckbox": [row.tuckbox for row in compared]}
    for place, system in enumerate(SYSTEMS):
        columns[system] = [row.systems[place] for row in compared]
    counts = [_row("", *(f"{mark} {state}" for state, mark in MARKS.items()))]
    counts.append("|:--|--:|--:|--:|--:|\n")
    counts.extend(_row(name, *map(states.count, MARKS)) for name, states in columns.items())
    further = [row.tuckbox for row in rows if row.others]
    if further:
        states = ", ".join(f"{further.count(state)} {state}" for state in ("yes", "partly", "no"))
        counts.append(f"\nOf the {len(further)} further features, Tuckbox has: {states}.\n")
    counts.insert(0, f"Of the {len(compared)} features that were compared, each system has:\n\n")
    tables = (_table(group, list(own)) for group, own in groupby(rows, lambda row: row.group))
    return HEAD + "".join([*counts, *tables])


def _table(group: str, rows: list[Feature]) -> str:
    is_compared = not rows[0].others
    others = SYSTEMS if is_compared else ("who else has it",)
    lines = [f"\n## {group}\n\n", _row("", "feature", "Tuckbox", *others, "shown by, or why not")]
    lines.append(f"|--:|:--|:-:|{(':-:|' * len(SYSTEMS)) if is_compared else ':--|'}:--|\n")
    for row in rows:
        marks = [MARKS[state] for state in row.systems] if is_compared else [row.others]
        lines.append(_row(row.number, row.name, MARKS[row.tuckbox], *marks, _evidence(row)))
    return "".join(lines)


def _evidence(row: Feature) -> str:
    links = (f"[{test.partition('::')[2]}](../{test.partition('::')[0]})" for test in row.tests)
    return ". ".join(part for part in (row.note, ", ".join(links)) if part)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(features()), encoding="utf-8")
