"""The output of a run: a line for each event, a progress bar in a terminal, and a table at the end.

Owns everything that a run prints. Must not decide anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from reliability.catalogue import Family
from reliability.record import Record, Verdict
from reliability.runner import Outcome

_COLOURS: dict[Verdict, str] = {"good": "green", "failed": "red", "not run": "yellow"}
_FAILURES_SHOWN = 5


class Progress:
    """Prints families as they begin and end. The bar is only shown in a terminal."""

    def __init__(self, console: Console, families: Sequence[Family]) -> None:
        self._console = console
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=len(families))
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._running: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def begins(self, family: Family, command: str) -> None:
        """Show the command that is running."""
        with self._lock:
            self._running[family.id] = f"{family.id} {command}"
            self._show()
        if not self._console.is_terminal:
            self._line(f"{family.id}  {family.name}: {command}")

    def ends(self, record: Record) -> None:
        """Show the result of a family."""
        with self._lock:
            self._running.pop(record.family, None)
            self._bar.advance(self._task)
            self._show()
        colour = _COLOURS[record.verdict]
        self._line(
            f"{record.family}  [{colour}]{record.verdict}[/]: {record.trials:,} {record.trial}, "
            f"{len(record.failures)} failures, {record.seconds:.0f} s"
        )
        show_failures(self._console, record)
        for command in record.commands:
            if command.not_run:
                self._console.print(f"    not run: {escape(command.not_run)}", soft_wrap=True)

    def leaves_out(self, family: Family, why: str) -> None:
        """Show that a family is not run."""
        with self._lock:
            self._bar.advance(self._task)
        self._line(f"{family.id}  {why}")

    def _line(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        self._console.print(f"[dim]{minutes:3d}:{seconds:02d}[/]  {text}", soft_wrap=True)

    def _show(self) -> None:
        self._bar.update(self._task, description=escape(" | ".join(self._running.values()))[:60])


def show_failures(console: Console, record: Record) -> None:
    """Print the first failures of a record."""
    for failure in record.failures[:_FAILURES_SHOWN]:
        console.print(f"    {escape(failure)}", soft_wrap=True)


def table(outcome: Outcome) -> Table:
    """Return the table of a lane's records."""
    title = f"{outcome.lane.capitalize()} lane"
    found = Table(title=title, title_justify="left", caption_justify="left")
    found.add_column("family")
    for name in ("trials", "failures", "3/N", "seconds"):
        found.add_column(name, justify="right")
    found.add_column("verdict")
    for one in outcome.records:
        bound = f"{one.bound:.1e}" if one.bound is not None else ""
        found.add_row(
            one.family,
            f"{one.trials:,} {one.trial}",
            f"{len(one.failures)}",
            bound,
            f"{one.seconds:.0f}",
            f"[{_COLOURS[one.verdict]}]{one.verdict}[/]",
        )
    for why in dict.fromkeys(outcome.left_out.values()):
        families = ", ".join(one for one, its in outcome.left_out.items() if its == why)
        caption = f"{found.caption}; " if found.caption else "Not run: "
        found.caption = f"{caption}{families} ({why})"
    return found


def listing(families: Sequence[Family]) -> Table:
    """Return the table of the families."""
    found = Table()
    for name in ("family", "name", "promise"):
        found.add_column(name)
    for name in ("short", "nightly", "controls"):
        found.add_column(name, justify="right")
    for one in families:
        lanes = [f"{lane.trials:,}" if lane else "none" for lane in (one.short, one.nightly)]
        found.add_row(one.id, one.name, one.promise, *lanes, f"{len(one.controls)}")
    return found
