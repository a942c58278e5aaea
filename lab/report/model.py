"""The content of a report, without its presentation: tables, charts and notes.

Owns the types that layouts build and that the terminal and the page show. Must not know either,
nor compute a figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lab.runner.results import AnyCell

# "fault": something is wrong. "weak": read with care. "aside": of lesser importance.
Mark = Literal["", "fault", "weak", "aside"]

# Who can use the data of a chart's row: several processes through a server or without one, or one
# process alone. "null" stores nothing.
Kind = Literal["server", "shared", "alone", "null"]

# The unit of an axis: "rate" is operations per second, "share" 0 to 1, "count" entries.
Unit = Literal["ns", "s", "rate", "share", "count", "bytes"]


@dataclass(frozen=True)
class Cell:
    """A cell of a table. A sorted column compares `order`, or the text where `order` is None.

    `short` is the text on a terminal.
    """

    text: str
    order: float | None = None
    mark: Mark = ""
    short: str = ""


@dataclass(frozen=True)
class Column:
    """A column. Columns of one `group` share a heading.

    `head` columns repeat in all rows of a block. `published` columns have the original's figures.
    `means` explains the heading in one sentence.
    """

    heading: str
    group: str = ""
    figures: bool = True
    head: bool = False
    published: bool = False
    means: str = ""


@dataclass(frozen=True)
class Row:
    """A row. Pickers filter by `keys`; `records` are the cells behind its figures."""

    cells: tuple[Cell, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    records: tuple[AnyCell, ...] = ()
    ours: bool = False
    total: bool = False


@dataclass(frozen=True)
class Picker:
    """A filter: shows the rows whose key `name` is the chosen option, and those without that key.

    `first` is the initial choice; without it, the first option is.
    """

    name: str
    options: tuple[str, ...]
    first: str = ""


@dataclass(frozen=True)
class Table:
    """A table. The pickers of a sheet filter by `keys`."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    pickers: tuple[Picker, ...] = ()
    notes: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dots:
    """A chart of rows with a dot for each of `marks` on one logarithmic axis.

    Rows are sorted by their first value. `better` says which end is good, `marked` what the marks
    mean.
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
    """A row of dots. A value is None where there is no figure. `ranges` are the intervals."""

    name: str
    kind: Kind
    values: tuple[float | None, ...]
    ranges: tuple[tuple[float, float] | None, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    records: tuple[AnyCell, ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Lines:
    """A line chart, whose vertical axis can be switched between logarithmic and linear.

    With `panels` it is several small charts side by side, each with its own rows and axes.
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
    """A line. `ended` says why it ends early, if it does. `panel` names its small chart."""

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
    """Everything about one part of a suite.

    `tables` are in the original's layout, with measured and published figures; `pickers` choose
    among them. `corrected` adds what the original left out. `beyond` has the rows that exceeded
    the limits, or is None. `resources` are checks, memory and CPU time of each contestant.
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
