"""The progress of a run: what is running and how much time is left.

Owns the bar and the estimate. Must not influence what runs. If the output is not a terminal, it
prints a line for each finished cell instead of the bar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from time import monotonic
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from lab.report.units import seconds_left
from lab.runner.plan import CellName

_REDRAWS_PER_SECOND = 2


class _Kind(NamedTuple):
    """Cells that take about the same time."""

    suite: str
    part: str
    contestant: str


class CellProgress:
    """Watches the cells of a run. `expected` has the seconds that each took in an earlier run."""

    def __init__(
        self,
        console: Console,
        planned: Sequence[CellName],
        expected: Mapping[tuple[str, str, str], float],
    ) -> None:
        self._console = console
        self._left = {
            (name.contestant, name.where): _Kind(name.suite, name.part, name.contestant)
            for name in planned
        }
        self._expected = expected
        self._seconds: dict[_Kind, list[float]] = {}
        self._running: dict[tuple[str, str], float] = {}
        self._at_once = 1
        self._bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _Left(self),
            TextColumn("{task.fields[now]}"),
            console=console,
            transient=True,
            # The runner shares the machine with what it measures.
            refresh_per_second=_REDRAWS_PER_SECOND,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=len(self._left), now="")

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

    def starts(self, contestant: str, where: str) -> None:
        """Show what is running."""
        self._running[contestant, where] = monotonic()
        self._at_once = max(self._at_once, len(self._running))
        self._show_running()

    def ended(self, contestant: str, where: str, seconds: float, failure: str) -> None:
        """Advance by one cell."""
        self._running.pop((contestant, where), None)
        kind = self._left.pop((contestant, where))
        self._bar.advance(self._task)
        self._show_running()
        if seconds:
            self._seconds.setdefault(kind, []).append(seconds)
        if failure:
            self._console.print(Text(f"{contestant}, {where}: ", style="red"), failure, sep="")
        elif seconds and not self._console.is_terminal:
            self._console.print(f"{contestant}, {where}: {seconds:.1f} s", highlight=False)

    def seconds_left(self) -> float | None:
        """Return the estimate, or None while there is no basis for one.

        A pending cell counts with the mean of its contestant's finished cells in the same part,
        else with that of an earlier run, else with the mean of all.
        """
        means = {kind: mean(seconds) for kind, seconds in self._seconds.items()}
        known = [*means.values(), *(self._expected.values() if not means else ())]
        if not known:
            return None
        usual = mean(known)
        total = 0.0
        for kind in self._left.values():
            total += means.get(kind, self._expected.get(kind, usual))
        now = monotonic()
        done = sum(now - started for started in self._running.values())
        return max(total - done, 0.0) / self._at_once

    def _show_running(self) -> None:
        running = "; ".join(f"{contestant}, {where}" for contestant, where in self._running)
        # Refresh at once: this cell may run for a while.
        self._bar.update(self._task, now=running, refresh=True)


class _Left(ProgressColumn):
    """The time left, estimated per cell: different cells have no common speed."""

    def __init__(self, cells: CellProgress) -> None:
        super().__init__()
        self._cells = cells

    def render(self, task: Task) -> Text:  # noqa: ARG002 - the interface of a column
        """Return `-:--` until there is an estimate."""
        seconds = self._cells.seconds_left()
        return Text(f"{'-:--' if seconds is None else seconds_left(seconds)} left", style="cyan")
