"""Suites: the comparisons and their numbers. Owns the fields of `suites/*.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import msgspec

from lab.protocol import ValueKind
from lab.runner.catalogue.definition import LAB, CatalogueError, Definition, read, unknown

FormName = Literal["smoke", "quick", "middle", "full"]
FORM_NAMES: tuple[FormName, ...] = get_args(FormName)

# Where client and server run. "one core": a client without a server, pinned. "same core" and
# "split cores": client and server pinned to one core, or to two. "free": the scheduler decides.
Placement = Literal["one core", "same core", "split cores", "free"]

TimedMeasure = Literal["throughput", "latency"]

# The keys of a phase: random, all equally likely; every key once, then random; in order; skewed by
# Zipf; skewed by Zipf towards the keys stored last.
Order = Literal["random", "sweep", "once", "zipf", "latest"]


class StoreLimits(Definition, frozen=True):
    """The limits of a store; 0 means no limit."""

    entries: int = 0
    bytes: int = 0


class UniformSizes(Definition, tag_field="shape", tag="uniform", frozen=True):
    """Any size from 1 to 2 x `mean` - 1, all equally likely."""

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

    `insert` sets a new key; `modify` gets a key and then sets it.
    """

    get: float = 0.0
    set: float = 0.0
    delete: float = 0.0
    insert: float = 0.0
    modify: float = 0.0

    def __post_init__(self) -> None:
        named = {name: getattr(self, name) for name in self.__struct_fields__}
        if min(named.values()) < 0 or abs(sum(named.values()) - 1) > 1e-9:
            raise ValueError(f"the shares of {', '.join(named)} must add up to 1, none negative")


class Phase(Definition, frozen=True):
    """A phase, which all workers end before the next one begins. Without passes it is a preload.

    `exponent` belongs to the orders `zipf` and `latest`. `batch` is the number of gets per request;
    a phase with a batch above 1 has only gets.
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
            raise ValueError(f"phase {self.name!r} has a number that is out of range")
        if self.steps and "latency" not in self.passes:
            raise ValueError(f"phase {self.name!r} has steps but no latency pass")
        if self.batch < 1 or (self.batch > 1 and (self.shares.get != 1 or self.steps)):
            raise ValueError(f"phase {self.name!r} has batches: only gets and no steps are allowed")

    @property
    def preload(self) -> bool:
        """Whether it only fills the store."""
        return not self.passes


class Part(Definition, frozen=True):
    """One table of a suite: variants that all go through the same phases.

    With `only`, no other contestants take part, whatever their own files say. With `empties`,
    contestants that can do so empty their store after the last phase.
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
                raise ValueError(f"part {self.name!r} needs {kind}s with different names")
        if self.processes < 1 or self.keys < 1:
            raise ValueError(f"part {self.name!r} needs at least one process and one key")
        if self.batch_max > min(self.keys_of(variant) for variant in self.variants):
            raise ValueError(f"part {self.name!r} has a batch larger than its number of keys")

    @property
    def batch_max(self) -> int:
        """The largest number of keys in one request."""
        return max(phase.batch for phase in self.phases)

    def keys_of(self, variant: Variant) -> int:
        """Return the number of keys to store."""
        return self.keys if variant.keys is None else variant.keys

    def limits_of(self, variant: Variant) -> StoreLimits:
        """Return the limits of a store."""
        return self.limits if variant.limits is None else variant.limits


class Form(Definition, frozen=True):
    """How long a suite runs: a share of its operations, the rounds, and the time limits.

    `variants` are the variants to run. A part that has none of them runs all its own variants.
    An empty list means all, also in `placements`, the placements of servers to measure.
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
    """The phase of the first part whose rates decide which cache to use.

    The part's variants are the value sizes to choose from; `default` is the initial choice.
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
            raise ValueError(f"a form names the variant {strange[0]!r}, which no part has")
        if self.answer is None:
            return
        part = self.parts[0]
        if self.answer.phase not in [one.name for one in part.phases if not one.preload]:
            raise ValueError(f"the answer's phase {self.answer.phase!r} is not measured")
        if self.answer.default not in [one.name for one in part.variants]:
            raise ValueError(f"the answer's default {self.answer.default!r} is not a variant")

    def form(self, name: FormName) -> Form:
        """Return the form `name`. Raises CatalogueError if the suite does not have it."""
        form: Form | None = getattr(self.forms, name)
        if form is None:
            has = ", ".join(one for one in FORM_NAMES if getattr(self.forms, one))
            raise CatalogueError(f"suite {self.name!r} has no form {name!r}, only {has}")
        return form


class Trace(Definition, frozen=True):
    """Recorded requests: their file, content, origin, licence, and numbers of requests and keys.

    `bytes_distinct` is the size of all distinct values, if the values have the trace's own sizes.
    `format` is one of `trace_formats`; if empty, the file's name or first line decides.
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
    """How a trace is replayed. Capacities are shares of the bytes of all distinct values.

    `value_bytes` is the size of every value, 0 for the trace's own sizes. Without `references`,
    every contestant may use the capacity itself. `quick` are the capacities of the quick form;
    empty means all.
    """

    value_bytes: int
    capacities: list[float]
    references: list[str]
    cell_seconds_max: float
    quick: list[float] = []

    def capacities_of(self, form: FormName) -> list[float]:
        """Return the capacities of a form."""
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
    """The kind of a suite, which decides the type to read it with."""

    kind: Literal["phases", "replay"]


def suites(folder: Path = LAB / "suites") -> dict[str, Suite]:
    """Return every suite by the name of its file, ordered by the years in the names.

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
            raise CatalogueError(f"{path}: name is {one.name!r}, but must be the file's name")
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
