"""A record: what a family's run in a lane came to.

Owns the form of the records and their files. Must not run or judge anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from reliability.catalogue import HERE, LaneName
from rig import kept
from rig.machine import Machine
from rig.sources import Sources

# The records that the page is made of.
KEPT = HERE / "records"

# What a run itself changes says nothing about what was tried.
RESULTS = ("reliability/records", "docs/reliability.md")

Verdict = Literal["good", "failed", "not run"]


class CommandRecord(msgspec.Struct, frozen=True):
    """What became of one command. `results` are its lines of JSON, as they were."""

    run: str
    ended: str
    seconds: float
    trials: int
    trials_demanded: int
    failures: list[str]
    not_run: str | None
    results: list[dict[str, Any]]


class Record(msgspec.Struct, frozen=True):
    """What a family's run came to.

    `bound` is 3/N: with 95 % confidence fewer than this share of all trials fail, when none of N
    did. `seeds` are those that the commands drew or were given, in their order.
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
    """Return the file of a family's record."""
    return folder / f"{family}.json"


def write(folder: Path, record: Record) -> None:
    """Write the record of a family, whole or not at all."""
    kept.write(path_of(folder, record.family), record)


def read(folder: Path, family: str) -> Record | None:
    """Return the record of a family, None if there is none. Raises RecordError."""
    return kept.read(path_of(folder, family), Record)
