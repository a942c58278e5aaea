"""What the terminal shows of a run. Owns tables and the line of progress; must not measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benches import words
from benches.record import RowRecord
from benches.row import Row

# Where the output is no terminal nobody tells us a width.
_WIDTH_ELSEWHERE = 120

_STYLES = {"met": "green", "limit shown": "yellow", "not met": "red", "told": ""}


def console() -> Console:
    """Return the console to print on."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDTH_ELSEWHERE)


def say(to: Console, text: str, style: str = "") -> None:
    """Print a line as it is: brackets in it are no markup."""
    to.print(text, style=style, highlight=False, markup=False)


@contextmanager
def progress(to: Console, row: Row) -> Iterator[Callable[[str], None]]:
    """Show what is measured now, on one line where the output is a terminal."""
    if not to.is_terminal:
        yield lambda text: say(to, f"{row.id}: {text}")
        return
    # The line is redrawn once a second at most: the run shares the machine with what it measures.
    with to.status(escape(f"{row.id}: {row.title}"), refresh_per_second=1) as status:
        yield lambda text: status.update(escape(f"{row.id}: {text}"))


def show_row(to: Console, row: RowRecord) -> None:
    """Print what a row came to."""
    table = Table(
        title=f"{row.id}  {row.title}  ({row.seconds:.0f} s)", title_justify="left", expand=False
    )
    for heading in ("", "Tuckbox", "peer", "", "value", "least .. most", "goal", ""):
        table.add_column(heading, overflow="fold")
    for figure in row.figures:
        table.add_row(
            escape(words.name(figure)),
            words.amount(figure.ours, figure.unit),
            escape(figure.peer),
            words.amount(figure.theirs, figure.unit),
            words.value(figure),
            words.spread(figure),
            words.bound(figure.goal, figure),
            "" if figure.verdict == "told" else figure.verdict,
            style=_STYLES[figure.verdict],
        )
    to.print(table)


def show_verdicts(to: Console, rows: Sequence[RowRecord]) -> None:
    """Print the verdict of each row."""
    for row in rows:
        say(to, f"{row.id:>12}  {row.verdict:<11}  {row.title}", _STYLES[row.verdict])
