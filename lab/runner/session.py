"""The state that all suites of a run share.

Owns that bundle, and the two interfaces by which a suite reports. Must not run anything.
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
    """Observes the cells of a run. `where` names the cell, `contestant` its row."""

    def starts(self, contestant: str, where: str) -> None:
        """A cell starts."""

    def ended(self, contestant: str, where: str, seconds: float, failure: str) -> None:
        """A cell has ended; `failure` is empty if it was measured.

        A planned cell that never started ends with 0 seconds.
        """


@dataclass(frozen=True)
class Session:
    """One run: its seed, its folders, and the receiver of its results.

    `data` has the stores, `desk` the runner's own files: streams, durations and error output.
    `at_once` is how many cells may run at the same time; it is 1 if anything is timed.
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
        """Return a new mark for the environment of all processes of a cell."""
        return f"{self.guard.token}.{next(self._numbers)}."
