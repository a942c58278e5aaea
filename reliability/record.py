"""A record: what a family's run in a lane came to.

Owns the form of the records and their files. Must not run or judge anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from reliability.catalogue import HERE, LaneName
from reliability.machine import Machine, Sources

# The records that the page is made of.
KEPT = HERE / "records"

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


class RecordError(Exception):
    """A file is no record; the message says which and why."""


def path_of(folder: Path, family: str) -> Path:
    """Return the file of a family's record."""
    return folder / f"{family}.json"


def write(folder: Path, record: Record) -> None:
    """Write the record of a family, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, record.family)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    new.replace(path)


def read(folder: Path, family: str) -> Record | None:
    """Return the record of a family, None if there is none. Raises RecordError."""
    path = path_of(folder, family)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise RecordError(f"{path.name} is no record: {error}; remove it") from error
