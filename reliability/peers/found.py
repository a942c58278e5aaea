"""The result of a family's trials on a peer.

Owns its format. Must not know how it is measured.
"""

from __future__ import annotations

import msgspec


class Found(msgspec.Struct):
    """Counts of a family's trials on a system.

    - `died`: processes that died though nobody killed them, by signal.
    - `hung`: operations or processes that gave no answer in time.
    - `wrong`: answers that were not stored under their key.
    - `lost`: missing entries that nobody had changed, of `there_at_best`.
    - `errors`: raised errors, by class.
    - `unusable`: trials after which a new process could not store and read until somebody removed
      or repaired the files.
    - `held_up`: trials in which an operation gave no answer until a stopped process continued.
    """

    trials: int
    trial: str
    died: dict[str, int] = msgspec.field(default_factory=dict)
    hung: int = 0
    wrong: int = 0
    lost: int = 0
    there_at_best: int = 0
    errors: dict[str, int] = msgspec.field(default_factory=dict)
    unusable: int = 0
    held_up: dict[str, int] = msgspec.field(default_factory=dict)
    code_ran: bool | None = None
    figures: dict[str, int] = msgspec.field(default_factory=dict)
    not_run: str | None = None

    def note(self, came_to: str | None) -> None:
        """Count how a process ended: "hung" or "died of SIGBUS", but not "raised"."""
        if came_to == "hung":
            self.hung += 1
        elif came_to is not None and came_to != "raised":
            name = came_to.rpartition(" ")[2]
            self.died[name] = self.died.get(name, 0) + 1

    def add(self, figure: str, amount: int) -> None:
        """Add to a figure."""
        self.figures[figure] = self.figures.get(figure, 0) + amount

    @property
    def is_clean(self) -> bool:
        """Whether nothing died, hung, was wrong, was lost, was unusable or ran planted code."""
        bad = self.died or self.hung or self.wrong or self.lost or self.unusable or self.code_ran
        return not bad
