"""What every suite of one run has in common.

Owns that bundle and the two ways in which a suite tells what happens. Must not run anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from lab.runner.guard import Guard
from lab.runner.results import AnyCell
from lab.runner.servers import Servers
from lab.runner.workspace import Workspace
from rig.cores import Cores


class Watcher(Protocol):
    """Whoever wants to know what runs now. `where` names the cell, `contestant` its row."""

    def starts(self, contestant: str, where: str) -> None:
        """A cell starts."""

    def ended(self, contestant: str, where: str, seconds: float, failure: str) -> None:
        """A cell has ended; `failure` is empty when it was measured.

        A cell that was planned and never started ends after 0 seconds.
        """


@dataclass(frozen=True)
class Session:
    """One run: its seed, where its data lives, and where its results go as they come.

    `data` is where the stores are, `desk` where the runner's own files are: streams, durations and
    what processes write as errors. `at_once` is how many cells may run at the same time, 1 when
    anything is timed.
    """

    seed: int
    guard: Guard
    data: Workspace
    desk: Workspace
    servers: Servers
    cores: Cores
    record: Callable[[AnyCell], None]
    repeat: tuple[str, ...] = ()
    at_once: int = 1
    _numbers: Iterator[int] = field(default_factory=count)

    def mark(self) -> str:
        """Return a new mark, which what is started for a cell has in its environment."""
        return f"{self.guard.token}.{next(self._numbers)}."
