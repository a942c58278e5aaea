"""The user's own workloads: makes a suite of a TOML file.

Owns the shape of those files, and which contestants can run them. Must not run anything.
`workloads/README.md` explains every field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from lab.runner.catalogue import CatalogueError, Contestant, PhasesSuite, StoreLimits, Variant
from lab.runner.catalogue.definition import Definition, read
from lab.runner.catalogue.suites import (
    Form,
    Forms,
    Order,
    Part,
    Phase,
    Shares,
    Sizes,
    suites,
)

KEYS_MIN, KEYS_MAX = 1_000, 10_000_000
VALUE_BYTES_MAX = 3 << 20
OPERATIONS_MAX = 100_000_000
PROCESSES_MAX = 64
ROUNDS_MAX = 1_000
# The longest key is a UUID. The mix runs in two passes: throughput and latency.
KEY_BYTES, PASSES = 36, 2

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
# A store without a limit gets this multiple of all keys and values, plus a constant.
_ROOM_BYTES, _ROOM_TIMES = 64 << 20, 3


class Mix(Definition, frozen=True):
    """The share of each action. All shares add up to 1."""

    get: float = 0.0
    set: float = 0.0
    delete: float = 0.0
    insert: float = 0.0
    modify: float = 0.0
    scan: float = 0.0


class Keys(Definition, frozen=True):
    """The number of keys, their shape, and which are requested how often."""

    count: int
    shape: Literal["decimal", "uuid"] = "uuid"
    order: Literal["uniform", "zipf", "latest"] = "uniform"
    exponent: float = 0.99


class Workload(Definition, frozen=True):
    """One workload. `ttl` is the time to live of entries in seconds, 0 for none.

    `memory` is the limit of a store in bytes. 0 means that everything fits.
    """

    name: str
    title: str
    keys: Keys
    value: Sizes
    mix: Mix
    operations: int
    processes: int = 1
    ttl: float = 0.0
    memory: int = 0
    rounds: int = 6
    seconds_max: float = 10.0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name {self.name!r}: use lower-case letters, digits and dashes")
        for name, value, low, high in (
            ("keys.count", self.keys.count, KEYS_MIN, KEYS_MAX),
            ("the largest value", self.value.largest, 1, VALUE_BYTES_MAX),
            ("operations", self.operations, 1, OPERATIONS_MAX),
            ("processes", self.processes, 1, PROCESSES_MAX),
            ("rounds", self.rounds, 1, ROUNDS_MAX),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name} is {value:,}: it must be {low:,} to {high:,}")
        if self.ttl < 0 or self.memory < 0 or self.seconds_max <= 0:
            raise ValueError("ttl and memory must be at least 0, and seconds_max above 0")

    @property
    def limits(self) -> StoreLimits:
        """The limits of a store."""
        payload = self.keys.count * (self.value.largest + KEY_BYTES)
        return StoreLimits(bytes=self.memory or _ROOM_TIMES * payload + _ROOM_BYTES)


def load(path: Path) -> Workload:
    """Return the workload in a file. Raises CatalogueError, which names the file and the field."""
    return read(path, Workload)


def suite_of(one: Workload) -> PhasesSuite:
    """Return the suite of a workload.

    Raises CatalogueError for a mix that no cache can run, and for the name of another suite.
    """
    if one.mix.scan:
        raise CatalogueError(
            f"workload {one.name!r} scans, but no cache can list its keys in order: set mix.scan "
            f"to 0"
        )
    if one.name in suites():
        raise CatalogueError(f"workload {one.name!r} has the name of a suite: choose another name")
    order: Order = "random" if one.keys.order == "uniform" else one.keys.order
    shares = msgspec.to_builtins(one.mix)
    del shares["scan"]
    try:
        fill = Phase("fill", Shares(set=1.0), operations_per_key=1, order="sweep")
        mix = Phase(
            "mix",
            msgspec.convert(shares, Shares),
            operations=one.operations,
            order=order,
            exponent=one.keys.exponent,
            passes=["throughput", "latency"],
        )
    except (ValueError, msgspec.ValidationError) as error:
        raise CatalogueError(f"workload {one.name!r}: {error}") from error
    variant = Variant("as written", "binary", one.value)
    part = Part(
        name="main",
        title=one.title,
        processes=one.processes,
        keys=one.keys.count,
        key_shape=one.keys.shape,
        limits=one.limits,
        ttl_seconds=one.ttl,
        variants=[variant],
        phases=[fill, mix],
    )
    # Filling a store with many keys takes long.
    cell_seconds_max = 60 + 4 * one.seconds_max + one.keys.count / 2_000
    form = Form(1.0, one.rounds, one.seconds_max, cell_seconds_max)
    quick = msgspec.structs.replace(form, rounds=1, operations=min(1.0, 20_000 / one.operations))
    return PhasesSuite(
        name=one.name,
        title=one.title,
        question="How does each contestant perform on this workload?",
        origin="a workload of your own",
        audit="",
        layout="plain",
        parts=[part],
        forms=Forms(quick=quick, middle=form, full=form),
    )


def taking_part(
    suite: str,
    refusal: Callable[[Contestant], str],
    contestants: Sequence[Contestant],
    everyone: str,
) -> tuple[list[Contestant], dict[str, list[str]]]:
    """Return all contestants; those that can run `suite` have it among their suites.

    Considers the rows of the suite `everyone`, and nulls. `refusal` returns why a contestant cannot
    take part, or an empty text. The second result has these reasons, each with its rows.
    """
    found: list[Contestant] = []
    refused: dict[str, list[str]] = {}
    for row in contestants:
        reason = refusal(row)
        if row.stores and everyone not in row.suites:
            found.append(row)
        elif reason:
            refused.setdefault(reason, []).append(row.name)
            found.append(row)
        else:
            found.append(msgspec.structs.replace(row, suites=[*row.suites, suite]))
    return found, refused


def refusal(one: Workload, contestant: Contestant) -> str:
    """Return why a contestant cannot run a workload; empty if it can."""
    if one.ttl and not contestant.expires:
        return "its adapter cannot give entries a time to live"
    if contestant.sizing != "limited":
        return "this form has no limit"
    if "binary" not in contestant.values:
        return "it does not take byte strings"
    return ""
