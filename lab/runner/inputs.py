"""What all contestants of a variant are given: files of keys and of operation streams.

Owns those files, the bases of sequences, and how many operations a block has. Must not know who
reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import stream
from lab.protocol import Measure, PhaseOf, StreamOf
from lab.runner import streams
from lab.runner.catalogue import Contestant, Form, Part, Phase, PhasesSuite, Variant
from lab.runner.session import Session

# The answers of a block are kept until the clock has stopped.
ANSWER_BYTES_MAX = 64 << 20
# A field of a complex value: eight digits and twenty, and what a runtime needs to keep them.
FIELD_BYTES = 256


@dataclass(frozen=True)
class PlannedPass:
    """One pass of a phase. `index` is its place in `phases` of a load request.

    `operations` of each worker have `warmup` among them. `verbs` has the verbs of each stream, a
    byte for each operation.
    """

    phase: Phase
    measure: Measure
    index: int
    operations: int
    warmup: int
    verbs: list[bytes]


@dataclass(frozen=True)
class Inputs:
    """The files of one variant of a part, and the passes over them."""

    keys: Path
    phases: list[PhaseOf]
    passes: list[PlannedPass]


@contextmanager
def inputs(
    session: Session, suite: PhasesSuite, part: Part, variant: Variant, form: Form
) -> Iterator[Inputs]:
    """Write the keys and streams of a variant. At the end they are gone."""
    folder = session.desk.fresh("inputs")
    try:
        keys = folder / "keys.txt"
        numbers = range(part.keys_of(variant) + streams.keys_absent(part, variant))
        texts = (streams.key_text(part.key_shape, session.seed, number) for number in numbers)
        keys.write_text("".join(f"{text}\n" for text in texts), "ascii")
        phases: list[PhaseOf] = []
        passes: list[PlannedPass] = []
        base = 1
        for phase in part.phases:
            operations = streams.operations(phase, part, variant, form)
            measures: list[Measure] = ["untimed"] if phase.preload else [*phase.passes]
            for measure in measures:
                of_workers = []
                verbs = []
                for worker in range(1 if phase.preload else part.processes):
                    path = folder / f"{len(phases)}-{worker}.ops"
                    thrown = streams.dice(
                        session.seed,
                        suite.name,
                        part.name,
                        variant.name,
                        phase.name,
                        measure,
                        worker,
                    )
                    drawn = list(streams.draw(phase, part, variant, form, thrown))
                    stream.write(path, drawn)
                    verbs.append(bytes(operation.verb for operation in drawn))
                    of_workers.append(StreamOf(str(path), base))
                    base += operations
                passes.append(
                    PlannedPass(
                        phase,
                        measure,
                        len(phases),
                        operations,
                        0 if phase.preload else streams.warmup(phase, operations),
                        verbs,
                    )
                )
                phases.append(PhaseOf(f"{phase.name}/{measure}", of_workers))
        yield Inputs(keys, phases, passes)
    finally:
        session.desk.discard(folder)


def block(phase: Phase, contestant: Contestant, variant: Variant) -> int:
    """Return how many operations a block has: fewer where it would keep too many bytes."""
    largest = variant.sizes.largest * (FIELD_BYTES if variant.value == "complex" else 1)
    return max(min(phase.block, contestant.block, ANSWER_BYTES_MAX // largest), 1)
