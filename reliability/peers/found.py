"""What a trial of a peer came to.

Owns the form of the answer. Must not know how it is come by.
"""

from __future__ import annotations

import msgspec


class Found(msgspec.Struct):
    """Counts of a family's trials on a system.

    `died` has the processes that ended though nobody killed them, by signal; `hung` the operations
    or processes without an answer in time; `wrong` the answers that were not stored under their
    key; `lost` the entries that were gone though nobody had touched them, of `there_at_best`;
    `errors` the classes of errors that were raised; `unusable` the trials after which a new process
    could not store and read again, without somebody who removes or mends the files; `held_up` the
    trials in which an operation had no answer until a stopped process went on.
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
        """Count what a process came to: "hung" or "died of SIGBUS". What raised is not counted."""
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
        """Whether nothing died, hung, lied, was lost, ran or stayed unusable."""
        bad = self.died or self.hung or self.wrong or self.lost or self.unusable or self.code_ran
        return not bad
