"""What there is to run: suites, contestants and hosts, each discovered from its folder.

Owns the shape of `suites/*.toml`, `contestants/*/contestant.toml` and `hosts/*/host.toml`. Must not
start anything.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

LAB = Path(__file__).resolve().parent.parent
REPOSITORY = LAB.parent


class CatalogueError(Exception):
    """A definition is missing or malformed; the message says where and what."""


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a TOML file, in which every field is known."""


class Host(Definition, frozen=True):
    """A runtime's loop. `{python}` in the command is this interpreter, `{parent}` the runner."""

    command: list[str]


class Install(Definition, frozen=True):
    """How a contestant gets here, and the name under which its version is found."""

    pip: list[str]
    distribution: str


class Contestant(Definition, frozen=True):
    """One system. `folder` is where it was found; its name is the folder's name.

    `excused` names what is known of the system and explained in its README: it is counted and
    shown as ever, but does not make the run a failure. A wrong value is never excused.
    """

    title: str
    what: str
    host: str
    lives: Literal["process", "fork", "machine"]
    counts: list[Literal["entries", "bytes"]]
    cannot: list[str]
    suites: list[str]
    install: Install
    stores: bool = True
    excused: list[Literal["stale", "lost"]] = []
    settings: dict[str, str] = {}
    folder: str = ""

    @property
    def name(self) -> str:
        """The folder's name."""
        return Path(self.folder).name

    @property
    def adapter(self) -> Path:
        """The file that the host loads."""
        return Path(self.folder, "adapter.py")


class Shares(Definition, frozen=True):
    """The probability of each action."""

    get: float
    set: float
    delete: float

    def __post_init__(self) -> None:
        if abs(self.get + self.set + self.delete - 1) > 1e-9:
            raise ValueError("the shares of get, set and delete must add up to 1")


class Lengths(Definition, frozen=True):
    """A value's length: the digits of a random number below `numbers`, times a random repeat."""

    numbers: int
    repeats_min: int
    repeats_max: int


class StoreLimits(Definition, frozen=True):
    """What a store may hold."""

    entries: int
    bytes: int


class Workload(Definition, frozen=True):
    """What the workers of a concurrent suite do."""

    processes: int
    keys: int
    key_format: str
    shares: Shares
    lengths: Lengths
    limits: StoreLimits


class Form(Definition, frozen=True):
    """How long a concurrent suite runs. Operations are for each worker and pass."""

    operations: int
    warmup: int
    rounds: int
    cell_seconds_max: float

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < self.operations or self.rounds < 1:
            raise ValueError("a form needs more operations than warm-up, and at least one round")


class ConcurrentSuite(Definition, tag_field="kind", tag="concurrent", frozen=True):
    """Several processes on one store."""

    name: str
    title: str
    origin: str
    workload: Workload
    quick: Form
    full: Form


class Zipf(Definition, frozen=True):
    """The stream that stands in for an absent trace."""

    requests: int
    keys: int
    exponent: float
    seed: int


class ReplayPlan(Definition, frozen=True):
    """How a trace is replayed. Capacities are fractions of the bytes of all distinct values."""

    value_bytes: int
    capacities: list[float]
    references: list[str]
    cell_seconds_max: float


class ReplaySuite(Definition, tag_field="kind", tag="replay", frozen=True):
    """One process replays a trace at several capacities."""

    name: str
    title: str
    origin: str
    trace: str
    zipf: Zipf
    replay: ReplayPlan


T = TypeVar("T")


def suite(name: str, kind: type[T]) -> T:
    """Return the suite `name`. Raises CatalogueError."""
    return _read(_suite_path(name), kind)


def host(name: str) -> Host:
    """Return the host of a runtime. Raises CatalogueError."""
    return _read(LAB / "hosts" / name / "host.toml", Host)


def contestants(folder: Path = LAB / "contestants") -> dict[str, Contestant]:
    """Return every contestant that has a folder in `folder`, by name. Raises CatalogueError."""
    found = {}
    for path in sorted(folder.glob("*/contestant.toml")):
        contestant = _read(path, Contestant)
        for name in contestant.suites:
            if not _suite_path(name).exists():
                raise CatalogueError(f"{path}: there is no suite {name!r}")
        found[path.parent.name] = msgspec.structs.replace(contestant, folder=str(path.parent))
    return found


def _suite_path(name: str) -> Path:
    return LAB / "suites" / f"{name}.toml"


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), kind)
    except FileNotFoundError:
        raise CatalogueError(f"{path} does not exist") from None
    except (msgspec.ValidationError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path}: {error}") from error
