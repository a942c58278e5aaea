"""The terminal output of a run. Owns tables and the progress line; must not measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benches import words
from benches.record import Run
from benches.results import Verdict, results_of, verdict_of
from benches.row import Row

_STYLES: dict[Verdict, str] = {
    "met": "green",
    "limit shown": "yellow",
    "undecided": "yellow",
    "not met": "red",
    "no goal": "",
}


def say(to: Console, text: str, style: str = "") -> None:
    """Print a line without interpreting markup."""
    to.print(text, style=style, highlight=False, markup=False)


@contextmanager
def progress(to: Console, row: Row) -> Iterator[Callable[[str], None]]:
    """Show what is being measured; in a terminal, on one line."""
    if not to.is_terminal:
        yield lambda text: say(to, f"{row.id}: {text}")
        return
    # At most once a second, so that drawing does not disturb the measurement.
    with to.status(escape(f"{row.id}: {row.title}"), refresh_per_second=1) as status:
        yield lambda text: status.update(escape(f"{row.id}: {text}"))


def show_row(to: Console, row: Row, runs: Sequence[Run]) -> None:
    """Print the latest run of a row, and the verdicts over all its runs."""
    count = f", run {len(runs)}" if len(runs) > 1 else ""
    table = Table(
        title=f"{row.id}  {row.title}{count}  ({runs[-1].seconds:.0f} s)",
        title_justify="left",
        expand=False,
    )
    for heading in ("", "Tuckbox", "peer", "", "value", "interval", "rounds", "goal", "verdict"):
        table.add_column(heading, overflow="fold")
    for result in results_of(run.figures for run in runs):
        figure = result.latest
        if figure not in runs[-1].figures:
            continue
        table.add_row(
            escape(words.name(figure)),
            words.amount(figure.ours, figure.unit),
            escape(figure.peer),
            words.amount(figure.theirs, figure.unit),
            words.value(figure),
            words.interval(figure.values),
            f"{len(figure.ours)}",
            words.bound(figure.goal, figure),
            "" if result.verdict == "no goal" else result.verdict,
            style=_STYLES[result.verdict],
        )
    to.print(table)
    for phrase in runs[-1].not_measured:
        say(to, f"{row.id}: not measured: {phrase}")


def show_verdicts(to: Console, rows: Sequence[tuple[Row, Sequence[Run]]]) -> None:
    """Print the verdict of each row."""
    for row, runs in rows:
        verdict = verdict_of(results_of(run.figures for run in runs))
        say(to, f"{row.id:>12}  {verdict:<11}  {row.title}", _STYLES[verdict])
