"""Tables and charts in the form that the templates and scripts need.

Owns the last step from `model` to markup: classes, attributes, line numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from lab.report.model import (
    Cell,
    Chart,
    Column,
    DotRow,
    Dots,
    Kind,
    LineRow,
    Lines,
    Picker,
    Row,
    Table,
)
from lab.runner.results import AnyCell

# Longer texts wrap, and much longer ones get a wider column.
_FOLDED_FROM = 18
_WRAPPED_FROM = 48

# A table that shows more rows at a time scrolls by itself.
_TALL_FROM = 45

View = dict[str, Any]


class Views:
    """Makes views of a run's sheets. Collects the charts and numbers them in order."""

    def __init__(self, lines: Mapping[int, int]) -> None:
        self._lines = lines
        self.charts: list[View] = []
        self._tables = 0

    def gallery(self, tables: Sequence[Table], pickers: Sequence[Picker]) -> list[View]:
        """Return the tables that `pickers` choose from."""
        return [{**self.table(one), "choice": _choice(pickers, one.keys)} for one in tables]

    def table(self, table: Table) -> View:
        """Return a table, with a unique id."""
        self._tables += 1
        return {
            "id": f"table-{self._tables}",
            "title": table.title,
            "columns": _columns(table.columns),
            "groups": _groups(table.columns),
            "rows": [
                self._row(table, row, before)
                for row, before in zip(table.rows, (None, *table.rows), strict=False)
            ],
            "pickers": table.pickers,
            "notes": table.notes,
            "choice": "",
            "tall": _rows_shown(table) > _TALL_FROM,
        }

    def chart(self, chart: Chart) -> View:
        """Return a chart's caption. Its drawing is added to `charts`."""
        number = len(self.charts)
        kind = "dots" if isinstance(chart, Dots) else "lines"
        if isinstance(chart, Dots):
            drawn: View = {
                "axis": chart.axis,
                "unit": chart.unit,
                "better": chart.better,
                "marks": chart.marks,
                "rows": [self._dots(row) for row in chart.rows],
            }
            subtitle = f"{chart.marked}; {chart.better} is better"
        else:
            drawn = {
                "across": chart.across,
                "across_unit": chart.across_unit,
                "across_log": chart.across_log,
                "up": chart.up,
                "up_unit": chart.up_unit,
                "up_log": chart.up_log,
                "panels": chart.panels,
                "rows": [self._line(row) for row in chart.rows],
            }
            subtitle = f"{chart.up} by {chart.across}"
            if any(row.ended for row in chart.rows):
                subtitle += "; a square marks a line that ended early"
        self.charts.append({"kind": kind, **drawn})
        return {
            "number": number,
            "kind": kind,
            "linear": isinstance(chart, Lines) and not chart.up_log,
            "title": chart.title,
            "subtitle": subtitle,
            "pickers": chart.pickers,
            "kinds": _kinds(chart),
            "notes": chart.notes,
        }

    def _row(self, table: Table, row: Row, before: Row | None) -> View:
        columns = table.columns
        again = before is not None and _head(columns, row) == _head(columns, before) != ()
        lines = self._lines_of(row.records)
        classes = [name for name, is_so in (("ours", row.ours), ("total", row.total)) if is_so]
        return {
            "classes": " ".join(classes),
            "choice": _choice(table.pickers, row.keys),
            "cells": [
                _cell(column, cell, is_head=index == 0, is_again=again and column.head)
                for index, (column, cell) in enumerate(zip(columns, row.cells, strict=True))
            ],
            "lines": " ".join(map(str, lines)),
            "count": len(lines),
        }

    def _dots(self, row: DotRow) -> View:
        return {
            "name": row.name,
            "values": [_rounded(value) for value in row.values],
            "ranges": [one and (_rounded(one[0]), _rounded(one[1])) for one in row.ranges],
            "keys": row.keys,
            "lines": self._lines_of(row.records),
            "ours": row.ours,
            "kind": row.kind,
        }

    def _line(self, row: LineRow) -> View:
        return {
            "name": row.name,
            "points": [(_rounded(x), _rounded(y)) for x, y in row.points],
            "ended": row.ended,
            "keys": row.keys,
            "lines": self._lines_of(row.records),
            "ours": row.ours,
            "kind": row.kind,
            "panel": row.panel,
        }

    def _lines_of(self, records: Sequence[AnyCell]) -> list[int]:
        return [self._lines[id(cell)] for cell in records]


# The meaning of each colour in a chart, in the order of the legend.
_KINDS: dict[Kind, str] = {
    "shared": "shared by processes",
    "server": "behind a server",
    "alone": "one process alone",
    "null": "the host's own loop",
}


def _kinds(chart: Chart) -> list[View]:
    there = {row.kind for row in chart.rows if not row.ours}
    kinds = [{"name": name, "text": text} for name, text in _KINDS.items() if name in there]
    mine = [{"name": "mine", "text": "ours"}] if any(row.ours for row in chart.rows) else []
    return [*mine, *kinds] if len(mine) + len(kinds) > 1 else []


def _rows_shown(table: Table) -> int:
    """Return how many rows the initial choice of the pickers shows."""
    wanted = {picker.name: picker.first or picker.options[0] for picker in table.pickers}
    return sum(
        all(row.keys.get(name, option) == option for name, option in wanted.items())
        for row in table.rows
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _number(value: float | None) -> str | None:
    """Return a number with at most six digits."""
    return None if value is None else f"{value:.6g}"


def _choice(pickers: Sequence[Picker], keys: Mapping[str, str]) -> str:
    """Return the options of a row: their positions in each picker, if it has any."""
    places = [
        str(picker.options.index(keys[picker.name])) if picker.name in keys else ""
        for picker in pickers
    ]
    return ",".join(places) if any(places) else ""


def _columns(columns: Sequence[Column]) -> list[View]:
    views = []
    before = False
    for column in columns:
        opens = column.published and not before
        before = column.published
        views.append(
            {
                "heading": column.heading,
                "figures": column.figures,
                "means": column.means,
                "opens": opens,
                "folds": len(column.heading) > _FOLDED_FROM,
            }
        )
    return views


def _groups(columns: Sequence[Column]) -> list[View]:
    if not any(column.group for column in columns):
        return []
    groups = []
    for (name, published), same in groupby(columns, key=lambda one: (one.group, one.published)):
        groups.append({"name": name, "published": published, "span": len(list(same))})
    return groups


def _head(columns: Sequence[Column], row: Row) -> tuple[str, ...]:
    return tuple(cell.text for column, cell in zip(columns, row.cells, strict=True) if column.head)


def _cell(column: Column, cell: Cell, *, is_head: bool, is_again: bool) -> View:
    classes = [
        name
        for name, is_so in (
            ("t", not column.figures),
            ("published", column.published),
            ("again", is_again),
            ("wrap", not column.figures and len(cell.text) > _WRAPPED_FROM and not is_head),
            ("fold", not column.figures and _FOLDED_FROM < len(cell.text) <= _WRAPPED_FROM),
            (cell.mark, bool(cell.mark)),
        )
        if is_so
    ]
    return {
        "tag": "th" if is_head and not column.figures else "td",
        "classes": " ".join(classes),
        # A plain number is sorted by its text.
        "order": None if cell.text == str(cell.order) else _number(cell.order),
        "text": cell.text,
    }
