"""The cells of a suite and their order.

Owns the order: one variant after the other; within a variant the rounds are interleaved, A B C
A B C; the placements of a server follow each other. Must not run anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from lab.runner.catalogue import (
    Contestant,
    Form,
    FormName,
    Part,
    PhasesSuite,
    Placement,
    ReplaySuite,
    Suite,
    Variant,
)
from lab.runner.catalogue.definition import unknown
from lab.runner.placement import placements
from lab.runner.results import AnyCell, PhasesCell, capacity_text
from rig.cores import Cores


class CellName(NamedTuple):
    """Identifies a cell in a run. The variant of a replay is its capacity."""

    suite: str
    part: str
    variant: str
    contestant: str
    placement: Placement
    round: int

    @property
    def where(self) -> str:
        """The name of the cell without its contestant, for people."""
        part = f"/{self.part}" if self.part else ""
        placed = "" if self.placement in ("free", "one core") else f", {self.placement}"
        return f"{self.suite}{part}, {self.variant}, round {self.round}{placed}"


def name_of(cell: AnyCell) -> CellName:
    """Return the name of a recorded cell."""
    if isinstance(cell, PhasesCell):
        return CellName(
            cell.suite, cell.part, cell.variant, cell.contestant, cell.placement, cell.round
        )
    return replay_name(cell.suite, cell.contestant, cell.capacity)


def replay_name(suite: str, contestant: str, capacity: float) -> CellName:
    """Return the name of a cell of a replay."""
    return CellName(suite, "", f"capacity {capacity_text(capacity)}", contestant, "free", 1)


@dataclass(frozen=True)
class Choice:
    """What to run from the catalogue. An empty tuple chooses all. `parts` are `suite/part`."""

    form: FormName
    contestants: Sequence[Contestant]
    parts: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    placements: tuple[Placement, ...] = ()
    rounds: int = 0

    def rows(self, suite: Suite, part: Part | None = None) -> list[Contestant]:
        """Return the contestants that take part."""
        if isinstance(suite, ReplaySuite):
            return [one for one in self.contestants if suite.name in one.suites]
        parts = [part] if part is not None else suite.parts
        return [
            one
            for one in self.contestants
            if any(one.takes_part(suite.name, part) for part in parts)
        ]

    def form_of(self, suite: PhasesSuite) -> Form:
        """Return the chosen form of the suite. Raises CatalogueError if it has no such form."""
        form = suite.form(self.form)
        return msgspec.structs.replace(form, rounds=self.rounds) if self.rounds else form

    def parts_of(self, suite: PhasesSuite) -> list[Part]:
        """Return the parts of a suite that run."""
        return [
            part
            for part in suite.parts
            if not self.parts
            or suite.name in self.parts
            or f"{suite.name}/{part.name}" in self.parts
        ]

    def variants_of(self, suite: PhasesSuite, part: Part) -> list[Variant]:
        """Return the variants of a part that run: the chosen ones, else those of the form."""
        if self.variants:
            return [one for one in part.variants if one.name in self.variants]
        of_form = self.form_of(suite).variants
        return [one for one in part.variants if one.name in of_form] or part.variants

    def placements_of(
        self, suite: PhasesSuite, contestant: Contestant, part: Part, cores: Cores
    ) -> list[Placement]:
        """Return the placements of a contestant's cells. The smoke form times nothing."""
        if self.form == "smoke":
            return ["free"]
        possible = placements(contestant, part, cores)
        if self.placements:
            return [one for one in possible if one in self.placements]
        of_form = self.form_of(suite).placements
        return [one for one in possible if one in of_form] or possible


def cells(suite: Suite, choice: Choice, cores: Cores) -> list[CellName]:
    """Return the cells of a suite in the order in which they run."""
    if isinstance(suite, ReplaySuite):
        return [
            replay_name(suite.name, one.name, capacity)
            for capacity in suite.replay.capacities_of(choice.form)
            for one in choice.rows(suite)
        ]
    return [
        name
        for part in choice.parts_of(suite)
        for variant in choice.variants_of(suite, part)
        for name, _ in cells_of_variant(suite, part, variant, choice, cores)
    ]


def cells_of_variant(
    suite: PhasesSuite, part: Part, variant: Variant, choice: Choice, cores: Cores
) -> Iterator[tuple[CellName, Contestant]]:
    """Yield the cells of one variant in the order in which they run."""
    rows = [one for one in choice.rows(suite, part) if one.takes(variant)]
    for number in range(1, choice.form_of(suite).rounds + 1):
        for row in rows:
            for placement in choice.placements_of(suite, row, part, cores):
                name = CellName(suite.name, part.name, variant.name, row.name, placement, number)
                yield name, row


def check_names(
    known: Sequence[PhasesSuite], parts: Sequence[str], variants: Sequence[str]
) -> None:
    """Raise CatalogueError for a part or a variant that none of the suites has."""
    names = [f"{suite.name}/{part.name}" for suite in known for part in suite.parts]
    for name in parts:
        if "/" in name and name not in names:
            raise unknown("part", name, names)
    there = [one.name for suite in known for part in suite.parts for one in part.variants]
    for name in variants:
        if name not in there:
            raise unknown("variant", name, set(there))
