"""The record: every run of every row.

Owns its format and its file. Must not measure, judge, nor know how it is shown. Rows may be
measured on different machines, so each run has its own machine sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benches.row import Figure
from rig import kept
from rig.machine import Disturbance, Machine
from rig.sources import ROOT, Sources

PATH = ROOT / "docs" / "explanation" / "performance.json"

#: Files that a run itself changes. They are not part of its sources.
RESULTS = ("docs/explanation/performance*", "benches/instructions.json")


class Run(msgspec.Struct, frozen=True):
    """One run of a row.

    `date` is its start, in UTC. `files` has the type of each file system, by what it is for.
    `disturbance` is the share of the machine's time that other programs had. `not_measured` lists
    what the machine could not measure. A figure has one sample for each round.
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
        """Refuse two figures of the same name, which would look like two runs."""
        names = [figure.key for figure in self.figures]
        if len(set(names)) != len(names):
            raise ValueError("two figures of a run have the same name")


class Record(msgspec.Struct, frozen=True):
    """The runs of each row by its id, the oldest first."""

    rows: dict[str, list[Run]]


def read(path: Path) -> Record:
    """Return the record in a file, empty if the file does not exist. Raises RecordError."""
    return kept.read(path, Record) or Record({})


def with_run(
    record: Record, row_id: str, run: Run, order: Sequence[str], *, replace: bool = False
) -> Record:
    """Return the record with one more run of a row, and the rows in `order`.

    `replace` drops the row's earlier runs. Rows that are not in `order` are dropped.
    """
    earlier = [] if replace else record.rows.get(row_id, [])
    rows = {**record.rows, row_id: [*earlier, run]}
    return Record({one: rows[one] for one in order if one in rows})


def is_mixed(runs: Sequence[Run]) -> bool:
    """Return whether the runs are of different sources or machines."""
    kinds = {(run.sources.commit, run.sources.changes, run.machine.cpu) for run in runs}
    return len(kinds) > 1
