"""What a row is called, and which of its operations there is something to say about.

Owns names. Must not compute a figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.protocol import ACTIONS
from lab.report.model import Cell, Kind, Mark, Picker
from lab.runner.catalogue import Contestant, Placement, SharedBy
from lab.runner.summary import ActionSummary, PhaseSummary, Summary

# Whose rows the reports point out: BIAS.md says why they must.
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
    """Return whether the lab's authors wrote it."""
    return OURS in contestant.name.replace(":", "_").split("_")


def title(row: Summary) -> str:
    """Return the name of a row: what tables call the contestant, and where its server runs."""
    placed = PLACED.get(row.placement)
    return f"{row.contestant.title}, {placed}" if placed else row.contestant.title


def name(row: Summary) -> str:
    """Return the short name of a row: `folder:form`, and on how many cores it ran."""
    return row.contestant.name + _SHORTLY.get(row.placement, "")


def kind(row: Summary) -> Kind:
    """Return whose data a row is."""
    if not row.contestant.stores:
        return "null"
    if not shares(row.contestant):
        return "alone"
    return "server" if row.contestant.server else "shared"


def shares(contestant: Contestant) -> bool:
    """Return whether several processes can use the same data, if only those of one parent."""
    return contestant.shared_by != "process"


def shared_by(contestant: Contestant) -> str:
    """Return in words who can use the same data."""
    return SHARED_BY[contestant.shared_by]


def placed(row: Summary) -> dict[str, str]:
    """Return the key by which a chart chooses where servers run; nothing for who has none."""
    where = PLACED.get(row.placement)
    return {"servers on": where} if where else {}


def placements(rows: Sequence[Summary]) -> tuple[Picker, ...]:
    """Return the choice of where servers run, if there is one."""
    found = distinct([where for row in rows for where in placed(row).values()])
    return (Picker("servers on", found),) if len(found) > 1 else ()


def cell(row: Summary) -> Cell:
    """Return the cell that names a row."""
    mark: Mark = "aside" if not row.contestant.stores else "" if row.measured else "fault"
    return Cell(title(row), short=name(row), mark=mark)


@dataclass(frozen=True)
class Operation:
    """An action of a phase, or all of a phase that mixes several: then `action` is None.

    `rated`: whether the rate of the phase is its own. A mix has one rate, and its actions have
    none.
    """

    name: str
    phase: PhaseSummary
    action: ActionSummary | None

    @property
    def rated(self) -> bool:
        """Whether the rate of the phase is the rate of this operation."""
        return self.action is None or self.action.count == self.phase.main.done


def operations(row: Summary) -> Iterator[Operation]:
    """Return the operations of a row, in the suite's order: of a mix the whole comes first."""
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
    """Return the names in the order of their first occurrence."""
    return tuple(dict.fromkeys(names))
