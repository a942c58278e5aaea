"""What a report says, free of how it is shown: tables, charts and notes.

Owns the shapes that layouts make, and that the terminal and the page show. Must not know either,
nor compute a figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lab.runner.results import AnyCell

# "fault": something is wrong. "weak": to be read with care. "aside": of lesser weight.
Mark = Literal["", "fault", "weak", "aside"]

# Whose data a row of a chart is: behind a server, shared without one, of one process alone, or
# nobody's.
Kind = Literal["server", "shared", "alone", "null"]

# What an axis counts: nanoseconds, seconds, operations in a second, a share of one, entries.
Unit = Literal["ns", "s", "rate", "share", "count", "bytes"]


@dataclass(frozen=True)
class Cell:
    """A cell of a table. `order` is what a sorted column goes by, its text where there is none.

    `short` is its text on a terminal.
    """

    text: str
    order: float | None = None
    mark: Mark = ""
    short: str = ""


@dataclass(frozen=True)
class Column:
    """A column. Columns of one `group` have a heading in common.

    `head` columns are the same in all rows of a block. `published` columns have the original's
    figures. `means` explains the heading in a sentence.
    """

    heading: str
    group: str = ""
    figures: bool = True
    head: bool = False
    published: bool = False
    means: str = ""


@dataclass(frozen=True)
class Row:
    """A row. `keys` is what pickers choose by, `records` the cells its figures come from."""

    cells: tuple[Cell, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    records: tuple[AnyCell, ...] = ()
    ours: bool = False
    total: bool = False


@dataclass(frozen=True)
class Picker:
    """A choice among rows: those whose key `name` is the chosen option, or that lack the key.

    `first` is chosen at first, or else the first of the options.
    """

    name: str
    options: tuple[str, ...]
    first: str = ""


@dataclass(frozen=True)
class Table:
    """A table. `keys` is what the pickers of a sheet choose by."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    pickers: tuple[Picker, ...] = ()
    notes: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dots:
    """A chart of rows with a dot for each of `marks` on one logarithmic axis.

    Rows are sorted by their first value; `better` says which end is good, `marked` what the marks
    are.
    """

    title: str
    marked: str
    axis: str
    unit: Unit
    better: Literal["less", "more"]
    marks: tuple[str, ...]
    rows: tuple[DotRow, ...]
    pickers: tuple[Picker, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DotRow:
    """A row of dots; None where there is no figure. `ranges` are their intervals, if known."""

    name: str
    kind: Kind
    values: tuple[float | None, ...]
    ranges: tuple[tuple[float, float] | None, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    records: tuple[AnyCell, ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Lines:
    """A chart of lines. Its vertical axis can be switched between logarithmic and linear.

    With `panels` it is several small charts side by side, each with the rows of its `panel` and
    with axes of its own.
    """

    title: str
    across: str
    across_unit: Unit
    up: str
    up_unit: Unit
    rows: tuple[LineRow, ...]
    pickers: tuple[Picker, ...] = ()
    notes: tuple[str, ...] = ()
    across_log: bool = True
    up_log: bool = True
    panels: tuple[str, ...] = ()


@dataclass(frozen=True)
class LineRow:
    """A line. `ended` says why it ends early, if it does. `panel` is the small chart it is in."""

    name: str
    kind: Kind
    points: tuple[tuple[float, float], ...]
    ended: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    records: tuple[AnyCell, ...] = ()
    ours: bool = False
    panel: str = ""


Chart = Dots | Lines


@dataclass(frozen=True)
class Sheet:
    """What there is to say of one part of a suite.

    `tables` are in the original's layout, today's figures beside the published ones, and `pickers`
    choose among them; `corrected` has what it left out, and `beyond` the rows that did not keep
    within the limits, or None. `resources` are checks, memory and
    processor time of each contestant.
    """

    name: str
    title: str
    charts: tuple[Chart, ...]
    tables: tuple[Table, ...]
    corrected: Table
    beyond: Table | None
    resources: Table
    absent: Table | None
    pickers: tuple[Picker, ...] = ()
    notes: tuple[str, ...] = ()
