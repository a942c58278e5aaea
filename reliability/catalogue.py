"""Reads and checks the catalogue, `families.toml`.

Owns what a family must contain. Must not run anything.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from rig.sources import ROOT

HERE = Path(__file__).resolve().parent
FAMILIES = HERE / "families.toml"

LaneName = Literal["short", "nightly"]
LANES: tuple[LaneName, ...] = get_args(LaneName)
Reports = Literal["json", "tests", "exit status"]


class CatalogueError(Exception):
    """The catalogue is malformed; the message says where and what."""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the file. An unknown field is an error."""


class Command(_Table, frozen=True):
    """A command of a lane.

    `run` is the command as typed in the repository's root. `torture`, `pytest` and `python` are
    those of this repository, and `{records}` is a file to which the command writes lines of JSON.
    `reports` says how to read the result: lines of JSON on the output or in that file, the counts
    of `cargo test`, or the exit status, which stands for all `trials`. `trial` names a trial where
    the result does not.
    """

    run: str
    trials: int
    seconds_max: int
    reports: Reports = "json"
    trial: str = "tests"


class Lane(_Table, frozen=True):
    """The commands of a family in a lane, which run one after the other."""

    commands: tuple[Command, ...]

    @property
    def trials(self) -> int:
        """The number of trials that the lane demands."""
        return sum(one.trials for one in self.commands)

    @property
    def seconds_max(self) -> int:
        """The time after which all the lane's commands together have hung."""
        return sum(one.seconds_max for one in self.commands)


class Control(_Table, frozen=True):
    """A negative control: what it breaks on purpose, and the file in which `name` catches it."""

    breaks: str
    file: str
    name: str


class Family(_Table, frozen=True):
    """A promise and how it is tried.

    `side_by_side` families judge no times, so two of them may run at once. The trials of
    `exhaustive` families are a table of cases, not a sample, so they have no bound of 3/N.
    """

    id: str
    name: str
    promise: str
    demanded: str
    not_covered: str = ""
    controls: tuple[Control, ...] = ()
    side_by_side: bool = False
    exhaustive: bool = False
    short: Lane | None = None
    nightly: Lane | None = None

    def lane(self, name: LaneName) -> Lane | None:
        """Return what the family runs in a lane, None if the catalogue does not say."""
        return self.short if name == "short" else self.nightly

    @property
    def missing(self) -> list[str]:
        """The parts that the family must have but has not."""
        lanes = [f"commands of the {name} lane" for name in LANES if self.lane(name) is None]
        return lanes + ([] if self.controls else ["negative control"])


class _File(_Table, frozen=True):
    families: tuple[Family, ...]


def load(path: Path = FAMILIES) -> tuple[Family, ...]:
    """Return the families in the order in which they run. Raises CatalogueError."""
    try:
        families = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _File).families
    except (msgspec.ValidationError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path.name}: {error}") from error
    ids = [one.id for one in families]
    for one in families:
        if ids.count(one.id) > 1:
            raise CatalogueError(f"{path.name}: {one.id} occurs more than once")
        _check(path, one)
    return families


def _check(path: Path, family: Family) -> None:
    for control in family.controls:
        file = ROOT / control.file
        if not file.is_file() or control.name not in file.read_text("utf-8"):
            raise CatalogueError(
                f"{path.name}: {family.id}: the control {control.name!r} is not in {control.file}"
            )
    for lane in (family.short, family.nightly):
        if lane is None:
            continue
        if not lane.commands:
            raise CatalogueError(f"{path.name}: {family.id}: a lane has no commands")
        for command in lane.commands:
            if command.trials < 1 or command.seconds_max < 1 or not command.run.split():
                raise CatalogueError(
                    f"{path.name}: {family.id}: {command.run!r} needs a command, trials and seconds"
                )


def choose(families: Sequence[Family], ids: Sequence[str]) -> list[Family]:
    """Return the families with these ids, all without an id. Raises CatalogueError."""
    known = {one.id: one for one in families}
    for wanted in ids:
        if wanted not in known:
            raise CatalogueError(f"unknown family {wanted!r}; known: {', '.join(known)}")
    return [one for one in families if not ids or one.id in ids]


def incomplete(families: Sequence[Family]) -> list[str]:
    """Return a sentence for each family that lacks something."""
    return [f"{one.id} has no {' and no '.join(one.missing)}" for one in families if one.missing]
