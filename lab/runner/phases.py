"""Runs a suite in phases: every cell of every part, in the order of the plan.

Owns what is skipped: recorded cells, and contestants that failed in the same part. Must not print;
it tells a Watcher what is running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from lab.runner import streams
from lab.runner.calibration import exceeds
from lab.runner.catalogue import Contestant, Part, PhasesSuite, Variant
from lab.runner.cell import Job, measure
from lab.runner.inputs import Inputs, inputs
from lab.runner.plan import CellName, Choice, cells_of_variant
from lab.runner.results import Held, Outcome, PhasesCell
from lab.runner.session import Session, Watcher
from lab.runner.together import together
from lab.runner.weighing import weigh


async def run(
    session: Session,
    suite: PhasesSuite,
    choice: Choice,
    recorded: Mapping[CellName, PhasesCell],
    watcher: Watcher,
) -> list[PhasesCell]:
    """Run the cells that are not recorded; return all cells in the order of the plan.

    A contestant that failed or is missing is not run again in its part. One that could not be
    filled in time is not run again with as many entries or more.
    """
    found: list[PhasesCell] = []
    for part in choice.parts_of(suite):
        one = _Part(session, suite, part, choice, recorded, watcher)
        for variant in choice.variants_of(suite, part):
            found += await one.run(variant)
    return found


@dataclass
class _Part:
    session: Session
    suite: PhasesSuite
    part: Part
    choice: Choice
    recorded: Mapping[CellName, PhasesCell]
    watcher: Watcher
    gone: set[str] = field(default_factory=set)
    filled_below: dict[str, int] = field(default_factory=dict)
    probed: set[str] = field(default_factory=set)
    held: dict[tuple[str, str], Held | None] = field(default_factory=dict)

    async def run(self, variant: Variant) -> list[PhasesCell]:
        planned = list(
            cells_of_variant(self.suite, self.part, variant, self.choice, self.session.cores)
        )
        found = {name: self.recorded[name] for name, _ in planned if name in self.recorded}
        for cell in found.values():
            self._learn(cell.contestant, variant, cell.outcome)
            self.held[cell.contestant, variant.name] = cell.held
        left = [(name, row) for name, row in planned if name not in found]
        if not any(self._may_run(row, variant) for _, row in left):
            for name, _ in left:
                self.watcher.ended(name.contestant, name.where, 0.0, "")
            return list(found.values())
        turns = asyncio.Semaphore(self.session.at_once)
        form = self.choice.form_of(self.suite)
        with inputs(self.session, self.suite, self.part, variant, form) as given:

            async def take_turn(name: CellName, row: Contestant) -> None:
                # A semaphore is fair: cells start in the order of the plan.
                async with turns:
                    cell = await self._cell(name, row, variant, given)
                    if cell is not None:
                        found[name] = cell

            await together(take_turn(name, row) for name, row in left)
        return [found[name] for name, _ in planned if name in found]

    async def _cell(
        self, name: CellName, row: Contestant, variant: Variant, given: Inputs
    ) -> PhasesCell | None:
        """Run one cell, unless an earlier cell shows that it cannot run."""
        if not self._may_run(row, variant):
            self.watcher.ended(name.contestant, name.where, 0.0, "")
            return None
        form = self.choice.form_of(self.suite)
        probe = row.name not in self.probed
        self.probed.add(row.name)
        self.watcher.starts(name.contestant, name.where)
        job = Job(row, self.part, variant, form, given, probe)
        cell = await self._measured(name, job)
        if name.round == 1 and self._is_in_vain(cell):
            cell = await self._measured(name, job)
        self._learn(row.name, variant, cell.outcome)
        self.session.record(cell)
        self.watcher.ended(name.contestant, name.where, cell.seconds, cell.reason)
        return cell

    async def _measured(self, name: CellName, job: Job) -> PhasesCell:
        cell = PhasesCell(
            *name,
            outcome="measured",
            held=await self._held(job),
            source=streams.source(self.session.seed, name.suite),
            repeat=[*self.session.repeat, *self._repeat(name)],
        )
        await measure(self.session, job, cell)
        return cell

    def _is_in_vain(self, cell: PhasesCell) -> bool:
        """Return whether a store exceeded the bytes under its found limit; then drop that limit."""
        held = cell.held
        if held is None or held.told >= held.bytes_max or not exceeds(held.bytes, held.bytes_max):
            return False
        reason = f"with a limit of {held.told:,} bytes it used {held.bytes:,} after its phases"
        again = msgspec.structs.replace(held, told=held.bytes_max, reason=reason)
        self.held[cell.contestant, cell.variant] = again
        return True

    async def _held(self, job: Job) -> Held | None:
        """Weigh the store of a row before its first round; never in the smoke form."""
        if self.choice.form == "smoke":
            return None
        key = job.contestant.name, job.variant.name
        if key not in self.held:
            self.held[key] = await weigh(
                self.session, job.contestant, self.part, job.variant, job.form, job.inputs
            )
        held = self.held[key]
        # A copy: each cell adds its own measurements.
        return msgspec.structs.replace(held) if held is not None else None

    def _may_run(self, row: Contestant, variant: Variant) -> bool:
        keys = self.part.keys_of(variant)
        return row.name not in self.gone and keys < self.filled_below.get(row.name, keys + 1)

    def _learn(self, contestant: str, variant: Variant, outcome: Outcome) -> None:
        self.probed.add(contestant)
        if outcome == "stopped":
            keys = self.part.keys_of(variant)
            self.filled_below[contestant] = min(self.filled_below.get(contestant, keys), keys)
        elif outcome != "measured":
            self.gone.add(contestant)

    def _repeat(self, name: CellName) -> Iterable[str]:
        yield f"{name.suite}/{name.part}"
        yield f"--{self.choice.form}"
        for option, value in (
            ("--variant", name.variant),
            ("--contestant", name.contestant),
            ("--placement", name.placement),
            ("--seed", str(self.session.seed)),
        ):
            yield from (option, value)
