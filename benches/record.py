"""The record: every run of every row.

Owns its form and its file. Must not measure, judge, nor know how it is shown. Rows are measured
together or one by one, on one machine or on several, so each run has its own machine sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benches.row import Figure
from rig import kept
from rig.machine import Disturbance, Machine
from rig.sources import ROOT, Sources

PATH = ROOT / "docs" / "performance.json"

#: Files that a run itself changes: they do not make its sources differ from a commit.
RESULTS = ("docs/performance*", "benches/instructions.json")


class Run(msgspec.Struct, frozen=True):
    """One run of a row.

    `date` is its start, in UTC. `files` names the file systems by what was kept there.
    `disturbance` is the share of the machine's time that others had. `not_measured` lists what
    could not be measured on the machine. The number of rounds is that of a figure's samples.
    """

    figures: list[Figure]
    not_measured: list[str]
    is_quick: bool
    date: str
    seconds: float
    sources: Sources
    machine: Machine
    files: dict[str, str]
    disturbance: Disturbance

    def __post_init__(self) -> None:
        """Refuse figures of the same name, which would be taken for those of several runs."""
        names = [figure.key for figure in self.figures]
        if len(set(names)) != len(names):
            raise ValueError("two figures of a run have the same name")


class Record(msgspec.Struct, frozen=True):
    """The runs of each row, by its id, the oldest first."""

    rows: dict[str, list[Run]]


def read(path: Path) -> Record:
    """Return the record in a file, an empty one where there is no file. Raises RecordError."""
    return kept.read(path, Record) or Record({})


def with_run(
    record: Record, row_id: str, run: Run, order: Sequence[str], *, replace: bool = False
) -> Record:
    """Return the record with one more run of a row, rows as in `order`.

    With `replace` the row's earlier runs are dropped. Rows that are not in `order` always are.
    """
    earlier = [] if replace else record.rows.get(row_id, [])
    rows = {**record.rows, row_id: [*earlier, run]}
    return Record({one: rows[one] for one in order if one in rows})


def is_mixed(runs: Sequence[Run]) -> bool:
    """Return whether the runs are of different sources or machines."""
    kinds = {(run.sources.commit, run.sources.changes, run.machine.cpu) for run in runs}
    return len(kinds) > 1
