"""Records: one file of JSON lines for each run, written as the run goes and only ever added to.

Owns the file: who may write it, what is left of it when a run is broken off, and how it is read
again. Must not know what a result means.

The first line is a `Header`, the last of a finished run an `Ending`; between them are the cells as
they ended, and a `Resumed` where a broken-off run was taken up again. A line that was not written
to its end, because the runner was killed or the disk full, is no record: reading ignores it, and
resuming cuts it off.
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
    """What was asked for. `command` is what was typed; empty lists chose all, 0 rounds the form's.

    `data` says in words where the stores lay.
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

    `suites` and `contestants` are the definitions as they were: figures are read with these, also
    when the catalogue has changed since.
    """

    started: datetime
    machine: Machine
    settings: Settings
    suites: list[Suite]
    contestants: list[Contestant]
    format: int = FORMAT

    def same_run(self, other: Header) -> bool:
        """Return whether the cells of `other` could be this run's: same machine and settings."""

        def compared(one: Header) -> object:
            settings = msgspec.structs.replace(one.settings, command=[])
            machine = msgspec.structs.replace(one.machine, load_before=0.0)
            return machine, settings, one.suites, one.contestants, one.format

        return compared(self) == compared(other)


class Resumed(msgspec.Struct, tag_field="record", tag="resumed"):
    """From here on another process wrote."""

    resumed: datetime


class Ending(msgspec.Struct, tag_field="record", tag="ending"):
    """The last line of a file. A file without one is of a run that was broken off."""

    ended: datetime
    disturbance: Disturbance
    noise: list[str]
    faults: list[str]


AnyRecord = Header | PhasesCell | ReplayCell | Resumed | Ending


@dataclass
class Run:
    """A file of records that was read. `lines` has the line number of each cell, from 1."""

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
    """A file is not what this version of the lab can read; the message says why."""


def read(path: Path) -> Run:
    """Return what is in a file of records. Raises RecordsError and OSError."""
    decoder = msgspec.json.Decoder(AnyRecord)
    run: Run | None = None
    lines = path.read_bytes().split(b"\n")
    # What follows the last line feed is nothing, or a line that was not written to its end.
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
            raise RecordsError(f"{path} does not begin with a header")
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
    """Return the files of records in `folder`, the newest first: their names begin with a time."""
    return sorted(folder.glob("*.jsonl"), reverse=True)


def unfinished(folder: Path, header: Header) -> Run | None:
    """Return the newest broken-off run with the settings of `header`, if nobody still writes it."""
    for path in files(folder):
        try:
            with path.open("rb") as file:
                if not _lock(file):
                    continue
            run = read(path)
        except (RecordsError, OSError):
            # A file of another version, or of nobody's run, cannot be this one.
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
    """Open a new file in `folder` that begins with `header`. An existing file is never opened."""
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
    """Open the file of a broken-off run to add to it. Raises OSError when another one writes it."""
    with run.path.open("r+b") as file:
        if not _lock(file):
            raise OSError(f"another run still writes {run.path}")
        # Cut off a line that was not written to its end.
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        opened = Records(run.path, file)
        opened.add(Resumed(now()))
        yield opened


def now() -> datetime:
    """Return this moment, in UTC."""
    return datetime.now(UTC)


def _lock(file: BinaryIO) -> bool:
    """Lock a file as long as it is open. False when another process has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
