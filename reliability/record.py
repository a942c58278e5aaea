"""A record: the result of a family's run in a lane.

Owns the format of the records and their files. Must not run or judge anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from reliability.catalogue import HERE, LaneName
from rig import kept
from rig.machine import Machine
from rig.sources import Sources

# The records that the page shows.
KEPT = HERE / "records"

# Files that a run itself changes are not part of the sources.
RESULTS = ("reliability/records", "docs/explanation/reliability.md")

Verdict = Literal["good", "failed", "not run"]


class CommandRecord(msgspec.Struct, frozen=True):
    """The result of one command. `results` are its lines of JSON, unchanged."""

    run: str
    ended: str
    seconds: float
    trials: int
    trials_demanded: int
    failures: list[str]
    not_run: str | None
    results: list[dict[str, Any]]


class Record(msgspec.Struct, frozen=True):
    """The result of a family's run.

    `bound` is 3/N: if none of N trials failed, fewer than this share of all trials do, with 95 %
    confidence. `seeds` are the seeds of the commands, in order.
    """

    family: str
    lane: LaneName
    verdict: Verdict
    sources: Sources
    date: str
    machine: Machine
    seconds: float
    trials: int
    trial: str
    failures: list[str]
    bound: float | None
    seeds: list[int]
    commands: list[CommandRecord]


def path_of(folder: Path, family: str) -> Path:
    """Return the path of a family's record."""
    return folder / f"{family}.json"


def write(folder: Path, record: Record) -> None:
    """Write the record of a family atomically."""
    kept.write(path_of(folder, record.family), record)


def read(folder: Path, family: str) -> Record | None:
    """Return the record of a family, None if it has none. Raises RecordError."""
    return kept.read(path_of(folder, family), Record)
