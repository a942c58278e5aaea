"""The published figures, by the names that the originals use.

Owns the way from a row to its original. Must not know any layout.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.model import Cell
from lab.runner.catalogue import Original, PhasesSuite
from lab.runner.summary import Summary


def label(suite: PhasesSuite, row: Summary) -> str:
    """Return the name of a row in the original; empty where it had none."""
    return suite.labels.get(row.contestant.name, "")


def table(suite: PhasesSuite, title: str) -> Original | None:
    """Return the original's table of that title."""
    return next((one for one in suite.original if one.title == title), None)


def published(text: str) -> Cell:
    """Return a published figure: the text as published, sorted by its number if it is one."""
    return Cell(text, _number(text), "aside")


def _number(text: str) -> float | None:
    for ending, factor in (("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("%", 1.0), ("/s", 1.0)):
        if text.endswith(ending) and (number := _plain(text.removesuffix(ending))) is not None:
            return number * factor
    return _plain(text)


def _plain(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def in_order(suite: PhasesSuite, rows: Sequence[Summary]) -> list[Summary]:
    """Return the original's rows in its order, then the others."""
    order = {text: index for index, text in enumerate(suite.labels.values())}
    return sorted(rows, key=lambda row: order.get(label(suite, row), len(order)))
