"""The table of features, `docs/reference/features.md`, from `features.csv` beside it.

`python tests/api/features.py` writes the page, and `test_features.py` checks that it was done.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reference" / "features.csv"
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
MARKS = {"yes": "●", "partly": "◐", "no": "○", "–": "–"}

HEAD = """\
# Features

Which features Tuckbox has, and ten other systems: ● yes, ◐ partly, ○ no, – does not apply. Each ●
of Tuckbox names the test that shows it, a ○ the reason.

The systems are DiskCache 5.6.3, Cache::FastMmap 1.63, CHI 0.61, APCu 5.1.28, Django 5.2 with its
own backends, dogpile.cache 1.5, cashews 7.5, memcached 1.6.45, Redis and Valkey 8, and CacheLib
with foyer. Their columns come from their sources and documents.

"""


class Feature(NamedTuple):
    """A row of the table."""

    number: int
    group: str
    name: str
    tuckbox: str
    shown_by: str
    systems: tuple[str, ...]
    others: str


def features() -> list[Feature]:
    """Return the rows, in the order of the file."""
    with TABLE.open(newline="") as file:
        return [
            Feature(
                number=int(row["number"]),
                group=row["group"],
                name=row["feature"],
                tuckbox=row["tuckbox"],
                shown_by=row["shown_by"],
                systems=tuple(row[system] for system in SYSTEMS),
                others=row["others"],
            )
            for row in csv.DictReader(file)
        ]


def page(rows: Iterable[Feature]) -> str:
    """Return the page: a table for each group, and the counts."""
    rows = list(rows)
    counts = {state: sum(row.tuckbox == state for row in rows) for state in ("yes", "partly", "no")}
    total = f"Of {len(rows)} features, Tuckbox has {counts['yes']}, and {counts['partly']} partly.\n"
    tables = (_table(group, list(members)) for group, members in groupby(rows, lambda row: row.group))
    return HEAD + total + "".join(tables)


def is_test(shown_by: str) -> bool:
    """Whether the text is the name of a test."""
    return shown_by.endswith(".rs") or "::" in shown_by


def _table(group: str, rows: list[Feature]) -> str:
    if any(row.others for row in rows):
        head = "| | feature | Tuckbox | shown by, or why not | who else has it |\n|--:|:--|:-:|:--|:--|\n"
        return f"\n## {group}\n\n{head}" + "".join(
            f"| {row.number} | {row.name} | {MARKS[row.tuckbox]} | {_evidence(row)} | {row.others} |\n"
            for row in rows
        )
    head = f"| | feature | Tuckbox | {' | '.join(SYSTEMS)} | shown by, or why not |\n"
    rule = f"|--:|:--|:-:|{':-:|' * len(SYSTEMS)}:--|\n"
    return f"\n## {group}\n\n{head}{rule}" + "".join(
        f"| {row.number} | {row.name} | {MARKS[row.tuckbox]} |"
        f" {' | '.join(MARKS[state] for state in row.systems)} | {_evidence(row)} |\n"
        for row in rows
    )


def _evidence(row: Feature) -> str:
    if not is_test(row.shown_by):
        return row.shown_by
    path, _, name = row.shown_by.partition("::")
    return f"[{name or Path(path).name}](../../{path})"


if __name__ == "__main__":
    PAGE.write_text(page(features()))
