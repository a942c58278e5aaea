"""What a trial of a peer came to.

Owns the form of the answer. Must not know how it is come by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

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

    def add_deaths(self, deaths: Iterable[str]) -> None:
        """Add ends of processes, as "died of SIGBUS"."""
        self.died = dict(Counter(self.died) + Counter(one.rpartition(" ")[2] for one in deaths))

    @property
    def is_clean(self) -> bool:
        """Whether nothing died, hung, lied, was lost, ran or stayed unusable."""
        bad = self.died or self.hung or self.wrong or self.lost or self.unusable or self.code_ran
        return not bad
