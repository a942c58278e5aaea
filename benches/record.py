"""The record: what every row came to when it was last measured.

Owns its form and its file. Must not measure, nor say how it is shown. Rows are measured together or
one by one, on one machine or on several, so each has its own sheet of what it was measured on.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from benches.places import ROOT
from benches.row import Figure, Verdict, verdict_of
from lab.runner.machine import Disturbance, Machine
from reliability.machine import Sources

PATH = ROOT / "docs" / "performance.json"

#: What a run itself changes says nothing about what was measured.
RESULTS = (":(exclude)docs/performance*", ":(exclude)benches/instructions.json")


class RowRecord(msgspec.Struct, frozen=True):
    """What a row came to.

    `date` is when it began, in UTC. `files` names the file systems by what was kept there.
    `disturbance` is what others had of the machine meanwhile. `not_measured` has what the machine
    did not let one measure.
    """

    id: str
    title: str
    goal_text: str
    figures: list[Figure]
    not_measured: list[str]
    rounds: int
    is_quick: bool
    date: str
    seconds: float
    sources: Sources
    machine: Machine
    files: dict[str, str]
    disturbance: Disturbance

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its figures."""
        return verdict_of(self.figures)


class Record(msgspec.Struct, frozen=True):
    """The rows by their ids."""

    rows: dict[str, RowRecord]


class RecordError(Exception):
    """A file is no record; the message says which and why."""


def read(path: Path) -> Record:
    """Return the record in a file, an empty one where there is no file. Raises RecordError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return Record({})
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise RecordError(f"{path.name} is no record: {error}; remove it") from error


def with_row(record: Record, row: RowRecord, order: list[str]) -> Record:
    """Return the record with a row in place of the earlier one, rows as in `order`.

    Rows that `order` does not know are not kept.
    """
    rows = {**record.rows, row.id: row}
    return Record({one: rows[one] for one in order if one in rows})


def write(path: Path, record: Record) -> None:
    """Write the record, whole or not at all."""
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    new.replace(path)
