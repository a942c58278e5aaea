"""Records: one append-only file of JSON lines for each run, written during the run.

Owns the file: who may write it, what an interrupted run leaves, and how it is read. Must not know
what a result means.

The first line is a `Header`, the last line of a finished run an `Ending`. Between them are the
cells in the order in which they ended, and a `Resumed` where an unfinished run was continued. A
last line without its line feed (the runner was killed, or the disk was full) is ignored when
reading and removed when resuming.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from lab.runner.catalogue import Contestant, FormName, Placement, Suite
from lab.runner.results import AnyCell, PhasesCell, ReplayCell
from rig.machine import Disturbance, Machine

FORMAT = 3


class Settings(msgspec.Struct):
    """The settings of a run. `command` is what the user typed.

    An empty list means all; 0 rounds means the form's number. `data` is a text that says where the
    stores were.
    """

    command: list[str]
    form: FormName
    seed: int
    suites: list[str]
    contestants: list[str]
    data: str
    variants: list[str] = []
    placements: list[Placement] = []
    rounds: int = 0


class Header(msgspec.Struct, tag_field="record", tag="header"):
    """The first line of a file.

    `suites` and `contestants` are the definitions at the time of the run. Figures are read with
    these, even if the catalogue is different.
    """

    started: datetime
    machine: Machine
    settings: Settings
    suites: list[Suite]
    contestants: list[Contestant]
    format: int = FORMAT

    def same_run(self, other: Header) -> bool:
        """Return whether the cells of `other` fit this run: same machine, settings, definitions."""

        def compared(one: Header) -> object:
            settings = msgspec.structs.replace(one.settings, command=[])
            machine = msgspec.structs.replace(one.machine, load_before=0.0)
            return machine, settings, one.suites, one.contestants, one.format

        return compared(self) == compared(other)


class Resumed(msgspec.Struct, tag_field="record", tag="resumed"):
    """Another process wrote the lines after this one."""

    resumed: datetime


class Ending(msgspec.Struct, tag_field="record", tag="ending"):
    """The last line of a file. A file without it belongs to an unfinished run."""

    ended: datetime
    disturbance: Disturbance
    noise: list[str]
    faults: list[str]


AnyRecord = Header | PhasesCell | ReplayCell | Resumed | Ending


@dataclass
class Run:
    """The content of a file of records. `lines` has the line number of each cell, from 1."""

    path: Path
    header: Header
    cells: list[AnyCell] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    resumptions: list[Resumed] = field(default_factory=list)
    ending: Ending | None = None

    def line_of(self, cell: AnyCell) -> int:
        """Return the line of a cell of this run."""
        return next(line for one, line in zip(self.cells, self.lines, strict=True) if one is cell)


class RecordsError(Exception):
    """This version of the lab cannot read the file; the message says why."""


def read(path: Path) -> Run:
    """Return the content of a file of records. Raises RecordsError and OSError."""
    decoder = msgspec.json.Decoder(AnyRecord)
    run: Run | None = None
    lines = path.read_bytes().split(b"\n")
    # After the last line feed there is nothing, or an incomplete line.
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise RecordsError(
                f"{path}, line {number}: {error}; this lab reads format {FORMAT}"
            ) from error
        if isinstance(record, Header):
            run = Run(path, record)
        elif run is None:
            raise RecordsError(f"{path} does not start with a header")
        elif isinstance(record, Ending):
            run.ending = record
        elif isinstance(record, Resumed):
            run.resumptions.append(record)
        else:
            run.cells.append(record)
            run.lines.append(number)
    if run is None:
        raise RecordsError(f"{path} has no header: nothing was recorded")
    return run


def files(folder: Path) -> list[Path]:
    """Return the files of records in `folder`, the newest first (names start with a time)."""
    return sorted(folder.glob("*.jsonl"), reverse=True)


def unfinished(folder: Path, header: Header) -> Run | None:
    """Return the newest unfinished run with the settings of `header` that no process writes."""
    for path in files(folder):
        try:
            with path.open("rb") as file:
                if not _lock(file):
                    continue
            run = read(path)
        except (RecordsError, OSError):
            # An unreadable file cannot be the one to continue.
            continue
        if run.ending is None and run.header.same_run(header):
            return run
    return None


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
def begun(header: Header, folder: Path) -> Iterator[Records]:
    """Create a file in `folder` that starts with `header`. Never opens an existing file."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = header.started.strftime("%Y%m%dT%H%M%S")
    path = folder / f"{stamp}-{os.getpid()}.jsonl"
    with path.open("xb") as file:
        _lock(file)
        opened = Records(path, file)
        opened.add(header)
        yield opened


@contextmanager
def resumed(run: Run) -> Iterator[Records]:
    """Open the file of an unfinished run for appending. Raises OSError if another run writes it."""
    with run.path.open("r+b") as file:
        if not _lock(file):
            raise OSError(f"another run is still writing {run.path}")
        # Remove an incomplete last line.
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        opened = Records(run.path, file)
        opened.add(Resumed(now()))
        yield opened


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def _lock(file: BinaryIO) -> bool:
    """Lock a file until it is closed. False if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
