"""Layouts: the tables and charts of each suite, first those in its original's layout.

Owns the choice of the layout. Must not know how a table or a chart is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lab.report.layouts import (
    chi,
    corrected,
    django,
    fastmmap,
    network,
    remarks,
    resources,
    tokyo,
)
from lab.report.model import Chart, Picker, Sheet, Table
from lab.runner.catalogue import Part, PhasesSuite
from lab.runner.summary import Summary

__all__ = ["sheets"]

_Charts = Callable[[PhasesSuite, Part, Sequence[Summary]], tuple[Chart, ...]]
_Tables = Callable[[PhasesSuite, Part, Sequence[Summary]], tuple[Table, ...]]


class _Layout(NamedTuple):
    """How one suite is presented."""

    charts: _Charts
    tables: _Tables
    pickers: Callable[[Part], tuple[Picker, ...]] = lambda _: ()


def _plain_charts(_suite: PhasesSuite, _part: Part, rows: Sequence[Summary]) -> tuple[Chart, ...]:
    return (corrected.percentiles(rows),)


def _no_tables(_suite: PhasesSuite, _part: Part, _rows: Sequence[Summary]) -> tuple[Table, ...]:
    return ()


_PLAIN = _Layout(_plain_charts, _no_tables)
_LAYOUTS = {
    "chi": _Layout(chi.charts, chi.tables, chi.pickers),
    "django": _Layout(django.charts, django.tables),
    "fastmmap": _Layout(fastmmap.charts, fastmmap.tables),
    "network": _Layout(network.charts, network.tables),
    "tokyo": _Layout(tokyo.charts, tokyo.tables),
}


def sheets(suite: PhasesSuite, summaries: Sequence[Summary]) -> list[Sheet]:
    """Return a sheet for each part of the suite that has rows.

    A suite with an unknown layout gets only the tables that all suites have.
    """
    layout = _LAYOUTS.get(suite.layout, _PLAIN)
    found = []
    for part in suite.parts:
        rows = [row for row in summaries if row.part == part.name]
        if rows:
            found.append(
                Sheet(
                    part.name,
                    part.title,
                    charts=tuple(one for one in layout.charts(suite, part, rows) if one.rows),
                    tables=tuple(one for one in layout.tables(suite, part, rows) if one.rows),
                    corrected=corrected.corrected(part, rows),
                    beyond=corrected.beyond(part, rows),
                    resources=resources.resources(rows),
                    absent=remarks.absent(rows),
                    pickers=layout.pickers(part),
                    notes=remarks.remarks(rows),
                )
            )
    return found
