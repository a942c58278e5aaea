"""Prints tables of `model` on a terminal, by way of rich.

Owns their looks. Must not know their content.
"""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from lab.report.model import Cell, Mark, Table

_STYLES: dict[Mark, str] = {"": "", "fault": "bold red", "weak": "yellow", "aside": "dim"}


def show(console: Console, table: Table) -> None:
    """Print a table: its title, its rows, its notes."""
    rich = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in table.columns:
        rich.add_column(
            Text(column.heading),
            justify="right" if column.figures else "left",
            # A truncated figure is useless; names may wrap.
            no_wrap=column.figures,
            overflow="fold",
            vertical="bottom" if column.figures else "top",
        )
    for row in table.rows:
        rich.add_row(*map(_text, row.cells), style="bold" if row.ours else "")
    console.print(Text(table.title, style="bold"))
    console.print(rich)
    for note in table.notes:
        console.print(Text(note, style="dim"))
    console.print()


def _text(cell: Cell) -> Text:
    return Text(cell.short or cell.text, style=_STYLES[cell.mark])
