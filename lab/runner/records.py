"""Records: one file for each run, one JSON object a line, written as the run goes and never again.

Owns the file. Must not know what a result means.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from lab.runner.machine import Disturbance, Machine

FORMAT = 1


class Settings(msgspec.Struct):
    """What was asked for."""

    command: list[str]
    form: str
    seed: int
    contestants: list[str]
    data: str


class Header(msgspec.Struct, tag_field="record", tag="header"):
    """The first line of a file."""

    started: datetime
    machine: Machine
    settings: Settings
    format: int = FORMAT


class Ending(msgspec.Struct, tag_field="record", tag="ending"):
    """The last line of a file. A file without one is of a run that was broken off."""

    ended: datetime
    disturbance: Disturbance
    noise: list[str]
    faults: list[str]


class Records:
    """An open file of records."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file

    def add(self, record: msgspec.Struct) -> None:
        """Append one record and hand it to the operating system."""
        self._file.write(msgspec.json.encode(record) + b"\n")
        self._file.flush()


@contextmanager
def records(header: Header, folder: Path) -> Iterator[Records]:
    """Open a new file in `folder` that begins with `header`. An existing file is never opened."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = header.started.strftime("%Y%m%dT%H%M%S")
    path = folder / f"{stamp}-{os.getpid()}.jsonl"
    with path.open("xb") as file:
        opened = Records(path, file)
        opened.add(header)
        yield opened


def now() -> datetime:
    """Return this moment, in UTC."""
    return datetime.now(UTC)
