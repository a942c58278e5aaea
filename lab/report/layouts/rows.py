"""The names of rows, and their operations.

Owns names. Must not compute a figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.protocol import ACTIONS
from lab.report.model import Cell, Kind, Mark, Picker
from lab.runner.catalogue import Contestant, Placement, SharedBy
from lab.runner.summary import ActionSummary, PhaseSummary, Summary

# The reports highlight these rows; see BIAS.md.
OURS = "tuckbox"

SHARED_BY: dict[SharedBy, str] = {
    "process": "one process",
    "fork": "a process and its forks",
    "machine": "one machine",
    "network": "several machines",
}
PLACED: dict[Placement, str] = {"same core": "one core", "split cores": "two cores"}
_SHORTLY: dict[Placement, str] = {"same core": " 1c", "split cores": " 2c"}


def ours(contestant: Contestant) -> bool:
    """Return whether the lab's authors also wrote this contestant."""
    return OURS in contestant.name.replace(":", "_").split("_")


def title(row: Summary) -> str:
    """Return the name of a row: the contestant's title, and where its server runs."""
    placed = PLACED.get(row.placement)
    return f"{row.contestant.title}, {placed}" if placed else row.contestant.title


def name(row: Summary) -> str:
    """Return the short name of a row: `folder:form`, and on how many cores it ran."""
    return row.contestant.name + _SHORTLY.get(row.placement, "")


def kind(row: Summary) -> Kind:
    """Return who can use the data of a row."""
    if not row.contestant.stores:
        return "null"
    if not shares(row.contestant):
        return "alone"
    return "server" if row.contestant.server else "shared"


def shares(contestant: Contestant) -> bool:
    """Return whether several processes can use the same data, even if only forks of one."""
    return contestant.shared_by != "process"


def shared_by(contestant: Contestant) -> str:
    """Return a text for who can use the same data."""
    return SHARED_BY[contestant.shared_by]


def placed(row: Summary) -> dict[str, str]:
    """Return the key for the picker of server placement; empty without a server."""
    where = PLACED.get(row.placement)
    return {"servers on": where} if where else {}


def placements(rows: Sequence[Summary]) -> tuple[Picker, ...]:
    """Return the picker of server placement, if there is a choice."""
    found = distinct([where for row in rows for where in placed(row).values()])
    return (Picker("servers on", found),) if len(found) > 1 else ()


def cell(row: Summary) -> Cell:
    """Return the cell that names a row."""
    mark: Mark = "aside" if not row.contestant.stores else "" if row.measured else "fault"
    return Cell(title(row), short=name(row), mark=mark)


@dataclass(frozen=True)
class Operation:
    """One action of a phase, or a whole mixed phase, where `action` is None.

    A mixed phase has one rate; its single actions have none.
    """

    name: str
    phase: PhaseSummary
    action: ActionSummary | None

    @property
    def rated(self) -> bool:
        """Whether the rate of the phase is the rate of this operation."""
        return self.action is None or self.action.count == self.phase.main.done


def operations(row: Summary) -> Iterator[Operation]:
    """Return the operations of a row in the suite's order, a mixed phase before its actions."""
    several = len(row.phases) > 1
    for phase in row.phases:
        timed = _timed(phase)
        if len(timed) == 1:
            yield Operation(phase.name, phase, timed[0])
            continue
        yield Operation(phase.name, phase, None)
        for action in timed:
            name = f"{phase.name}: {action.action}" if several else action.action
            yield Operation(name, phase, action)


def _timed(phase: PhaseSummary) -> list[ActionSummary]:
    if phase.latency is None:
        return []
    lines = [phase.latency.action(action) for action in ACTIONS]
    return [line for line in lines if line.median_ns is not None]


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names without duplicates, in order of first occurrence."""
    return tuple(dict.fromkeys(names))
