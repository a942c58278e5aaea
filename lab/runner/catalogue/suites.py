"""Suites: the comparisons and their numbers. Owns the shape of `suites/*.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import msgspec

from lab.protocol import ValueKind
from lab.runner.catalogue.definition import LAB, CatalogueError, Definition, read, unknown

FormName = Literal["smoke", "quick", "middle", "full"]
FORM_NAMES: tuple[FormName, ...] = get_args(FormName)

# Where client and server run. "one core": the client alone, pinned. "same core" and "split cores":
# client and server pinned to one and to two. "free": the scheduler decides.
Placement = Literal["one core", "same core", "split cores", "free"]

TimedMeasure = Literal["throughput", "latency"]

# Which keys a phase asks for: any, each as often; every key once and then any; the keys in their
# order; few keys most of the time; the keys stored last most of the time.
Order = Literal["random", "sweep", "once", "zipf", "latest"]


class StoreLimits(Definition, frozen=True):
    """What a store may hold; 0 is no limit."""

    entries: int = 0
    bytes: int = 0


class UniformSizes(Definition, tag_field="shape", tag="uniform", frozen=True):
    """Any size from 1 to 2 x `mean` - 1, each as likely."""

    mean: int

    @property
    def largest(self) -> int:
        """The largest size."""
        return 2 * self.mean - 1


class FixedSizes(Definition, tag_field="shape", tag="fixed", frozen=True):
    """One size: bytes, or fields of a complex value."""

    size: int

    @property
    def largest(self) -> int:
        """The only size."""
        return self.size


class DigitSizes(Definition, tag_field="shape", tag="digits", frozen=True):
    """The digits of a random number below `numbers`, times a random repeat."""

    numbers: int
    repeats_min: int
    repeats_max: int

    @property
    def largest(self) -> int:
        """The largest size."""
        return len(str(self.numbers - 1)) * self.repeats_max


Sizes = UniformSizes | FixedSizes | DigitSizes


class Variant(Definition, frozen=True):
    """One size or number of entries under which all contestants are compared."""

    name: str
    value: ValueKind
    sizes: Sizes
    keys: int | None = None
    limits: StoreLimits | None = None


class Shares(Definition, frozen=True):
    """The probability of each action.

    `insert` sets a key that was never set before; `modify` gets a key and sets it at once.
    """

    get: float = 0.0
    set: float = 0.0
    delete: float = 0.0
    insert: float = 0.0
    modify: float = 0.0

    def __post_init__(self) -> None:
        named = {name: getattr(self, name) for name in self.__struct_fields__}
        if min(named.values()) < 0 or abs(sum(named.values()) - 1) > 1e-9:
            raise ValueError(f"the shares of {', '.join(named)} must add up to 1, none below 0")


class Phase(Definition, frozen=True):
    """What every worker does before the next phase begins. Without passes it is a preload.

    `exponent` is that of the orders `zipf` and `latest`. `batch` gets are asked for at once; a
    phase with a batch above 1 has gets alone.
    """

    name: str
    shares: Shares
    operations: int = 0
    operations_per_key: int = 0
    absent: float = 0.0
    order: Order = "random"
    exponent: float = 0.99
    passes: list[TimedMeasure] = []
    warmup: int = 0
    block: int = 256
    batch: int = 1
    steps: list[int] = []

    def __post_init__(self) -> None:
        if (self.operations > 0) == (self.operations_per_key > 0):
            raise ValueError(f"phase {self.name!r} needs either operations or operations_per_key")
        if not 0 <= self.absent <= 1 or self.warmup < 0 or self.block < 1 or self.exponent <= 0:
            raise ValueError(f"phase {self.name!r} has a number out of its range")
        if self.steps and "latency" not in self.passes:
            raise ValueError(f"phase {self.name!r} has steps and no latency pass")
        if self.batch < 1 or (self.batch > 1 and (self.shares.get != 1 or self.steps)):
            raise ValueError(f"phase {self.name!r} has batches: it needs gets alone, and no steps")

    @property
    def preload(self) -> bool:
        """Whether it only fills the store."""
        return not self.passes


class Part(Definition, frozen=True):
    """One table of a suite: variants, each of which goes through the same phases.

    With `only`, other contestants do not take part, whatever their own files say. With `empties`,
    a contestant that can empty its store does so after the last phase.
    """

    name: str
    title: str
    processes: int
    keys: int
    key_shape: Literal["decimal", "uuid"]
    limits: StoreLimits
    variants: list[Variant]
    phases: list[Phase]
    stock: bool = False
    ttl_seconds: float = 0.0
    only: list[str] = []
    empties: bool = False

    def __post_init__(self) -> None:
        for kind, names in (
            ("variant", [one.name for one in self.variants]),
            ("phase", [one.name for one in self.phases]),
        ):
            if not names or len(set(names)) < len(names):
                raise ValueError(f"part {self.name!r} needs {kind}s, each with a name of its own")
        if self.processes < 1 or self.keys < 1:
            raise ValueError(f"part {self.name!r} needs at least one process and one key")
        if self.batch_max > min(self.keys_of(variant) for variant in self.variants):
            raise ValueError(f"part {self.name!r} asks for more keys at once than there are")

    @property
    def batch_max(self) -> int:
        """How many keys are asked for at once at most."""
        return max(phase.batch for phase in self.phases)

    def keys_of(self, variant: Variant) -> int:
        """Return how many keys there are to be stored."""
        return self.keys if variant.keys is None else variant.keys

    def limits_of(self, variant: Variant) -> StoreLimits:
        """Return what a store may hold."""
        return self.limits if variant.limits is None else variant.limits


class Form(Definition, frozen=True):
    """How long a suite runs: a share of its operations, how often, and the limits of time.

    `variants` are those that run; a part that has none of them runs all of its own, and so does
    every part where the list is empty.

    `placements` are those of servers that are measured; an empty list means all.
    """

    operations: float
    rounds: int
    phase_seconds_max: float
    cell_seconds_max: float
    operations_min: int = 300
    variants: list[str] = []
    placements: list[Placement] = []

    def __post_init__(self) -> None:
        if not 0 < self.operations <= 1 or self.rounds < 1 or self.operations_min < 1:
            raise ValueError("a form needs a share of the operations and at least one round")


class Forms(Definition, frozen=True):
    """The forms that a suite has."""

    smoke: Form | None = None
    quick: Form | None = None
    middle: Form | None = None
    full: Form | None = None


class Original(Definition, frozen=True):
    """A table of the original, as published."""

    title: str
    columns: list[str]
    rows: list[list[str]]


class AnswerPlan(Definition, frozen=True):
    """The phase of the first part whose rates answer which cache to use.

    Its variants are the sizes of values to choose from; `default` is chosen at first.
    """

    phase: str
    default: str


class PhasesSuite(Definition, tag_field="kind", tag="phases", frozen=True):
    """A comparison in phases; suites/README.md explains every field."""

    name: str
    title: str
    question: str
    origin: str
    audit: str
    layout: str
    parts: list[Part]
    forms: Forms
    labels: dict[str, str] = {}
    original: list[Original] = []
    answer: AnswerPlan | None = None

    def __post_init__(self) -> None:
        known = {variant.name for part in self.parts for variant in part.variants}
        forms = [form for name in FORM_NAMES if (form := getattr(self.forms, name)) is not None]
        strange = [name for form in forms for name in form.variants if name not in known]
        if strange:
            raise ValueError(f"no part has the variant {strange[0]!r} that a form names")
        if self.answer is None:
            return
        part = self.parts[0]
        if self.answer.phase not in [one.name for one in part.phases if not one.preload]:
            raise ValueError(f"the answer's phase {self.answer.phase!r} is not measured")
        if self.answer.default not in [one.name for one in part.variants]:
            raise ValueError(f"the answer's default {self.answer.default!r} is no variant")

    def form(self, name: FormName) -> Form:
        """Return the form `name`. Raises CatalogueError when the suite has none."""
        form: Form | None = getattr(self.forms, name)
        if form is None:
            has = ", ".join(one for one in FORM_NAMES if getattr(self.forms, one))
            raise CatalogueError(f"suite {self.name!r} has no form {name!r}, only {has}")
        return form


class Trace(Definition, frozen=True):
    """Recorded requests: where they lie, what and whose they are, how many, for how many keys.

    `bytes_distinct` are those of all distinct values, where the values have the trace's own sizes.
    `format` is one of `trace_formats`, empty where the file's name or first line says which.
    """

    file: str
    what: str
    origin: str
    licence: str
    sha256: str
    requests: int
    distinct: int
    bytes_distinct: int = 0
    format: str = ""

    @property
    def hit_ratio_max(self) -> float:
        """The hit ratio of a cache that evicts nothing."""
        return 1 - self.distinct / self.requests


class ReplayPlan(Definition, frozen=True):
    """How a trace is replayed. Capacities are fractions of the bytes of all distinct values.

    `value_bytes` is the size of every value, 0 for the trace's own sizes. Without `references` a
    capacity is what every contestant may occupy. `quick` are the capacities of the quick form, all
    where the list is empty.
    """

    value_bytes: int
    capacities: list[float]
    references: list[str]
    cell_seconds_max: float
    quick: list[float] = []

    def capacities_of(self, form: FormName) -> list[float]:
        """Return the capacities that are tried in a form."""
        return self.quick if form == "quick" and self.quick else self.capacities


class ReplaySuite(Definition, tag_field="kind", tag="replay", frozen=True):
    """One process replays a trace at several capacities."""

    name: str
    title: str
    question: str
    trace: Trace
    replay: ReplayPlan


Suite = PhasesSuite | ReplaySuite


_NO_YEAR = 9999


class _Kind(msgspec.Struct):
    """What tells the kinds apart, so that each is read by its own type."""

    kind: Literal["phases", "replay"]


def suites(folder: Path = LAB / "suites") -> dict[str, Suite]:
    """Return every suite by its name, that of its file: in the order of the years in the names.

    Raises CatalogueError.
    """
    found: dict[str, Suite] = {}
    for path in sorted(folder.glob("*.toml"), key=_year_and_name):
        one: Suite = (
            read(path, PhasesSuite)
            if read(path, _Kind).kind == "phases"
            else read(path, ReplaySuite)
        )
        if one.name != path.stem:
            raise CatalogueError(f"{path}: a suite has the name of its file, not {one.name!r}")
        found[one.name] = one
    return found


def _year_and_name(path: Path) -> tuple[int, str]:
    _, _, year = path.stem.rpartition("-")
    return (int(year) if year.isdigit() else _NO_YEAR, path.stem)


def suite(name: str, folder: Path = LAB / "suites") -> Suite:
    """Return the suite `name`. Raises CatalogueError."""
    known = suites(folder)
    if name not in known:
        raise unknown("suite", name, known)
    return known[name]
