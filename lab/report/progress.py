"""The progress of a run: what runs now and how much time is left.

Owns the bar and the estimate. Must not influence what runs. Where the output is no terminal there
is no bar, and a line tells of each cell that has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from lab.report.units import seconds_left


class CellProgress:
    """Watches the cells of one suite, for each of which `planned` names the contestant."""

    def __init__(self, console: Console, title: str, planned: Sequence[str]) -> None:
        self._console = console
        self._left = list(planned)
        self._seconds: dict[str, list[float]] = {}
        self._running: dict[tuple[str, str], float] = {}
        self._at_once = 1
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _Left(self),
            TextColumn("{task.fields[now]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=len(self._left), now="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def starts(self, contestant: str, detail: str) -> None:
        """Show what runs now."""
        self._running[contestant, detail] = monotonic()
        self._at_once = max(self._at_once, len(self._running))
        self._show_running()

    def ended(self, contestant: str, detail: str, seconds: float, failure: str) -> None:
        """Advance by one cell."""
        self._running.pop((contestant, detail), None)
        self._left.remove(contestant)
        self._bar.advance(self._task)
        self._show_running()
        if seconds:
            self._seconds.setdefault(contestant, []).append(seconds)
        if failure:
            self._console.print(Text(f"{contestant}, {detail}: ", style="red"), failure, sep="")
        elif seconds and not self._console.is_terminal:
            self._console.print(f"{contestant}, {detail}: {seconds:.1f} s", highlight=False)

    def seconds_left(self) -> float | None:
        """Return the estimate, or None before anything has ended.

        A cell to come takes as long as those of its contestant did, or as the mean of all.
        """
        if not self._seconds:
            return None
        means = {name: mean(seconds) for name, seconds in self._seconds.items()}
        usual = mean(means.values())
        total = sum(means.get(name, usual) for name in self._left)
        now = monotonic()
        done = sum(now - started for started in self._running.values())
        return max(total - done, 0.0) / self._at_once

    def _show_running(self) -> None:
        running = "; ".join(f"{contestant}, {detail}" for contestant, detail in self._running)
        self._bar.update(self._task, now=running)


class _Left(ProgressColumn):
    """The time left, from the cells' own estimate: unlike cells have no common speed."""

    def __init__(self, cells: CellProgress) -> None:
        super().__init__()
        self._cells = cells

    def render(self, task: Task) -> Text:  # noqa: ARG002 - the interface of a column
        """Return `-:--` until there is an estimate."""
        seconds = self._cells.seconds_left()
        return Text(f"{'-:--' if seconds is None else seconds_left(seconds)} left", style="cyan")
