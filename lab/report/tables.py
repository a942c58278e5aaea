"""Tables on a terminal: how those of `model` become rich's.

Owns their looks, on 80 to 100 columns. Must not know what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, product

from rich import box
from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from lab.report.model import Cell, Column, Mark, Row, Table

# A longer name may be folded.
_NAME_MIN = 20

_STYLES: dict[Mark, str] = {"": "", "fault": "bold red", "weak": "yellow", "aside": "dim"}

# As the originals of 2004 and 2009 had it: lines between the columns, none around.
_RULED = box.Box("    \n  | \n -+ \n  | \n    \n    \n  | \n    \n", ascii=True)


def show(console: Console, table: Table) -> None:
    """Print a table: its title, a block for each choice and head, its notes."""
    console.print(Text(table.title, style="bold"))
    for chosen, rows in _choices(table):
        if chosen:
            console.print(Text(chosen, style="italic"))
        for head, block in _blocks(table, rows):
            for line in head:
                console.print(line)
            for shown in _beside(console, table, block):
                console.print(shown, "")
    for note in (*_elsewhere(table), *table.notes):
        console.print(Text(note, style="dim"))
    console.print()


def _elsewhere(table: Table) -> Iterator[str]:
    """Say what is left out."""
    for picker in table.pickers:
        others = [one for one in picker.options if picker.first and one != picker.first]
        if others:
            yield f"In the report on a page also: {picker.name} {', '.join(others)}."
    left_out = sum(row.minor for row in table.rows)
    if left_out:
        yield f"In the report on a page also: {left_out:,} more rows of this table."


def _choices(table: Table) -> Iterator[tuple[str, list[Row]]]:
    """Return the rows of each choice that pickers leave, and what was chosen."""
    rows = [row for row in table.rows if not row.minor]
    if not table.pickers:
        yield "", rows
        return
    shown = [(picker.first,) if picker.first else picker.options for picker in table.pickers]
    for options in product(*shown):
        wanted = {picker.name: one for picker, one in zip(table.pickers, options, strict=True)}
        chosen = [row for row in rows if _is_chosen(row, wanted)]
        if chosen:
            yield ", ".join(f"{name} {one}" for name, one in wanted.items()), chosen


def _is_chosen(row: Row, wanted: Mapping[str, str]) -> bool:
    return all(row.keys.get(name, one) == one for name, one in wanted.items())


def _blocks(table: Table, rows: Sequence[Row]) -> Iterator[tuple[list[Text], list[Row]]]:
    """Return the rows that have the same head, and its lines."""
    heads = [index for index, column in enumerate(table.columns) if column.head]
    for texts, block in groupby(rows, key=lambda row: [row.cells[index].text for index in heads]):
        lines = [
            Text(f"{table.columns[index].heading}: {text}")
            for index, text in zip(heads, texts, strict=True)
            if text
        ]
        yield lines, list(block)


def _beside(console: Console, table: Table, rows: Sequence[Row]) -> Iterator[RenderableType]:
    """Return today's figures, and the published ones beside them where there are any and room is.

    Columns for which there is no room are in a table of their own below.
    """
    columns = list(enumerate(table.columns))
    shown = [(i, one) for i, one in columns if not (one.head or one.wide or one.published)]
    published = [(i, one) for i, one in columns if one.published]
    today = [_rich(table, part, rows) for part in _parts(console.width, table, shown, rows)]
    if not any(row.cells[index].text for row in rows for index, _ in published):
        yield from today
        return
    # The first column says which row it is, for where the published table stands below.
    index, first = shown[0]
    year = replace(first, heading=published[0][1].group)
    parts = _parts(console.width, table, [(index, year), *published], rows)
    yield Columns([*today, *(_rich(table, part, rows) for part in parts)], padding=(0, 3))


_Numbered = tuple[int, Column]


def _parts(
    width: int, table: Table, columns: Sequence[_Numbered], rows: Sequence[Row]
) -> Iterator[list[_Numbered]]:
    """Return as many columns as fit side by side, and the rest; each part has the first column."""
    first, *others = columns
    # What stands between two columns: blanks, and a line in a ruled table.
    between = 3 if table.ruled else 2
    part, used = [first], _narrowest(first, rows)
    for column in others:
        needed = between + _narrowest(column, rows)
        if used + needed > width and len(part) > 1:
            yield part
            part, used = [first], _narrowest(first, rows)
        part.append(column)
        used += needed
    yield part


def _narrowest(column: _Numbered, rows: Sequence[Row]) -> int:
    """Return the width that a column needs."""
    index, one = column
    heading = max(map(len, _heading(one).split("\n")))
    widest = max([heading, *(len(_text(row.cells[index]).plain) for row in rows)])
    return widest if one.figures else min(widest, _NAME_MIN)


def _rich(table: Table, columns: Sequence[tuple[int, Column]], rows: Sequence[Row]) -> RichTable:
    rich = RichTable(
        box=_RULED if table.ruled else box.SIMPLE_HEAD,
        padding=(0, 1) if table.ruled else (0, 1, 0, 0),
        pad_edge=table.ruled,
        show_edge=False,
    )
    for index, column in columns:
        rich.add_column(
            Text(_heading(column)),
            justify="right" if column.figures else "left",
            # Figures are of no use when they are cut; names may be folded.
            no_wrap=column.figures,
            overflow="fold",
            vertical="bottom" if column.figures else "top",
            # A name may be folded, but not away.
            min_width=None if column.figures else _narrowest((index, column), rows),
        )
    for row in rows:
        style = "bold" if row.ours or row.total else ""
        rich.add_row(*(_text(row.cells[index]) for index, _ in columns), style=style)
    return rich


def _heading(column: Column) -> str:
    heading = column.short or column.heading
    return f"{column.group}\n{heading}" if column.group and not column.published else heading


def _text(cell: Cell) -> Text:
    return Text(cell.short or cell.text, style=_STYLES[cell.mark])
