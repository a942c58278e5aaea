"""What every suite of one run has in common.

Owns that bundle and the two ways in which a suite tells what happens. Must not run anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lab.runner.results import ConcurrentCell, ReplayCell
from lab.runner.workspace import Workspace


class Watcher(Protocol):
    """Whoever wants to know what runs now."""

    def starts(self, contestant: str, detail: str) -> None:
        """A cell starts."""

    def ended(self, contestant: str, detail: str, seconds: float, failure: str) -> None:
        """A cell has ended; `failure` is empty when it was measured.

        A cell that was planned and never started ends after 0 seconds.
        """


@dataclass(frozen=True)
class Session:
    """One run: its seed, where its data lives, and where its results go as they come."""

    seed: int
    space: Workspace
    record: Callable[[ConcurrentCell | ReplayCell], None]
